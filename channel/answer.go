package channel

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mailroom"
)

// Answer is what a channel itself says in a chat, such as to a command.
type Answer struct {
	Room     []string // as of an [Inbound]
	Key      string   // one answer is given under one key
	Text     string
	Metadata map[string]string // labels of the delivery
	Later    bool              // said after what waits to be said there, not before
	Cursor   *Cursor           // moves with it; nil: none does
}

// operatorToken is who acts for a channel: it reaches the operator's threads alone.
func operatorToken() *mailroom.Token {
	return &mailroom.Token{Name: mailroom.Operator, Scopes: []mailroom.Permission{mailroom.PermissionSubmit}}
}

// Answer has something said before all that waits to be said there. Under a key that
// was used it says nothing more, whatever the text, and only moves the cursor.
func (l *Host) Answer(ctx context.Context, a Answer) error {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return SendAnswer(ctx, l.runner.options.Ledger, l.Name(), a)
}

// SendAnswer has a channel say something in a chat, as [Host.Answer] does.
func SendAnswer(ctx context.Context, l Ledger, channel string, a Answer) error {
	var cursor *mailroom.Cursor
	if a.Cursor != nil && a.Cursor.Position != nil {
		cursor = &mailroom.Cursor{Channel: channel, Identity: a.Cursor.Identity, Position: a.Cursor.Position}
	}
	first := 0
	if a.Later {
		first = mailroom.DefaultPriority
	}
	_, err := l.Submit(ctx, mailroom.Submit{
		By: operatorToken(), Thread: DeliveryThreadID(ThreadID(channel, a.Room...)), Key: a.Key, Priority: &first,
		Messages: []mailroom.NewMessage{{Role: mailroom.RoleSystem, Parts: mailroom.Text(a.Text)}},
		Sender:   Via(channel), Origin: mailroom.Origin{Via: Via(channel), Sender: Via(channel), RequestID: a.Key},
		Agent: AgentName(channel), SetAgent: true, Metadata: a.Metadata, Cursor: cursor,
	})
	if mailroom.CodeOf(err) != mailroom.CodeConflict {
		return err
	}
	if cursor == nil {
		return nil
	}
	return l.MoveCursor(ctx, *cursor)
}

// Decide answers a ticket, once. The same decision again returns the ticket.
func (l *Host) Decide(ctx context.Context, d mailroom.Decision) (*mailroom.Ticket, error) {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return l.runner.options.Ledger.Decide(ctx, d)
}

// Interrupt supersedes what is queued in a thread, and stops its current run, as far
// as they have a place before this one: said again, it stops nothing else.
func (l *Host) Interrupt(ctx context.Context, thread string, place int64) (mailroom.Interrupted, error) {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return mailroom.Interrupted{}, err
	}
	defer done()
	return l.runner.options.Ledger.InterruptBefore(ctx, thread, place, operatorToken())
}

// UpdateValue changes what the channel keeps under a name, see [UpdateValue].
func (l *Host) UpdateValue(ctx context.Context, what string, f func(kept json.RawMessage, now time.Time) (json.RawMessage, error)) error {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return UpdateValue(ctx, l.runner.options.Ledger, l.Name(), what, f)
}

// ReadValue is what the channel keeps under a name, nil if it keeps nothing there.
func (l *Host) ReadValue(ctx context.Context, what string) (json.RawMessage, error) {
	return ReadValue(ctx, l.runner.options.Ledger, l.Name(), what)
}

// CursorChanger is the part of a [Ledger] that changes what is kept.
type CursorChanger interface {
	ChangeCursor(ctx context.Context, under, channel, identity string, f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error
}

// Viewer is the part of a [Ledger] that reads.
type Viewer interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
}

// UpdateValue changes what a channel keeps under a name, in one transaction. f gets what
// is there, nil at first, and returns what is to be there, nil for no change; it may
// be called more than once.
func UpdateValue(ctx context.Context, l CursorChanger, channel, what string, f func(kept json.RawMessage, now time.Time) (json.RawMessage, error)) error {
	if what == "" {
		return errors.New("what is kept needs a name")
	}
	return l.ChangeCursor(ctx, LogThreadID(channel), LogThreadID(channel)+":"+what, "", f)
}

// ReadValue is what a channel keeps under a name, nil if it keeps nothing there.
func ReadValue(ctx context.Context, l Viewer, channel, what string) (kept json.RawMessage, err error) {
	err = l.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Cursors(mailroom.CursorQuery{Channel: LogThreadID(channel) + ":" + what})
		for _, c := range rows {
			kept = c.Position
		}
		return err
	})
	return kept, err
}
