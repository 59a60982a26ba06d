package channel

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// Answer is a message that the channel itself sends to a chat, such as the reply to a command.
type Answer struct {
	Room     []string // as in [Inbound]
	Key      string   // idempotency key
	Verbatim string   // text of others, shown without formatting in a block before Text; "": none
	Text     string
	Metadata map[string]string // labels of the delivery
	Later    bool              // send it after the queued deliveries, not before
	Cursor   *Cursor           // the channel's cursor, moved in the same transaction; nil moves none
}

// plainText is the type of the part of an answer that is shown verbatim.
const plainText = "text/plain"

// operatorToken authorizes a channel's own submits. It reaches only the operator's threads.
func operatorToken() *auth.Token {
	return &auth.Token{Name: auth.Operator, Scopes: []auth.Permission{auth.PermissionSubmit}}
}

// Answer sends an answer ahead of the room's queued deliveries. A key that was used before sends
// nothing, whatever the text, and only moves the cursor.
func (h *Host) Answer(ctx context.Context, a Answer) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return SendAnswer(ctx, h.runner.options.Ledger, h.Name(), a)
}

// AskSchedules submits a request of a sender to the schedules of a thread of the channel, once for each key. The
// request is the JSON of a plan.ServerRequest.
func (h *Host) AskSchedules(ctx context.Context, key, of, sender string, request []byte) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	first := 0
	_, err = h.runner.options.Ledger.Submit(ctx, thread.Submit{
		By: operatorToken(), ByServer: true, Owner: auth.Operator, Thread: reserved.BookID(auth.Operator, of),
		Key: key, Priority: &first, Agent: reserved.Scheduler, Sender: sender,
		Messages: []thread.NewMessage{{Parts: mailroom.Text(string(request))}},
		Origin:   mailroom.Origin{Via: reserved.ViaSchedule, Sender: sender, RequestID: key},
	})
	if mailroom.CodeOf(err) == mailroom.CodeConflict {
		return nil // it was submitted before, with a time that was read then
	}
	return err
}

// SendAnswer is [Host.Answer] for a channel that need not be running.
func SendAnswer(ctx context.Context, l Ledger, channel string, a Answer) error {
	var cursor *store.Cursor
	if a.Cursor != nil && a.Cursor.Position != nil {
		cursor = &store.Cursor{Channel: channel, Identity: a.Cursor.Identity, Position: a.Cursor.Position}
	}
	first := 0
	if a.Later {
		first = mailroom.DefaultPriority
	}
	parts := mailroom.Text(a.Text)
	if a.Verbatim != "" {
		parts = []mailroom.Part{{Type: "text", Text: a.Verbatim, MimeType: plainText}}
		if a.Text != "" {
			parts = append(parts, mailroom.Text(a.Text)...)
		}
	}
	_, err := l.Submit(ctx, thread.Submit{
		By: operatorToken(), ByServer: true, Thread: DeliveryThreadID(ThreadID(channel, a.Room...)), Key: a.Key,
		Priority: &first,
		Messages: []thread.NewMessage{{Role: mailroom.RoleSystem, Parts: parts}},
		Sender:   Via(channel), Origin: mailroom.Origin{Via: Via(channel), Sender: Via(channel), RequestID: a.Key},
		Agent: AgentName(channel), Metadata: a.Metadata, Cursor: cursor,
	})
	if mailroom.CodeOf(err) != mailroom.CodeConflict {
		return err
	}
	if cursor == nil {
		return nil
	}
	return l.MoveCursor(ctx, *cursor)
}

// Decide decides a ticket. Repeating the same decision returns the ticket.
func (h *Host) Decide(ctx context.Context, d thread.Decision) (*mailroom.Ticket, error) {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx = ledger.WithCaller(ctx, func() ledger.Caller { return ledger.Caller{Kind: "chat", From: Via(h.Name())} })
	return h.runner.options.Ledger.Decide(ctx, d)
}

// Interrupt supersedes the queued runs of a thread and stops its current run, but only the runs whose place in the
// queue is below the argument place. So a repeated call with the same place stops no run that was submitted later.
func (h *Host) Interrupt(ctx context.Context, threadID string, place int64) (thread.Interrupted, error) {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return thread.Interrupted{}, err
	}
	defer done()
	return h.runner.options.Ledger.InterruptBefore(ctx, threadID, place, operatorToken())
}

// UpdateValue updates a stored value of the channel, see [UpdateValue].
func (h *Host) UpdateValue(
	ctx context.Context, what string, f func(kept json.RawMessage, now time.Time) (json.RawMessage, error),
) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return UpdateValue(ctx, h.runner.options.Ledger, h.Name(), what, f)
}

// ReadValue reads a stored value of the channel, see [ReadValue].
func (h *Host) ReadValue(ctx context.Context, what string) (json.RawMessage, error) {
	return ReadValue(ctx, h.runner.options.Ledger, h.Name(), what)
}

// CursorChanger is the part of a [Ledger] that updates stored values.
type CursorChanger interface {
	ChangeCursor(ctx context.Context, channel, identity string,
		f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error
}

// Viewer is the part of a [Ledger] that reads.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// UpdateValue updates, in one transaction, the value that a channel stores under the name what. f gets the stored
// value, nil at first, and returns the new value, nil for no change. f may be called more than once.
func UpdateValue(ctx context.Context, l CursorChanger, channel, what string,
	f func(kept json.RawMessage, now time.Time) (json.RawMessage, error)) error {
	if what == "" {
		return errors.New("missing name of the stored value")
	}
	return l.ChangeCursor(ctx, LogThreadID(channel)+":"+what, "", f)
}

// ReadValue returns the value that a channel stores under the name what, nil if it stores no such value.
func ReadValue(ctx context.Context, l Viewer, channel, what string) (kept json.RawMessage, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		rows, err := r.Cursors(store.CursorQuery{Channel: LogThreadID(channel) + ":" + what})
		for _, c := range rows {
			kept = c.Position
		}
		return err
	})
	return kept, err
}
