// Package postgres stores rows in a PostgreSQL database. Any number of handles, in any number of
// processes, may share it.
//
// One connection writes. It locks rows first: one round trip locks and reads what a transaction
// needs, a second one writes and commits. A small pool of other connections reads snapshots.
package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// Store is a [store.Store] in a PostgreSQL database.
type Store struct {
	options Options
	copying bool // Open refuses the store so far, see Copy
	code    code // version and migrations of the tables that this program knows

	turns  *sqlstore.Turns
	writer *session  // owned by the holder of the turn to write; nil: not connected
	lock   tableLock // lock of a copy
	epoch  atomic.Int64

	updates, tries, trips atomic.Int64 // see Traffic

	idle   sqlstore.Idle[*session] // readers
	ending sync.WaitGroup          // of Views
}

// Open connects to the database, and creates or migrates the tables if necessary.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("open store in PostgreSQL: %w", err)
	}
	if s.writer, err = s.connectWriter(ctx); err != nil {
		return nil, fmt.Errorf("open store in PostgreSQL: %w", err)
	}
	s.epoch.Add(1)
	return s, nil
}

// newStore returns a store without connections.
func newStore(o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{options: o, turns: sqlstore.NewTurns(o.Readers)}
	if o.code != nil {
		s.code = *o.code
		return s, nil
	}
	var err error
	s.code, err = known()
	return s, err
}

// Drop removes the schema of a store with all its rows. No handle may be open.
func Drop(ctx context.Context, o Options) error {
	s := &Store{options: o.withDefaults()}
	if err := s.options.check(); err != nil {
		return err
	}
	c, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("drop the schema %s: %w", s.options.Schema, err)
	}
	defer c.close()
	// A vacuum of the tables gives its locks up after the deadlock timeout of the database, which is 1s by default.
	if _, err := c.conn.Exec(ctx, "SET lock_timeout = '1min'"); err != nil {
		return fmt.Errorf("drop the schema %s: %w", s.options.Schema, err)
	}
	schema := pgx.Identifier{s.options.Schema}.Sanitize()
	if _, err := c.conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
		return fmt.Errorf("drop the schema %s: %w", s.options.Schema, err)
	}
	return nil
}

// prepare checks the server and migrates the tables, on a connection of its own.
func (s *Store) prepare(ctx context.Context) error {
	first, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer first.close()
	if err := s.options.checkServer(ctx, first.conn); err != nil {
		return err
	}
	if s.options.MustExist {
		return s.code.mustExist(ctx, first.conn, s.options.Schema)
	}
	return s.migrate(ctx, first.conn)
}

func (s *Store) connect(ctx context.Context) (*session, error) {
	c := &session{timeout: s.options.StatementTimeout + tripTimeout, epoch: s.epoch.Load()}
	var err error
	if c.conn, err = s.options.connect(ctx, "", func(_ *pgconn.PgConn, n *pgconn.Notice) { c.warning = n }); err != nil {
		return nil, err
	}
	return c, nil
}

