package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/app/command"
)

// maxHarnessFile bounds a configuration that is read, in bytes.
const maxHarnessFile = 64 << 20

// byteOrderMark may be the beginning of a file.
const byteOrderMark = "\xef\xbb\xbf"

// readHarnessFile reads a file without its byte order mark. It returns nil for a missing or empty one.
func readHarnessFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxHarnessFile {
		return nil, command.Errorf(command.ExitFailed, "", "%s is not a file of at most %d MiB", path, maxHarnessFile>>20)
	}
	text, err = io.ReadAll(io.LimitReader(f, maxHarnessFile))
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if text = bytes.TrimPrefix(text, []byte(byteOrderMark)); len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	return text, nil
}

// editHarnessFile replaces the text of a file, which is made if it is missing. Other readers see the old text or
// the new one. A symbolic link stays, and so does the mode of the file.
func editHarnessFile(path string, edit func(text []byte) ([]byte, error)) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	text, err := readHarnessFile(path)
	if err != nil {
		return err
	}
	if text == nil {
		text = []byte("{}\n")
	}
	changed, err := edit(text)
	if err != nil {
		return command.Errorf(command.ExitFailed, "nothing of it was changed", "%s: %w", path, err)
	}
	if err := writeHarnessFile(path, changed); err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	return nil
}

// writeHarnessFile writes a file by a rename, and makes its folder.
func writeHarnessFile(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	old, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); err == nil && statErr == nil {
		mode = info.Mode().Perm()
		if bytes.HasPrefix(old, []byte(byteOrderMark)) {
			text = append([]byte(byteOrderMark), text...)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
