// Package datadir manages the data folder of a server. It holds all data of the server, and
// commands on the same machine find the server's address and token there.
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
	"strings"
)

// Dir is the path of a data folder, which may not exist yet.
type Dir string

// Address is the content of server.json, which exists while a server runs.
type Address struct {
	URL  string `json:"url"`
	PID  int    `json:"pid"`
	Cert string `json:"cert,omitempty"` // certificate file of an https server, or ""
}

// Find returns the folder from flag, else from MAILROOM_DATA, else [Default].
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

// Default returns the default folder: mailroom in XDG_DATA_HOME, else .local/share/mailroom
// in HOME. It ignores a relative XDG_DATA_HOME, as the XDG specification requires.
func Default(env func(string) string) (Dir, error) {
	if data := env("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return Dir(filepath.Join(data, "mailroom")), nil
	}
	home := env("HOME")
	if home == "" {
		return "", errors.New("find the data folder: HOME is not set; use --data or MAILROOM_DATA")
	}
	return Dir(filepath.Join(home, ".local", "share", "mailroom")), nil
}

// revisionSuffix is the suffix of the revision file that the SQLite store keeps beside the
// database. A test compares it with the suffix in store/sqlite.
const revisionSuffix = "-revision"

// Database returns the path of the database file.
func (f Dir) Database() string { return f.path("mailroom.db") }

// Config returns the path of the default configuration file.
func (f Dir) Config() string { return f.path("mailroom.toml") }

// TokenFile returns the path of the operator's token.
func (f Dir) TokenFile() string { return f.path("token") }

// ChannelSecret returns the default path of a secret of a channel, such as its token.
func (f Dir) ChannelSecret(channel, name string) string {
	return f.path("channel-" + channel + "." + name)
}

// TargetSecret is [Dir.ChannelSecret] for a target of alerts.
func (f Dir) TargetSecret(target, name string) string {
	return f.path("target-" + target + "." + name)
}

// Worktrees returns the folder of the worktrees in which agents work.
func (f Dir) Worktrees() string { return f.path("worktrees") }

// WriteFile writes a file of the folder atomically, readable only by its owner. It creates the
// folder if needed.
func (f Dir) WriteFile(path string, data []byte) error {
	if err := (disk{}).makeFolder(string(f)); err != nil {
		return f.cannotMake(err)
	}
	return WriteFileAtomic(path, data)
}

func (f Dir) path(name string) string { return filepath.Join(string(f), name) }

// Token reads the operator's token. A missing token file is [fs.ErrNotExist].
func (f Dir) Token() (string, error) {
	token, err := readToken(f.TokenFile())
	if err == nil && token == "" {
		return "", fmt.Errorf("token file %s is empty: remove it, and the next server creates a new one", f.path("token"))
	}
	return token, err
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return string(bytes.TrimSpace(b)), nil
}

// Address reads the server's address. A missing file is [fs.ErrNotExist]. A killed server
// leaves its last address behind.
func (f Dir) Address() (Address, error) {
	var a Address
	b, err := os.ReadFile(f.path("server.json"))
	if err != nil {
		return a, fmt.Errorf("read the file with the server's address: %w", err)
	}
	if err := json.Unmarshal(b, &a); err != nil || a.URL == "" {
		return a, fmt.Errorf("%s is not a server address: %.60q", f.path("server.json"), b)
	}
	return a, nil
}

// EnsureToken reads the operator's token, and creates it first if it is missing.
func (h *Lock) EnsureToken() (string, error) {
	token, err := h.Dir.Token()
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token = rand.Text()
	return token, WriteFileAtomic(h.Dir.path("token"), []byte(token+"\n"))
}

// minToken is the minimum length of a token that an operator chose, in bytes.
const minToken = 20

// CopyToken reads the operator's token from a file that several servers share, and stores it in the
// folder.
func (h *Lock) CopyToken(file string) (string, error) {
	token, err := readToken(file)
	if err != nil {
		return "", err
	}
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("invalid token in %s: use one line of at least %d ASCII characters without spaces, such as "+
			"the output of `openssl rand -hex 20`", file, minToken)
	}
	if have, err := readToken(h.Dir.TokenFile()); err == nil && have == token {
		return token, nil
	}
	return token, WriteFileAtomic(h.Dir.TokenFile(), []byte(token+"\n"))
}

// EnsureProcessMark returns the mark of the agent processes of this folder. It is the same for
// all servers of the folder, and does not reveal the folder's path. used is false if the mark was made just now, so
// that no process has it yet.
func (h *Lock) EnsureProcessMark() (mark string, used bool, err error) {
	path := h.Dir.path("id")
	id, err := os.ReadFile(path)
	used = true
	if errors.Is(err, fs.ErrNotExist) {
		id, used = []byte(rand.Text()+"\n"), false
		err = WriteFileAtomic(path, id)
	}
	if err != nil {
		return "", used, fmt.Errorf("read the id of the data folder: %w", err)
	}
	if id = bytes.TrimSpace(id); len(id) == 0 {
		return "", used, fmt.Errorf("%s is empty: remove it, and the next server creates a new one", path)
	}
	sum := sha256.Sum256(append([]byte("mailroom mark "), id...))
	return hex.EncodeToString(sum[:16]), used, nil
}

// WriteAddress writes the address of this process's server. cert is the certificate file, or ""
// without TLS.
func (h *Lock) WriteAddress(url, cert string) error {
	b, err := json.Marshal(Address{URL: url, PID: os.Getpid(), Cert: cert})
	if err != nil {
		return fmt.Errorf("encode the server's address: %w", err)
	}
	h.isServer = true
	return WriteFileAtomic(h.Dir.path("server.json"), append(b, '\n'))
}

// WriteFileAtomic writes a file that only its owner can read. A reader sees the old file or the whole new one, also
// after a crash.
func WriteFileAtomic(path string, data []byte) (err error) {
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
	return disk{}.folder(filepath.Dir(path)) // the file may be a secret that nothing shows again
}
