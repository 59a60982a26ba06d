// Package exec makes any command an agent. A run starts the command with the
// run's input as text on stdin and streams what it writes to stdout as the
// reply. Exit status 0 completes the run.
//
// Delivery to a command is at least once: an attempt that fails, or is lost with
// its worker, is followed by another, which starts the command anew. The command
// can recognise it by MAILROOM_IDEMPOTENCY_KEY, which is the same for all
// attempts of a run. Once a command has succeeded and this is committed it is
// not started again. At most one process tree of a run lives on a host: a later
// attempt kills what an earlier one left before it starts its own. (On systems
// other than Linux it cannot tell what is left, see package proc.)
//
// The command finds in its environment MAILROOM_RUN, MAILROOM_THREAD,
// MAILROOM_ATTEMPT and MAILROOM_IDEMPOTENCY_KEY, the variables of Options.Env,
// those of our own that Options.EnvAllow names, and nothing else. Steered
// messages are left alone and become runs of their own: a command has had its
// input when it starts.
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

// Options of a command. Durations of 0 have the default that is named.
type Options struct {
	// Command is the argument vector. [0] is a path, or a name that is looked
	// for in our PATH. No shell is ever involved.
	Command []string
	// Dir is the working directory; "" is ours.
	Dir string

	// Env are variables for the command, NAME=VALUE. Where entries and errors
	// quote the command's stderr, their values are replaced, if they have six
	// bytes or more and their name is not in DefaultEnvAllow. What it writes to
	// stdout is its reply and stays as it is.
	Env []string
	// EnvAllow names what is passed on from our own environment. nil is
	// DefaultEnvAllow; an empty list passes nothing on. Values are treated
	// like those of Env.
	EnvAllow []string
	// Mark, if set, is the value of a variable by which Reap finds what was left
	// of a process that used the same mark and was killed.
	Mark string

	// Isolation keeps the command from what it hides; see package proc. nil
	// starts it as it is.
	Isolation *proc.Isolation
	// Files is a folder that Isolation hides. Of what is in it, the command can
	// read the files that the messages of its thread name.
	Files string

	// StartTimeout is for the first byte of output on stdout or stderr, and
	// IdleTimeout for the silence between two of them (before the first too, if
	// there is no StartTimeout). TotalTimeout is for the whole command. 0 is
	// no limit; the run deadline always holds.
	StartTimeout, IdleTimeout, TotalTimeout time.Duration
	KillGrace                               KillGrace
	// MaxOutput is how many bytes of stdout are taken. A command that writes
	// more is stopped and its run fails for good. 0 is 16 MiB. A message holds
	// at most mailroom.MaxText of it.
	MaxOutput int64
}

// KillGrace is how long a command that must stop has after each signal. The
// whole tree of processes gets INT, then TERM, then KILL. A command that has to
// go at once, because the claim of its run was lost, gets only KILL.
type KillGrace struct {
	Interrupt time.Duration // from INT to TERM; 0 is 4 s
	Terminate time.Duration // from TERM to KILL; 0 is 3 s
}

// The defaults end a command before the stop grace of the engine, 10 s.
const (
	defaultInterrupt = 4 * time.Second
	defaultTerminate = 3 * time.Second
	defaultMaxOutput = 16 << 20
)

// DefaultEnvAllow returns the names that are passed on from our environment
// unless Options say otherwise: where programs, files and the user's own things
// are, and the language. None of them holds a secret.
func DefaultEnvAllow() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
		"LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME",
	}
}

// New makes the agent of a command. It refuses options that cannot be right;
// whether the command exists is seen by each run, because it may be installed
// later.
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
	return &agent{options: o, name: "the command"}, nil
}

func (o *Options) check() error {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return errors.New("command is empty; give the program and its arguments as a list")
	}
	for i, arg := range o.Command {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("command[%d] holds a NUL", i)
		}
	}
	for i, e := range o.Env {
		// The entry itself is not named: it may be a secret.
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("env[%d] is not NAME=VALUE", i)
		}
	}
	if strings.ContainsRune(o.Mark, 0) {
		return errors.New("the mark holds a NUL")
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
			return fmt.Errorf("%s is %v; give 0 or more", name, d)
		}
	}
	if o.MaxOutput < 0 {
		return fmt.Errorf("max_output is %d; give 0 or more", o.MaxOutput)
	}
	return nil
}

// agent has no state of its own: it serves many runs at once.
type agent struct {
	options Options
	name    string // how errors call what it runs
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
	limits := a.limits(ctx)
	input, err := s.Input(ctx)
	if err != nil {
		return contextCause(ctx, err)
	}
	killed, err := killEarlierAttempts(ctx, run, last)
	if err != nil {
		return contextCause(ctx, fmt.Errorf("end what an earlier attempt left: %w", err))
	}
	env, secrets := a.environment(run)
	shown, err := a.visibleFiles(input)
	if err != nil {
		return err
	}
	input, giveBack, err := a.copyFiles(input)
	if err != nil {
		return err
	}
	defer func() {
		if left := giveBack(); left != nil {
			err = errors.Join(err, left)
		}
	}()
	child, err := proc.Start(a.spec(run, env, secrets, shown))
	if err != nil {
		return startFailure(err)
	}
	if err := recordStart(ctx, s, child.ID(), killed); err != nil {
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
	return conclude(ctx, s, e, a.verdict(e), mailroom.Step{})
}

// spec describes the process of an attempt, which can read the files in shown.
func (a *agent) spec(run *mailroom.Run, env []string, secrets []secret, shown []string) proc.Spec {
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

// isLeaseLost reports that somebody else may work on the run by now, or very soon.
func isLeaseLost(why error) bool {
	return errors.Is(why, mailroom.ErrLeaseLost) || mailroom.CodeOf(why) == mailroom.CodeLeaseLost
}

// killEarlierAttempts ends what earlier attempts of the run left on this host. A first
// attempt has none.
func killEarlierAttempts(ctx context.Context, run *mailroom.Run, last checkpoint) (int, error) {
	if run.Attempt <= 1 && last.Process == nil {
		return 0, nil
	}
	var id proc.ID
	if last.Process != nil {
		id = *last.Process
	}
	return proc.KillLeftovers(ctx, id, func(lookup func(string) (string, bool)) bool {
		// Of a later attempt there may be some if this one is a zombie.
		attempt, ok := attemptOf(run, lookup)
		return ok && attempt < run.Attempt
	})
}

// contextCause puts why a context was cancelled before what that made fail.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if left, ok := errors.AsType[*proc.LeftError](err); ok {
		return errors.Join(context.Cause(ctx), left)
	}
	return context.Cause(ctx)
}

// finalWriteTimeout bounds what is written after the command has ended.
const finalWriteTimeout = 10 * time.Second

// finalWrite runs a last write, which must also happen after a stop.
func finalWrite(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	return write(ctx)
}