// join opens a connection for reads and writes, unless only newer programs can use the tables. The
// tables of an unfinished copy are not usable yet.
func (s *Store) join(ctx context.Context) (*session, error) {
	c, err := s.connect(ctx)
	if err != nil || s.copying {
		return c, err
	}
	if err = s.code.join(ctx, c.conn, s.options.Schema); err == nil {
		// The compiler takes longer than any of the queries.
		_, err = c.conn.PgConn().Exec(ctx, "SET jit = off").ReadAll()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// connect opens a connection, whose application_name ends with suffix. warn gets the server's warnings;
// nil ignores them.
func (o Options) connect(ctx context.Context, suffix string, warn pgconn.NoticeHandler) (*pgx.Conn, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] += suffix
	config.OnNotice = warn
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	return pgx.ConnectConfig(ctx, config)
}

// pinPlans makes the plans of the writer independent of statistics: all its statements find few rows
// by an index. Plans that were made while the tables were empty would scan them, and row locks
// follow the order of an array only in a nested loop.
const pinPlans = `SET synchronous_commit = on; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
	SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off`

func (s *Store) connectWriter(ctx context.Context) (*session, error) {
	w, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	w.timeout = tripTimeout
	if err = s.options.checkServer(ctx, w.conn); err == nil {
		_, err = w.conn.PgConn().Exec(ctx, pinPlans).ReadAll()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// Traffic counts the work of a handle since it was opened.
type Traffic struct {
	Updates int64 // calls of Update that reached the database
	Tries   int64 // transactions of these; more than Updates if some met conflicts or lost connections
	Trips   int64 // round trips of these
}

// Plus returns the sum of two handles.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{Updates: t.Updates + o.Updates, Tries: t.Tries + o.Tries, Trips: t.Trips + o.Trips}
}

// Traffic returns the counts so far.
func (s *Store) Traffic() Traffic {
	return Traffic{Updates: s.updates.Load(), Tries: s.tries.Load(), Trips: s.trips.Load()}
}

// Tables returns the version of the tables that this program knows.
func (s *Store) Tables() int64 { return s.code.version }

// Epoch implements [store.Store].
func (s *Store) Epoch() int64 { return s.epoch.Load() }

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, f func(store.Tx) error) error {
	if err := s.turns.Write(ctx); err != nil {
		return err
	}
	defer s.turns.EndWrite()
	s.updates.Add(1)
	var late, lateMeters []string
	duplicates := map[string]int{} // how often each was refused
	for try := 1; ; try++ {
		if err := s.reconnect(ctx); err != nil {
			return err
		}
		s.tries.Add(1)
		t := &tx{store: s, extra: late, extraMeters: lateMeters, given: map[string]bool{}, meters: map[string]bool{}}
		t.reader = reader{send: t.send, clock: t.clock, unpin: unpinWriter}
		err := s.attempt(ctx, t, f)
		if t.failed == nil {
			return err
		}
		if t.waited || t.ending && outcomeOf(t.failed) == conflict {
			if locked := s.lockedThreads(t.waitedFor); len(locked) > 0 {
				return &store.LockedError{Threads: locked}
			}
		}
		last := outcomeOf(t.failed)
		value := duplicateOf(t.failed)
		if last == duplicate {
			duplicates[value]++
		}
		switch {
		case last == lost && t.committing && !pgconn.SafeToRetry(t.failed), last == failed, last == exhausted:
			return refusal(ctx, "commit", t.failed)
		case last == duplicate && duplicates[value] == duplicateTries:
			return refusal(ctx, "write", t.failed)
		case try == store.MaxTries:
			return errTries(t.failed)
		}
		if isReadOnly(t.failed) {
			s.writer.close() // of the hosts in the address, another one may be the primary now
		}
		late, lateMeters = append(late, t.lateFor...), append(lateMeters, t.lateMeters...)
		select { // the other handle needs time to finish
		case <-time.After(rand.N(time.Duration(try) * 2 * time.Millisecond)):
		case <-ctx.Done():
			return sqlstore.Cancelled(ctx)
		}
	}
}

// duplicateTries is how often an Update may insert a row whose unique value exists. A row of another
// handle is found by the call after that, which may meet the next handle at another of its rows.
const duplicateTries = 3

// attempt runs f in one transaction. t.failed is set if the database refused the transaction.
func (s *Store) attempt(ctx context.Context, t *tx, f func(store.Tx) error) error {
	committed := false
	defer func() {
		if !committed {
			s.rollback() // rolls back also when f panics
		}
	}()
	if err := f(t); err != nil || t.failed != nil {
		return err
	}
	if ctx.Err() != nil {
		return sqlstore.Cancelled(ctx)
	}
	err := t.commit()
	committed = err == nil
	return err
}

// reconnect replaces a connection that was lost.
func (s *Store) reconnect(ctx context.Context) (err error) {
	if s.writer != nil && !s.writer.conn.IsClosed() {
		return nil
	}
	if s.copying { // the connection had the lock of the copy
		return mailroom.Errorf(mailroom.CodeUnavailable, "the connection to PostgreSQL was lost")
	}
	if s.writer, err = s.connectWriter(ctx); err != nil {
		s.writer = nil
		refused := refusal(ctx, "connect to PostgreSQL", err)
		refused.Code = mailroom.CodeUnavailable
		return refused
	}
	s.epoch.Add(1)
	return nil
}

// rollback ends the writer's transaction, with the connection if the server does not answer.
func (s *Store) rollback() {
	const idle = 'I'
	conn := s.writer.conn
	if conn.IsClosed() || conn.PgConn().TxStatus() == idle {
		return
	}
	if err := s.writer.send(context.Background(), trip{{text: "ROLLBACK"}}); err != nil {
		s.writer.close()
	}
}

// Close waits for the running Update and Views, and closes the connections. Later calls fail with
// Unavailable.
func (s *Store) Close() error {
	s.turns.Close(func() {
		s.turns.LastWrite()
		defer s.turns.EndWrite()
		s.turns.LastViews()
		s.ending.Wait()
		for r, ok := s.idle.Take(); ok; r, ok = s.idle.Take() {
			r.close()
		}
		if s.writer != nil {
			s.writer.close()
		}
		s.lock.release()
	})
	return nil
}
