package sqlite

import (
	"math"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	insertEntry = "INSERT INTO entry (rowid, thread, last_seq, first_seq, lines) VALUES (?, ?, ?, ?, ?)"

	// The statement has no upper bound: the reader stops at Before.
	entriesForward = `SELECT first_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = ?) AND last_seq > ? ORDER BY last_seq`

	// The last row to read is the first one that ends at Before - 1 or later; if none does, all
	// rows qualify.
	entriesBackward = `SELECT first_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = ?1) AND last_seq > ?2 AND last_seq <= coalesce(
			(SELECT min(last_seq) FROM entry
				WHERE thread = (SELECT key FROM thread WHERE id = ?1) AND last_seq >= ?3 - 1), ?3)
		ORDER BY last_seq DESC`
)

// Entries implements [store.Reader]. A row holds several entries.
func (r reader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if len(q.At) > 0 {
		return q.EachAt(r)
	}
	switch {
	case q.All != nil:
		return r.allEntries(q)
	case q.Search != nil:
		return nil, search(r, q.Search)
	}
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	text, args := entriesForward, []any{q.Thread, q.After}
	if q.Backward {
		text, args = entriesBackward, []any{q.Thread, q.After, q.Before}
	}
	var found []mailroom.Entry
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read entries", text, args, func(c *columns) (bool, error) {
		first := c.Int64()
		lines, _ := c.next().([]byte)
		if !q.Backward && first >= q.Before {
			return false, nil
		}
		several, err := format.SplitEntries(lines, first, q)
		for _, e := range several {
			found = append(found, e)
			if !g.Add(len(e.Raw)) {
				return false, err
			}
		}
		return true, err
	})
	return found, err
}

// appendEntries writes the row of new entries of one thread. lines is what the encoder made of them.
func (t *tx) appendEntries(list []mailroom.Entry, lines []byte, among map[string]*written) error {
	if len(list) == 0 {
		return nil
	}
	w := among[list[0].Thread]
	if w == nil {
		return mailroom.Errorf(mailroom.CodeInternal, "entries of thread %q, which is not in the changes", list[0].Thread)
	}
	t.given.entryRow++
	return t.store.newRows.entries.add(t, t.given.entryRow, w.row.Key, list[len(list)-1].Seq, list[0].Seq, lines)
}
