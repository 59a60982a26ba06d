// Package stream lets readers follow a thread: first what its log holds after
// a cursor, then what is committed, and the text of the message being written
// while it is written.
//
// The store is the truth. The bus only says when to look and carries the text
// that is not in the store yet, so a notice that is late, doubled, out of order
// or lost changes when a reader gets something, never what.
package stream

import (
	"context"

	"mailroom"
	"mailroom/bus"
)

// Viewer reads the store: the ledger, or a store itself. What View shows must
// include everything that was committed before it was called.
type Viewer interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
}

// Until says when a reader has seen enough.
type Until string

const (
	UntilForever Until = "" // only the end of its context stops it
	// UntilSettled ends when the run has completed, failed or was cancelled; for
	// a thread, when nothing of it is queued, running or waiting.
	UntilSettled Until = "settled"
	// UntilWaiting ends like Settled, and also when the run, or the thread's
	// current run, is parked.
	UntilWaiting Until = "waiting"
)

// Query says what to follow.
type Query struct {
	Thread string
	// Key of the thread's row, as of when it was decided that the reader may
	// have it: one made anew under its id is another. 0: whichever is there.
	Key   int64
	After Cursor // the zero value is the start of the log
	Run   string // only entries and live text of this run; "" is all
	Until Until
}

// Event is one thing that a reader gets. Exactly one of Entry, Delta and Gap is
// set. They are shared and must not be changed.
type Event struct {
	Entry *mailroom.Entry
	Delta *mailroom.Delta
	Gap   *Gap
	// Cursor is where the reader is after this event: following from it
	// gives what would have come next.
	Cursor Cursor
}

// Gap says that the cursor After lies outside of what is kept: the entries from
// Oldest to Last. Following goes on with the nearest that is kept.
type Gap struct {
	After  int64 `json:"after"`
	Oldest int64 `json:"oldest"`
	Last   int64 `json:"last"`
}

// EndStatus reports whether e is an entry that ends its run, and with what status. A
// run that did not complete can be tried again later.
func EndStatus(e *mailroom.Entry) (mailroom.Status, bool) {
	switch e.Kind {
	case mailroom.KindCompleted:
		return mailroom.StatusCompleted, true
	case mailroom.KindFailed:
		return mailroom.StatusFailed, true
	case mailroom.KindCancelled:
		return mailroom.StatusCancelled, true
	}
	return "", false
}

// Streams makes readers. It keeps nothing about them: a reader is a call of
// Follow, on its caller's goroutine.
type Streams struct {
	view Viewer
	bus  *bus.Bus
}

// New makes Streams over a store and the bus on which its commits are published.
func New(v Viewer, b *bus.Bus) *Streams { return &Streams{view: v, bus: b} }

// Follow calls emit for each event in order. It blocks until ctx ends, and
// returns its cause; until emit fails, and returns that error; or until the
// Until condition holds, and returns nil. A thread that is unknown, or deleted
// meanwhile, and a run that is not of the thread are NotFound; a query that
// makes no sense is Invalid; an error of the store is returned as it is.
//
// emit may be as slow as it likes: nobody waits for it, the reader falls behind
// and catches up from the store.
func (s *Streams) Follow(ctx context.Context, q Query, emit func(Event) error) error {
	if err := q.check(); err != nil {
		return err
	}
	f := newFollower(s, q, emit)
	err := f.follow(ctx)
	if ctx.Err() != nil && err != nil && f.emitErr == nil {
		return context.Cause(ctx)
	}
	return err
}

// Ended reports whether a reader that resumes would get nothing, now or later:
// its Until condition holds, and nothing follows its cursor. Errors are those
// of Follow.
func (s *Streams) Ended(ctx context.Context, q Query) (bool, error) {
	if err := q.check(); err != nil {
		return false, err
	}
	ended := false
	err := s.view.View(ctx, func(r mailroom.Reader) error {
		t, err := findTarget(r, q)
		if err != nil {
			return err
		}
		if q.Until == UntilForever || q.After == (Cursor{}) || gap(t, q.After.Seq) != nil {
			return nil
		}
		rest, err := r.Entries(mailroom.EntryQuery{Thread: t.ID, After: q.After.Seq, Run: q.Run, Limit: 1})
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
		return mailroom.Errorf(mailroom.CodeInvalid, "until: %q is none of settled, waiting", q.Until)
	case q.After.Seq < 0 || q.After.Bytes < 0:
		return mailroom.Errorf(mailroom.CodeInvalid, "after: %s is negative", q.After)
	}
	return nil
}
