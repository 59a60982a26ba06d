package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// copyFile returns the path of a store that receives the rows of another one. The file is renamed to the database
// when it has all rows. So a folder that has this file and no database has an incomplete store.
func (f Dir) copyFile() string { return f.Database() + "-copy" }

// UnfinishedCopyError reports a folder whose store has not received all rows of another one.
type UnfinishedCopyError struct{ File string }

func (e *UnfinishedCopyError) Error() string {
	return fmt.Sprintf("%s is an unfinished copy of another store: repeat the command `mailroom store copy`, which "+
		"starts over, or remove the file", e.File)
}

// StoreExistsError reports a folder that has a store already.
type StoreExistsError struct{ File string }

func (e *StoreExistsError) Error() string { return e.File + " already exists" }

// PrepareCopy removes what an earlier copy left and creates the empty file of a new one. It returns a
// [*StoreExistsError] if the folder has a store or parts of one.
func (h *Lock) PrepareCopy() (path string, err error) {
	path = h.Dir.copyFile()
	_, err = os.Lstat(path)
	again := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("prepare the copy: %w", err)
	}
	for _, suffix := range []string{"", "-wal", revisionSuffix} {
		info, err := os.Lstat(h.Dir.Database() + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", fmt.Errorf("prepare the copy: %w", err)
		case suffix == revisionSuffix && again: // a file of FinishCopy
		case info.Size() > 0:
			return "", &StoreExistsError{h.Dir.Database() + suffix}
		}
	}
	if err := createIfMissing(path); err != nil { // first, because it marks the folder
		return "", err
	}
	if err := os.Truncate(path, 0); err != nil {
		return "", fmt.Errorf("empty the copy: %w", err)
	}
	for _, rest := range []string{path + "-wal", path + "-shm", h.Dir.Database() + revisionSuffix} {
		if err := os.Remove(rest); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("remove the rest of a copy: %w", err)
		}
	}
	return path, h.disk.folder(string(h.Dir))
}

// FinishCopy makes the copy, which is closed and synced, the store of the folder. writeRevision writes
// the revision file of the store.
func (h *Lock) FinishCopy(writeRevision func(database string) error) error {
	if err := writeRevision(h.Dir.Database()); err != nil {
		return err
	}
	if err := os.Rename(h.Dir.copyFile(), h.Dir.Database()); err != nil {
		return fmt.Errorf("rename the copy: %w", err)
	}
	return h.disk.folder(string(h.Dir))
}
