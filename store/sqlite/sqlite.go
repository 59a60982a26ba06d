// Package sqlite keeps the rows in one SQLite file.
//
// One connection writes and commits with fsync; a pool of others reads
// snapshots beside it. The writer also checkpoints, between transactions, so
// that the write-ahead log starts anew again and again and stays short.
package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// Options of a store. The zero value is right for most.
type Options struct {
	// Readers is how many Views run at a time; 0 is 4. More wait.
	Readers int
	// BusyTimeout is how long an Update waits for another handle that writes
	// the same file; 0 is 5 s.
	BusyTimeout time.Duration
	// Guard keeps the revision of the last commit in a file beside the database
	// (see [Revision]) and refuses a database that is older; has SQLite check a
	// database that was not closed in order; and ends all writing when a file of
	// the database is removed or replaced while it is open. The files must be on
	// the file system of the process, which those of a test's Driver may not be.
	Guard bool
	// Driver is for tests that need another SQLite or another file layer.
	Driver Driver
}

// Store is a [mailroom.Store] in a file.
type Store struct {
	driver  Driver
	readers driver.Connector

	// Owned by whoever is in turn: the one Update that runs, the keeper, or
	// Close. A channel, so that waiting for it ends with a context.
	turn   chan struct{}
	writer *session
	args   []any  // buffer for the arguments of a statement
	body   []byte // buffer for one of them
	// seen are the threads that the transaction has locked or written, by key.
	seen     map[int64]threadRow
	walPages int    // written since the WAL was last reset, at least
	retryAt  int    // pages at which to try again when readers keep the WAL
	broken   error  // why nothing may be written any more
	guard    *guard // nil without Options.Guard

	// unchecked is set until the check of a file that was not closed in order has
	// found nothing. Owned by the keeper, and by Close once the keeper has ended.
	unchecked bool

	failed chan error // one slot: why broken was set, if no Update was told

	// One for every View that runs. A View takes the reader that was free
	// last, whose cache is warm and whose statements are prepared.
	viewing chan struct{}
	mu      sync.Mutex
	free    []*session // guarded by mu

	// The keeper is told of commits by wake and waited for by Close.
	wake   chan struct{}
	keeper sync.WaitGroup

	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	closeErr  error
}

// Open opens the database file at path, creating it and its tables if need be.
// Handles of several processes may use one file, but the folder of a database
// must exist and be on a local disk.
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
		turn:    make(chan struct{}, 1),
		viewing: make(chan struct{}, o.Readers),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		failed:  make(chan error, 1),
	}
	if err := s.open(ctx, path, o); err != nil {
		close(s.closing)
		s.keeper.Wait()
		s.broken = err
		// The first error tells more than one of closing what is half open.
		_ = s.closeSessions()
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s.keeper.Go(func() {
		defer recovery.Log(nil, "the store's keeper")
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
	if err := check(ctx, s.writer); err != nil {
		return err
	}
	if err := migrate(ctx, connector); err != nil {
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
		if err := s.quickCheck(ctx); err != nil {
			return err
		}
	}
	s.keeper.Go(func() {
		defer recovery.Handle(nil, "the watch on the store's files", func(p *recovery.Panic) { s.fail(p) })
		s.watch()
	})
	return nil
}

// Update implements [mailroom.Store]. An I/O error ends all writing by this
// handle: this Update and the later ones fail as Unavailable. A context that
// ends before f has returned ends the transaction with nothing written; the
// commit itself is not interrupted.
func (s *Store) Update(ctx context.Context, f func(mailroom.Tx) error) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	tooLong := false
	defer func() {
		<-s.turn
		if tooLong {
			select {
			case s.wake <- struct{}{}:
			default: // it is awake
			}
		}
	}()
	if s.broken != nil {
		return s.broken
	}
	// The driver pays for a context with a goroutine per statement, so only
	// the wait for another handle gets it.
	if _, err := s.writer.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		err = s.refuse(ctx, "begin", err)
		s.rollback() // the end of ctx may have crossed a BEGIN that succeeded
		return err
	}
	committed := false
	defer func() {
		if !committed {
			s.rollback() // also when f panics
		}
	}()
	s.forgetRows()
	t := &tx{
		reader: reader{ctx: context.WithoutCancel(ctx), session: s.writer},
		store:  s,
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
	if _, err := s.writer.exec(context.Background(), "COMMIT"); err != nil {
		return s.refuse(context.Background(), "commit", err)
	}
	committed = true
	tooLong = s.countPages()
	return s.noteCommit(t)
}

// takeTurn waits until nobody else writes; <-s.turn ends it.
func (s *Store) takeTurn(ctx context.Context) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return cancelled(ctx)
	case <-s.closing:
		return errClosed()
	}
	select {
	case <-s.closing:
		<-s.turn
		return errClosed()
	default:
		return nil
	}
}

// refuse turns an error of the writer's connection into a refusal, and stops
// all writing when it has to.
func (s *Store) refuse(ctx context.Context, doing string, err error) error {
	refused, broken := s.driver.refusal(ctx, doing, err)
	if broken {
		s.breakDown(refused.Cause)
	}
	return refused
}

func (s *Store) rollback() {
	// Its failure means that no transaction is open any more: SQLite has
	// rolled back by itself, as it does after most I/O errors.
	_, _ = s.writer.exec(context.Background(), "ROLLBACK")
}

// View implements [mailroom.Store]. More than Options.Readers of them wait for
// each other.
func (s *Store) View(ctx context.Context, f func(mailroom.Reader) error) (err error) {
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
		// Nothing was written, so the end of the snapshot cannot fail; a
		// BEGIN that failed leaves none to end.
		_, _ = session.exec(context.Background(), "ROLLBACK")
	}()
	if _, err := session.exec(ctx, "BEGIN"); err != nil {
		return fail("begin", err)
	}
	return f(reader{ctx: ctx, session: session})
}

func (s *Store) takeReader(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	select {
	case <-s.closing:
		return nil, errClosed()
	default:
	}
	select {
	case s.viewing <- struct{}{}:
	case <-ctx.Done():
		return nil, cancelled(ctx)
	case <-s.closing:
		return nil, errClosed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		reader := s.free[last]
		s.free = s.free[:last]
		return reader, nil
	}
	reader, err := newSession(ctx, &s.driver, s.readers)
	if err != nil {
		<-s.viewing
		refused, _ := s.driver.refusal(ctx, "open a reader", err)
		return nil, refused
	}
	return reader, nil
}

func (s *Store) giveReader(reader *session) {
	s.mu.Lock()
	s.free = append(s.free, reader)
	s.mu.Unlock()
	<-s.viewing
}

// Close waits for the Update and the Views that run, and then closes the file.
// Later calls fail as Unavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.keeper.Wait()
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		s.closeErr = s.closeSessions()
	})
	return s.closeErr
}

// closeSessions closes the readers first: the last connection empties the WAL, and
// removes it by its name. So where a file of the store was replaced, nothing is
// closed: the WAL of that name belongs to another database.
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
	for range cap(s.viewing) {
		s.viewing <- struct{}{} // until no View runs any more
	}
	for _, reader := range s.free {
		note(reader.close())
	}
	if s.writer != nil {
		note(s.writer.close())
	}
	if s.guard != nil {
		note(s.guard.close(s.broken == nil && first == nil && !s.unchecked))
	}
	return first
}
