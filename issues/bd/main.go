// Package bd is the command line of the tracker. Stdout has only data, and with --json only JSON; warnings and errors
// go to stderr.
package bd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/mail"
	"mailroom/issues/tracker"
)

// Main is one invocation of the command line.
type Main struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Env     func(string) string // reads a variable, as os.Getenv does
	Dir     string              // working directory
	Name    string              // name of the program in help; "" is bd
	Version string
	// RunOf returns the run that works on an issue, or nil. RunOf must return quickly, and may be nil.
	RunOf func(ctx context.Context, it *tracker.Issue) *Run
	// Sources read issues of boards outside, by the name of --from; nil: this program reads none.
	Sources map[string]Source

	// Set by Run from the flags.
	out             output
	lockWait        time.Duration // maximum wait for the tracker's lock
	command         string        // name of the command, for the lock file
	actor, database string
	readonly        bool
	entered         bool // the command line was parsed

	// State of the command while it runs.
	locked         bool         // the command holds the tracker's lock
	changed        bool         // the command changed the file
	found          *place       // the tracker, once it was looked for
	settingsWarned bool         // the command warned about invalid settings
	mailClient     *mail.Client // nil until it is opened, and if no mail server is set
	mailOpened     bool         // mailClient was opened, or found to be absent
}

// Exit codes that scripts rely on.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // invalid command line; nothing was done
	exitHeld   = 3 // the caller has claimed the issue already; nothing was done
)

// Run executes the command in args and returns its exit code.
func (m *Main) Run(ctx context.Context, args []string) int {
	m.out = newOutput(m.Stdout, m.Stderr, m.Env)
	root := m.Command()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	m.out.json = m.Env("BD_JSON") == "1" || m.Env("BD_JSON") == "true"
	cmd, err := root.ExecuteContextC(ctx)
	m.sendMail(ctx)
	if err == nil {
		return exitDone
	}
	if cmd == root && calledByHook(m.Env, args) {
		m.out.logf("Warning: ignored a call by a git hook: %s %s (%v); remove it from the hook", cmd.CommandPath(),
			strings.Join(args, " "), err)
		return exitDone
	}
	if held, ok := errors.AsType[heldError](err); ok {
		m.out.printError(held.error, "")
		return exitHeld
	}
	if wrong, ok := errors.AsType[usageError](err); ok {
		m.out.printError(wrong.error, "")
		return exitUsage
	}
	if m.entered {
		m.out.printError(err, "")
		return exitFailed
	}
	m.out.json = m.out.json || slices.Contains(args, "--json") // the flag may follow the invalid argument
	m.out.printError(err, "see: "+cmd.CommandPath()+" --help")
	return exitUsage
}

// Command returns the tree of commands.
func (m *Main) Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bd",
		Short: "Track issues in a file that git carries",
		Long: `Track issues in a file that git carries.

The issues are in .beads/issues.jsonl, one per line. There is no server, no daemon and no
cache: each command reads the file and replaces it atomically.`,
		SilenceErrors: true, SilenceUsage: true,
		Version: m.Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			m.entered, m.command = true, cmd.CommandPath()
			if m.lockWait <= 0 {
				return mailroom.Errorf(mailroom.CodeInvalid, "invalid lock timeout %s; use a positive duration such as 30s",
					m.lockWait)
			}
			return nil
		},
	}
	if m.Name != "" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: m.Name}
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("bd version {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.BoolVar(&m.out.json, "json", false, "print JSON only")
	flags.StringVar(&m.actor, "actor", "",
		"name for changes (default $BD_ACTOR, $BEADS_ACTOR, or git's user.name with the session of codex or claude, or the worktree)")
	flags.StringVar(&m.database, "db", "", "a file in the tracker's folder (default: search upwards for .beads)")
	flags.BoolVarP(&m.out.quiet, "quiet", "q", false, "print errors and warnings only")
	flags.DurationVar(&m.lockWait, "lock-timeout", m.lockTimeout(),
		"how long to wait for another command that writes (default $BD_LOCK_TIMEOUT, 30s)")
	flags.Lookup("lock-timeout").DefValue = "0s" // hides this default: the flag's text names it
	flags.BoolVar(&m.readonly, "readonly", false, "refuse to change anything")
	for _, name := range []string{"verbose", "no-daemon", "no-auto-flush", "no-auto-import", "no-db", "sandbox",
		"allow-stale"} {
		flags.BoolP(name, map[string]string{"verbose": "v"}[name], false, "accepted and ignored")
		_ = flags.MarkHidden(name) // the flag is there
	}
	root.Flags().BoolP("version", "V", false, "print the version")
	root.AddCommand(
		initCommand(m), createCommand(m), quickCommand(m), updateCommand(m), closeCommand(m), reopenCommand(m),
		deleteCommand(m),
		showCommand(m), listCommand(m), readyCommand(m), blockedCommand(m), staleCommand(m), searchCommand(m),
		countCommand(m), statsCommand(m),
		depCommand(m), labelCommand(m), commentsCommand(m), commentCommand(m), epicCommand(m),
		exportCommand(m), importCommand(m), mergeCommand(m), syncCommand(m), compactCommand(m), renameCommand(m),
		doctorCommand(m), infoCommand(m), trustCommand(m), primeCommand(m), versionCommand(m),
	)
	root.AddCommand(everydayCommands(m)...)
	root.AddCommand(ignoredCommands(m)...)
	root.SetHelpCommand(helpCommand(m, root))
	root.InitDefaultCompletionCmd()
	requireSubcommands(m, root)
	return root
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func (m *Main) absPath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(m.Dir, path)
}

