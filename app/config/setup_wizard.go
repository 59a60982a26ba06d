package config

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// wizard adds one channel or target to the configuration, with the values of flags or answers that a person types.
type wizard struct {
	options SetupOptions
	thing
	asksAgent bool // the wizard sets up a channel, whose messages an agent handles

	// Set by the flags.
	name, agent string
	when        []string // kinds of alerts
	remind      string   // delay of the first reminder of a question; "": no reminder
	text        string   // how much of it
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
		return command.Errorf(command.ExitUsage, "", "%w", err)
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
	if w.exists(now, w.name) {
		return command.Errorf(command.ExitUsage, "choose another name with --name, or edit "+w.dir.Config(),
			"%s %s already exists", w.what, w.name)
	}
	if err := w.chooseAgent(now); err != nil {
		return err
	}
	if err := w.collect(ctx); err != nil {
		return err
	}
	if err := w.checkTarget(); err != nil {
		return err
	}
	after := w.extend(before, now)
	c, err := w.parse(after) // checks the settings before a secret is sent anywhere
	if err != nil {
		return err
	}
	place := kind.Place{
		Channel: w.name, Agent: w.agent, URL: c.URL(c.Listen),
		Approve: con.CommandLine("pair", "approve", "--admin", "CODE"), Test: con.CommandLine("notify", "test", w.name),
	}
	running, notRunning := w.dir.Address()
	if notRunning == nil {
		place.URL = running.URL
	}
	found, err := w.setup.Probe(ctx, place)
	if err != nil {
		if f, ok := errors.AsType[*mailroom.Failure](err); ok { // the class of the error matters only to runs
			err = f.Err
		}
		return command.Errorf(command.ExitFailed, nothingWritten, "%w", err)
	}
	if err := w.write(after); err != nil {
		if found.Undo != nil {
			err = errors.Join(err, found.Undo(context.WithoutCancel(ctx)))
		}
		return err
	}
	w.print(c, found, notRunning == nil)
	return nil
}

// checkTarget checks the settings of a target before they are written, so that an error names the flags of the
// command instead of a line of the file.
func (w *wizard) checkTarget() error {
	if w.table != "targets" {
		return nil
	}
	if !slices.Contains(alert.Texts(), alert.Text(w.text)) {
		return command.Errorf(command.ExitUsage, nothingWritten, "--text: %q is not none, title or full", w.text)
	}
	if err := remind(new(time.Duration)).Set(w.remind); err != nil {
		return command.Errorf(command.ExitUsage, nothingWritten, "--remind-after: %s", err)
	}
	if w.remind != "" && !slices.Contains(w.when, string(alert.KindTicket)) {
		return command.Errorf(command.ExitUsage, nothingWritten, "--remind-after: is about questions; add --when ticket")
	}
	if w.check == nil || setting.CheckRequired(w.keys) != nil { // the configuration reports what is missing
		return nil
	}
	err := w.check()
	if words, ok := strings.CutSuffix(fmt.Sprint(err), "; "+target.ErrNotAllowed.Error()); ok {
		return command.Errorf(command.ExitUsage, nothingWritten,
			"%s; to allow it, add --allow with the address or its network", words)
	}
	return nil
}

