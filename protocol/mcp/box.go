package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// box gives one call access to an inbox.
type box struct {
	c      *client.Client
	thread string
	make   bool // create the thread if it does not exist
	known  bool // the thread exists and is an inbox
}

// kind is the kind of inbox agents, and the name under which every server offers one.
const kind = "inbox"

// openKey is the idempotency key with which an inbox is created, so that two readers that open the inbox at the same
// time create it once.
const openKey = "inbox/open"

// open returns the thread of the inbox and checks that it is an inbox.
func (b *box) open(ctx context.Context) (api.Thread, error) {
	t, err := b.c.Thread(ctx, b.thread)
	if b.make && mailroom.CodeOf(err) == mailroom.CodeNotFound {
		t, err = b.create(ctx, err)
	}
	if err != nil || b.known {
		return t, err
	}
	agents, err := b.c.Agents(ctx)
	if err != nil {
		return t, err
	}
	for _, a := range agents {
		if a.Name == t.Agent && a.Kind != nil && *a.Kind == kind {
			b.known = true
			return t, nil
		}
	}
	return t,
		mailroom.Errorf(mailroom.CodeConflict,
			"thread %q is not an inbox but belongs to agent %s; write to it with submit_message or delegate_task", t.ID, t.Agent)
}

// create creates the thread. It returns missing if the caller may not create it, or if it belongs to
// another user.
func (b *box) create(ctx context.Context, missing error) (api.Thread, error) {
	in, err := b.commandRun(inbox.Command{Open: true})
	if err != nil {
		return api.Thread{}, err
	}
	in.Agent, in.Key = kind, openKey
	if _, err := b.c.Submit(ctx, in); err != nil {
		if code := mailroom.CodeOf(err); code == mailroom.CodeForbidden || code == mailroom.CodeNotFound {
			err = missing
		}
		return api.Thread{}, err
	}
	return b.c.Thread(ctx, b.thread)
}

// commandRun returns the submission of a run that executes a command.
func (b *box) commandRun(c inbox.Command) (api.Submit, error) {
	options, err := json.Marshal(map[string]inbox.Command{inbox.Option: c})
	if len(options) > mailroom.MaxOptions {
		err = errTooLong(len(options))
	}
	return api.Submit{
		Thread: b.thread, Options: options,
		Messages: []api.NewMessage{{Text: "(by a tool call)", Visibility: mailroom.VisibleInternal}},
	}, err
}

func errTooLong(n int) error {
	return mailroom.Errorf(mailroom.CodeTooLarge, "the command is %d bytes as JSON, more than %d: send it in parts", n,
		mailroom.MaxAnswer)
}

// head returns the ticket of the message at the head of the inbox, or nil if the inbox is empty.
func (b *box) head(ctx context.Context) (*api.Ticket, error) {
	for k, err := range client.Each(ctx, b.c.Tickets,
		client.ListQuery{Q: "state:open kind:event thread:" + client.Quote(b.thread), Limit: 500}) {
		if err != nil {
			return nil, err
		}
		if k.Action != nil && *k.Action == inbox.Action {
			return &k, nil
		}
	}
	return nil, nil
}

// follow reads entries after a sequence number until found returns true.
func (b *box) follow(ctx context.Context, after int64, run string, found func(*mailroom.Entry) bool) error {
	for ev, err := range b.c.Follow(ctx, client.FollowQuery{Thread: b.thread, Run: run,
		After: strconv.FormatInt(after, 10)}) {
		switch {
		case err != nil:
			return err
		case ev.Entry != nil && found(ev.Entry):
			return nil
		}
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "the stream of thread %q ended", b.thread)
}

// waitForChange waits for the next entry that can change the head of the inbox, and returns the entry's sequence
// number.
func (b *box) waitForChange(ctx context.Context, after int64) (seq int64, err error) {
	err = b.follow(ctx, after, "", func(e *mailroom.Entry) bool {
		seq = e.Seq
		return movesHead(e.Kind)
	})
	return seq, err
}

var errTimeout = errors.New("the call timed out")

