package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/lazyregexp"
	"mailroom/internal/proc"
)

// Kinds of entries that an attempt writes.
const (
	KindStarted = "x.exec.started" // Started, before the command gets its input
	KindExited  = "x.exec.exited"  // Exited, unless the lease was lost
)

// Started describes the process of an attempt. Leftovers is the number of processes of earlier
// attempts that were killed first. Program is the profile of a program with sessions, and Resumed
// reports whether it resumed one.
type Started struct {
	proc.ID
	Leftovers int    `json:"leftovers,omitempty"`
	Program   string `json:"program,omitempty"`
	Resumed   bool   `json:"resumed,omitempty"`
	Branch    string `json:"branch,omitempty"` // of the worktree
	Repo      string `json:"repo,omitempty"`   // folder of the repository that a submit of the thread named
}

// Exited describes how the command ended. Either ExitCode or Signal is set, or neither if the command could not be
// killed. Limit is the time limit that stopped the command (start_timeout, idle_timeout, call_timeout, total_timeout
// or deadline), and LimitMS the length of that limit. They are "" and 0 if no limit was reached.
type Exited struct {
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`  // such as "killed"
	Stopped  string `json:"stopped,omitempty"` // why it was stopped; "" if it ended by itself
	// Class is the failure class of the run; "" for a success, or if it is unknown. Unlike stderr, it contains no
	// text from outside, so any client may see it.
	Class      mailroom.Class `json:"class,omitempty"`
	Limit      string         `json:"limit,omitempty"`
	LimitMS    int64          `json:"limit_ms,omitempty"`
	DurationMS int64          `json:"duration_ms"`
	Stderr     string         `json:"stderr,omitempty"`  // last 4 KiB of the standard error
	Left       []int          `json:"left,omitempty"`    // ids of the processes that could not be killed
	Skipped    int            `json:"skipped,omitempty"` // unreadable lines of a program
	// Fault is what is wrong with the agent itself: login, quota or program. It is "" if nothing is known to be
	// wrong.
	Fault string `json:"fault,omitempty"`
}

const (
	maxStderr = 4 << 10
	// quoted is how much of stderr an error contains. The root package truncates errors to 4 KiB,
	// and the end of stderr explains the failure.
	quoted = 3 << 10
)

// checkpoint is the state that the next attempt needs.
type checkpoint struct {
	Process *proc.ID `json:"process,omitempty"` // process of the latest attempt
	Done    bool     `json:"done,omitempty"`    // the command has succeeded

	Conflict *conflict `json:"conflict,omitempty"` // the command has succeeded, and its branch waits for a decision

	// The fields below are for a program with sessions.
	Session string   `json:"session,omitempty"` // session that received the input
	Prompt  string   `json:"prompt,omitempty"`  // mark of the last prompt, see program.Prompt
	Steered []string `json:"steered,omitempty"` // messages that were sent beside the input
	Unread  int      `json:"unread,omitempty"`  // how many of them the turn that asked a question may not have read
	// SteeredFiles are the URIs in Steered that each server replaces by paths on its machine.
	SteeredFiles []string   `json:"steered_files,omitempty"`
	Asked        []question `json:"asked,omitempty"` // open questions
	Decided      []decision `json:"decided,omitempty"`
	// NotBegun is set if no turn has begun to work on the input, although a session received the input.
	NotBegun bool   `json:"not_begun,omitempty"`
	Trials   trials `json:"trials,omitzero"`
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

// newStep returns a step with one entry. A nil checkpoint keeps the run's checkpoint.
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

// encode encodes v as JSON. It keeps JSON inside v unchanged to the byte, because digests are computed from that
// JSON.
func encode(what string, v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func recordStart(ctx context.Context, s mailroom.Session, started Started) error {
	st, err := newStep(KindStarted, started, &checkpoint{Process: &started.ID})
	if err != nil {
		return err
	}
	st.NoProgress = true
	return s.Append(ctx, st)
}

// ending describes the end of a command: its exit, why it was stopped, and the redacted end of its
// stderr.
type ending struct {
	exit    proc.Exit
	why     error
	stderr  string
	limits  limits
	skipped int
	fault   string
}

// limits are the time limits of an attempt; 0 means no limit.
type limits struct{ start, idle, call, total, deadline time.Duration }

// exceeded returns the limit that stopped the command.
func (l limits) exceeded(why error) (name string, length time.Duration) {
	switch {
	case errors.Is(why, proc.ErrStart):
		return "start_timeout", l.start
	case errors.Is(why, proc.ErrIdle):
		return "idle_timeout", l.idle
	case errors.Is(why, proc.ErrBusy):
		return "call_timeout", l.call
	case errors.Is(why, proc.ErrTotal):
		return "total_timeout", l.total
	case errors.Is(why, mailroom.ErrDeadline):
		return "deadline", l.deadline
	}
	return "", 0
}

// limits returns the limits of an attempt that starts now.
func (a *agent) limits(run mailroom.RunView) limits {
	l := limits{start: a.options.StartTimeout, idle: a.options.IdleTimeout, total: a.options.TotalTimeout}
	if l.start == 0 {
		l.start = l.idle
	}
	if !run.Ends.IsZero() {
		l.deadline = time.Until(run.Ends).Round(10 * time.Millisecond) // the configured length, not the remainder
	}
	return l
}

// finish commits the changes in the worktree of a success, then concludes the attempt.
func finish(ctx context.Context, s mailroom.Session, place *workplace, e ending, verdict error,
	more mailroom.Step) error {
	made, over, err := place.finish(ctx, s.Run(), verdict, true)
	if err != nil && ctx.Err() != nil && !isLeaseLost(context.Cause(ctx)) { // another attempt would do the work twice
		err = finalWrite(ctx, func(ctx context.Context) (err error) {
			made, over, err = place.finish(ctx, s.Run(), verdict, false)
			return err
		})
	}
	if err != nil {
		verdict = contextCause(ctx, err)
	}
	more.Entries, more.Sends = append(more.Entries, made.Entries...), made.Sends
	if over != nil && err == nil {
		return askConflict(ctx, s, over, e, more)
	}
	return conclude(ctx, s, e, verdict, more)
}

// conclude writes the entry about the end of the command in one step with more, and returns verdict, the result of
// the attempt. After a success that step has the entry, the reply and the checkpoint, so that the command is not run
// again if the worker is lost afterwards. After a failure the streamed text stays out of the step: at the end of the
// run it becomes a partial message.
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
		} else {
			st.Sends = more.Sends
		}
		err = appendFinal(ctx, s, st)
	}
	switch {
	case err == nil:
		return verdict
	case verdict == nil, isLeaseLost(err):
		return err
	}
	err = fmt.Errorf("write %s: %w", KindExited, err)
	if f, ok := errors.AsType[*mailroom.Failure](verdict); ok {
		return &mailroom.Failure{Class: f.Class, RetryAfter: f.RetryAfter, Agent: f.Agent, Err: errors.Join(f.Err, err)}
	}
	return errors.Join(verdict, err)
}

// appendFinal commits the last step of an attempt. A message that the ledger refuses, as at the end of a long chain of
// threads, must not cost the result of the run.
func appendFinal(ctx context.Context, s mailroom.Session, st mailroom.Step) error {
	err := finalWrite(ctx, func(ctx context.Context) error { return s.Append(ctx, st) })
	if err != nil && len(st.Sends) > 0 && refuses(err) {
		st.Sends = nil
		err = finalWrite(ctx, func(ctx context.Context) error { return s.Append(ctx, st) })
	}
	return err
}

func (e ending) exited() Exited {
	x := Exited{Signal: e.exit.Signal, DurationMS: e.exit.Duration.Milliseconds(), Stderr: e.stderr, Skipped: e.skipped,
		Fault: e.fault}
	if e.exit.Code >= 0 {
		x.ExitCode = &e.exit.Code
	}
	if e.why != nil {
		x.Stopped = e.stopReason()
		name, length := e.limits.exceeded(e.why)
		x.Limit, x.LimitMS = name, length.Milliseconds()
	}
	if e.exit.Survivors != nil {
		x.Left = e.exit.Survivors.PIDs
	}
	return x
}

// stopReason returns the reason for which the command was stopped, if that reason is safe to show, or "".
func (e ending) stopReason() string {
	for _, known := range []error{
		proc.ErrStart, proc.ErrIdle, proc.ErrBusy, proc.ErrTotal, proc.ErrOutput,
		mailroom.ErrStopped, mailroom.ErrReleased, mailroom.ErrDeadline, errLingered, errSessionGone, errLongLine,
	} {
		if errors.Is(e.why, known) {
			return known.Error()
		}
	}
	return "its output could not be stored"
}

// verdict returns the error with which the attempt ends, or nil if the command succeeded.
func (a *agent) verdict(e ending) error {
	o := a.options
	var left error
	if e.exit.Survivors != nil {
		left = e.exit.Survivors
	}
	failure := func(class mailroom.Class, format string, args ...any) error {
		err := fmt.Errorf(a.name+" "+format, args...)
		return &mailroom.Failure{Class: class, Err: errors.Join(left, e.withStderr(err))}
	}
	switch {
	case e.why == nil && e.exit.Success():
		return nil // the entry names surviving processes
	case e.why == nil:
		var after time.Duration
		e.stderr, after = cutRetryAfter(e.stderr)
		err := e.withStderr(fmt.Errorf(a.name+" ended with %v", e.exit))
		return &mailroom.Failure{Class: a.exitClass(e.exit.Code), RetryAfter: after, Err: errors.Join(left, err)}
	case errors.Is(e.why, proc.ErrStart):
		return failure(mailroom.ClassTransient, "was stopped: %w (start_timeout %v)", e.why, o.StartTimeout)
	case errors.Is(e.why, proc.ErrIdle):
		return failure(mailroom.ClassTransient, "was stopped: %w (idle_timeout %v)", e.why, o.IdleTimeout)
	case errors.Is(e.why, proc.ErrTotal):
		return failure(mailroom.ClassTransient, "was stopped: %w (total_timeout %v)", e.why, o.TotalTimeout)
	case errors.Is(e.why, proc.ErrOutput):
		return failure(mailroom.ClassPermanent, "was stopped: %w (max_output %d bytes)", e.why, o.MaxOutput)
	case left != nil:
		return errors.Join(e.why, left)
	}
	return e.why
}

// exitClass classifies an exit status other than 0; -1 is the end by a signal.
func (a *agent) exitClass(status int) mailroom.Class {
	switch {
	case slices.Contains(a.options.PermanentExits, status):
		return mailroom.ClassPermanent
	case slices.Contains(a.options.UnavailableExits, status):
		return mailroom.ClassUnavailable
	}
	return mailroom.ClassTransient
}

// maxRetryAfter bounds the delay before a retry that a command can ask for.
const maxRetryAfter = 24 * time.Hour

// lastRetryAfter matches a last line of stderr such as "Retry-After: 30", in seconds.
var lastRetryAfter = lazyregexp.New(`(?i)(?:^|\n)retry-after:[ \t]*([0-9]{1,9})[ \t\r]*$`)

// cutRetryAfter removes from stderr a last line that says when to retry, and returns the rest and that delay.
func cutRetryAfter(stderr string) (string, time.Duration) {
	text := strings.TrimRight(stderr, "\n")
	found := lastRetryAfter().FindStringSubmatchIndex(text)
	if found == nil {
		return stderr, 0
	}
	seconds, err := strconv.Atoi(text[found[2]:found[3]])
	if err != nil { // cannot happen: at most 9 digits
		return stderr, 0
	}
	return text[:found[0]], min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// withStderr appends the end of stderr to an error.
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

// startFailure classifies an error of a start. Problems with the command are permanent. A machine without room for
// another process is an outage: the program did not run, so counted attempts would end the runs of a rush.
func startFailure(err error) error {
	class, own := mailroom.ClassTransient, false
	if proc.Exhausted(err) {
		class = mailroom.ClassUnavailable
	}
	for _, wrong := range []error{
		osexec.ErrNotFound, osexec.ErrDot, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENOEXEC,
		syscall.E2BIG, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL,
	} {
		if errors.Is(err, wrong) {
			// For E2BIG and EINVAL the message may be the cause, so they are no fault of the agent.
			class, own = mailroom.ClassPermanent, wrong != error(syscall.E2BIG) && wrong != error(syscall.EINVAL)
		}
	}
	return &mailroom.Failure{Class: class, Agent: own, Err: fmt.Errorf("start the command: %w", err)}
}
