// Package memory keeps rows in maps. It is the reference for other stores: simple rather than fast,
// and not persistent.
package memory

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// Store is a [store.Store] without persistence. Its zero value is not usable.
type Store struct {
	// The committed rows, immutable once stored here.
	now atomic.Pointer[state]

	// Held by the running Update; closed is set while it is held. A channel, so that a context can
	// cancel the wait.
	writer chan struct{}
	closed atomic.Bool
}

// state has the rows as of one commit. Rows are never modified in place.
type state struct {
	threads  table[string, *mailroom.Thread]
	runs     table[string, *mailroom.Run]
	runsOf   table[string, []string]         // thread id to run ids, by Key
	logs     table[string, []mailroom.Entry] // thread id to entries, by Seq
	commits  table[string, []int64]          // thread id to the commits of its entries
	keys     table[keyID, store.SubmitKey]
	partials table[string, []store.Partial] // run id to pieces, by Offset
	workers  table[string, *store.Worker]
	tickets  table[string, *mailroom.Ticket]
	asked    table[string, []string]    // run id to the ids of its tickets
	tokens   table[string, *auth.Token] // tokens by name
	kept     table[versionID, store.Definition]
	pauses   table[string, store.Pause]
	cursors  table[cursorID, store.Cursor]
	reserved table[string, store.Reservation] // reservations by id
	blobs    table[store.BlobRef, store.Blob]
	pieces   table[pieceID, []byte]
	summary  table[store.SummaryKey, store.Sums]
	meters   table[string, store.Meter]
	indexed  table[indexKey, indexRow]

	// The last keys given. A key is never reused, not even after a drop.
	lastThread, lastRun, lastTicket, lastToken int64

	order      string // see [store.AllEntries], as the next two
	lastCommit int64
	removed    store.Position
	index      store.IndexState
}

type keyID struct{ thread, key string }

// indexKey names an entry: Thread is its Key.
type indexKey struct{ thread, seq int64 }

type indexRow struct {
	id      int64
	content store.EntryRef
	words   []string
}

type versionID struct{ agent, version string }

type cursorID struct{ channel, identity string }

// New returns an empty store.
func New() *Store {
	s := &Store{writer: make(chan struct{}, 1)}
	s.now.Store(&state{
		order:    strings.ToLower(rand.Text())[:12],
		commits:  newTable[string, []int64](),
		threads:  newTable[string, *mailroom.Thread](),
		runs:     newTable[string, *mailroom.Run](),
		runsOf:   newTable[string, []string](),
		logs:     newTable[string, []mailroom.Entry](),
		keys:     newTable[keyID, store.SubmitKey](),
		partials: newTable[string, []store.Partial](),
		workers:  newTable[string, *store.Worker](),
		tickets:  newTable[string, *mailroom.Ticket](),
		asked:    newTable[string, []string](),
		tokens:   newTable[string, *auth.Token](),
		kept:     newTable[versionID, store.Definition](),
		pauses:   newTable[string, store.Pause](),
		cursors:  newTable[cursorID, store.Cursor](),
		reserved: newTable[string, store.Reservation](),
		blobs:    newTable[store.BlobRef, store.Blob](),
		pieces:   newTable[pieceID, []byte](),
		summary:  newTable[store.SummaryKey, store.Sums](),
		meters:   newTable[string, store.Meter](),
		indexed:  newTable[indexKey, indexRow](),
	})
	return s
}

// Fork returns a store with the same rows. Later changes of one are not in the other. Tests that need
// the same rows many times write them once.
func (s *Store) Fork() *Store {
	f := &Store{writer: make(chan struct{}, 1)}
	rows := s.now.Load().share()
	clip(&rows.runsOf) // or each of the two would append to the same arrays
	clip(&rows.logs)
	clip(&rows.commits)
	f.now.Store(rows)
	return f
}

// share returns a copy of st to modify.
func (st *state) share() *state {
	return &state{
		threads: st.threads.share(), runs: st.runs.share(), runsOf: st.runsOf.share(),
		logs: st.logs.share(), commits: st.commits.share(), keys: st.keys.share(), partials: st.partials.share(),
		workers: st.workers.share(), tickets: st.tickets.share(), asked: st.asked.share(),
		tokens: st.tokens.share(), kept: st.kept.share(), pauses: st.pauses.share(), cursors: st.cursors.share(),
		reserved: st.reserved.share(), blobs: st.blobs.share(), pieces: st.pieces.share(),
		summary: st.summary.share(), meters: st.meters.share(), indexed: st.indexed.share(), index: st.index,
		lastThread: st.lastThread, lastRun: st.lastRun, lastTicket: st.lastTicket, lastToken: st.lastToken,
		order: st.order, lastCommit: st.lastCommit, removed: st.removed,
	}
}

// Update implements [store.Store]. If the context ends before f has returned, nothing is
// written.
func (s *Store) Update(ctx context.Context, f func(store.Tx) error) error {
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
	t := &tx{reader: reader{s.now.Load().share(), now()}, given: map[string]bool{}}
	t.lastCommit++
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

// View implements [store.Store].
func (s *Store) View(ctx context.Context, f func(store.Reader) error) error {
	if s.closed.Load() {
		return errClosed()
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	return f(reader{s.now.Load(), now()})
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Epoch implements [store.Store]: there is no connection.
func (s *Store) Epoch() int64 { return 0 }

// Close waits for a running Update. Later calls fail with Unavailable.
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
		Message: "gave up waiting for the store",
		Cause:   context.Cause(ctx),
	}
}
