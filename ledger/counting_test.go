package ledger_test

import (
	"context"
	"sync"
	"time"

	"mailroom"
	"mailroom/store"
)

// counting is a store that counts its calls and results.
type counting struct {
	store.Store

	mu sync.Mutex
	counts
}

type counts struct {
	Updates int // calls of Update
	Queries int // of readers, including Load and Due
	Rows    int // returned threads, runs and cursors

	MostEntries int // entries read in one transaction or view
}

// reset returns the counts and clears them.
func (s *counting) reset() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	s.counts = counts{}
	return c
}

func (s *counting) add(updates, queries, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Updates += updates
	s.Queries += queries
	s.Rows += rows
}

// countEntries updates MostEntries with the number of entries that a transaction or view has read.
func (s *counting) countEntries(seen *int, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*seen += n
	s.MostEntries = max(s.MostEntries, *seen)
}

func (s *counting) Update(ctx context.Context, f func(store.Tx) error) error {
	s.add(1, 0, 0)
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(countingTx{Tx: tx, s: s, seen: new(int)}) })
}

func (s *counting) View(ctx context.Context, f func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return f(countingReader{Reader: r, s: s, seen: new(int)}) })
}

type countingReader struct {
	store.Reader
	s    *counting
	seen *int // entries
}

func (r countingReader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	rows, err := r.Reader.Entries(q)
	r.s.countEntries(r.seen, len(rows))
	return rows, err
}

func (r countingReader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	rows, err := r.Reader.Runs(q)
	r.s.add(0, 1, len(rows))
	return rows, err
}

func (r countingReader) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	rows, err := r.Reader.Cursors(q)
	r.s.add(0, 1, len(rows))
	return rows, err
}

func (r countingReader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	rows, err := r.Reader.Threads(q)
	r.s.add(0, 1, len(rows))
	return rows, err
}

type countingTx struct {
	store.Tx
	s    *counting
	seen *int // entries
}

func (tx countingTx) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	return countingReader{Reader: tx.Tx, s: tx.s, seen: tx.seen}.Entries(q)
}

func (tx countingTx) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	return countingReader{Reader: tx.Tx, s: tx.s}.Runs(q)
}

func (tx countingTx) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	return countingReader{Reader: tx.Tx, s: tx.s}.Cursors(q)
}

func (tx countingTx) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	return countingReader{Reader: tx.Tx, s: tx.s}.Threads(q)
}

func (tx countingTx) Load(n store.Need) (*store.Loaded, error) {
	l, err := tx.Tx.Load(n)
	if err == nil {
		tx.s.add(0, 1, len(l.Threads)+len(l.Runs))
	}
	return l, err
}

func (tx countingTx) Due(now time.Time, wants []store.Capacity, known store.Known) (*store.Loaded, time.Time, error) {
	l, next, err := tx.Tx.Due(now, wants, known)
	if err == nil {
		tx.s.add(0, 1, len(l.Threads)+len(l.Runs))
	}
	return l, next, err
}