func (w *wizard) parse(file []byte) (*Config, error) {
	c, err := Parse(w.dir.Config(), file, w.options.Kinds, nil)
	if err != nil {
		return nil, command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return c, nil
}

// chooseAgent asks for the agent of the channel unless a flag names it.
func (w *wizard) chooseAgent(now *Config) (err error) {
	if !w.asksAgent {
		return nil
	}
	if w.agent == "" {
		if w.agent, err = w.options.Console.Prompt(w.in,
			fmt.Sprintf("Agent that handles the messages [%s]: ", now.DefaultAgent)); err != nil {
			return err
		}
	}
	if w.agent == "" {
		w.agent = now.DefaultAgent
	}
	return w.options.CheckAgent(now, w.agent)
}

// collect sets the settings. It takes the flags first, because they decide which questions are asked.
func (w *wizard) collect(ctx context.Context) error {
	for _, a := range w.answers {
		if given := a.given(); given != nil {
			if err := w.set(ctx, a, given); err != nil {
				return err
			}
		}
	}
	for _, a := range w.answers {
		if a.given() != nil {
			continue
		}
		if err := w.ask(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// ask generates an answer or asks for it, if the question has a prompt.
func (w *wizard) ask(ctx context.Context, a answer) error {
	if a.Generate != nil {
		return w.set(ctx, a, a.Generate())
	}
	if a.Prompt == nil {
		return nil
	}
	words := a.Prompt()
	if words == "" {
		return nil
	}
	typed, err := w.options.Console.Prompt(w.in, words)
	if err != nil {
		return err
	}
	return w.set(ctx, a, typed)
}

// set sets an answer to the value of its flag, or to what a person typed.
func (w *wizard) set(ctx context.Context, a answer, value any) (err error) {
	if a.secret != nil {
		return w.setSecret(a, value.(string))
	}
	if a.Resolve != nil {
		if value, err = a.Resolve(ctx, value.(string)); err != nil {
			return command.Errorf(command.ExitFailed, nothingWritten, "%w", err)
		}
	}
	if err := a.value.Set(value); err != nil {
		return command.Errorf(command.ExitUsage, "", "--%s: %w", a.Flag, err)
	}
	return nil
}

// setSecret sets a secret to the content of the file that a flag names, or to what a person typed.
func (w *wizard) setSecret(a answer, text string) (err error) {
	a.secret.File = w.secret(w.dir, w.name, strings.TrimSuffix(a.Flag, "-file"))
	if a.given() != nil {
		if a.secret.File, err = filepath.Abs(text); err != nil {
			return fmt.Errorf("resolve the path of --%s: %w", a.Flag, err)
		}
		raw, err := setting.ReadFile(a.secret.File)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "read the %s: %w", a.Secret, err)
		}
		text = strings.TrimSpace(string(raw))
	}
	a.secret.Hold(text)
	if a.Check == nil {
		return nil
	}
	if err := a.Check(text); err != nil {
		return command.Errorf(command.ExitUsage, nothingWritten, "%w", err)
	}
	return nil
}

// extend returns the configuration file before, extended by a table with the settings that differ from their
// defaults. For a target it also adds a rule, unless the file has a rule with its name.
func (w *wizard) extend(before []byte, now *Config) []byte {
	var b bytes.Buffer
	if len(before) > 0 {
		fmt.Fprintf(&b, "%s\n\n", bytes.TrimRight(before, "\n"))
	}
	fmt.Fprintf(&b, "[%s.%q]\nkind = %q\n", w.table, w.name, w.kind)
	if w.asksAgent {
		fmt.Fprintf(&b, "agent = %q\n", w.agent)
	}
	for i, s := range w.keys {
		if text := setting.TOML(s.Value.Get()); text != setting.TOML(w.defaults[i].Value.Get()) {
			fmt.Fprintf(&b, "%s = %s\n", s.Key, text)
		}
	}
	if when := slices.DeleteFunc(slices.Clone(w.when), func(s string) bool { return s == "" }); len(when) > 0 &&
		now.Rules[w.name] == nil {
		fmt.Fprintf(&b, "\n[rules.%q]\nwhen = %s\nto = [%q]\n", w.name, setting.TOML(when), w.name)
		if w.text != string(alert.TextTitle) {
			fmt.Fprintf(&b, "text = %q\n", w.text)
		}
		if w.remind != "" {
			fmt.Fprintf(&b, "remind_after = %q\n", w.remind)
		}
	}
	return b.Bytes()
}

// write writes the configuration, and those secrets that are not in a file of the user already.
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
func (w *wizard) print(c *Config, found kind.Found, running bool) {
	con := w.options.Console
	for _, line := range found.Account {
		con.Infof("%s", line)
	}
	con.Infof("added %s %s to %s", w.what, w.name, w.dir.Config())
	if rule := c.Rules[w.name]; w.table == "targets" && rule != nil {
		con.Infof("its rule has text = %q, so what leaves the machine is %s; --text, and the setting in the file, "+
			"change that", rule.Text, w.leaves)
	}
	next := "start the server with `%s`"
	if running {
		next = "restart the server to load the " + w.what + ": stop it, then `%s`"
	}
	con.Infof(next, con.CommandLine("serve"))
	if w.table == "targets" && c.Server.URL == "" {
		con.Infof("alerts have no links and buttons until [server] url in %s names an address that the phone reaches",
			w.dir.Config())
	}
	for _, line := range found.Next {
		con.Infof("%s", line)
	}
}
