// Package bd is the command line of the tracker, as agents and scripts know it:
// data goes to stdout, with --json nothing else does, and talk goes to stderr.
package bd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/projectdir"
	"mailroom/tracker"
	"mailroom/tracker/mail"
)

// Main is one invocation.
type Main struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Env     func(string) string // as os.Getenv
	Dir     string              // where it was called
	Name    string              // how it was called, for help; "" is bd
	Version string
	// RunOf tells of the run of an issue, or returns nil soon; nil: nobody is asked.
	RunOf func(ctx context.Context, it *tracker.Issue) *Run

	// set by Run, from the flags
	json, quiet, verbose bool
	patience             time.Duration // with others that write the tracker
	command              string        // its name, for others that wait for it
	actor, database      string
	readonly             bool
	colours              bool
	entered              bool // the command line was understood

	// of the command, as it goes on
	locked    bool         // it holds the lock of the tracker
	changed   bool         // it has changed the file
	unsettled bool         // that the settings are wrong was told
	box       *mail.Client // nil: not looked for yet, or no server is named
	boxed     bool         // it was looked for
}

// The exit codes that scripts rely on.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line was not understood, and nothing was done
)

// Run runs the command that args name and returns its exit code.
func (m *Main) Run(ctx context.Context, args []string) int {
	root := m.Command()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	m.json = m.Env("BD_JSON") == "1" || m.Env("BD_JSON") == "true"
	m.colours = m.terminal()
	cmd, err := root.ExecuteContextC(ctx)
	m.sendMail(ctx)
	if err == nil {
		return exitDone
	}
	if wrong, ok := errors.AsType[usageError](err); ok {
		m.refuse(wrong.error, "")
		return exitUsage
	}
	if m.entered {
		m.refuse(err, "")
		return exitFailed
	}
	m.json = m.json || slices.Contains(args, "--json") // which may come after what is wrong
	m.refuse(err, "see: "+cmd.CommandPath()+" --help")
	return exitUsage
}

// Command is the tree of commands.
func (m *Main) Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bd",
		Short: "Issues that agents share, in a file that git carries",
		Long: `Issues that agents share, in a file that git carries.

They are in .beads/issues.jsonl, one a line, and nowhere else: there is no server, no
daemon and no cache. A command reads the file, and puts a new one in its place.`,
		SilenceErrors: true, SilenceUsage: true,
		Version: m.Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			m.entered, m.command = true, cmd.CommandPath()
			if m.patience <= 0 {
				return mailroom.Errorf(mailroom.CodeInvalid, "lock timeout %s is not above 0; give one such as 30s", m.patience)
			}
			return nil
		},
	}
	if m.Name != "" {
		root.Use = m.Name
	}
	root.SetVersionTemplate("bd version {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.BoolVar(&m.json, "json", false, "write JSON to stdout, and nothing else")
	flags.StringVar(&m.actor, "actor", "", "who does it (default $BD_ACTOR, $BEADS_ACTOR, git's user.name, $USER)")
	flags.StringVar(&m.database, "db", "", "a file in the tracker's folder, instead of looking for .beads upwards")
	flags.BoolVarP(&m.quiet, "quiet", "q", false, "say only what is wrong")
	flags.BoolVarP(&m.verbose, "verbose", "v", false, "say more")
	flags.DurationVar(&m.patience, "lock-timeout", m.lockTimeout(), "how long to wait for another command that writes (default $BD_LOCK_TIMEOUT, 30s)")
	flags.Lookup("lock-timeout").DefValue = "" // it is in the text
	flags.BoolVar(&m.readonly, "readonly", false, "refuse to change anything")
	for _, name := range []string{"no-daemon", "no-auto-flush", "no-auto-import", "no-db", "sandbox", "allow-stale"} {
		flags.Bool(name, false, "accepted; it means nothing here")
		_ = flags.MarkHidden(name) // the flag is there
	}
	root.Flags().BoolP("version", "V", false, "print the version")
	root.AddCommand(
		m.initCommand(), m.createCommand(), m.quickCommand(), m.updateCommand(), m.closeCommand(), m.reopenCommand(), m.deleteCommand(),
		m.showCommand(), m.listCommand(), m.readyCommand(), m.blockedCommand(), m.staleCommand(), m.searchCommand(), m.countCommand(), m.statsCommand(),
		m.depCommand(), m.labelCommand(), m.commentsCommand(), m.commentCommand(), m.epicCommand(),
		m.exportCommand(), m.importCommand(), m.mergeCommand(), m.syncCommand(), m.compactCommand(), m.renameCommand(),
		m.doctorCommand(), m.infoCommand(), m.trustCommand(), m.primeCommand(), m.versionCommand(),
	)
	root.AddCommand(m.everydayCommands()...)
	root.AddCommand(m.foreignCommands()...)
	root.SetHelpCommand(m.helpCommand(root))
	root.InitDefaultCompletionCmd()
	m.strict(root)
	return root
}

// refuse says what is wrong: one line to stderr, and under --json an object to
// stdout.
func (m *Main) refuse(err error, hint string) {
	message := err.Error()
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		message = e.Message
	}
	if text, rest, found := strings.Cut(message, "; "); found && hint == "" {
		message, hint = text, rest
	}
	said := "Error: " + message
	if hint != "" {
		said += " (" + strings.TrimSpace(hint) + ")"
	}
	m.say("%s", said)
	if m.json {
		body := struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{message, hint}
		if err := m.printJSON(body); err != nil {
			m.say("%v", err)
		}
	}
}

// noArgs refuses words that a command has no use for.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s takes flags only, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// say writes a line of talk. That it cannot be written changes no outcome, so its
// error is dropped here and nowhere else.
func (m *Main) say(format string, args ...any) {
	_, _ = fmt.Fprintln(m.Stderr, line(fmt.Sprintf(format, args...)))
}

