package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files is the folder of attachments. A file is named by the hash of its content, so equal
// files are stored once. Only the owner of the data folder can read them.
type Files string

// Files returns the folder of attachments.
func (f Dir) Files() Files { return Files(f.path("files")) }

// tempPrefix is the name prefix of files that are being written.
const tempPrefix = ".arriving-"

// Save stores the content of r durably and returns the URI of the file. It uses only the
// extension of name. Saving existing content resets its age.
func (f Files) Save(ctx context.Context, name string, r io.Reader) (uri string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store a file: %w", err)
		}
	}()
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(string(f), tempPrefix+"*") // mode 0600
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(temp, hash), r)
	err = errors.Join(err, ctx.Err(), temp.Sync(), temp.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	dir := filepath.Join(string(f), sum[:2])
	path := filepath.Join(dir, sum+extension(name))
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Rename(temp.Name(), path)); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), errors.Join(syncDir(dir), syncDir(string(f)))
}

// extension returns the lower-case extension of name if it is 1 to 8 letters or digits, else "".
func extension(name string) string {
	end := strings.ToLower(filepath.Ext(name))
	if len(end) < 2 || len(end) > 9 || strings.ContainsFunc(end[1:], func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		return ""
	}
	return end
}

// syncDir makes renames in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveBefore removes the files that were last saved before the given time, and returns their
// number.
func (f Files) RemoveBefore(ctx context.Context, before time.Time) (dropped int, err error) {
	err = filepath.WalkDir(string(f), func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no files yet, or removed concurrently
		}
		if err != nil || at.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := at.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !info.ModTime().Before(before) {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		dropped++
		return nil
	})
	if err != nil {
		return dropped, fmt.Errorf("remove old files: %w", err)
	}
	return dropped, nil
}
