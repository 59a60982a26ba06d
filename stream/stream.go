// Package stream lets readers follow a thread: the entries of its log after a cursor, then new
// entries as they are committed, and live text of the message being written.
//
// The store has the truth. The bus announces commits and carries text that is not in the store
// yet. A late, repeated, reordered or lost notice changes when a reader receives something, never
// what it receives.
package stream

import (
	"context"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
)

// Viewer reads the store. It is the ledger or the store itself. A View must include everything that was committed
// before the call.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// Until is the condition that ends a stream.
type Until string

const (
	UntilForever Until = "" // until the context ends
	// UntilSettled ends the stream when the run has finished; without a run, when the thread has no
	// queued, running or waiting run.
	UntilSettled Until = "settled"
	// UntilWaiting ends the stream like UntilSettled, and also when the run, or the thread's
	// current run, is parked.
	UntilWaiting Until = "waiting"
)

// Query selects what to follow.
type Query struct {
	Thread string
	// Key is the key of the thread's row for which the reader was authorized: a thread recreated
	// under the same id has another. 0: any.
	Key   int64
	After Cursor // the zero value is the start of the log
	Run   string // only entries and live text of this run; "": of all runs
	Until Until
	// NoText leaves out the text of messages that are being written. A reader who only waits for the end reads the
	// store less often so.
	NoText bool
}

// Event is one event of a stream. Exactly one of Entry, Delta and Gap is set. They are shared and
// must not be changed.
type Event struct {
	Entry *mailroom.Entry
	Delta *entry.Delta
	Gap   *Gap
	// Cursor is the position after this event. A stream that starts there continues with the next
	// event.
	Cursor Cursor
}

// Gap reports that the cursor After is outside of the kept entries, Oldest to Last. The stream
// continues with the nearest kept entry.
type Gap struct {
	After  int64 `json:"after"`
	Oldest int64 `json:"oldest"`
	Last   int64 `json:"last"`
}

// Streams follows threads. It keeps no state about readers: each follows on its caller's goroutine.
type Streams struct {
	view Viewer
	bus  *bus.Bus
}

// New returns Streams over a store and the bus that announces its commits.
func New(v Viewer, b *bus.Bus) *Streams { return &Streams{view: v, bus: b} }

// Follow calls emit for each event, in order. It returns the cause of ctx when ctx ends, the error
// of emit when emit fails, and nil when the Until condition holds. An unknown or deleted thread,
// and a run of another thread, are CodeNotFound; an invalid query is CodeInvalid. Errors of the
// store are returned unchanged.
//
// emit may be slow. It delays no other reader or writer: a reader that falls behind catches up from
// the store.
func (s *Streams) Follow(ctx context.Context, q Query, emit func(Event) error) error {
	r := s.Open(q)
	defer r.Close()
	return r.Follow(ctx, emit)
}

// Reader is one reader of a thread. What is written after Open reaches its Follow, live text and thinking too, which
// the store may never have.
type Reader struct {
	streams *Streams
	query   Query
	bus     *bus.Subscription
}

// Open makes a reader, which the caller must close.
func (s *Streams) Open(q Query) *Reader {
	return &Reader{streams: s, query: q, bus: s.bus.Subscribe(q.Thread, depth)}
}

// Close ends the subscription to the bus.
func (r *Reader) Close() { r.bus.Close() }

// Follow calls emit as [Streams.Follow] does. It is called once.
func (r *Reader) Follow(ctx context.Context, emit func(Event) error) error {
	if err := r.query.check(); err != nil {
		return err
	}
	f := newFollower(r, emit)
	err := f.follow(ctx)
	if ctx.Err() != nil && err != nil && f.emitErr == nil {
		return context.Cause(ctx)
	}
	return err
}

// Ended reports whether a stream resumed at the query's cursor would end without an event: its
// Until condition holds and no entry follows the cursor. It returns the same errors as Follow.
func (s *Streams) Ended(ctx context.Context, q Query) (bool, error) {
	if err := q.check(); err != nil {
		return false, err
	}
	ended := false
	err := s.view.View(ctx, func(rd store.Reader) error {
		r := &runReader{Reader: rd}
		t, err := findTarget(r, q)
		if err != nil {
			return err
		}
		if q.Until == UntilForever || q.After == (Cursor{}) || gap(t, q.After.Seq) != nil {
			return nil
		}
		rest, err := r.Entries(store.EntryQuery{Thread: t.ID, After: q.After.Seq, Run: q.Run, Limit: 1})
		if err != nil || len(rest) > 0 {
			return err
		}
		ended, err = satisfied(r, q, t)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return ended, err
}

func (q Query) check() error {
	switch {
	case q.Until != UntilForever && q.Until != UntilSettled && q.Until != UntilWaiting:
		return mailroom.Errorf(mailroom.CodeInvalid, "unknown until %q: use settled or waiting", q.Until)
	case q.After.Seq < 0 || q.After.Bytes < 0:
		return mailroom.Errorf(mailroom.CodeInvalid, "after: %s is negative; use the cursor of an event", q.After)
	}
	return nil
}
