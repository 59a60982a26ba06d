// Package exec turns any command into an agent. A run starts the command with the run's input as
// text on stdin and streams its stdout as the reply. Exit status 0 completes the run.
//
// Delivery to a command is at least once: after an attempt that failed or lost its worker, the next
// attempt starts the command again. The command can detect that by MAILROOM_IDEMPOTENCY_KEY, which
// is the same for all attempts of a run. Once the success of a command is committed, it is not
// started again. At most one process tree of a run lives on a host: a later attempt kills what an
// earlier one left before it starts its own. (On systems other than Linux it cannot find leftovers;
// see package proc.)
//
// The environment of the command contains MAILROOM_RUN, MAILROOM_THREAD, MAILROOM_ATTEMPT,
// MAILROOM_IDEMPOTENCY_KEY, MAILROOM_OPTIONS, MAILROOM_SENDER, MAILROOM_VIA, MAILROOM_MODE and
// MAILROOM_PRIORITY, the variables of Options.Env, the server's variables that
// Options.EnvAllow names, and nothing else. Steered messages become runs of their own, because a
// command gets its input when it starts.
package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/proc"
)

// Options configure a command. Zero durations have the documented default.
type Options struct {
	// Command is the argument vector. The first element is a path, or a name that is looked up in
	// the server's PATH. No shell is involved.
	Command []string
	// Dir is the working directory; "" is the server's. With Worktrees it is a folder of a git repository.
	Dir string
	// Worktrees, if set, gives each thread a worktree to work in.
	Worktrees *Worktrees

	// Env are variables for the command, NAME=VALUE. Where entries and errors quote the command's stderr, these
	// values are redacted, except those shorter than six bytes and those of variables in DefaultEnvAllow. Stdout is
	// the reply and is not redacted.
	Env []string
	// EnvAllow names the variables that are passed on from the server's environment. nil means
	// DefaultEnvAllow; an empty list passes nothing on. Values are redacted as in Env.
	EnvAllow []string
	// Mark, if set, is the value of an environment variable that every command gets. After a server was killed,
	// [Reap] finds the processes that it started by the same mark.
	Mark string

	// Isolation restricts what the command can access; see package proc. nil means no isolation.
	Isolation *proc.Isolation
	// Files is a folder that Isolation hides. In it, the command can read only those files that the messages of its
	// thread name.
	Files string
	// Source provides the files that messages name and that may be on other machines. If it is nil, no message has
	// files of that kind.
	Source FileSource

	// StartTimeout limits the time to the first byte of output on stdout or stderr. IdleTimeout
	// limits the time without output; it also applies to the first byte if StartTimeout is 0.
	// TotalTimeout limits the whole command. 0 means no limit; the deadline of the run always
	// applies.
	StartTimeout, IdleTimeout, TotalTimeout time.Duration
	KillGrace                               KillGrace
	// MaxOutput is the maximum size of stdout, in bytes. A command that writes more is stopped and
	// its run fails permanently. 0 means defaultMaxOutput. A message holds at most mailroom.MaxText of it.
	MaxOutput int64

	// PermanentExits and UnavailableExits are exit statuses that classify a failure. Any other status but 0
	// is transient. nil means DefaultPermanentExits and DefaultUnavailableExits.
	PermanentExits, UnavailableExits []int
	// TakesOptions names the options of a submit that the command takes. Any other option fails the run. nil means
	// that it takes all.
	TakesOptions []string
}

// DefaultPermanentExits returns EX_CONFIG of sysexits(3), because a repeat would fail in the same way.
func DefaultPermanentExits() []int { return []int{78} }

// DefaultUnavailableExits returns EX_TEMPFAIL of sysexits(3), which says that a service that the command needs is
// down.
func DefaultUnavailableExits() []int { return []int{75} }

// KillGrace is the time that a command gets after each signal. The whole process tree receives INT,
// then TERM, then KILL. If the claim of the run was lost, it receives KILL at once.
type KillGrace struct {
	Interrupt time.Duration // time from SIGINT to SIGTERM; 0 is 4 s
	Terminate time.Duration // time from SIGTERM to SIGKILL; 0 is 3 s
}

// defaultMaxOutput is the limit of the output of commands and of programs with a profile, in bytes.
const defaultMaxOutput = 64 << 20

// The defaults end a command within the engine's stop grace of 10 s.
const (
	defaultInterrupt = 4 * time.Second
	defaultTerminate = 3 * time.Second
)

// DefaultEnvAllow returns the names of variables that are passed on by default: paths of programs
// and of the user's files, and the locale. None of them holds a secret.
func DefaultEnvAllow() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
		"LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME",
	}
}

// New returns an agent that runs a command. It returns an error for invalid options. A missing
// command is detected by each run, because the command may be installed later.
func New(o Options) (mailroom.Agent, error) {
	a, err := newAgent(o)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func newAgent(o Options) (*agent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.EnvAllow == nil {
		o.EnvAllow = DefaultEnvAllow()
	}
	if o.KillGrace.Interrupt == 0 {
		o.KillGrace.Interrupt = defaultInterrupt
	}
	if o.KillGrace.Terminate == 0 {
		o.KillGrace.Terminate = defaultTerminate
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = defaultMaxOutput
	}
	if o.PermanentExits == nil {
		o.PermanentExits = DefaultPermanentExits()
	}
	if o.UnavailableExits == nil {
		o.UnavailableExits = DefaultUnavailableExits()
	}
	return &agent{options: o, name: "the command"}, nil
}

func (o *Options) check() error {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return errors.New("command is empty; give the program and its arguments as a list")
	}
	for i, arg := range o.Command {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("command[%d] contains a NUL byte", i)
		}
	}
	for i, e := range o.Env {
		// The error does not quote the entry, because it may be a secret.
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("env[%d] is not NAME=VALUE", i)
		}
	}
	if strings.ContainsRune(o.Mark, 0) {
		return errors.New("the mark contains a NUL byte")
	}
	for i, name := range o.EnvAllow {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("env_allow[%d] is not the name of a variable", i)
		}
	}
	for name, d := range map[string]time.Duration{
		"start_timeout": o.StartTimeout, "idle_timeout": o.IdleTimeout, "total_timeout": o.TotalTimeout,
		"kill_grace.interrupt": o.KillGrace.Interrupt, "kill_grace.terminate": o.KillGrace.Terminate,
	} {
		if d < 0 {
			return fmt.Errorf("%s is %v; use 0 or more", name, d)
		}
	}
	if o.MaxOutput < 0 {
		return fmt.Errorf("max_output is %d; use 0 or more", o.MaxOutput)
	}
	return nil
}

