// Package sqlite stores rows in one SQLite file.
//
// One connection writes and commits with fsync; a pool of other connections reads snapshots
// concurrently. The writer checkpoints between transactions, which keeps the write-ahead log short.
package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

// Options configure a store. The zero value suits most uses.
type Options struct {
	// Readers is the number of concurrent Views; 0 selects 4. Further Views wait.
	Readers int
	// BusyTimeout is how long an Update waits for another handle that writes the same file; 0
	// selects 5 s.
	BusyTimeout time.Duration
	// Guard records the revision of the last commit in a file beside the database (see [Revision])
	// and refuses an older database; has SQLite check a database that was not closed cleanly; and
	// ends all writing when a file of the database is removed or replaced while it is open. The
	// files must be on the process's file system, so Guard does not work with every Driver.
	Guard bool
	// Driver selects another SQLite or another file layer in tests.
	Driver Driver
}

// Store is a [store.Store] in a SQLite file.
type Store struct {
	driver  Driver
	readers driver.Connector

	turns *sqlstore.Turns

	// Owned by the holder of the turn to write: the running Update, the keeper or Close.
	writer *session
	args   []value // buffer for the arguments of a statement
	body   []byte  // buffer for the body of a thread
	// summed are the writes to the summary of the running Update.
	summed []summaryWrite

	encoder encoder // of the running Write
	newRows newRows // of the running Write
	// seen has the threads that the transaction has locked or written, by key.
	seen     map[int64]threadRow
	memo     memo
	written  int    // statements, and pages of long values, since the WAL was last measured
	walPages int    // written since the WAL was last reset, when it was last measured
	oldPages int64  // written before the WAL was last reset
	retryAt  int    // length in pages at which to retry a checkpoint that readers prevented
	broken   error  // why the store accepts no writes
	guard    *guard // nil: Options.Guard is not set

	// unchecked is set until the check of a file that was not closed cleanly has passed. Owned by
	// the keeper, and by Close after the keeper has ended.
	unchecked bool

	statements, pages atomic.Int64 // see Traffic

	failed chan error // capacity 1: the cause of broken, if no Update returned it

	idle sqlstore.Idle[*session] // readers
	sums sumCache

	// wake gives the keeper the length of a long WAL, in pages; Close waits for it.
	wake   chan int
	keeper sync.WaitGroup

	closeErr error // error of the first Close
}

// Open opens the database file at path, and creates the file and its tables if necessary. Handles
// of several processes may share a file. Its folder must exist and be on a local disk.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.Driver.Connector == nil {
		o.Driver = builtIn()
	}
	s := &Store{
		driver:  o.Driver,
		turns:   sqlstore.NewTurns(o.Readers),
		wake:    make(chan int, 1),
		failed:  make(chan error, 1),
		encoder: encoder{shrinker: format.NewShrinker()},
		newRows: emptyRows(),
		args:    make([]value, 0, 32), // more than a row has
	}
	if err := s.open(ctx, path, o); err != nil {
		s.turns.Close(func() {
			s.keeper.Wait()
			s.broken = err
			// The first error says more than an error of closing a half-open store.
			_ = s.closeSessions()
		})
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s.keeper.Go(func() {
		defer recovery.Log(nil, "keeper of the SQLite store")
		s.keep()
	})
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, o Options) error {
	connector, err := s.driver.writer(path, o.BusyTimeout)
	if err != nil {
		return err
	}
	before, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && o.Guard {
		return err
	}
	if s.writer, err = connect(ctx, &s.driver, connector, o.BusyTimeout); err != nil {
		return err
	}
	s.writer.count = &s.statements
	if err := check(ctx, s.writer); err != nil {
		return err
	}
	migrator, err := s.driver.migrator(path, o.BusyTimeout)
	if err != nil {
		return err
	}
	if err := migrate(ctx, migrator); err != nil {
		return err
	}
	if s.readers, err = s.driver.readers(path, o.BusyTimeout); err != nil || !o.Guard {
		return err
	}
	unclean := false
	if s.guard, unclean, err = openGuard(ctx, path, before, s.writer); err != nil {
		return err
	}
	if unclean {
		if err := s.checkAll(ctx); err != nil {
			return err
		}
	}
	s.keeper.Go(func() {
		defer recovery.Handle(nil, "watching the store's files", func(p *recovery.Panic) { s.fail(p) })
		s.watch()
	})
	return nil
}

