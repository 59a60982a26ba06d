package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"mailroom/internal/recovery"
)

// The WAL is checkpointed when it is longer than walIdle and nobody wants to
// write, and in any case beyond walBusy. A page of the WAL has pageSize bytes
// and a little header.
const (
	pageSize = 4096
	walIdle  = 4 << 20 / pageSize
	walBusy  = 16 << 20 / pageSize

	// readerPatience is how long a checkpoint waits for Views that still read
	// the WAL. Views last a page, so they are mostly gone by then; writers
	// wait as long.
	readerPatience = 50 * time.Millisecond
)

// keep checkpoints after commits whose callers have been answered.
func (s *Store) keep() {
	for {
		select {
		case <-s.wake:
		case <-s.closing:
			return
		}
		select {
		case s.turn <- struct{}{}: // nobody writes or waits to
			s.keepTurn(walIdle)
		default: // in line with the others
			select {
			case s.turn <- struct{}{}:
				s.keepTurn(walBusy)
			case <-s.closing:
				return
			}
		}
	}
}

// keepTurn is keepUp, and gives the turn back whatever happens.
func (s *Store) keepTurn(pages int) {
	defer recovery.Log(nil, "a checkpoint")
	defer func() { <-s.turn }()
	s.keepUp(pages)
}

// keepUp checkpoints a WAL that is longer than so many pages. The caller holds
// the turn.
func (s *Store) keepUp(pages int) {
	if s.broken != nil || s.walPages <= pages || s.walPages < s.retryAt {
		return
	}
	if err := s.checkpoint(); err != nil {
		// Nobody asked; the next Update answers with it.
		_ = s.refuse(context.Background(), "checkpoint", err)
	}
}

// countPages looks how long the WAL is after a commit and reports whether the
// keeper should too. The caller holds the turn.
func (s *Store) countPages() bool {
	err := s.writer.query(context.Background(), "PRAGMA wal_checkpoint(NOOP)", nil, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		_, s.walPages = c.next(), c.int()
		return true, nil
	})
	if err != nil {
		s.walPages = walBusy + 1 // not known: better too often than never
	}
	return s.walPages > walIdle && s.walPages >= s.retryAt
}

// checkpoint copies the WAL into the database and starts it anew. The caller
// holds the turn.
func (s *Store) checkpoint() error {
	patience := time.Duration(0)
	if s.walPages > walBusy {
		patience = readerPatience
	}
	ctx := context.Background()
	timeout, err := s.writer.value(ctx, "PRAGMA busy_timeout")
	if err != nil {
		return err
	}
	if err := s.setBusyTimeout(patience.Milliseconds()); err != nil {
		return err
	}
	// RESTART rather than TRUNCATE: a commit into a file that has its length
	// already is cheaper to sync.
	busy, err := s.writer.value(ctx, "PRAGMA wal_checkpoint(RESTART)")
	if e := s.setBusyTimeout(timeout); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if busy == int64(0) {
		s.walPages, s.retryAt = 0, 0
		if s.guard != nil {
			return s.guard.revision.file.Sync()
		}
	} else {
		s.retryAt = s.walPages + walIdle
	}
	return nil
}

func (s *Store) setBusyTimeout(ms any) error {
	_, err := s.writer.value(context.Background(), fmt.Sprint("PRAGMA busy_timeout = ", ms))
	return err
}
