package sqlite

import (
	"context"
	"fmt"
	"time"

	"mailroom/internal/recovery"
)

// SQLite's automatic checkpoint runs inside the commit that makes the WAL too long, so the caller of that
// commit would wait for it. The keeper checkpoints between commits instead.
const (
	pageSize = 4096 // of a page in the WAL, without its small header

	// walIdle is the length in pages from which the keeper checkpoints when no write is waiting. It is
	// about SQLite's own default. A shorter WAL copies a page that each commit changes more often into the
	// database; a longer one makes each read search more of it.
	walIdle = 4 << 20 / pageSize

	// walBusy is the length in pages from which the keeper checkpoints although writes wait. Steady load gives the
	// keeper no other chance, and without this limit the WAL would grow as long as the load lasts.
	walBusy = 16 << 20 / pageSize

	// readerPatience is how long a checkpoint of a WAL beyond walBusy waits for Views that still read it. Views are
	// short, so most have ended by then. Writers wait during this time too, so it is short. Without this wait,
	// overlapping Views would prevent every reset.
	readerPatience = 50 * time.Millisecond
)

// keep runs the keeper: it checkpoints after commits whose callers have returned. While other writes
// run or wait, it does so only if the WAL is very long.
func (s *Store) keep() {
	for {
		pages := 0
		select {
		case pages = <-s.wake:
		case <-s.turns.Closing():
			return
		}
		switch {
		case s.turns.TryWrite(): // no write runs or waits
			s.keepTurn(walIdle)
		case pages <= walBusy: // a later commit wakes the keeper again
		case s.turns.WaitWrite(): // after the writes that wait
			s.keepTurn(walBusy)
		}
	}
}

// keepTurn checkpoints a WAL longer than pages, and releases the turn, even after a panic. After it has released the
// turn, while later commits run, it syncs the revision file.
func (s *Store) keepTurn(pages int) {
	defer recovery.Log(nil, "a checkpoint")
	reset := func() bool {
		defer s.turns.EndWrite()
		return s.keepUp(pages)
	}()
	if !reset || s.guard == nil {
		return
	}
	if err := s.guard.revision.file.Sync(); err != nil {
		s.fail(fmt.Errorf("sync the revision file: %w", err))
	}
}

// keepUp checkpoints a WAL longer than pages, and reports whether the WAL is empty then. The caller holds the turn.
func (s *Store) keepUp(pages int) (reset bool) {
	if s.broken != nil || s.walPages <= pages || s.walPages < s.retryAt {
		return false
	}
	reset, err := s.checkpoint()
	if err != nil {
		// No caller to report to: the next Update returns it.
		_ = s.refuse(context.Background(), "checkpoint", err)
	}
	return reset
}

// measureAfter is the number of statements, and pages of long values, after which the length of the WAL
// is read again. Reading it is a statement too, which a small commit would feel, and so few statements
// make a WAL little longer than walIdle.
const measureAfter = 64

// measure reads the length of the WAL after a commit, if it was long or much was written since. It
// returns the length if the keeper must know it, else 0. The caller holds the turn.
func (s *Store) measure() int {
	if s.written < measureAfter && s.walPages <= walIdle {
		return 0
	}
	s.written = 0
	err := s.writer.query(context.Background(), "PRAGMA wal_checkpoint(NOOP)", nil, func(c *columns) (bool, error) {
		c.skip()
		s.walPages = c.Int()
		s.pages.Store(s.oldPages + int64(s.walPages))
		return true, nil
	})
	if err != nil {
		s.walPages = walBusy + 1 // unknown: too many checkpoints are better than none
	}
	if s.walPages <= walIdle || s.walPages < s.retryAt {
		return 0
	}
	return s.walPages
}

// checkpoint copies the WAL into the database and resets it, unless Views still read it. The caller
// holds the turn.
func (s *Store) checkpoint() (reset bool, err error) {
	patience := time.Duration(0)
	if s.walPages > walBusy {
		patience = readerPatience
	}
	ctx := context.Background()
	timeout, err := s.writer.value(ctx, "PRAGMA busy_timeout")
	if err != nil {
		return false, err
	}
	if err := s.setBusyTimeout(patience.Milliseconds()); err != nil {
		return false, err
	}
	// RESTART rather than TRUNCATE: a commit into a file of unchanged length is cheaper to sync.
	busy, err := s.writer.value(ctx, "PRAGMA wal_checkpoint(RESTART)")
	if e := s.setBusyTimeout(timeout); err == nil {
		err = e
	}
	if err != nil {
		return false, err
	}
	if busy != int64(0) {
		s.retryAt = s.walPages + walIdle
		return false, nil
	}
	s.oldPages += int64(s.walPages)
	s.walPages, s.retryAt = 0, 0
	return true, nil
}

func (s *Store) setBusyTimeout(ms any) error {
	_, err := s.writer.value(context.Background(), fmt.Sprint("PRAGMA busy_timeout = ", ms))
	return err
}