// wait waits for a message at the head. It returns nil after a timeout.
func (b *box) wait(ctx context.Context, most time.Duration) (*Row, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errTimeout)
	defer cancel()
	row, err := b.nextMessage(ctx)
	if errors.Is(err, errTimeout) {
		return nil, nil
	}
	return row, err
}

func (b *box) nextMessage(ctx context.Context) (*Row, error) {
	t, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	for at := t.LastSeq; ; {
		k, err := b.head(ctx)
		if err != nil {
			return nil, err
		}
		if k != nil {
			row, err := b.row(ctx, k.Run, true)
			if err != nil || row != nil {
				return row, err
			}
		}
		if at, err = b.waitForChange(ctx, at); err != nil {
			return nil, err
		}
	}
}

// outcome is the result of a command.
type outcome struct {
	run     string // run that executed it
	message string // id of the message that was added
	sent    entry.Sent
	popped  bool
}

// execute executes a command: as an answer to the message at the head, or by a run of its own.
func (b *box) execute(ctx context.Context, c inbox.Command) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, errTimeout)
	defer cancel()
	c.Call = uuid.NewString()
	run, at, err := b.submitCommand(ctx, c)
	if errors.Is(err, errTimeout) {
		err = mailroom.Errorf(mailroom.CodeUnavailable, "thread %q was busy for %s, and nothing was done: try again",
			b.thread, commandTimeout)
	}
	if err != nil {
		return outcome{}, err
	}
	out, err := b.awaitOutcome(ctx, run, at, c.Call)
	if errors.Is(err, errTimeout) {
		err = mailroom.Errorf(mailroom.CodeUnavailable, "accepted, but not finished after %s: see run %s",
			commandTimeout, run)
	}
	return out, err
}

// submitCommand submits a command. After it returns, the command is durable. run is the run that will execute it, and
// the result is in the log after the entry number at.
func (b *box) submitCommand(ctx context.Context, c inbox.Command) (run string, at int64, err error) {
	t, err := b.open(ctx)
	for err == nil {
		k, err := b.head(ctx)
		if err != nil {
			return "", 0, err
		}
		switch {
		case k != nil:
			err = b.answer(ctx, k, c)
			run = k.Run
		case t.Status == api.ThreadIdle:
			run, err = b.submit(ctx, c, mailroom.ModeReject)
		case t.ActiveRun == nil && t.WaitingRun == nil: // a message is about to reach the head, or all are scheduled for later
			run = ""
			if err = b.waitBriefly(ctx, t.LastSeq); errors.Is(err, errLater) {
				run, err = b.submit(ctx, c, mailroom.ModeQueue)
			}
		default: // a run is active
			_, err = b.waitForChange(ctx, t.LastSeq)
			run = ""
		}
		switch code := mailroom.CodeOf(err); {
		case err == nil && run != "":
			return run, t.LastSeq, nil
		case err == nil, code == mailroom.CodeConflict, code == mailroom.CodeBusy: // another call was faster: read the thread again
			t, err = b.open(ctx)
		}
		if err != nil {
			return "", 0, err
		}
	}
	return "", 0, err
}

func (b *box) answer(ctx context.Context, k *api.Ticket, c inbox.Command) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(raw) > mailroom.MaxAnswer {
		return errTooLong(len(raw))
	}
	_, err = b.c.Decide(ctx, k.ID, api.Decision{Decision: mailroom.VerdictAnswer, Answer: raw})
	return err
}

// claimTime is an upper estimate of how long a due message takes to reach the head.
const claimTime = time.Second

var errLater = errors.New("nothing is due")

// waitBriefly waits for a change at the head, but only for a short time. It returns errLater if nothing changes.
func (b *box) waitBriefly(ctx context.Context, after int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, claimTime, errLater)
	defer cancel()
	_, err := b.waitForChange(ctx, after)
	return err
}

func isScheduled(r api.Run) bool { return r.NotBefore != nil && r.NotBefore.After(time.Now()) }

