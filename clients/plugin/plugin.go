// Package plugin has the plugin for coding agents: a marketplace with one plugin, of a skill and an MCP server, which
// claude and codex read alike. It writes the plugin into a folder.
package plugin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed all:files
var files embed.FS

// number is the version in the plugin's manifest in the tree. A program writes its own version there, because agents
// take a changed plugin only with a changed version.
const number = `"version": "0.1.0"`

// Files returns the files of the plugin by their paths with slashes. version is the version of the program.
func Files(version string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		all[strings.TrimPrefix(name, "files/")] = bytes.Replace(body, []byte(number),
			fmt.Appendf(nil, `"version": %q`, version), 1)
		return err
	})
	return all, err
}

// record is the file in the folder that lists what was written there: a digest and a path in each line, as sha256sum
// prints them.
const record = ".mailroom-plugin"

// Changed is the error of files in the folder that are not as they were written.
type Changed struct{ Names []string }

func (c *Changed) Error() string {
	return fmt.Sprintf("not written by this command, or changed since: %s", strings.Join(c.Names, ", "))
}

// Folder is a folder that has the plugin, or gets it. Links in it are not followed out of it.
type Folder struct{ root *os.Root }

// Open opens a folder, which must exist.
func Open(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Differences returns the names of files in all that the folder does not have with this content, and of those that an
// earlier version has written there and this one has not.
func (f *Folder) Differences(all map[string][]byte) (names []string, err error) {
	written, err := f.written()
	if err != nil {
		return nil, err
	}
	for name, body := range all {
		now, err := f.root.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(now, body) {
			names = append(names, name)
		}
	}
	for name := range written {
		if _, kept := all[name]; kept {
			continue
		}
		if _, err := f.root.Lstat(name); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Write makes the folder have the files in all. It replaces and removes only what it wrote earlier; otherwise it fails
// with a [Changed] and changes nothing. It can be repeated after a crash.
func (f *Folder) Write(all map[string][]byte) error {
	written, err := f.written()
	if err != nil {
		return err
	}
	names, err := f.Differences(all)
	if err != nil {
		return err
	}
	var foreign []string
	for _, name := range names {
		now, err := f.root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || written[name] != digest(now) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) > 0 {
		return &Changed{foreign}
	}
	for _, name := range names {
		body, kept := all[name]
		if !kept {
			if err := f.root.Remove(name); err != nil {
				return err
			}
			continue
		}
		if err := f.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := f.root.WriteFile(name, body, 0o644); err != nil {
			return err
		}
	}
	var lines []string
	for name, body := range all {
		lines = append(lines, digest(body)+"  "+name+"\n")
	}
	slices.Sort(lines)
	return f.root.WriteFile(record, []byte(strings.Join(lines, "")), 0o644)
}

// written returns the digests of the files that were written, by name.
func (f *Folder) written() (map[string]string, error) {
	body, err := f.root.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); ok {
			all[name] = sum
		}
	}
	return all, nil
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
