package sqlite

import (
	"context"
	"fmt"
	"time"

	"modernc.org/sqlite"
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
			s.keepUp(walIdle)
		default: // in line with the others
			select {
			case s.turn <- struct{}{}:
				s.keepUp(walBusy)
			case <-s.closing:
				return
			}
		}
		<-s.turn
	}
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

// countPages counts what the last commit wrote and reports whether the keeper
// should look at it. The caller holds the turn.
func (s *Store) countPages() bool {
	err := s.writer.conn.Raw(func(conn any) error {
		status, ok := conn.(sqlite.DBStatus)
		if !ok {
			return fmt.Errorf("a %T tells nothing of its pages", conn)
		}
		written, _, err := status.Status(sqlite.DBStatusCacheWrite, true)
		s.walPages += written
		return err
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
	var timeout, busy int64
	one := func(into *int64) func(row []any) (bool, error) {
		return func(row []any) (bool, error) {
			*into, _ = row[0].(int64)
			return true, nil
		}
	}
	if err := s.writer.query(ctx, 1, "PRAGMA busy_timeout", nil, one(&timeout)); err != nil {
		return err
	}
	if err := s.setBusyTimeout(patience.Milliseconds()); err != nil {
		return err
	}
	// RESTART rather than TRUNCATE: a commit into a file that has its length
	// already is cheaper to sync.
	err := s.writer.query(ctx, 3, "PRAGMA wal_checkpoint(RESTART)", nil, one(&busy))
	if e := s.setBusyTimeout(timeout); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if busy == 0 {
		s.walPages, s.retryAt = 0, 0
	} else {
		s.retryAt = s.walPages + walIdle
	}
	return nil
}

// setBusyTimeout is not prepared: the value is part of the text.
func (s *Store) setBusyTimeout(ms int64) error {
	_, err := s.writer.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA busy_timeout = %d", ms))
	return err
}
