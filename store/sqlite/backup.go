package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a copy of one moment to target, which must not exist, readable by
// its owner only. The copy is a database of its own, without a WAL. It has its
// name only once all of it is on stable storage and approve, which is given where
// it is until then, has returned nil.
//
// Others go on writing meanwhile, but their WAL cannot start anew before the copy
// is made, and grows by what they write.
func (f *File) Backup(ctx context.Context, target string, approve func(path string) error) (err error) {
	if err := free(target); err != nil {
		return err
	}
	made, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	defer func() {
		if e := os.Remove(made.Name()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	_, err = f.session.exec(ctx, "VACUUM INTO ?", made.Name())
	if err = f.undisturbed(err); err == nil {
		err = f.sync(made) // SQLite leaves that to us
	}
	if err = errors.Join(err, made.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", f.path, err)
	}
	if err := approve(made.Name()); err != nil {
		return err
	}
	return f.name(made.Name(), target)
}

func free(target string) error {
	_, err := os.Lstat(target)
	switch {
	case err == nil:
		return fmt.Errorf("%s is there already: %w", target, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// name gives the file its name for good. A link, unlike a rename, never replaces
// what somebody else put there meanwhile.
func (f *File) name(from, to string) error {
	err := os.Link(from, to)
	switch {
	case errors.Is(err, fs.ErrExist):
		return free(to)
	case err != nil: // a file system without links
		if err := free(to); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return fmt.Errorf("name the copy: %w", err)
		}
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return fmt.Errorf("name the copy: %w", err)
	}
	return errors.Join(f.sync(dir), dir.Close())
}
