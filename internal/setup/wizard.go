package setup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"mailroom/channel/kind"
	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/datadir"
	"mailroom/internal/setting"
)

// wizard adds one channel.
type wizard struct {
	// Set by Commands.
	options  Options
	kind     kind.Kind
	settings kind.Settings
	setup    *kind.Setup

	// Set by the flags.
	name, agent string
	answers     []answer

	// Set by run.
	dir datadir.Dir
	in  *bufio.Reader
}

// nothingWritten is the hint of an error before the first file is written.
const nothingWritten = "nothing was written"

// run asks for the missing values, probes the platform and writes the files.
func (w *wizard) run(ctx context.Context) (err error) {
	con := w.options.Console
	if w.dir, err = datadir.Find(con.Data, con.Env); err != nil {
		return console.Errorf(console.ExitUsage, "", "%w", err)
	}
	w.in = bufio.NewReader(con.Stdin)
	before, err := os.ReadFile(w.dir.Config())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the configuration: %w", err)
	}
	now, err := w.parse(before)
	if err != nil {
		return err
	}
	if now.Channels[w.name] != nil {
		return console.Errorf(console.ExitUsage, "choose another name with --name, or edit "+w.dir.Config(), "channel %s already exists", w.name)
	}
	if err := w.chooseAgent(now); err != nil {
		return err
	}
	if err := w.collect(ctx); err != nil {
		return err
	}
	after := w.extend(before)
	c, err := w.parse(after) // before a secret is sent anywhere
	if err != nil {
		return err
	}
	found, err := w.setup.Probe(ctx, kind.Place{
		Channel: w.name, Agent: w.agent, URL: w.serverURL(c), Approve: con.CommandLine("pair", "approve", "--admin", "CODE"),
	})
	if err != nil {
		return console.Errorf(console.ExitFailed, nothingWritten, "%w", err)
	}
	if err := w.write(after); err != nil {
		if found.Undo != nil {
			err = errors.Join(err, found.Undo(context.WithoutCancel(ctx)))
		}
		return err
	}
	w.print(found)
	return nil
}

func (w *wizard) parse(file []byte) (*config.Config, error) {
	c, err := config.Parse(w.dir.Config(), file, w.options.Kinds)
	if err != nil {
		return nil, console.Errorf(console.ExitUsage, "", "%w", err)
	}
	return c, nil
}

// chooseAgent asks for the agent unless a flag names it.
func (w *wizard) chooseAgent(now *config.Config) (err error) {
	if w.agent == "" {
		if w.agent, err = w.options.Console.Prompt(w.in, fmt.Sprintf("Agent that handles the messages [%s]: ", now.DefaultAgent)); err != nil {
			return err
		}
	}
	if w.agent == "" {
		w.agent = now.DefaultAgent
	}
	return w.options.CheckAgent(now, w.agent)
}