// Update implements [store.Store]. After an I/O error this Update and all later ones of the
// handle fail with Unavailable. If the context ends before f has returned, nothing is written; it
// does not interrupt the commit.
func (s *Store) Update(ctx context.Context, f func(store.Tx) error) error {
	if err := s.turns.Write(ctx); err != nil {
		return err
	}
	tooLong := 0
	defer func() {
		s.turns.EndWrite()
		if tooLong > 0 {
			select {
			case s.wake <- tooLong:
			default: // the keeper is awake
			}
		}
	}()
	if s.broken != nil {
		return s.broken
	}
	// Only the wait for another handle gets a context that can end: to heed it costs as much as a statement.
	if _, err := s.writer.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		err = s.refuse(ctx, "begin", err)
		s.rollback() // ctx may have ended during a BEGIN that succeeded
		return err
	}
	committed := false
	defer func() {
		if !committed {
			s.memo = memo{}
			s.rollback() // rolls back also when f panics
		}
	}()
	s.forgetRows()
	s.summed = s.summed[:0]
	s.recall()
	t := &tx{
		reader: reader{ctx: context.WithoutCancel(ctx), session: s.writer, now: now()},
		store:  s,
	}
	if err := f(t); err != nil {
		return err
	}
	if t.failed != nil {
		return t.failed
	}
	if ctx.Err() != nil {
		return sqlstore.Cancelled(ctx)
	}
	if _, err := s.writer.exec(context.Background(), "COMMIT"); err != nil {
		return s.refuse(context.Background(), "commit", err)
	}
	committed = true
	s.memorize()
	if t.given.revision != 0 { // t has written
		s.sums.committed(t.before, t.given.revision, s.summed)
	}
	tooLong = s.measure()
	return s.noteCommit(t)
}

// refuse converts an error of the writer's connection, and ends all writing if the file's state is
// uncertain.
func (s *Store) refuse(ctx context.Context, doing string, err error) error {
	refused, broken := s.driver.refusal(ctx, doing, err)
	if broken {
		s.breakDown(refused.Cause)
	}
	return refused
}

func (s *Store) rollback() {
	// An error means that no transaction is open: SQLite has rolled back on its own, as after most
	// I/O errors.
	_, _ = s.writer.exec(context.Background(), "ROLLBACK")
}

// View implements [store.Store]. Beyond Options.Readers, Views wait.
func (s *Store) View(ctx context.Context, f func(store.Reader) error) (err error) {
	session, err := s.takeReader(ctx)
	if err != nil {
		return err
	}
	defer s.giveReader(session)
	fail := func(doing string, err error) error {
		refused, _ := s.driver.refusal(ctx, doing, err)
		return refused
	}
	defer func() {
		// Nothing was written, so the end of the snapshot cannot fail; a failed BEGIN leaves no
		// snapshot.
		_, _ = session.exec(context.Background(), "ROLLBACK")
	}()
	if err := ctx.Err(); err != nil {
		return fail("begin", err)
	}
	if _, err := session.exec(context.Background(), "BEGIN"); err != nil { // reads nothing, see lookUp
		return fail("begin", err)
	}
	return f(reader{ctx: ctx, session: session, now: now(), sums: &s.sums})
}

func (s *Store) takeReader(ctx context.Context) (*session, error) {
	if err := s.turns.View(ctx); err != nil {
		return nil, err
	}
	if reader, ok := s.idle.Take(); ok {
		return reader, nil
	}
	reader, err := newSession(ctx, &s.driver, s.readers)
	if err != nil {
		s.turns.EndView()
		refused, _ := s.driver.refusal(ctx, "open a reader", err)
		return nil, refused
	}
	reader.count = &s.statements
	return reader, nil
}

func (s *Store) giveReader(reader *session) {
	s.idle.Give(reader)
	s.turns.EndView()
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Traffic counts what a store has asked of SQLite since it was opened.
type Traffic struct {
	Statements int64 // BEGIN and COMMIT included
	Pages      int64 // written to the WAL, when its length was last read
}

// Traffic returns the current counts.
func (s *Store) Traffic() Traffic { return Traffic{s.statements.Load(), s.pages.Load()} }

// Epoch implements [store.Store]. The file has one connection that writes, which lasts as long as
// the handle.
func (s *Store) Epoch() int64 { return 0 }

// Close waits for the running Update and Views, and then closes the file. Later calls fail with
// Unavailable.
func (s *Store) Close() error {
	s.turns.Close(func() {
		s.keeper.Wait()
		s.turns.LastWrite()
		defer s.turns.EndWrite()
		s.closeErr = s.closeSessions()
	})
	return s.closeErr
}

// closeSessions closes the readers first: the last connection empties the WAL and removes it by
// name. If a file of the store was replaced it closes nothing, because the WAL of that name belongs
// to another database.
func (s *Store) closeSessions() error {
	if s.guard != nil && s.guard.inPlace() != nil {
		return s.guard.revision.close()
	}
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = fmt.Errorf("close store: %w", err)
		}
	}
	s.turns.LastViews()
	for reader, ok := s.idle.Take(); ok; reader, ok = s.idle.Take() {
		note(reader.close())
	}
	if s.guard != nil && s.broken == nil {
		_, err := s.writer.value(context.Background(), clearMark)
		note(err)
	}
	if s.writer != nil {
		note(s.writer.close())
	}
	if s.guard != nil {
		note(s.guard.close(s.broken == nil && first == nil && !s.unchecked))
	}
	return first
}
