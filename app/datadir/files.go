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

// Save stores the content of r durably and returns the URI of the file on this machine. Of name it uses only the
// extension. Saving content that is stored already resets the age of the file.
func (f Files) Save(ctx context.Context, name string, r io.Reader) (uri string, err error) {
	stored, err := f.Add(ctx, name, r)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: f.path(stored)}).String(), nil
}

// Add is Save, but returns the name of the stored file, which is the same on every machine: the
// SHA-256 of the content in hexadecimal, and the extension.
func (f Files) Add(ctx context.Context, name string, r io.Reader) (stored string, err error) {
	stored, err = f.write(ctx, r, func(temp, sum string) (string, error) { return sum + extension(name), nil })
	if err != nil {
		return "", fmt.Errorf("store a file: %w", err)
	}
	return stored, nil
}

// ErrDamaged is returned for content whose hash is not the one in the file's name.
var ErrDamaged = errors.New("the content does not have the hash in its name")

// Fill stores a copy of a file that another folder stored at the given time. The error is ErrDamaged
// if r is not the content of the file.
func (f Files) Fill(ctx context.Context, stored string, at time.Time, r io.Reader) error {
	_, err := f.write(ctx, r, func(temp, sum string) (string, error) {
		if hash, _, _ := strings.Cut(stored, "."); hash != sum {
			return "", ErrDamaged
		}
		return stored, os.Chtimes(temp, at, at)
	})
	if err != nil {
		return fmt.Errorf("store a copy of a file: %w", err)
	}
	return nil
}

// Path returns the path of a stored file. It returns false if stored, which may come from a message, is
// not a name as Add returns it.
func (f Files) Path(stored string) (path string, ok bool) {
	hash, end := stored, ""
	if i := strings.IndexByte(stored, '.'); i >= 0 {
		hash, end = stored[:i], stored[i:]
	}
	if len(hash) != 2*sha256.Size || strings.Trim(hash, "0123456789abcdef") != "" || extension(end) != end {
		return "", false
	}
	return f.path(stored), true
}

func (f Files) path(stored string) string { return filepath.Join(string(f), stored[:2], stored) }

// write stores the content of r durably under the name that naming returns for the path of a temporary
// file and its hash.
func (f Files) write(
	ctx context.Context, r io.Reader, naming func(temp, sum string) (string, error),
) (stored string, err error) {
	return f.writeTo(ctx, disk{}, r, naming)
}

func (f Files) writeTo(
	ctx context.Context, d disk, r io.Reader, naming func(temp, sum string) (string, error),
) (stored string, err error) {
	if err := d.makeFolder(string(f)); err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(string(f), tempPrefix+"*") // mode 0600
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(temp, hash), r)
	err = errors.Join(err, ctx.Err(), d.file(temp), temp.Close())
	if err == nil {
		stored, err = naming(temp.Name(), hex.EncodeToString(hash.Sum(nil)))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	path := f.path(stored)
	dir := filepath.Dir(path)
	if err := errors.Join(d.makeFolder(dir), os.Rename(temp.Name(), path)); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return stored, errors.Join(d.folder(dir), d.folder(string(f)))
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

// Keep resets the age of the stored files with these names that exist and were last saved before the given time.
func (f Files) Keep(ctx context.Context, stored []string, before time.Time) error {
	now := time.Now()
	for _, name := range stored {
		path, ok := f.Path(name)
		if !ok {
			continue
		}
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			err = os.Chtimes(path, now, now)
		}
		if err = errors.Join(err, ctx.Err()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep a file: %w", err)
		}
	}
	return nil
}

// expiringSuffix is the suffix of a file's name while RemoveBefore checks the file's age again.
const expiringSuffix = "-expiring"

// RemoveBefore removes the files that were last saved before the given time, and returns their
// number.
func (f Files) RemoveBefore(ctx context.Context, before time.Time) (dropped int, err error) {
	err = filepath.WalkDir(string(f), func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the folder does not exist yet, or was removed concurrently
		}
		if err != nil || at.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := at.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		left := strings.HasSuffix(path, expiringSuffix) // a file that a killed server left
		if err != nil || !left && !info.ModTime().Before(before) {
			return err
		}
		removed, err := expire(strings.TrimSuffix(path, expiringSuffix), before)
		if removed {
			dropped++
		}
		return err
	})
	if err != nil {
		return dropped, fmt.Errorf("remove old files: %w", err)
	}
	return dropped, nil
}

// expire removes the file at path, unless it was saved again after RemoveBefore read its age. Save can replace a file
// under its name at any time, so expire first gives the file a name that Save does not use, and then checks the age
// again.
func expire(path string, before time.Time) (removed bool, err error) {
	aside := path + expiringSuffix
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	switch info, err := os.Lstat(aside); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.ModTime().Before(before):
		return true, os.Remove(aside)
	}
	// If Save has stored another file under the name since, that file has the same content and is as young, so the
	// rename loses nothing.
	return false, os.Rename(aside, path)
}
