package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
)

// SQLite takes a WAL with missing or changed bytes for a shorter one, and goes on writing into files that no longer
// have a name: acknowledged commits are lost without an error. The guard is a fence on disk against that. The number
// of the last commit stands in the database and, written beside each commit, in a file of its own (see [Revision]). A
// database that is behind this file is refused. A mark in the database says that a process has it open, so that after
// a crash a database without its revision file is refused too. A database that was not closed in order is checked at
// its next opening. No commit is acknowledged unless the names of the files still lead to the open files.
const (
	// watchInterval is the interval at which an idle store checks that its files are in place. An Update checks it
	// before it is acknowledged, so a shorter interval would only wake an idle server more often.
	watchInterval = time.Second
	// checkWait is how long Open waits for the check of a file that was not closed cleanly. A
	// longer check continues in the background.
	checkWait = 2 * time.Second
)

// guard detects changes to a database that SQLite does not see: missing commits, damaged pages, and
// removed or replaced files.
type guard struct {
	path     string
	files    []guardedFile // as they were when the store was opened
	revision *revisionFile // owned by the holder of the store's turn
	commits  int64         // revision of the last commit; same owner
}

// guardedFile identifies a file that SQLite has open.
type guardedFile struct {
	path string
	info os.FileInfo
}

// openGuard compares the open database with its revision file. unclean reports that the last store
// did not close the file, or that it has changed since.
func openGuard(
	ctx context.Context, path string, before os.FileInfo, writer *session,
) (g *guard, unclean bool, err error) {
	g = &guard{path: path}
	revision, last, known, err := openRevision(path) // first: another process may commit in between
	if err != nil {
		return nil, false, err
	}
	g.revision = revision
	if g.commits, err = commitsOf(ctx, writer); err != nil {
		return g, false, err
	}
	open, err := isMarked(ctx, writer)
	if err != nil {
		return g, false, err
	}
	if lost := lostCommits(path, g.commits, open, last, known); lost != nil {
		return g, false, lost
	}
	untouched := before != nil && before.Size() == last.Size && before.ModTime().UnixNano() == last.Modified
	unclean = before != nil && before.Size() > 0 && (!known || !last.Closed || !untouched)
	for _, suffix := range [...]string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			return g, unclean, fmt.Errorf("stat the files of the store: %w", err)
		}
		g.files = append(g.files, guardedFile{path: path + suffix, info: info})
	}
	if err := g.committed(g.commits); err != nil {
		return g, unclean, err
	}
	if open {
		return g, unclean, nil
	}
	return g, unclean, errors.Join(g.revision.secure(), mark(ctx, writer))
}

// lostCommits returns an error value if a database lacks acknowledged commits or may lack some, else nil. commits is
// the revision in the database; open says that the mark of the database is set; known says that the revision file has
// content, which is last.
func lostCommits(path string, commits int64, open bool, last Revision, known bool) *LostCommitsError {
	switch {
	case known && commits < last.Commits:
		return &LostCommitsError{Path: path, Have: commits, Want: last.Commits}
	case !known && open:
		return &LostCommitsError{Path: path, Have: commits}
	}
	return nil
}

// The mark is in the header of the database file itself while a store has the file open (user_version 1). The mark
// stays if the WAL is removed. So a database file with the mark needs its revision file, because a missing revision
// file may have been removed together with the WAL. The revision file is on stable storage before the mark is.
const (
	readMark  = "PRAGMA user_version"
	setMark   = "PRAGMA user_version = 1"
	clearMark = "PRAGMA user_version = 0"
)

func isMarked(ctx context.Context, s *session) (bool, error) {
	value, err := s.value(ctx, readMark)
	if err != nil {
		return false, fmt.Errorf("read the mark of an open store: %w", err)
	}
	return value == int64(1), nil
}

// mark sets the mark, and moves it from the WAL to the file, unless another process reads the file just now.
func mark(ctx context.Context, writer *session) error {
	for _, text := range [...]string{setMark, "PRAGMA wal_checkpoint(PASSIVE)"} {
		if _, err := writer.value(ctx, text); err != nil {
			return fmt.Errorf("mark the store as open: %w", err)
		}
	}
	return nil
}

const readRevision = "SELECT revision FROM tally" + ofGiven

// commitsOf reads the revision from the database.
func commitsOf(ctx context.Context, s *session) (int64, error) {
	value, err := s.value(ctx, readRevision)
	if err != nil {
		return 0, fmt.Errorf("read the revision of the store: %w", err)
	}
	commits, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("read the revision of the store: it is %v, not a number", value)
	}
	return commits, nil
}

// committed records the revision of a commit that is on stable storage. It makes a removed revision file
// again: the store has all its commits, and only a crash without the file would make that unknown.
func (g *guard) committed(commits int64) error {
	g.commits = commits
	if !g.revision.inPlace() {
		again, _, _, err := openRevision(g.path)
		if err != nil {
			return err
		}
		again.serial = max(again.serial, g.revision.serial)
		if err := errors.Join(g.revision.file.Close(), again.write(Revision{Commits: commits}), again.secure()); err != nil {
			return errors.Join(fmt.Errorf("recreate the revision file: %w", err), again.file.Close())
		}
		g.revision = again
	}
	if err := g.revision.write(Revision{Commits: commits}); err != nil {
		return fmt.Errorf("write the revision file: %w", err)
	}
	return nil
}