// collect sets the settings. It reads the files of secrets first, because the other questions
// depend on which secrets are given.
func (w *wizard) collect(ctx context.Context) error {
	for _, a := range w.answers {
		if file, given := a.given().(string); given && a.secret != nil {
			if err := a.readFile(file); err != nil {
				return err
			}
		}
	}
	for _, a := range w.answers {
		set := w.set
		if a.secret != nil {
			set = w.setSecret
		}
		if err := set(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the secret in a file that a flag names.
func (a answer) readFile(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("resolve the path of --%s: %w", a.Flag, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return console.Errorf(console.ExitUsage, "", "read the %s: %w", a.Secret, err)
	}
	a.secret.File = path
	a.secret.Hold(strings.TrimSpace(string(raw)))
	return nil
}

// set sets the value of an answer: from its flag, else from what a person types.
func (w *wizard) set(ctx context.Context, a answer) error {
	value := a.given()
	if value == nil {
		typed, asked, err := w.ask(a)
		if err != nil || !asked {
			return err
		}
		value = typed
	}
	if a.Resolve != nil {
		resolved, err := a.Resolve(ctx, fmt.Sprint(value))
		if err != nil {
			return console.Errorf(console.ExitFailed, nothingWritten, "%w", err)
		}
		value = resolved
	}
	if err := a.value.Set(value); err != nil {
		return console.Errorf(console.ExitUsage, "", "--%s: %w", a.Flag, err)
	}
	return nil
}

// setSecret generates a secret or asks for it, unless a file contains it.
func (w *wizard) setSecret(_ context.Context, a answer) error {
	if a.secret.File == "" {
		var text string
		if a.Generate != nil {
			text = a.Generate()
		} else {
			typed, asked, err := w.ask(a)
			if err != nil || !asked {
				return err
			}
			text = typed
		}
		a.secret.File = w.dir.ChannelSecret(w.name, strings.TrimSuffix(a.Flag, "-file"))
		a.secret.Hold(text)
	}
	if a.Check == nil {
		return nil
	}
	text, err := a.secret.Get()
	if err == nil {
		err = a.Check(text)
	}
	if err != nil {
		return console.Errorf(console.ExitUsage, nothingWritten, "%w", err)
	}
	return nil
}

// ask asks a question, unless it has no prompt.
func (w *wizard) ask(a answer) (typed string, asked bool, err error) {
	if a.Prompt == nil {
		return "", false, nil
	}
	words := a.Prompt()
	if words == "" {
		return "", false, nil
	}
	typed, err = w.options.Console.Prompt(w.in, words)
	return typed, true, err
}

// extend returns the configuration with the table of the channel, which has the settings that
// differ from their defaults.
func (w *wizard) extend(before []byte) []byte {
	var b bytes.Buffer
	if len(before) > 0 {
		fmt.Fprintf(&b, "%s\n\n", bytes.TrimRight(before, "\n"))
	}
	fmt.Fprintf(&b, "[channels.%q]\nkind = %q\nagent = %q\n", w.name, w.kind.Name, w.agent)
	defaults := w.kind.New().Keys()
	for i, s := range w.settings.Keys() {
		if text := setting.TOML(s.Value.Get()); text != setting.TOML(defaults[i].Value.Get()) {
			fmt.Fprintf(&b, "%s = %s\n", s.Key, text)
		}
	}
	return b.Bytes()
}

// serverURL returns the URL of the running server, else the URL from the configuration.
func (w *wizard) serverURL(c *config.Config) string {
	if at, err := w.dir.Address(); err == nil {
		return at.URL
	}
	scheme, host := "http", c.Listen
	if c.TLSCert != "" {
		scheme = "https"
	}
	if name, port, err := net.SplitHostPort(c.Listen); err == nil {
		if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
			host = net.JoinHostPort("localhost", port)
		}
	}
	return (&url.URL{Scheme: scheme, Host: host}).String()
}

// write writes the secrets that no file of the user contains, and the configuration.
func (w *wizard) write(file []byte) error {
	for _, a := range w.answers {
		if a.secret == nil || a.secret.File == "" || a.given() != nil {
			continue
		}
		text, err := a.secret.Get()
		if err == nil {
			err = w.dir.WriteFile(a.secret.File, []byte(text+"\n"))
		}
		if err != nil {
			return err
		}
	}
	at := w.dir.Config()
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real // keep a symbolic link
	}
	return w.dir.WriteFile(at, file)
}

// print prints what was found, where the channel was added, and what to do next.
func (w *wizard) print(found kind.Found) {
	con := w.options.Console
	for _, line := range found.Account {
		con.Infof("%s", line)
	}
	con.Infof("added channel %s to %s", w.name, w.dir.Config())
	next := "start the server with `%s`"
	if _, err := w.dir.Address(); err == nil {
		next = "restart the server to load the channel: stop it, then `%s`"
	}
	con.Infof(next, con.CommandLine("serve"))
	for _, line := range found.Next {
		con.Infof("%s", line)
	}
}