// tell is talk about what was done, which --quiet and --json leave out.
func (m *Main) tell(format string, args ...any) error {
	if m.quiet || m.json {
		return nil
	}
	return m.print(line(fmt.Sprintf(format, args...)))
}

const folderName = ".beads"

// folder finds the tracker: what --db or BEADS_DIR name, else the nearest folder
// .beads upwards from here.
func (m *Main) folder() (tracker.Folder, error) {
	switch {
	case m.database != "":
		return tracker.FolderAt(filepath.Dir(m.at(m.database))), nil
	case m.Env("BEADS_DIR") != "":
		return tracker.FolderAt(m.at(m.Env("BEADS_DIR"))), nil
	}
	for dir := m.Dir; ; dir = filepath.Dir(dir) {
		if f := tracker.FolderAt(filepath.Join(dir, folderName)); f.Exists() {
			return f, nil
		}
		if dir == filepath.Dir(dir) {
			return tracker.Folder{}, mailroom.Errorf(mailroom.CodeNotFound, "there is no tracker here; make one with: bd init")
		}
	}
}

func (m *Main) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(m.Dir, path)
}

// by is who changes something now. It may ask git, so it is not called while the
// tracker is locked; where nobody's name is written, [Main.now] does.
func (m *Main) by(ctx context.Context) tracker.Signature {
	return tracker.Signature{Actor: m.who(ctx), At: time.Now()}
}

func (m *Main) now() tracker.Signature { return tracker.Signature{At: time.Now()} }

func (m *Main) who(ctx context.Context) string {
	for _, name := range []string{m.actor, m.Env("BD_ACTOR"), m.Env("BEADS_ACTOR")} {
		if name != "" {
			return name
		}
	}
	git := exec.CommandContext(ctx, "git", "config", "user.name")
	git.Dir = m.Dir
	if out, err := git.Output(); err == nil && len(strings.TrimSpace(string(out))) > 0 {
		return strings.TrimSpace(string(out))
	}
	if name := m.Env("USER"); name != "" {
		return name
	}
	return "unknown"
}

// read gives f the issues as they are now.
func (m *Main) read(f func(t *tracker.Tracker) error) error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	t, invalid, err := dir.Read()
	if err != nil {
		return err
	}
	if len(invalid) > 0 {
		m.say("Warning: %d lines of the file are no issues; the next change puts them aside: %v", len(invalid), invalid[0].Err)
	}
	return f(t)
}

// change gives f the issues to be changed, and returns once that is on the disk.
func (m *Main) change(ctx context.Context, f func(t *tracker.Tracker) error) error {
	return m.changeWith(ctx, tracker.Folder.Update, f)
}

// changeAll is change for what looks at all issues, or with dry only shows f what
// there is to change.
func (m *Main) changeAll(ctx context.Context, dry bool, f func(t *tracker.Tracker) error) error {
	if dry {
		return m.read(f)
	}
	return m.changeWith(ctx, tracker.Folder.UpdateAll, f)
}

func errReadonly() error {
	return mailroom.Errorf(mailroom.CodeForbidden, "nothing is changed under --readonly")
}

// update is how a folder is changed.
type update func(dir tracker.Folder, ctx context.Context, f func(*tracker.Tracker) error) ([]tracker.InvalidLine, error)

func (m *Main) changeWith(ctx context.Context, update update, f func(t *tracker.Tracker) error) error {
	if m.readonly {
		return errReadonly()
	}
	dir, err := m.folder()
	if err != nil {
		return err
	}
	invalid, err := update(m.waiting(dir), ctx, func(t *tracker.Tracker) error {
		m.locked = true
		defer func() { m.locked = false }()
		return f(t)
	})
	if locked, ok := errors.AsType[*projectdir.LockedError](err); ok {
		return mailroom.Errorf(mailroom.CodeConflict, "the tracker was locked for %s by %s; end that process, or wait longer with --lock-timeout", locked.Waited.Round(time.Millisecond), locked.Holder)
	}
	m.changed = m.changed || err == nil
	if err == nil && len(invalid) > 0 {
		m.say("Warning: %d lines of the file were no issues and are in quarantine.jsonl now: %v", len(invalid), invalid[0].Err)
	}
	return err
}

// lockTimeout is how long a command waits unless a flag says otherwise.
func (m *Main) lockTimeout() time.Duration {
	const usual = 30 * time.Second
	text := m.Env("BD_LOCK_TIMEOUT")
	if text == "" {
		return usual
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	m.say("Warning: BD_LOCK_TIMEOUT %q is not a duration above 0, such as 30s; going on with %s", text, usual)
	return usual
}

// lockNotice is how long a command waits for another one before it says so.
const lockNotice = 2 * time.Second

// waiting is a folder whose lock the command waits for.
func (m *Main) waiting(dir tracker.Folder) tracker.Folder {
	return dir.WithWait(projectdir.Wait{Command: m.command, Most: m.patience, Notice: lockNotice, Tell: func(h projectdir.Holder) {
		m.say("Waiting for the tracker, which is locked by %s; at most %s", h, m.patience)
	}})
}

// ShortLived is for a process that is a single invocation: it is over before
// collecting garbage could pay, so only one that grows very large collects, and it
// has its output to itself.
func ShortLived() {
	const enough = 1 << 30 // bytes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(enough)
	widen(os.Stdout)
}

// Started runs the program of the process it is in.
func Started(ctx context.Context, name, version string) int {
	ShortLived()
	dir, err := os.Getwd()
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Dir: dir, Name: name, Version: version}
	if err != nil {
		m.refuse(err, "")
		return exitFailed
	}
	return m.Run(ctx, os.Args[1:])
}
