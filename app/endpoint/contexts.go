package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/pelletier/go-toml/v2"

	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/internal/lazyregexp"
)

// Context is a server with a name, for a user of several servers.
type Context struct {
	URL   string `toml:"url"`
	Token string `toml:"token"`
	CA    string `toml:"ca,omitempty"` // file with certificates to trust, beside the certificates of the system
}

// Endpoint returns the server of the context.
func (c Context) Endpoint(con *command.Console) (e Endpoint, err error) {
	con.Server, e.URL, e.Token = c.URL, c.URL, c.Token
	e.HTTP, err = clientTrusting(c.CA)
	return e, err
}

// Contexts is the file of a user's contexts.
type Contexts struct {
	Current  string             `toml:"current,omitempty"` // name of the current context; "": the data folder
	Contexts map[string]Context `toml:"contexts,omitempty"`
}

// maxContexts bounds the file, in bytes.
const maxContexts = 1 << 20

// ContextsFile returns the path of the file: mailroom/contexts.toml in XDG_CONFIG_HOME, else in .config in
// HOME. It ignores a relative XDG_CONFIG_HOME, as the XDG specification requires.
func ContextsFile(env func(string) string) (string, error) {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mailroom", "contexts.toml"), nil
	}
	home := env("HOME")
	if home == "" {
		return "", errors.New("find the file of contexts: neither HOME nor XDG_CONFIG_HOME is set")
	}
	return filepath.Join(home, ".config", "mailroom", "contexts.toml"), nil
}

// ReadContexts reads the file; without one there are no contexts. It refuses a file that others can read,
// because it has tokens.
func ReadContexts(env func(string) string) (c Contexts, err error) {
	path, err := ContextsFile(env)
	if err != nil {
		return c, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return c, err
	}
	if !info.Mode().IsRegular() { // hidden from this program
		return c, nil
	}
	if info.Mode().Perm()&0o077 != 0 {
		return c, fmt.Errorf("%s has tokens, and others can read it: run chmod 600 on it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxContexts+1))
	switch {
	case err != nil:
		return c, err
	case len(text) > maxContexts:
		return c, fmt.Errorf("%s is larger than %d bytes", path, maxContexts)
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// contextsWait is how long a command waits for others that change the file, each for a moment.
const contextsWait = time.Minute

// ChangeContexts reads the file, changes it and replaces it, unless change fails. Commands that change the file at
// the same time wait for each other. Readers see the old file or the new one.
func ChangeContexts(ctx context.Context, env func(string) string, change func(*Contexts) error) (err error) {
	path, err := ContextsFile(env)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// The lock is on a file of its own, because the contexts file is replaced by each change.
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	waiting, end := context.WithTimeout(ctx, contextsWait)
	defer end()
	if _, err := lock.TryLockContext(waiting, 10*time.Millisecond); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("another command holds it: try again when that one has ended")
		}
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	c, err := ReadContexts(env)
	if err != nil {
		return err
	}
	if err := change(&c); err != nil {
		return err
	}
	text, err := toml.Marshal(c)
	if err != nil {
		return err
	}
	return datadir.WriteFileAtomic(path, text)
}

var contextName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Local is the name of a context that stands for the data folder.
const Local = "local"

// CheckContextName returns an error if a context cannot have the name.
func CheckContextName(name string) error {
	if name == Local || !contextName().MatchString(name) {
		return fmt.Errorf("%q is not a name for a context: use up to 64 letters, digits, dots, dashes and underscores, "+
			"and not %q", name, Local)
	}
	return nil
}

// choice says which server a command uses.
type choice struct {
	named *Context // a context
	local bool     // the data folder was named, so MAILROOM_URL and MAILROOM_TOKEN do not count
}

// choose returns the server of --context, else of MAILROOM_CONTEXT, else, with current, of the current
// context. It chooses none for --data, MAILROOM_URL or MAILROOM_DATA, and without a context.
func choose(con *command.Console, current bool) (choice, error) {
	name := con.Context
	if name == "" && con.Data == "" {
		name = con.Env("MAILROOM_CONTEXT")
	}
	if con.Data != "" && con.Context != "" {
		return choice{}, command.Errorf(command.ExitUsage, "use one of them", "--context and --data name two servers")
	}
	if name == Local {
		return choice{local: true}, nil
	}
	if name == "" && (!current || con.Data != "" || con.Env("MAILROOM_URL") != "" || con.Env("MAILROOM_DATA") != "") {
		return choice{}, nil
	}
	all, err := ReadContexts(con.Env)
	if err != nil {
		if name == "" && con.Env("HOME") == "" { // a service without contexts
			return choice{}, nil
		}
		return choice{}, command.Errorf(command.ExitUsage, "", "%w", err)
	}
	if name == "" {
		if name = all.Current; name == "" {
			return choice{}, nil
		}
	}
	c, ok := all.Contexts[name]
	if !ok {
		return choice{}, command.Errorf(command.ExitUsage, "see `mailroom context`", "no context %q", name)
	}
	if err := CheckURL(c.URL); err != nil {
		return choice{}, command.Errorf(command.ExitUsage, "add it again with `mailroom context add "+name+"`",
			"context %s: %w", name, err)
	}
	return choice{named: &c}, nil
}
