// Package memory keeps the rows in maps. It is the reference of the other
// stores: plainly right rather than fast, and gone with the process.
package memory

import (
	"context"
	"sync/atomic"
	"time"

	"mailroom"
)

// Store is a [mailroom.Store] that persists nothing. Its zero value is not usable.
type Store struct {
	// The committed rows, never changed once they are here.
	now atomic.Pointer[state]

	// Held by the one Update that runs; closed is set while it is held. A
	// channel, so that waiting for it ends with a context.
	writer chan struct{}
	closed atomic.Bool
}

// state is the rows as of one commit. Rows are never changed in place.
type state struct {
	threads  table[string, *mailroom.Thread]
	runs     table[string, *mailroom.Run]
	runsOf   table[string, []string]         // thread id to run ids, by Key
	logs     table[string, []mailroom.Entry] // thread id to entries, by Seq
	keys     table[keyID, submitKey]
	partials table[string, []mailroom.Partial] // run id to pieces, by Offset
	workers  table[string, *mailroom.Worker]
	tickets  table[string, *mailroom.Ticket]
	asked    table[string, []string]        // run id to the ids of its tickets
	tokens   table[string, *mailroom.Token] // by name
	kept     table[versionID, mailroom.Definition]
	cursors  table[cursorID, mailroom.Cursor]
	reserved table[string, mailroom.Reservation] // by id

	// Keys given so far. They are never given again, also not after a drop.
	lastThread, lastRun, lastTicket, lastToken int64
}

type keyID struct{ thread, key string }

// submitKey is a key with the LastSeq that its thread was written with.
type submitKey struct {
	mailroom.SubmitKey
	lastSeq int64
}

type versionID struct{ agent, version string }

type cursorID struct{ channel, identity string }

// New returns an empty store.
func New() *Store {
	s := &Store{writer: make(chan struct{}, 1)}
	s.now.Store(&state{
		threads:  newTable[string, *mailroom.Thread](),
		runs:     newTable[string, *mailroom.Run](),
		runsOf:   newTable[string, []string](),
		logs:     newTable[string, []mailroom.Entry](),
		keys:     newTable[keyID, submitKey](),
		partials: newTable[string, []mailroom.Partial](),
		workers:  newTable[string, *mailroom.Worker](),
		tickets:  newTable[string, *mailroom.Ticket](),
		asked:    newTable[string, []string](),
		tokens:   newTable[string, *mailroom.Token](),
		kept:     newTable[versionID, mailroom.Definition](),
		cursors:  newTable[cursorID, mailroom.Cursor](),
		reserved: newTable[string, mailroom.Reservation](),
	})
	return s
}

// share returns a state to change, without a change to st.
func (st *state) share() *state {
	return &state{
		threads: st.threads.share(), runs: st.runs.share(), runsOf: st.runsOf.share(),
		logs: st.logs.share(), keys: st.keys.share(), partials: st.partials.share(),
		workers: st.workers.share(), tickets: st.tickets.share(), asked: st.asked.share(),
		tokens: st.tokens.share(), kept: st.kept.share(), cursors: st.cursors.share(), reserved: st.reserved.share(),
		lastThread: st.lastThread, lastRun: st.lastRun, lastTicket: st.lastTicket, lastToken: st.lastToken,
	}
}

// Update implements [mailroom.Store]. A context that ends before f has
// returned ends the transaction with nothing written.
func (s *Store) Update(ctx context.Context, f func(mailroom.Tx) error) error {
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return cancelled(ctx)
	}
	if s.closed.Load() {
		return errClosed()
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	t := &tx{
		reader: reader{s.now.Load().share()},
		now:    time.Now().UTC().Truncate(time.Microsecond),
	}
	if err := f(t); err != nil {
		return err
	}
	if t.failed != nil {
		return t.failed
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	s.now.Store(t.state)
	return nil
}

// View implements [mailroom.Store].
func (s *Store) View(ctx context.Context, f func(mailroom.Reader) error) error {
	if s.closed.Load() {
		return errClosed()
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	return f(reader{s.now.Load()})
}

// Close waits for the Update that runs, if any. Later calls fail as Unavailable.
func (s *Store) Close() error {
	s.writer <- struct{}{}
	s.closed.Store(true)
	<-s.writer
	return nil
}

func errClosed() error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the store is closed"}
}

func cancelled(ctx context.Context) error {
	return &mailroom.Error{
		Code:    mailroom.CodeUnavailable,
		Message: "the store was not waited for",
		Cause:   context.Cause(ctx),
	}
}
