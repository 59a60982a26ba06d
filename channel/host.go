package channel

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"mailroom"
)

// Host is what an adapter has to do with the rest: the ledger, and what is shown
// of the channel. It is dead once the adapter is to end.
type Host struct {
	// Set when it is made.
	runner *Runner
	number int             // number of the adapter that it is for
	alive  context.Context // ends when it goes dead
	log    *slog.Logger
}

// ErrReplaced is what a dead link answers with.
var ErrReplaced = errors.New("the adapter is to end: another one takes its place")

// Log is where the adapter tells what nobody else would.
func (l *Host) Log() *slog.Logger { return l.log }

// Name is the channel's.
func (l *Host) Name() string { return l.runner.options.Name }

// Done is closed when the link goes dead.
func (l *Host) Done() <-chan struct{} { return l.alive.Done() }

// operationContext is ctx for one operation, which ends when the link goes dead.
func (l *Host) operationContext(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l.alive.Err() != nil {
		return nil, nil, ErrReplaced
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.alive, func() { cancel(ErrReplaced) })
	return ctx, func() {
		stop()
		cancel(nil)
	}, nil
}

// View reads one consistent snapshot. A delivery may do so to its end, also over a
// dead link.
func (l *Host) View(ctx context.Context, f func(mailroom.Reader) error) error {
	return l.runner.options.Ledger.View(ctx, f)
}

// Position is the one that was saved last for an identity, nil at first. An identity
// is whose messages they are, such as the id of the bot: what a token can read
// depends on whose it is, so an adapter must ask the platform for it.
func (l *Host) Position(ctx context.Context, identity string) (json.RawMessage, error) {
	var saved json.RawMessage
	err := l.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Cursors(mailroom.CursorQuery{Channel: l.Name(), Identities: []string{identity}})
		for _, c := range rows {
			if c.Identity == identity {
				saved = c.Position
			}
		}
		return err
	})
	return saved, err
}

// Submit hands in what arrived, and moves the cursor with it. What was taken before,
// under the same key, is answered with what became of it then. A thread that is
// somebody else's, from before the channel was there, takes nothing (NotFound).
func (l *Host) Submit(ctx context.Context, a Inbound) (mailroom.Submitted, error) {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return mailroom.Submitted{}, err
	}
	defer done()
	name := l.Name()
	thread := ThreadID(name, a.Chat...)
	room := DeliveryThreadID(thread)
	if a.Room != nil {
		room = DeliveryThreadID(ThreadID(name, a.Room...))
	}
	out, err := l.runner.options.Ledger.Submit(ctx, mailroom.Submit{
		By:     operatorToken(),
		Thread: thread, Key: a.Key, Messages: []mailroom.NewMessage{{Parts: a.Parts}}, Sender: a.Sender,
		Origin: mailroom.Origin{Via: Via(name), Sender: a.Sender, RequestID: a.Key},
		Agent:  a.Agent, SetAgent: true, Mode: a.Mode, NoRetry: a.NoRetry, Metadata: a.Metadata,
		DeliverTo: room, DeliverAgent: AgentName(name), Cursor: l.cursorRow(a.Cursor),
	})
	if err == nil && out.Disposition != mailroom.DispositionDuplicate {
		l.runner.updateReported(l.number, func(s *State) { s.LastInbound = time.Now() })
	}
	return out, err
}

// Edit changes something that arrived before, if nobody has read it yet, and moves
// the cursor after that. It reports whether it was changed: what is read, was never
// taken, or was deleted stays as it is.
func (l *Host) Edit(ctx context.Context, e Edit) (changed bool, err error) {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	thread := ThreadID(l.Name(), e.Chat...)
	var known []mailroom.SubmitKey
	err = l.View(ctx, func(r mailroom.Reader) (err error) {
		known, err = r.Keys(thread, []string{e.Key})
		return err
	})
	if err != nil {
		return false, err
	}
	if len(known) > 0 {
		if len(e.Parts) > 0 {
			_, err = l.runner.options.Ledger.Edit(ctx, thread, known[0].Result.Message, e.Parts)
		} else {
			err = l.runner.options.Ledger.Retract(ctx, thread, known[0].Result.Message)
		}
		switch mailroom.CodeOf(err) {
		case "":
			changed = true
		case mailroom.CodeConflict, mailroom.CodeNotFound, mailroom.CodeGone:
		default:
			return false, err
		}
	}
	return changed, l.moveCursor(ctx, e.Cursor)
}

// MoveCursor moves the cursor alone, past an event that makes no submit.
func (l *Host) MoveCursor(ctx context.Context, c Cursor) error {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return l.moveCursor(ctx, c)
}

func (l *Host) moveCursor(ctx context.Context, c Cursor) error {
	if row := l.cursorRow(c); row != nil {
		return l.runner.options.Ledger.MoveCursor(ctx, *row)
	}
	return nil
}

// cursorRow is the row of a cursor, nil for one that has no position.
func (l *Host) cursorRow(c Cursor) *mailroom.Cursor {
	if c.Position == nil {
		return nil
	}
	return &mailroom.Cursor{Channel: l.Name(), Identity: c.Identity, Position: c.Position}
}

// Retry has a dead letter delivered again.
func (l *Host) Retry(ctx context.Context, run string) error {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = l.runner.options.Ledger.Retry(ctx, mailroom.Retry{Run: run, By: Via(l.Name())})
	return err
}

// Cancel ends a run that is not wanted any more.
func (l *Host) Cancel(ctx context.Context, run string) error {
	ctx, done, err := l.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = l.runner.options.Ledger.Cancel(ctx, run, Via(l.Name()))
	return err
}

// Received says that the platform has answered to who receives: it is evidence that
// the channel is connected. In Connect it counts once that has returned.
func (l *Host) Received() { l.runner.onHeartbeat(l.number) }

// Sent says that the platform has taken something, which is so whatever became of
// the adapter meanwhile.
func (l *Host) Sent() {
	l.runner.mu.Lock()
	defer l.runner.mu.Unlock()
	l.runner.reported.LastOutbound = time.Now()
}

// ReportError shows an error that ends nothing.
func (l *Host) ReportError(err error) {
	if l.runner.updateReported(l.number, func(s *State) { s.LastError, s.LastErrorAt = truncateError(err), time.Now() }) {
		l.log.Warn("channel has trouble", "error", truncateError(err))
	}
}

// ReportProgress says how far the adapter is.
func (l *Host) ReportProgress(p Progress) {
	l.runner.updateReported(l.number, func(s *State) { s.Progress = p })
}
