package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// entry is a file or a folder of an archive.
type entry struct {
	name  string // with slashes, relative; a folder's ends with one
	file  string // that has the content, or "" for data
	data  []byte
	run   bool // it is a program
	owner int  // user and group, 0 is root
	mode  int64
}

// writeTar writes entries sorted by name, with all folders on the way to them, owned by root unless they say otherwise,
// and all of the same time. Programs and folders are 0755, other files 0644.
func writeTar(to io.Writer, at time.Time, entries []entry) error {
	w := tar.NewWriter(to)
	for _, e := range complete(entries) {
		h := &tar.Header{
			Name: e.name, ModTime: at.UTC().Truncate(time.Second), Uid: e.owner, Gid: e.owner, Format: tar.FormatUSTAR,
			Typeflag: tar.TypeReg, Mode: 0o644,
		}
		switch {
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case e.run:
			h.Mode = 0o755
		}
		h.Mode = cmp.Or(e.mode, h.Mode)
		if err := e.write(w, h); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return w.Close()
}

// write writes one entry with its content.
func (e entry) write(w *tar.Writer, h *tar.Header) error {
	if e.file == "" {
		h.Size = int64(len(e.data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(e.data)
		return err
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		h.Size = info.Size()
		err = w.WriteHeader(h)
	}
	if err == nil {
		_, err = io.Copy(w, f)
	}
	return errors.Join(err, f.Close())
}

// complete returns the entries sorted by name, with the folders that they are in.
func complete(entries []entry) []entry {
	all, have := slices.Clone(entries), map[string]bool{}
	for _, e := range entries {
		have[e.name] = true
	}
	for _, e := range entries {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); dir != "." && !have[dir+"/"]; dir = path.Dir(dir) {
			have[dir+"/"] = true
			all = append(all, entry{name: dir + "/"})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// compress compresses without a name and a time.
func compress(to io.Writer, write func(io.Writer) error) error {
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}

// create writes a file of the release.
func (r *release) create(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(r.out, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeArchive writes the archive of a platform. Everything in it is in one folder, named as the archive is.
func (r *release) writeArchive(b program) error {
	name := "mailroom_" + r.version + "_" + b.os + "_" + b.arch
	entries := []entry{{name: "mailroom", file: b.mailroom, run: true}, {name: "bd", file: b.bd, run: true}}
	for _, e := range r.extras {
		if b.os == "linux" || !strings.HasPrefix(e.name, "systemd/") {
			entries = append(entries, e)
		}
	}
	for i := range entries {
		entries[i].name = name + "/" + entries[i].name
	}
	return r.create(name+".tar.gz", func(w io.Writer) error {
		return compress(w, func(w io.Writer) error { return writeTar(w, r.time, entries) })
	})
}

// writeScript writes the script that installs an archive, with the address of the release if there is one.
func (r *release) writeScript() error {
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/install.sh"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	const none = "\nBASE=\"${MAILROOM_BASE:-}\"\n"
	if r.base != "" {
		if !bytes.Contains(text, []byte(none)) {
			return errors.New("deploy/install.sh has no line for the address")
		}
		text = bytes.Replace(text, []byte(none), []byte("\nBASE=\"${MAILROOM_BASE:-"+r.base+"}\"\n"), 1)
	}
	version := regexp.MustCompile(`(?m)^VERSION="\$\{MAILROOM_VERSION:-[^}]*\}"$`)
	if !version.Match(text) {
		return errors.New("deploy/install.sh has no line for the version")
	}
	text = version.ReplaceAllLiteral(text, []byte(`VERSION="${MAILROOM_VERSION:-`+r.version+`}"`))
	return r.create("install.sh", func(w io.Writer) error { _, err := w.Write(text); return err })
}