// agent is stateless and serves many runs concurrently.
type agent struct {
	options Options
	name    string // name of the command or the program, for errors
}

func (a *agent) Run(ctx context.Context, s mailroom.Session) (err error) {
	run := s.Run()
	last, err := readCheckpoint(run.Checkpoint)
	if err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	if last.Done {
		return nil
	}
	if last.Conflict != nil {
		return a.settleConflict(ctx, s, last.Conflict)
	}
	if err := CheckOptions(a.name, a.options.TakesOptions, run.Options); err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	limits := a.limits(run)
	input, err := s.Input(ctx)
	if err != nil {
		return contextCause(ctx, err)
	}
	if input, err = a.localFiles().messages(ctx, input); err != nil {
		return contextCause(ctx, err)
	}
	killed, err := killEarlierAttempts(ctx, run, last)
	if err != nil {
		return contextCause(ctx, fmt.Errorf("kill processes of an earlier attempt: %w", err))
	}
	place, err := a.enter(ctx, s)
	if err != nil {
		return err
	}
	defer func() { place.leave(&err) }()
	if err := place.setUp(ctx, s); err != nil {
		return err
	}
	a = place.agent
	env, secrets := a.environment(run)
	shown, err := a.visibleFiles(input)
	if err != nil {
		return err
	}
	input, remove, err := a.copyFiles(input)
	if err != nil {
		return err
	}
	defer func() {
		if left := remove(); left != nil {
			err = errors.Join(err, left)
		}
	}()
	child, err := proc.Start(a.spec(run, env, secrets, shown))
	if err != nil {
		return startFailure(err)
	}
	started := Started{ID: child.ID(), Leftovers: killed, Branch: place.branch(), Repo: place.named()}
	if err := recordStart(ctx, s, started); err != nil {
		return contextCause(ctx, errors.Join(err, child.Kill()))
	}
	var text textDecoder
	exit, why := child.Run(ctx, promptText(input), func(ctx context.Context, piece []byte) error {
		out := text.add(piece)
		if out == "" {
			return nil
		}
		return s.Stream(ctx, out)
	})
	if rest := text.flush(); rest != "" && why == nil {
		why = finalWrite(ctx, func(ctx context.Context) error { return s.Stream(ctx, rest) })
	}
	e := ending{exit: exit, why: why, stderr: redact(exit.Stderr, secrets, maxStderr), limits: limits}
	return finish(ctx, s, place, e, a.verdict(e), mailroom.Step{})
}

// spec describes the process of an attempt, which can read the files in shown.
func (a *agent) spec(run mailroom.RunView, env []string, secrets []secret, shown []string) proc.Spec {
	o := a.options
	return proc.Spec{
		Command: o.Command, Dir: o.Dir, Env: env, Isolation: a.isolation(shown),
		Belongs: func(lookup func(string) (string, bool)) bool {
			attempt, ok := attemptOf(run, lookup)
			return ok && attempt == run.Attempt
		},
		Limits: proc.Limits{
			Start: o.StartTimeout, Idle: o.IdleTimeout, Total: o.TotalTimeout,
			Output: o.MaxOutput, Stderr: maxStderr + maxSecretLen(secrets),
			Interrupt: o.KillGrace.Interrupt, Terminate: o.KillGrace.Terminate,
		},
		Urgent: isLeaseLost,
	}
}

// isLeaseLost reports whether the worker has lost its lease, or will very soon, so that another worker may have the
// run.
func isLeaseLost(why error) bool {
	return errors.Is(why, mailroom.ErrLeaseLost) || mailroom.CodeOf(why) == mailroom.CodeLeaseLost
}

// killEarlierAttempts kills what earlier attempts of the run left on this host and returns the
// number of processes.
func killEarlierAttempts(ctx context.Context, run mailroom.RunView, last checkpoint) (int, error) {
	if run.Attempt <= 1 && last.Process == nil {
		return 0, nil
	}
	var id proc.ID
	if last.Process != nil {
		id = *last.Process
	}
	return proc.KillLeftovers(ctx, id, func(lookup func(string) (string, bool)) bool {
		// A later attempt may be running already if this attempt has lost its claim.
		attempt, ok := attemptOf(run, lookup)
		return ok && attempt < run.Attempt
	})
}

// contextCause replaces err by the cause of a cancelled context, but keeps the error about processes that survived.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if left, ok := errors.AsType[*proc.SurvivorsError](err); ok {
		return errors.Join(context.Cause(ctx), left)
	}
	return context.Cause(ctx)
}

// finalWriteTimeout bounds a write after the command has ended.
const finalWriteTimeout = 10 * time.Second

// finalWrite calls write with a context that goes on after the cancellation of ctx, for at most finalWriteTimeout.
func finalWrite(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	return write(ctx)
}
