package tracker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mailroom"
)

// Dir is an open folder that came with a project, such as .beads of a cloned repository. The author of the project
// chose what is in the folder, so nothing in it is trusted: a file must be a regular file of the folder itself, links
// are never followed, pipes and devices are never opened, and every read has a size limit. Its methods take names of
// files directly in it.
type Dir struct {
	root *os.Root
	path string
	sync func(*os.File) error // fsync; replaced in tests
}

// OpenDir opens the folder at path. A path whose last element is a link is refused:
// a repository can carry a link that points to any folder of the user. An error
// for a folder that does not exist is [fs.ErrNotExist].
func OpenDir(path string) (*Dir, error) {
	path = filepath.Clean(path) // a trailing slash would follow a link
	seen, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, mailroom.Errorf(mailroom.CodeInvalid,
			"%s is a link, and a project's links are not followed; replace it with the folder, or name its target", path)
	case !seen.IsDir():
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s is not a folder; move it away", path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = mailroom.Errorf(mailroom.CodeConflict, "%s was replaced while it was opened; try again", path)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Dir{root: root, path: path, sync: (*os.File).Sync}, nil
}

// MakeDir creates the folder at path, and the folders above it, if they are missing,
// and opens it.
func MakeDir(path string) (*Dir, error) {
	path = filepath.Clean(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return OpenDir(path)
}

// Close closes the folder. Files that were opened from it stay open.
func (d *Dir) Close() error { return d.root.Close() }

// Stat describes a file. Anything but a regular file is an error; a missing file
// is [fs.ErrNotExist].
func (d *Dir) Stat(name string) (fs.FileInfo, error) {
	info, err := d.root.Lstat(name)
	if err == nil {
		err = d.regular(name, info)
	}
	if err != nil {
		return nil, err
	}
	return info, nil
}

// regular returns an error unless the file is a regular file.
func (d *Dir) regular(name string, info fs.FileInfo) error {
	at, kind := filepath.Join(d.path, name), ""
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		return mailroom.Errorf(mailroom.CodeInvalid,
			"%s is a link, and a project's links are not followed; put a regular file in its place, or remove it", at)
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return mailroom.Errorf(mailroom.CodeInvalid, "%s is %s, not a regular file; remove it", at, kind)
}

// OpenFile opens a regular file with the flags and permissions of [os.OpenFile]. It
// never blocks, as opening a pipe would.
func (d *Dir) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, fs.FileInfo, error) {
	if _, err := d.Stat(name); err != nil && (flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return nil, nil, err
	}
	// A file that is replaced after Stat is still inside the folder.
	file, err := d.root.OpenFile(name, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = d.regular(name, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// Read returns a file of at most max bytes. A larger one is an error.
func (d *Dir) Read(name string, max int64) ([]byte, error) {
	file, info, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() // opened for reading: nothing can be lost
	all := bytes.NewBuffer(make([]byte, 0, min(info.Size(), max)+bytes.MinRead))
	if err := d.ReadInto(all, file, name, max); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// ReadInto reads an open file into a buffer. A file of more than max bytes is an error.
func (d *Dir) ReadInto(into *bytes.Buffer, file *os.File, name string, max int64) error {
	n, err := into.ReadFrom(io.LimitReader(file, max+1))
	if err != nil {
		return err
	}
	if n > max {
		return d.tooLarge(name, max)
	}
	return nil
}

func (d *Dir) tooLarge(name string, max int64) error {
	return mailroom.Errorf(mailroom.CodeTooLarge, "%s is larger than %d bytes; make it smaller",
		filepath.Join(d.path, name), max)
}

// Create writes a file that does not exist yet. An error for one that exists is
// [fs.ErrExist].
func (d *Dir) Create(name, text string) error {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}

// Append adds text to the end of a file, which it creates if necessary, and syncs
// it. The file may not grow beyond max bytes.
func (d *Dir) Append(name string, text []byte, max int64) error {
	file, info, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if info.Size()+int64(len(text)) > max {
		return errors.Join(mailroom.Errorf(mailroom.CodeTooLarge, "%s would exceed %d bytes; move it away",
			filepath.Join(d.path, name), max), file.Close())
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// fileIgnore is the file with the patterns that git ignores. Git does not follow a link there, and neither does this
// package.
const fileIgnore = ".gitignore"

// Ignore makes git ignore files of the folder: it adds the patterns that the
// folder's .gitignore does not have.
func (d *Dir) Ignore(patterns ...string) error {
	const max = 1 << 20 // bytes
	raw, err := d.Read(fileIgnore, max)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", fileIgnore, err)
	}
	lines := strings.Split(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	more := ""
	for _, pattern := range patterns {
		if !slices.Contains(lines, pattern) {
			more += pattern + "\n"
		}
	}
	if more == "" {
		return nil
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		more = "\n" + more
	}
	if err := d.Append(fileIgnore, []byte(more), max); err != nil {
		return fmt.Errorf("write %s: %w", fileIgnore, err)
	}
	return nil
}

// Sync makes the names in the folder durable.
func (d *Dir) Sync() error {
	if !syncsFolders {
		return nil
	}
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.sync(dir), dir.Close())
}

// Path returns the path of a file in the folder.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// removeIfExists removes a file if it exists.
func (d *Dir) removeIfExists(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
