package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// table is the list that mailroom licenses prints, which a test of the product compares with the modules' files.
const table = "app/cli/licenses.tsv"

// licenses are the identifiers of SPDX of the licences of modules and scripts, by path.
type licenses struct {
	byPath  map[string]string
	scripts []script // that the pages contain, as mailroom licenses lists them
	texts   []byte   // of the scripts
	prices  []byte   // text of the licence of the table of prices
}

// script is a package of npm in the pages, or the module with the table of prices, which no program links.
type script struct{ name, version string }

// priceSource is the module from which tools/prices makes the table of prices.
const priceSource = "charm.land/catwalk"

// packageURL returns where the script comes from.
func (s script) packageURL() string {
	if s.name == priceSource {
		return "pkg:golang/" + s.name + "@" + s.version
	}
	return "pkg:npm/" + s.name + "@" + s.version
}

func readLicenses(root string) (licenses, error) {
	l := licenses{byPath: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(table)))
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(words) != 3:
			return l, fmt.Errorf("%s: line %q has no three columns", table, line)
		case words[1] != "":
			l.scripts = append(l.scripts, script{words[0], words[1]})
		}
		l.byPath[words[0]] = words[2]
	}
	if l.texts, err = os.ReadFile(filepath.Join(root, "web/vendor/LICENSES.txt")); err == nil {
		l.prices, err = os.ReadFile(filepath.Join(root, "internal/price/LICENSE.txt"))
	}
	return l, err
}

// isNotice matches the files of a module that must go where its code goes.
func isNotice(name string) bool {
	return regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents)([-.].*)?$`).MatchString(name) &&
		filepath.Ext(name) != ".go"
}

// writeNotices returns the texts of the licences of all modules that the programs contain, of Go's own library, and of
// the scripts in the pages, and writes them to a file.
func (r *release) writeNotices(ctx context.Context, built []program) ([]byte, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	places, err := r.command(ctx, here, "go", "env", "GOROOT", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	goroot, cache, _ := strings.Cut(places, "\n")
	modules := map[string]*debug.Module{}
	for _, b := range built {
		for _, m := range b.info.Deps {
			modules[m.Path] = m
		}
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "Mailroom %s contains the modules and scripts below. Its own licence is in LICENSE.\n", r.version)
	section := func(name, version, license string) {
		fmt.Fprintf(&text, "\n%s\n%s %s (%s)\n\n", strings.Repeat("=", 80), name, version, license)
	}
	section("Go", runtime.Version(), "BSD-3-Clause")
	if err := appendNotices(&text, goroot); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(mapKeys(modules)) {
		m := modules[path]
		license, ok := r.licenses.byPath[path]
		if !ok {
			return nil, fmt.Errorf("%s names no licence for module %s", table, path)
		}
		dir, err := moduleDir(cache, m)
		if err != nil {
			return nil, err
		}
		section(path, m.Version, license)
		if err := appendNotices(&text, dir); err != nil {
			return nil, fmt.Errorf("licence of module %s: %w", path, err)
		}
	}
	section("Prices of "+priceSource, "in internal/price", r.licenses.byPath[priceSource])
	text.Write(r.licenses.prices)
	fmt.Fprintf(&text, "\n%s\nScripts in the pages\n\n%s", strings.Repeat("=", 80), r.licenses.texts)
	return text.Bytes(), r.create("NOTICES", func(w io.Writer) error { _, err := w.Write(text.Bytes()); return err })
}

// mapKeys returns the keys of m.
func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// moduleDir returns the folder of a module in the cache.
func moduleDir(cache string, m *debug.Module) (string, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(m.Version)
	return filepath.Join(cache, filepath.FromSlash(path)+"@"+version), err
}

// appendNotices appends the notices in the folder dir. There is at least one.
func appendNotices(text *bytes.Buffer, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		if f.IsDir() || !isNotice(f.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		if found {
			fmt.Fprintf(text, "\n%s\n%s\n\n", strings.Repeat("-", 80), f.Name())
		}
		found = true
		text.Write(bytes.TrimSpace(data))
		text.WriteByte('\n')
	}
	if !found {
		return errors.New("there is no file with a licence")
	}
	return nil
}
