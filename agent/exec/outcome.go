package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	osexec "os/exec"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/proc"
)

// Kinds of the entries that an attempt writes.
const (
	KindStarted = "x.exec.started" // Started, before the command gets its input
	KindExited  = "x.exec.exited"  // Exited; see conclude for when there is none
)

// Started is the process of an attempt. Leftovers is how many processes of
// earlier attempts were killed first. Program is the profile of one that has
// sessions, and Resumed says that it goes on in one.
type Started struct {
	proc.ID
	Leftovers int    `json:"leftovers,omitempty"`
	Program   string `json:"program,omitempty"`
	Resumed   bool   `json:"resumed,omitempty"`
}

// Exited tells how the command ended. Either ExitCode or Signal is set, or
// neither if it could not be ended. Limit is the time limit that it passed:
// start_timeout, idle_timeout, total_timeout or deadline, and LimitMS how long
// that was; "" and 0 if it was not stopped by one.
type Exited struct {
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`  // such as "killed"
	Stopped  string `json:"stopped,omitempty"` // why it was stopped; "" if it ended by itself
	// Class is what the ending means for the run; "" for a success, and where no class
	// is known. It is safe to show where stderr is not.
	Class      mailroom.Class `json:"class,omitempty"`
	Limit      string         `json:"limit,omitempty"`
	LimitMS    int64          `json:"limit_ms,omitempty"`
	DurationMS int64          `json:"duration_ms"`
	Stderr     string         `json:"stderr,omitempty"`  // its end, at most 4 KiB
	Left       []int          `json:"left,omitempty"`    // processes that could not be ended
	Skipped    int            `json:"skipped,omitempty"` // lines of a program that could not be read
}

const (
	maxStderr = 4 << 10
	// quoted is how much of stderr an error holds. The root package cuts the
	// end of an error at 4 KiB, and the end of stderr is what says why.
	quoted = 3 << 10
)

// checkpoint is what a later attempt must know.
type checkpoint struct {
	Process *proc.ID `json:"process,omitempty"` // of the latest attempt
	Done    bool     `json:"done,omitempty"`    // the command has succeeded

	// Of a program with sessions.
	Session string     `json:"session,omitempty"` // that was given the input
	Steered []string   `json:"steered,omitempty"` // messages that were handed to it beside the input
	Asked   []question `json:"asked,omitempty"`   // what a person is asked
	Decided []decision `json:"decided,omitempty"`
}

func readCheckpoint(raw json.RawMessage) (c checkpoint, err error) {
	if len(raw) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// newStep makes a step of one entry. A nil checkpoint leaves the run's.
func newStep(kind string, body any, c *checkpoint) (st mailroom.Step, err error) {
	b, err := encode(kind, body)
	if err != nil {
		return st, err
	}
	st.Entries = []mailroom.AgentEntry{{Kind: kind, Body: b}}
	if c != nil {
		st.Checkpoint, err = encode("checkpoint", c)
	}
	return st, err
}

// encode leaves JSON inside v as it is, to the byte: digests are made of it.
func encode(what string, v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func recordStart(ctx context.Context, s mailroom.Session, id proc.ID, killed int) error {
	st, err := newStep(KindStarted, Started{ID: id, Leftovers: killed}, &checkpoint{Process: &id})
	if err != nil {
		return err
	}
	st.NoProgress = true
	return s.Append(ctx, st)
}

// ending is how an attempt's command ended: its exit, why it was stopped, and
// the end of its stderr as it may be shown.
type ending struct {
	exit    proc.Exit
	why     error
	stderr  string
	limits  limits
	skipped int
}

// limits are the time limits of an attempt; 0 is none.
type limits struct{ start, idle, total, deadline time.Duration }

// exceeded returns the limit that was the reason to stop.
func (l limits) exceeded(why error) (name string, length time.Duration) {
	switch {
	case errors.Is(why, proc.ErrStart):
		return "start_timeout", l.start
	case errors.Is(why, proc.ErrIdle):
		return "idle_timeout", l.idle
	case errors.Is(why, proc.ErrTotal):
		return "total_timeout", l.total
	case errors.Is(why, mailroom.ErrDeadline):
		return "deadline", l.deadline
	}
	return "", 0
}

// limits are those of an attempt that begins now.
func (a *agent) limits(ctx context.Context) limits {
	l := limits{start: a.options.StartTimeout, idle: a.options.IdleTimeout, total: a.options.TotalTimeout}
	if l.start == 0 {
		l.start = l.idle
	}
	if end, ok := ctx.Deadline(); ok {
		l.deadline = time.Until(end).Round(10 * time.Millisecond) // as it was set, not what was left of it
	}
	return l
}

// conclude writes how the command ended, with more, and returns verdict, which is
// what that means for the run. After a success the entry, the reply and the checkpoint that says so are
// one step: a worker that is lost right after it does not make the command run
// again. Any other end is a record, which leaves what was streamed to the end of
// the run: it is a partial message.
func conclude(ctx context.Context, s mailroom.Session, e ending, verdict error, more mailroom.Step) error {
	if isLeaseLost(e.why) {
		return verdict
	}
	var done *checkpoint
	if verdict == nil {
		done = &checkpoint{Done: true}
	}
	exited := e.exited()
	if verdict != nil {
		exited.Class = mailroom.AsFailure(verdict).Class
	}
	st, err := newStep(KindExited, exited, done)
	if err == nil {
		st.NoProgress = verdict != nil
		st.Entries = append(more.Entries, st.Entries...)
		st.Usage, st.State = more.Usage, more.State
		if done == nil {
			st.Checkpoint = more.Checkpoint
		}
		err = finalWrite(ctx, func(ctx context.Context) error { return s.Append(ctx, st) })
	}
	switch {
	case err == nil:
		return verdict
	case verdict == nil, isLeaseLost(err):
		return err
	}
	err = fmt.Errorf("write %s: %w", KindExited, err)
	if f, ok := errors.AsType[*mailroom.Failure](verdict); ok {
		return &mailroom.Failure{Class: f.Class, RetryAfter: f.RetryAfter, Err: errors.Join(f.Err, err)}
	}
	return errors.Join(verdict, err)
}

func (e ending) exited() Exited {
	x := Exited{Signal: e.exit.Signal, DurationMS: e.exit.Duration.Milliseconds(), Stderr: e.stderr, Skipped: e.skipped}
	if e.exit.Code >= 0 {
		x.ExitCode = &e.exit.Code
	}
	if e.why != nil {
		x.Stopped = e.stopReason()
		name, length := e.limits.exceeded(e.why)
		x.Limit, x.LimitMS = name, length.Milliseconds()
	}
	if e.exit.Left != nil {
		x.Left = e.exit.Left.PIDs
	}
	return x
}

// stopReason says why the command was stopped, if that is for everybody to read.
func (e ending) stopReason() string {
	for _, known := range []error{
		proc.ErrStart, proc.ErrIdle, proc.ErrTotal, proc.ErrOutput,
		mailroom.ErrStopped, mailroom.ErrReleased, mailroom.ErrDeadline, errLingered, errSessionGone,
	} {
		if errors.Is(e.why, known) {
			return known.Error()
		}
	}
	return "its output could not be handed on"
}

// verdict returns what the run's attempt ends with.
func (a *agent) verdict(e ending) error {
	o := a.options
	var left error
	if e.exit.Left != nil {
		left = e.exit.Left
	}
	failure := func(class mailroom.Class, format string, args ...any) error {
		err := fmt.Errorf(a.name+" "+format, args...)
		return &mailroom.Failure{Class: class, Err: errors.Join(left, e.withStderr(err))}
	}
	switch {
	case e.why == nil && e.exit.Success():
		return nil // what it left behind is named in the entry
	case e.why == nil:
		return failure(mailroom.ClassTransient, "ended with %v", e.exit)
	case errors.Is(e.why, proc.ErrStart):
		return failure(mailroom.ClassTransient, "gave %w (start_timeout %v)", e.why, o.StartTimeout)
	case errors.Is(e.why, proc.ErrIdle):
		return failure(mailroom.ClassTransient, "was %w (idle_timeout %v)", e.why, o.IdleTimeout)
	case errors.Is(e.why, proc.ErrTotal):
		return failure(mailroom.ClassTransient, "%w (total_timeout %v)", e.why, o.TotalTimeout)
	case errors.Is(e.why, proc.ErrOutput):
		return failure(mailroom.ClassPermanent, "wrote %w (max_output %d bytes)", e.why, o.MaxOutput)
	case left != nil:
		return errors.Join(e.why, left)
	}
	return e.why
}

// withStderr adds the end of stderr to an error.
func (e ending) withStderr(err error) error {
	text := strings.TrimSpace(e.stderr)
	if text == "" {
		return err
	}
	if len(text) > quoted {
		text = text[len(text)-quoted:]
		for !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	return fmt.Errorf("%w: %s", err, text)
}

// startFailure gives the error of a start its class: what is wrong with the
// command stays wrong, a machine that is out of something recovers.
func startFailure(err error) error {
	class := mailroom.ClassTransient
	for _, wrong := range []error{
		osexec.ErrNotFound, osexec.ErrDot, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENOEXEC,
		syscall.E2BIG, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL,
	} {
		if errors.Is(err, wrong) {
			class = mailroom.ClassPermanent
		}
	}
	return &mailroom.Failure{Class: class, Err: fmt.Errorf("start the command: %w", err)}
}