// read calls f with the current issues.
func (m *Main) read(f func(t *tracker.Tracker) error) error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	t, invalid, err := dir.Read()
	if err != nil {
		return err
	}
	m.warn(t, invalid)
	return f(t)
}

// change calls f to change the issues, and returns once the result is on disk.
func (m *Main) change(ctx context.Context, f func(t *tracker.Tracker) error) error {
	return m.changeWith(ctx, tracker.Folder.Update, f)
}

// changeAll is [Main.change] for a function f that reads all issues. If dry is set, it writes nothing.
func (m *Main) changeAll(ctx context.Context, dry bool, f func(t *tracker.Tracker) error) error {
	if dry {
		return m.read(f)
	}
	return m.changeWith(ctx, tracker.Folder.UpdateAll, f)
}

func errReadonly() error {
	return mailroom.Errorf(mailroom.CodeForbidden, "changes are not allowed with --readonly")
}

// update is the type of the methods of [tracker.Folder] that change issues: Update and UpdateAll.
type update func(dir tracker.Folder, ctx context.Context, f func(*tracker.Tracker) error) ([]tracker.InvalidLine, error)

func (m *Main) changeWith(ctx context.Context, update update, f func(t *tracker.Tracker) error) error {
	if m.readonly {
		return errReadonly()
	}
	dir, err := m.folder()
	if err != nil {
		return err
	}
	var changed *tracker.Tracker
	invalid, err := update(m.waiting(dir), ctx, func(t *tracker.Tracker) error {
		m.locked = true
		defer func() { m.locked = false }()
		changed = t
		return f(t)
	})
	if locked, ok := errors.AsType[*tracker.LockedError](err); ok {
		return mailroom.Errorf(mailroom.CodeConflict,
			"the tracker was locked for %s by %s; end that process, or wait longer with --lock-timeout",
			locked.Waited.Round(time.Millisecond), locked.Holder)
	}
	if err == nil && !m.changed && m.found.via != "" && !m.out.quiet {
		m.out.logf("Changed the tracker in %s: %s", dir.Path(), m.found.via)
	}
	m.changed = m.changed || err == nil
	if err == nil {
		m.warn(changed, invalid)
	}
	return err
}

// warn reports what reading or merging the file found. None of these findings is an error, because the command has
// done its work; a person or another program decides what to do about them.
func (m *Main) warn(t *tracker.Tracker, invalid []tracker.InvalidLine) {
	if len(invalid) > 0 {
		m.out.logf("Warning: left in place: %s of the file; see %s doctor; %v", count(len(invalid), "invalid line"),
			cmp.Or(m.Name, "bd"), invalid[0])
	}
	const most = 20
	splits := t.Splits()
	for _, s := range splits[:min(len(splits), most)] {
		m.out.logf("Warning: %v", s)
	}
	if more := len(splits) - most; more > 0 {
		m.out.logf("Warning: %s more ids were given to two issues; see %s doctor", number(more), cmp.Or(m.Name, "bd"))
	}
	contests := t.Contests()
	for _, c := range contests[:min(len(contests), most)] {
		m.out.logf("Warning: %v", c)
	}
	if more := len(contests) - most; more > 0 {
		m.out.logf("Warning: %s more values were dropped; see %s doctor", number(more), cmp.Or(m.Name, "bd"))
	}
}

// lockTimeout returns the default wait for the lock.
func (m *Main) lockTimeout() time.Duration {
	const usual = 30 * time.Second
	text := m.Env("BD_LOCK_TIMEOUT")
	if text == "" {
		return usual
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	m.out.logf("Warning: invalid BD_LOCK_TIMEOUT %q; use a positive duration such as 30s; continuing with %s", text, usual)
	return usual
}

// lockNotice is the time after which a command reports that it waits for the lock.
const lockNotice = 2 * time.Second

// waiting returns the folder with the lock options of the command.
func (m *Main) waiting(dir tracker.Folder) tracker.Folder {
	return dir.WithWait(tracker.WaitOptions{Command: m.command, Max: m.lockWait, NoticeAfter: lockNotice,
		OnWait: func(h tracker.Holder) {
			m.out.logf("Waiting for the tracker, which is locked by %s; at most %s", h, m.lockWait)
		}})
}

// ShortLived tunes the runtime for a process with a single invocation: the garbage collector runs
// only if the process grows very large.
func ShortLived() {
	const limit = 1 << 30 // bytes of memory
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(limit)
	widenPipe(os.Stdout)
}

// RunProcess runs the command line of the current process and returns its exit code.
func RunProcess(ctx context.Context, name, version string, sources map[string]Source) int {
	ShortLived()
	dir, err := os.Getwd()
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Dir: dir, Name: name,
		Version: version, Sources: sources}
	if err != nil {
		m.out = newOutput(m.Stdout, m.Stderr, m.Env)
		m.out.printError(err, "")
		return exitFailed
	}
	return m.Run(ctx, os.Args[1:])
}
