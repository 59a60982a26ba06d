package channel

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// Host gives an adapter access to the ledger and to the channel's reported state. It is closed
// once the runner stops the adapter.
type Host struct {
	// Set by startInstance.
	runner *Runner
	number int             // number of the adapter that uses the host
	alive  context.Context // ends when the host is closed
	log    *slog.Logger
}

// ErrReplaced is the error of operations on a closed host.
var ErrReplaced = errors.New("this connection was replaced")

// Log returns the adapter's logger.
func (h *Host) Log() *slog.Logger { return h.log }

// Name returns the name of the channel.
func (h *Host) Name() string { return h.runner.options.Name }

// Done is closed when the host is closed.
func (h *Host) Done() <-chan struct{} { return h.alive.Done() }

// operationContext derives the context of one operation. It ends when the host is closed.
func (h *Host) operationContext(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if h.alive.Err() != nil {
		return nil, nil, ErrReplaced
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.alive, func() { cancel(ErrReplaced) })
	return ctx, func() {
		stop()
		cancel(nil)
	}, nil
}

// View calls f with one consistent snapshot of the store. It works on a closed host too, because a delivery may end
// after its adapter was stopped.
func (h *Host) View(ctx context.Context, f func(store.Reader) error) error {
	return h.runner.options.Ledger.View(ctx, f)
}

// Position returns the saved position of an identity, or nil. The identity is the
// account that reads, such as the bot's id. The adapter must ask the platform for it, because
// another token may belong to another account.
func (h *Host) Position(ctx context.Context, identity string) (json.RawMessage, error) {
	var saved json.RawMessage
	err := h.View(ctx, func(r store.Reader) error {
		rows, err := r.Cursors(store.CursorQuery{Channel: h.Name(), Identities: []string{identity}})
		for _, c := range rows {
			if c.Identity == identity {
				saved = c.Position
			}
		}
		return err
	})
	return saved, err
}

// Submit submits an inbound message and moves the cursor in the same transaction. A second submit with the same key
// returns the first result. If the thread is older than the channel and belongs to another owner, Submit returns a
// NotFound error.
func (h *Host) Submit(ctx context.Context, a Inbound) (store.Submitted, error) {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return store.Submitted{}, err
	}
	defer done()
	name := h.Name()
	threadID := ThreadID(name, a.Chat...)
	room := DeliveryThreadID(threadID)
	if a.Room != nil {
		room = DeliveryThreadID(ThreadID(name, a.Room...))
	}
	out, err := h.runner.options.Ledger.Submit(ctx, thread.Submit{
		By: operatorToken(), ByServer: true,
		Thread: threadID, Key: a.Key, Messages: []thread.NewMessage{{Parts: a.Parts}}, Sender: a.Sender,
		Origin: mailroom.Origin{Via: Via(name), Sender: a.Sender, RequestID: a.Key},
		Agent:  a.Agent, Mode: a.Mode, Join: a.Join, Written: a.Written, NoRetry: a.NoRetry, Metadata: a.Metadata,
		DeliverTo: room, DeliverAgent: AgentName(name), Cursor: h.cursorRow(a.Cursor),
	})
	if err == nil && out.Disposition != store.DispositionDuplicate {
		h.runner.updateReported(h.number, func(s *State) { s.LastInbound = time.Now() })
	}
	return out, err
}

// HoldJoin extends the wait of a run for more messages of a sender in a chat. The reason is that files of a further
// message of this sender, written at the time written, are still being downloaded.
func (h *Host) HoldJoin(ctx context.Context, chat []string, sender string, written time.Time) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = h.runner.options.Ledger.Submit(ctx, thread.Submit{
		Thread: ThreadID(h.Name(), chat...), OnTheWay: true, Sender: sender, Written: written,
		Origin: mailroom.Origin{Via: Via(h.Name()), Sender: sender},
	})
	return err
}

// Edited is the result of [Host.Edit].
type Edited struct {
	Changed bool             // the message was changed or deleted
	Now     mailroom.Message // the message afterwards; zero if it was deleted or never submitted
}

// Edit changes or deletes a message that no run has read yet, and then moves the cursor. A message
// that was read, deleted or never submitted is not changed.
func (h *Host) Edit(ctx context.Context, e Edit) (out Edited, err error) {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	thread := ThreadID(h.Name(), e.Chat...)
	var known []store.SubmitKey
	err = h.View(ctx, func(r store.Reader) (err error) {
		known, err = r.Keys(store.KeyQuery{Thread: thread, Keys: []string{e.Key}})
		return err
	})
	if err != nil {
		return out, err
	}
	if len(known) > 0 {
		if len(e.Parts) > 0 {
			out.Now, err = h.runner.options.Ledger.Edit(ctx, thread, known[0].Result.Message, e.Parts)
		} else {
			err = h.runner.options.Ledger.Retract(ctx, thread, known[0].Result.Message)
		}
		switch mailroom.CodeOf(err) {
		case "":
			out.Changed = true
		case mailroom.CodeConflict, mailroom.CodeNotFound, mailroom.CodeGone:
		default:
			return out, err
		}
	}
	return out, h.moveCursor(ctx, e.Cursor)
}

// MoveCursor moves the cursor past an event that submits nothing.
func (h *Host) MoveCursor(ctx context.Context, c Cursor) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	return h.moveCursor(ctx, c)
}

func (h *Host) moveCursor(ctx context.Context, c Cursor) error {
	if row := h.cursorRow(c); row != nil {
		return h.runner.options.Ledger.MoveCursor(ctx, *row)
	}
	return nil
}

// cursorRow converts a cursor to its row, nil if it has no position.
func (h *Host) cursorRow(c Cursor) *store.Cursor {
	if c.Position == nil {
		return nil
	}
	return &store.Cursor{Channel: h.Name(), Identity: c.Identity, Position: c.Position}
}

// Retry retries a dead letter.
func (h *Host) Retry(ctx context.Context, run string) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = h.runner.options.Ledger.Retry(ctx, thread.Retry{Run: run, By: Via(h.Name())})
	return err
}

// Cancel cancels a run.
func (h *Host) Cancel(ctx context.Context, run string) error {
	ctx, done, err := h.operationContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = h.runner.options.Ledger.Cancel(ctx, run, Via(h.Name()))
	return err
}

// Received records proof that the channel receives. A call during Connect counts once Connect has
// returned.
func (h *Host) Received() { h.runner.onHeartbeat(h.number) }

// Sent records that the platform accepted a message. It counts on a closed host too.
func (h *Host) Sent() {
	h.runner.mu.Lock()
	defer h.runner.mu.Unlock()
	h.runner.reported.LastOutbound = time.Now()
}

// ReportError reports an error that does not close the connection.
func (h *Host) ReportError(err error) {
	if h.runner.updateReported(h.number, func(s *State) { s.LastError, s.LastErrorAt = truncateError(err), time.Now() }) {
		h.log.Warn("channel error", "error", truncateError(err))
	}
}

// ReportProgress replaces the adapter's reported progress.
func (h *Host) ReportProgress(p Progress) {
	h.runner.updateReported(h.number, func(s *State) { s.Progress = p })
}
