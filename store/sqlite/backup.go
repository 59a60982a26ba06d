package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy to target, which must not exist, readable by its owner only. The copy is a separate
// database without a WAL. The copy gets the name target only after all its bytes are on stable storage and approve,
// called with its temporary path, has returned nil.
//
// Other handles keep writing during the copy, but their WAL cannot be reset before the copy is
// complete.
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
		err = f.renewOrder(ctx, made.Name())
	}
	if err == nil {
		err = f.sync(made) // VACUUM INTO does not sync
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
		return fmt.Errorf("%s already exists: %w", target, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// name gives the file its final name. A link, unlike a rename, never replaces a file that another
// process has created.
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

// syncFolder makes the name of a file durable.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
