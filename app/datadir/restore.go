package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mailroom/internal/setting"
)

// ReplaceStore replaces the store with a copy of the database file from. It moves the files
// of the old store to a new folder and returns its path, or "" if there was no store.
// writeRevision writes the revision file of the new store, whose database file is moved into
// place afterwards. After a crash in between, PrepareStore refuses the folder until
// ReplaceStore has succeeded.
func (h *Lock) ReplaceStore(from string, writeRevision func(database string) error) (kept string, err error) {
	database := h.Dir.Database()
	copied, err := copyNextTo(h.disk, from, database)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := os.Remove(copied); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	if kept, err = h.moveStoreAside(); err != nil {
		return kept, err
	}
	if err := writeRevision(database); err != nil {
		return kept, err
	}
	if err := os.Rename(copied, database); err != nil {
		return kept, fmt.Errorf("rename the copy: %w", err)
	}
	return kept, h.disk.folder(string(h.Dir))
}

// copyNextTo copies a file durably to a new file in the folder of target, readable only by its
// owner.
func copyNextTo(d disk, from, target string) (path string, err error) {
	in, err := setting.OpenFile(from)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", from, err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, d.file(out), out.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("copy %s: %w", from, err), os.Remove(out.Name()))
	}
	return out.Name(), nil
}

// moveStoreAside moves the files of the store to a new folder. It moves the database first,
// because PrepareStore refuses the remaining files without it.
func (h *Lock) moveStoreAside() (kept string, err error) {
	database := h.Dir.Database()
	for _, suffix := range []string{"", "-wal", "-shm", revisionSuffix} {
		if _, err := os.Lstat(database + suffix); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return kept, fmt.Errorf("move the old store: %w", err)
		}
		if kept == "" {
			pattern := "replaced-" + time.Now().UTC().Format("20060102T150405Z") + "-*"
			if kept, err = os.MkdirTemp(string(h.Dir), pattern); err != nil {
				return "", fmt.Errorf("move the old store: %w", err)
			}
		}
		if err := os.Rename(database+suffix, filepath.Join(kept, filepath.Base(database)+suffix)); err != nil {
			return kept, fmt.Errorf("move the old store: %w", err)
		}
	}
	if kept == "" {
		return "", nil
	}
	return kept, errors.Join(h.disk.folder(kept), h.disk.folder(string(h.Dir)))
}