// noteCommit records the commit of t. It fails if the store's files are no longer in place, so that neither the commit
// nor the repeat of an earlier answer is acknowledged.
func (s *Store) noteCommit(t *tx) error {
	if s.guard == nil {
		return nil
	}
	err := s.guard.inPlace()
	if err == nil && t.given.revision != 0 { // t has written
		err = s.guard.committed(t.given.revision)
	}
	if err != nil {
		s.breakDown(fmt.Errorf("%w: %w", store.ErrClosed, err))
		return s.broken
	}
	return nil
}

// inPlace returns an error if a file of the store was removed or replaced. SQLite then commits into
// files without a name.
func (g *guard) inPlace() error {
	for _, f := range g.files {
		now, err := os.Stat(f.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%s was removed while the store was open", f.path)
		case err != nil:
			return fmt.Errorf("stat the files of the store: %w", err)
		case !os.SameFile(f.info, now):
			return fmt.Errorf("%s was replaced while the store was open", f.path)
		}
	}
	return nil
}

// close records a clean close, unless another process still has the database open.
func (g *guard) close(inOrder bool) (err error) {
	defer func() { err = errors.Join(err, g.revision.close()) }()
	info, err := os.Stat(g.path)
	if err != nil || !inOrder || exists(g.path+"-wal") {
		return err
	}
	return g.revision.write(Revision{
		Commits: g.commits, Closed: true, Size: info.Size(), Modified: info.ModTime().UnixNano(),
	})
}

// watch ends all writing within watchInterval after a file of the store was removed or replaced.
func (s *Store) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.turns.Closing():
			return
		case <-tick.C:
			if err := s.guard.inPlace(); err != nil {
				s.fail(err)
				return
			}
		}
	}
}

// fail ends all writing from outside of an Update, and sends the error to Failed.
func (s *Store) fail(err error) {
	select {
	case s.failed <- err:
	default: // the channel has another error already
	}
	if s.turns.WaitWrite() {
		s.breakDown(fmt.Errorf("%w: %w", store.ErrClosed, err))
		s.turns.EndWrite()
	}
}

// Failed receives the error that ended all writing, if no Update returned it: a file of the store
// was removed or replaced, or the background check found damage. The store must be reopened then.
// Used only with [Options.Guard].
func (s *Store) Failed() <-chan error { return s.failed }

// checkAll has SQLite check the whole file: its structure, and then table by table that rows and indexes agree.
// Each check has a snapshot of its own, because the WAL cannot be reset before a snapshot ends. Open waits for at most
// checkWait. What is wrong inside a body only a reader of all rows can see, which is the doctor.
func (s *Store) checkAll(ctx context.Context) error {
	s.unchecked = true
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	late := make(chan struct{}) // closed when Open no longer waits
	s.keeper.Go(func() {
		defer recovery.Log(nil, "the end of a check")
		select {
		case <-s.turns.Closing():
		case <-life.Done():
		}
		end() // interrupts the check
	})
	s.keeper.Go(func() {
		defer recovery.Handle(nil, "the check of the store", func(p *recovery.Panic) {
			select {
			case done <- p:
			default: // the result was sent before the panic
			}
		})
		defer end()
		err := s.examine(life)
		s.unchecked = err != nil
		done <- err
		select {
		case <-late:
			if err != nil && life.Err() == nil {
				s.fail(err)
			}
		default:
		}
	})
	timer := time.NewTimer(checkWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		close(late)
		select {
		case err := <-done: // it ended at the same moment
			return err
		default:
			return nil
		}
	}
}

// examine returns the first problem that SQLite finds.
func (s *Store) examine(ctx context.Context) (err error) {
	session, err := newSession(ctx, &s.driver, s.readers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.close()) }()
	checks := []string{"PRAGMA quick_check(1)"}
	err = session.query(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table'", nil, func(c *columns) (bool, error) {
		checks = append(checks, "PRAGMA integrity_check('"+strings.ReplaceAll(c.Text(), "'", "''")+"')")
		return true, nil
	})
	for _, text := range checks {
		if err != nil {
			break
		}
		err = session.query(ctx, text, nil, func(c *columns) (bool, error) {
			if out := fmt.Sprint(c.value()); out != "ok" {
				return false, fmt.Errorf("the store is damaged: %s", strings.TrimSpace(out))
			}
			return true, nil
		})
	}
	if s.driver.kind(err) == sqlite3.SQLITE_CORRUPT {
		return fmt.Errorf("the store is damaged: %w", err)
	}
	return err
}

// breakDown makes every later Update fail with Unavailable. The caller holds the turn.
func (s *Store) breakDown(cause error) {
	if s.broken == nil {
		s.broken = &mailroom.Error{
			Code:    mailroom.CodeUnavailable,
			Message: "the store accepts no writes until it is reopened",
			Cause:   cause,
		}
	}
}
