package bell

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Listener is a program on this machine that listens for mail of an inbox.
type Listener struct {
	Inbox   string    `json:"inbox"`
	Server  string    `json:"server"`            // address of the server
	Harness string    `json:"harness"`           // claude, codex, opencode, wait or hook
	Session string    `json:"session,omitempty"` // id of the session
	Process string    `json:"-"`                 // what the process of the session is known by; "": its id
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Rings   int       `json:"rings"` // since the last pop
	Rung    time.Time `json:"rung_at,omitzero"`
	Read    time.Time `json:"read_at,omitzero"`  // when it last saw a pop
	Record  string    `json:"record,omitempty"`  // file in which claude says what the session does
	Mode    string    `json:"mode,omitempty"`    // permission mode of the session, from a hook of claude
	Held    string    `json:"held,omitempty"`    // why the session takes no message now
	Problem string    `json:"problem,omitempty"` // why the last ring failed
	Ended   bool      `json:"ended"`             // the program has ended without signing off: it was killed
}

// Listeners is a folder with a file for each listener of a user. A listener holds a lock on a second file, which the
// system releases when its process ends in any way: so a process id that was used again is no listener.
type Listeners string

// ListenersFolder returns the folder: mailroom/listeners in XDG_STATE_HOME, else in .local/state in HOME. It ignores a
// relative XDG_STATE_HOME, as the XDG specification requires.
func ListenersFolder(env func(string) string) (Listeners, error) {
	base := env("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := env("HOME")
		if home == "" {
			return "", errors.New("find the folder of listeners: neither HOME nor XDG_STATE_HOME is set")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return Listeners(filepath.Join(base, "mailroom", "listeners")), nil
}

// ErrListening means that another process listens for the same session.
var ErrListening = errors.New("another process listens for this session")

// Listening is the entry of a listener. One goroutine uses it.
type Listening struct {
	Listener
	file string
	lock *flock.Flock
}

// Add adds a listener. It returns [ErrListening] if another process listens for the same session and inbox.
func (dir Listeners) Add(l Listener) (*Listening, error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, err
	}
	key := strings.Join([]string{l.Server, l.Inbox, l.Harness, cmp.Or(l.Process, l.Session)}, "\x00")
	sum := sha256.Sum256([]byte(key))
	base := filepath.Join(string(dir), hex.EncodeToString(sum[:12]))
	x := &Listening{Listener: l, file: base + ".json", lock: flock.New(base+".lock", flock.SetPermissions(0o600))}
	held, err := x.lock.TryLock()
	if err == nil && !held {
		err = ErrListening
	}
	if err != nil {
		return nil, errors.Join(err, x.lock.Close())
	}
	if err := x.Save(); err != nil {
		return nil, errors.Join(err, x.lock.Close())
	}
	return x, nil
}

// Save writes the entry. A reader sees the old one or the new one.
func (x *Listening) Save() error {
	text, err := json.Marshal(x.Listener)
	if err != nil {
		return err
	}
	// The holder of the lock is the only writer of this name. What is lost with the power is of no use after it.
	if err := os.WriteFile(x.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(x.file+".new", x.file)
}

// State returns the state that the last listener for this session has kept. It returns the zero State if none has.
func (x *Listening) State() (s State, err error) {
	text, err := os.ReadFile(x.file + ".state")
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil || json.Unmarshal(text, &s) != nil { // of another version of this program
		return State{}, err
	}
	return s, nil
}

// Keep keeps a state for the next listener for this session.
func (x *Listening) Keep(s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(x.file+".state", text, 0o600)
}

// Close removes the entry.
func (x *Listening) Close() error { return errors.Join(os.Remove(x.file), x.lock.Close()) }

const (
	// maxListener bounds a file that is read, in bytes.
	maxListener = 16 << 10
	// keepEnded is how long a listener that was killed is listed.
	keepEnded = time.Hour
	// keepLocks is how long the file of a lock stays that nothing uses.
	keepLocks = 30 * 24 * time.Hour
)

// List returns the listeners, sorted by inbox and time. It removes what is left of those that ended long ago.
func (dir Listeners) List() ([]Listener, error) {
	names, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Listener
	for _, name := range names {
		base, isLock := strings.CutSuffix(name.Name(), ".lock")
		if !isLock {
			continue
		}
		l, err := dir.read(filepath.Join(string(dir), base))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			return nil, fmt.Errorf("read the listeners: %w", err)
		default:
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Inbox, b.Inbox), a.Since.Compare(b.Since))
	})
	return all, nil
}

// read reads the entry at base, or removes what is left of it.
func (dir Listeners) read(base string) (l Listener, err error) {
	lock := flock.New(base+".lock", flock.SetPermissions(0o600))
	free, err := lock.TryLock()
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	info, err := os.Stat(base + ".lock")
	if err != nil {
		return l, err
	}
	l, changed, err := readListener(base + ".json")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if free && time.Since(info.ModTime()) > keepLocks {
			if err := os.Remove(base + ".json.state"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return l, err
			}
			return l, errors.Join(err, os.Remove(base+".lock"))
		}
		return l, err
	case err != nil:
		return l, err
	case free && time.Since(changed) > keepEnded:
		return l, errors.Join(fs.ErrNotExist, os.Remove(base+".json"))
	}
	l.Ended = free
	return l, nil
}

// readListener reads a file and returns when it was changed.
func readListener(path string) (l Listener, changed time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return l, changed, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return l, changed, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxListener))
	if err != nil {
		return l, changed, err
	}
	if json.Unmarshal(text, &l) != nil { // of no version of this program
		return l, changed, fs.ErrNotExist
	}
	return l, info.ModTime(), nil
}
