// Package folder is the data folder of a server: the one place where everything
// it keeps lives, and where commands on the same machine find its address and
// its token.
package datadir

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is the path of a data folder. It need not exist.
type Dir string

// Address is the content of server.json, there while a server runs.
type Address struct {
	URL  string `json:"url"`
	PID  int    `json:"pid"`
	Cert string `json:"cert,omitempty"` // file with the certificate of an https server
}

// Find returns the folder that flag names, else MAILROOM_DATA, else the
// mailroom folder in XDG_DATA_HOME, else the one in the home folder.
func Find(flag string, env func(string) string) (Dir, error) {
	dir := flag
	if dir == "" {
		dir = env("MAILROOM_DATA")
	}
	if dir == "" {
		return Default(env)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data folder %s: %w", dir, err)
	}
	return Dir(abs), nil
}

// Default returns the folder that is meant when nothing names one. A relative
// XDG_DATA_HOME is ignored, as its specification asks.
func Default(env func(string) string) (Dir, error) {
	if data := env("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return Dir(filepath.Join(data, "mailroom")), nil
	}
	home := env("HOME")
	if home == "" {
		return "", errors.New("find the data folder: HOME is not set; name one with --data or MAILROOM_DATA")
	}
	return Dir(filepath.Join(home, ".local", "share", "mailroom")), nil
}

// Database returns the path of the store.
func (f Dir) Database() string { return f.path("mailroom.db") }

// Config returns the path of the configuration that is read by default.
func (f Dir) Config() string { return f.path("mailroom.toml") }

// TokenFile returns the path of the file with the server's own token.
func (f Dir) TokenFile() string { return f.path("token") }

// ChannelToken is the file of a channel's token, where none is named.
func (f Dir) ChannelToken(channel string) string { return f.path("channel-" + channel + ".token") }

// ChannelAppToken is the file of the other token of a channel that has two.
func (f Dir) ChannelAppToken(channel string) string {
	return f.path("channel-" + channel + ".app-token")
}

// WriteFile puts a file of the folder in its place at once, for its owner only. It makes
// the folder if it is not there.
func (f Dir) WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	return writeFileAtomic(path, data)
}

func (f Dir) path(name string) string { return filepath.Join(string(f), name) }

// Token reads the token. Without one the error is [fs.ErrNotExist].
func (f Dir) Token() (string, error) {
	b, err := os.ReadFile(f.TokenFile())
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := string(bytes.TrimSpace(b))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty: remove it, and the next start of the server makes a new one", f.path("token"))
	}
	return token, nil
}

// Address reads where the server of the folder is. Without one the error is
// [fs.ErrNotExist]; one that was killed leaves its last address.
func (f Dir) Address() (Address, error) {
	var a Address
	b, err := os.ReadFile(f.path("server.json"))
	if err != nil {
		return a, fmt.Errorf("read the address of the server: %w", err)
	}
	if err := json.Unmarshal(b, &a); err != nil || a.URL == "" {
		return a, fmt.Errorf("%s is not an address of a server: %.60q", f.path("server.json"), b)
	}
	return a, nil
}

// EnsureToken reads the token, and makes one first if there is none. Only the
// holder of the folder's lock calls it.
func (h *Lock) EnsureToken() (string, error) {
	token, err := h.Dir.Token()
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token = rand.Text()
	return token, writeFileAtomic(h.Dir.path("token"), []byte(token+"\n"))
}

// EnsureProcessMark returns what the processes of the folder's agents are marked with, the
// same from one server to the next. Of the folder it tells nothing.
func (h *Lock) EnsureProcessMark() (string, error) {
	path := h.Dir.path("id")
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte(rand.Text() + "\n")
		err = writeFileAtomic(path, id)
	}
	if err != nil {
		return "", fmt.Errorf("read the id of the data folder: %w", err)
	}
	if id = bytes.TrimSpace(id); len(id) == 0 {
		return "", fmt.Errorf("%s is empty: remove it, and the next start of the server makes a new one", path)
	}
	sum := sha256.Sum256(append([]byte("mailroom mark "), id...))
	return hex.EncodeToString(sum[:16]), nil
}

// WriteAddress writes the address of the holder's server. cert is the file with its
// certificate, "" without TLS.
func (h *Lock) WriteAddress(url, cert string) error {
	b, err := json.Marshal(Address{URL: url, PID: os.Getpid(), Cert: cert})
	if err != nil {
		return fmt.Errorf("encode the address of the server: %w", err)
	}
	h.isServer = true
	return writeFileAtomic(h.Dir.path("server.json"), append(b, '\n'))
}

// writeFileAtomic puts a file that only its owner may read in its place at once: nobody
// sees a half of it, and after a crash it is there or not.
func writeFileAtomic(path string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync())
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
