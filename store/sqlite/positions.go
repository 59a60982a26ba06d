package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	readOrder = "SELECT order_name, (SELECT entry_row FROM tally" + ofGiven +
		"), removed_row, removed_thread, removed_seq FROM given WHERE one = 1"
	newOrder = "UPDATE given SET order_name = lower(hex(randomblob(6))) WHERE one = 1"

	entriesOfAll = "SELECT rowid, thread, first_seq, lines FROM entry WHERE rowid >= ? ORDER BY rowid"

	noteRemoved = `UPDATE given SET removed_row = ?1, removed_thread = ?2, removed_seq = ?3
		WHERE one = 1 AND (removed_row, removed_thread, removed_seq) < (?1, ?2, ?3)`
)

// allEntries answers a query whose field All is set.
func (r reader) allEntries(q store.EntryQuery) (found []mailroom.Entry, err error) {
	all := q.All
	all.Positions = nil
	err = r.query("read the order of entries", readOrder, nil, func(c *columns) (bool, error) {
		all.Order = c.Text()
		all.End = store.StartOf(c.Int64() + 1)
		all.Removed = store.Position{Commit: c.Int64(), Thread: c.Int64(), Seq: c.Int64()}
		return false, nil
	})
	if err != nil || all.None {
		return nil, err
	}
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	after := []any{all.After.Commit}
	err = r.query("read entries of all threads", entriesOfAll, after, func(c *columns) (more bool, err error) {
		at, thread, first := c.Int64(), c.Int64(), c.Int64()
		lines := c.blob()
		several, err := format.SplitEntries(lines, first, store.WholeRow(q))
		found, more = all.Add(found, several, at, thread, g.Add)
		return more, err
	})
	return found, err
}

// noteRemoved records that the first entries of a thread are removed. The caller removes them afterwards.
func (t *tx) noteRemoved(thread int64, p store.Prefix) error {
	var last int64
	err := t.session.query(t.ctx, lastRowBelow, []any{p.Thread, p.Seq, int64(0)}, func(c *columns) (bool, error) {
		last = c.Int64()
		return false, nil
	})
	if err != nil || last == 0 {
		return err
	}
	_, err = t.exec(noteRemoved, last, thread, p.Seq-1)
	return err
}

// renewOrder makes a copy a store of its own, which no one has open. It gives its entries a new order: the
// copy will give rowids that the original has given to other entries.
func (f *File) renewOrder(ctx context.Context, path string) error {
	connector, err := f.driver.open(path, url.Values{"mode": {"rw"}})
	if err != nil {
		return err
	}
	s, err := newSession(ctx, &f.driver, connector)
	if err != nil {
		return err
	}
	if _, err = s.exec(ctx, newOrder); err != nil {
		err = fmt.Errorf("name the order of entries: %w", err)
	}
	if _, e := s.value(ctx, clearMark); e != nil { // the original's, if a server has it open
		err = errors.Join(err, fmt.Errorf("clear the mark of an open store: %w", e))
	}
	return errors.Join(err, s.close())
}