// submit starts a run for a command. In mode reject, it fails if another message arrived first.
func (b *box) submit(ctx context.Context, c inbox.Command, mode mailroom.Mode) (run string, err error) {
	in, err := b.commandRun(c)
	if err != nil {
		return "", err
	}
	in.Mode = mode
	out, err := b.c.Submit(ctx, in)
	return out.Run, err
}

// awaitOutcome waits until the run has executed the command.
func (b *box) awaitOutcome(ctx context.Context, run string, after int64, call string) (out outcome, err error) {
	out.run = run
	var refused error
	told := false // the outcome of the command was read
	err = b.follow(ctx, after, run, func(e *mailroom.Entry) bool {
		switch e.Kind {
		case entry.KindMessage:
			var m mailroom.Message
			if e.Decode(&m) == nil && m.Role == mailroom.RoleAssistant && !m.Partial {
				out.message = m.ID
			}
		case entry.KindSend:
			return told && e.Decode(&out.sent) == nil
		case inbox.KindOutcome:
			var o inbox.Outcome
			if e.Decode(&o) != nil || o.Call != call {
				return false
			}
			if told = true; o.Refused != nil {
				refused = &mailroom.Error{Code: o.Refused.Code, Message: o.Refused.Message}
			}
			return refused != nil || o.Did != "delegate"
		case entry.KindCompleted:
			out.popped = true
			return true
		case entry.KindFailed, entry.KindCancelled:
			refused = mailroom.Errorf(mailroom.CodeConflict, "run %s ended before it executed the command: %s", run,
				strings.TrimPrefix(e.Kind, "run."))
			return true
		}
		return false
	})
	if err == nil {
		err = refused
	}
	return out, err
}

// Popped is the result of inbox_pop.
type Popped struct {
	Removed bool   `json:"removed"`
	Reason  string `json:"reason,omitempty"` // why not, if not removed
}

// pop removes the message at the head. Other messages cannot be removed, because they are handled
// in order.
func (b *box) pop(ctx context.Context, id string) (Popped, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, errTimeout)
	defer cancel()
	c := inbox.Command{Pop: true, Call: uuid.NewString()}
	out, err := b.remove(ctx, id, c)
	if errors.Is(err, errTimeout) {
		err = mailroom.Errorf(mailroom.CodeUnavailable, "unknown after %s whether the message was removed: try again",
			commandTimeout)
	}
	return out, err
}

func (b *box) remove(ctx context.Context, id string, c inbox.Command) (Popped, error) {
	for {
		t, err := b.open(ctx)
		if err != nil {
			return Popped{}, err
		}
		r, err := b.c.Run(ctx, id)
		switch code := mailroom.CodeOf(err); {
		case code == mailroom.CodeNotFound || err == nil && r.Thread != t.ID:
			return Popped{Reason: "it is not in this inbox"}, nil
		case err != nil:
			return Popped{}, err
		case r.Status.Finished():
			return Popped{Reason: fmt.Sprintf("it is no longer in the inbox: it is %s", r.Status)}, nil
		}
		k, err := b.head(ctx)
		switch {
		case err != nil:
			return Popped{}, err
		case k != nil && k.Run == id:
			err = b.answer(ctx, k, c)
		case isScheduled(r):
			return Popped{Reason: "it is not due before " + r.NotBefore.Format(time.RFC3339)}, nil
		case k != nil:
			return Popped{Reason: "it is behind other messages: handle the head first, or cancel this one with cancel_run"}, nil
		default: // a run is active
			_, err = b.waitForChange(ctx, t.LastSeq)
			k = nil
		}
		switch code := mailroom.CodeOf(err); {
		case code == mailroom.CodeConflict: // another call was faster
		case err != nil:
			return Popped{}, err
		case k != nil:
			return b.popResult(b.awaitOutcome(ctx, id, t.LastSeq, c.Call))
		}
	}
}

func (b *box) popResult(out outcome, err error) (Popped, error) {
	if err != nil && mailroom.CodeOf(err) == mailroom.CodeConflict {
		e, _ := errors.AsType[*mailroom.Error](err) // cannot fail: CodeOf has found such an error
		return Popped{Reason: e.Message}, nil
	}
	return Popped{Removed: out.popped}, err
}
