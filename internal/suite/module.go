package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rootName is the name of the package in the root of the module.
const rootName = "mailroom"

// move is a change of the module's path.
type move struct {
	from, to string
	doc      *regexp.Regexp // a command or a line of go.mod in a document that names the path
}

// moveModule gives the module in the folder dir, and the modules inside it, the path to, and changes what names the
// path: imports, go.mod files, and the examples in documents. It writes nothing if a file cannot be read.
func moveModule(out io.Writer, dir, to string) error {
	if err := checkModulePath(to); err != nil {
		return err
	}
	from, err := modulePath(dir)
	if err != nil {
		return err
	}
	m := move{from, to, regexp.MustCompile(`((?:^|\s)(?:-require=|-replace=|require |replace |go get ))` +
		regexp.QuoteMeta(from) + `([@=/\s]|$)`)}
	changed := map[string][]byte{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case !d.IsDir():
			return m.read(name, changed)
		case name != dir && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "bin"):
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, text := range changed {
		if err := os.WriteFile(name, text, 0o644); err != nil { // keeps the permissions of a file that is there
			return fmt.Errorf("%w; some files have the new path already: repeat the command", err)
		}
	}
	fmt.Fprintf(out, "the module is %s; %d files changed\n", to, len(changed))
	return nil
}

// checkModulePath returns an error unless other modules can import p.
func checkModulePath(p string) error {
	const element = `[A-Za-z0-9_~-]+(\.[A-Za-z0-9_~-]+)*`
	first, _, _ := strings.Cut(p, "/")
	switch {
	case p == "":
		return errors.New("set PATH to the path of the module, such as PATH=example.org/mailroom")
	case !regexp.MustCompile("^" + element + "(/" + element + ")*$").MatchString(p):
		return fmt.Errorf("%q is not a path of a module; use elements of letters, digits or - . _ ~ between slashes", p)
	case !strings.Contains(first, ".") || strings.HasPrefix(p, "-") || first != strings.ToLower(first):
		return fmt.Errorf("%q does not begin with a host name such as example.org, so no other module could import it", p)
	case regexp.MustCompile(`/v[0-9]+$`).MatchString(p):
		return fmt.Errorf("%q ends with a major version, and there is no such version yet; leave it out", p)
	}
	return nil
}

// modulePath returns the path of the module in dir.
func modulePath(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "module" {
			return strings.Trim(words[1], `"`), nil
		}
	}
	return "", fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
}

// read adds the new text of a file to changed, if it names the path.
func (m move) read(name string, changed map[string][]byte) error {
	var rewrite func([]byte) ([]byte, error)
	switch filepath.Ext(name) {
	case ".go":
		rewrite = m.imports
	case ".mod":
		rewrite = m.requirements
	case ".md":
		rewrite = m.document
	default:
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	moved, err := rewrite(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(moved, text) {
		changed[name] = moved
	}
	return nil
}

// moved returns the new path of a package, and whether it is in this module.
func (m move) moved(at string) (string, bool) {
	rest, ours := strings.CutPrefix(at, m.from)
	return m.to + rest, ours && (rest == "" || rest[0] == '/')
}

// imports moves the imports of a Go file.
func (m move) imports(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", source, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(source)
	for _, imp := range slices.Backward(f.Imports) {
		at, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return nil, err
		}
		to, ours := m.moved(at)
		if !ours {
			continue
		}
		text, name := strconv.Quote(to), ""
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if at == m.from && cmp.Or(name, rootName) == rootName { // a name only where the path does not end with it
			if name = ""; path.Base(to) != rootName {
				name = rootName
			}
		}
		if name != "" {
			text = name + " " + text
		}
		out = slices.Replace(out, fset.Position(imp.Pos()).Offset, fset.Position(imp.End()).Offset, []byte(text)...)
	}
	if bytes.Equal(out, source) {
		return source, nil
	}
	return format.Source(out)
}

// requirements moves the words of a go.mod file that are the path of this module or of one inside it.
func (m move) requirements(text []byte) ([]byte, error) {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		code, comment, has := strings.Cut(line, "//")
		for _, word := range strings.Fields(code) {
			if to, ours := m.moved(word); ours {
				code = strings.Replace(code, word, to, 1)
			}
		}
		out.WriteString(code)
		if has {
			out.WriteString("//" + comment)
		}
	}
	return []byte(out.String()), nil
}

// document moves the imports of whole Go files in a document's blocks of code, and what its commands for other modules
// name.
func (m move) document(text []byte) ([]byte, error) {
	const fence = "\n```"
	parts := strings.Split(string(text), fence)
	for i, part := range parts {
		code, isGo := strings.CutPrefix(part, "go\n")
		if i%2 == 1 && isGo && strings.HasPrefix(code, "package ") {
			moved, err := m.imports([]byte(code))
			if err != nil {
				return nil, fmt.Errorf("a block of code: %w", err)
			}
			parts[i] = "go\n" + strings.TrimSuffix(string(moved), "\n")
			continue
		}
		lines := strings.Split(part, "\n")
		for n, line := range lines {
			lines[n] = m.doc.ReplaceAllString(line, "${1}"+m.to+"${2}")
		}
		parts[i] = strings.Join(lines, "\n")
	}
	return []byte(strings.Join(parts, fence)), nil
}
