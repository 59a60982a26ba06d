package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// disk makes files and their names durable: it syncs a file before the file gets its name, and the folder afterwards.
// The zero value calls the kernel; tests record the calls.
type disk struct {
	sync func(*os.File) error
}

func (d disk) file(f *os.File) error {
	if d.sync != nil {
		return d.sync(f)
	}
	return f.Sync()
}

// folder makes the names of the files in a folder durable.
func (d disk) folder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.file(dir), dir.Close())
}

// makeFolder creates a folder that only its owner can read, with the folders above it, and makes their names
// durable.
func (d disk) makeFolder(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("it is a file")}
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := d.makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		if info, e := os.Stat(path); errors.Is(err, fs.ErrExist) && e == nil && info.IsDir() {
			return nil // made at the same moment
		}
		return err
	}
	return d.folder(parent)
}
