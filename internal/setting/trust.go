package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Trust has the files of repositories whose commands this account runs: a digest of the content by the name of the
// file. The name is a path without links, so that a repository has one name whatever leads to it. A person writes it
// with "bd trust"; every reader of commands in a repository asks it, by [Trust.Refusal].
type Trust map[string]Trusted

// Trusted is a content that a person trusts.
type Trusted struct {
	Digest string    `json:"digest"` // SHA-256 of the content, in hexadecimal digits
	At     time.Time `json:"at"`
}

// maxTrust is the maximum size of the file, in bytes.
const maxTrust = 4 << 20

// TrustFile returns the path of the file: mailroom/trust.json in XDG_CONFIG_HOME, else in .config in HOME. Its folder
// is hidden from the programs of agents, so that no agent trusts what it has written.
func TrustFile(env func(string) string) (string, error) {
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification ignores paths that are not absolute
		if dir = env("HOME"); !filepath.IsAbs(dir) {
			return "", errors.New("no folder for user settings; set HOME or XDG_CONFIG_HOME")
		}
		dir = filepath.Join(dir, ".config")
	}
	return filepath.Join(dir, "mailroom", "trust.json"), nil
}

// ReadTrust reads the file at path. A missing file trusts nothing. The file and its folder must be of this account, and
// no other account may write them; a link is refused. The error is one sentence.
func ReadTrust(path string) (Trust, error) {
	t := Trust{}
	folder := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real // the user's own link
	}
	if err := checkOwn(folder); err != nil {
		return t, err
	}
	path = filepath.Join(folder, filepath.Base(path))
	if err := checkOwn(path); err != nil {
		return t, err
	}
	raw, err := ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil && len(raw) > maxTrust {
		err = fmt.Errorf("it has more than %d bytes", maxTrust)
	}
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err == nil && t == nil {
		err = errors.New("it is no object")
	}
	if err != nil {
		return Trust{}, fmt.Errorf("%s cannot be read; mend or remove it: %w", path, err)
	}
	return t, nil
}

// checkOwn returns an error if another account can have written a file or a folder. One that does not exist is no
// error.
func checkOwn(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s is a link or no regular file, so it trusts nothing; put the file itself there", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0: // Windows has other rights
		return fmt.Errorf("other accounts can write %s, so it trusts nothing; run: chmod go-w %s", path, path)
	case !isOwn(info):
		return fmt.Errorf("%s belongs to another account, so it trusts nothing; remove it", path)
	}
	return nil
}

// Refusal says why a content of a file is not trusted, as the rest of a sentence; "" if it is trusted.
func (t Trust) Refusal(name, digest string) string {
	switch known, ok := t[name]; {
	case !ok:
		return "is not trusted"
	case digest == "" || known.Digest != digest:
		return "has changed since it was trusted on " + known.At.UTC().Format(time.DateOnly)
	}
	return ""
}
