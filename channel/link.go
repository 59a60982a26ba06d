package channel

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"mailroom"
)

// Link is what an adapter has to do with the rest: the ledger, and what is shown
// of the channel.
type Link struct {
	name   string
	ledger Ledger
	record *record
	log    *slog.Logger
}

// Log is where the adapter tells what nobody else would.
func (l *Link) Log() *slog.Logger { return l.log }

// Name is the channel's.
func (l *Link) Name() string { return l.name }

// View reads one consistent snapshot.
func (l *Link) View(ctx context.Context, f func(mailroom.Reader) error) error {
	return l.ledger.View(ctx, f)
}

// Position is the one that was saved last for an identity, nil at first.
func (l *Link) Position(ctx context.Context, identity string) (json.RawMessage, error) {
	var saved json.RawMessage
	err := l.ledger.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Cursors()
		for _, c := range rows {
			if c.Channel == l.name && c.Identity == identity {
				saved = c.Position
			}
		}
		return err
	})
	return saved, err
}

// Take hands in what arrived, and moves the cursor with it. What was taken before,
// under the same key, is answered with what became of it then. A thread that is
// somebody else's, from before the channel was there, takes nothing (NotFound).
func (l *Link) Take(ctx context.Context, a Arrival) (mailroom.Submitted, error) {
	thread := ThreadID(l.name, a.Chat...)
	cursor := l.cursor(a.Cursor)
	out, err := l.ledger.Submit(ctx, mailroom.Submit{
		By:     &mailroom.Token{Name: mailroom.Operator, Scopes: []mailroom.Permission{mailroom.MaySubmit}}, // to threads of its own alone
		Thread: thread, Key: a.Key, Messages: []mailroom.Draft{{Parts: a.Parts}}, Sender: a.Sender,
		Origin: mailroom.Origin{Via: Via(l.name), Sender: a.Sender, RequestID: a.Key},
		Agent:  a.Agent, SetAgent: true, Once: a.Once, Metadata: a.Metadata,
		DeliverTo: OutID(thread), DeliverAgent: AgentName(l.name), Cursor: &cursor,
	})
	if err == nil && out.Disposition != mailroom.WasDuplicate {
		l.record.inbound(time.Now())
	}
	return out, err
}

// Move moves the cursor alone, over what is not to be taken.
func (l *Link) Move(ctx context.Context, c Cursor) error {
	return l.ledger.MoveCursor(ctx, l.cursor(c))
}

func (l *Link) cursor(c Cursor) mailroom.Cursor {
	return mailroom.Cursor{Channel: l.name, Identity: c.Identity, Position: c.Position}
}

// Again has a dead letter delivered again.
func (l *Link) Again(ctx context.Context, run string) error {
	_, err := l.ledger.Retry(ctx, mailroom.Retry{Run: run, By: Via(l.name)})
	return err
}

// Heard says that the platform has answered to who receives: it is evidence that
// the channel is connected.
func (l *Link) Heard() {
	if l.record.heard(time.Now()) {
		l.log.Info("channel connected")
	}
}

// Sent says that the platform has taken something.
func (l *Link) Sent() { l.record.outbound(time.Now()) }

// Trouble shows an error that ends nothing.
func (l *Link) Trouble(err error) {
	l.record.trouble(err, time.Now())
	l.log.Warn("channel has trouble", "error", short(err))
}

// Show says where the adapter is: its cursor, how many arrivals are not handled,
// and what holds it up, if anything.
func (l *Link) Show(cursor string, unhandled int, held string) {
	l.record.progress(cursor, unhandled, held)
}
