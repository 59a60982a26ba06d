package sqlite

import (
	"bytes"
	"database/sql/driver"
	"math"
	"slices"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

const (
	insertEntry = "INSERT INTO entry (thread, last_seq, first_seq, lines) VALUES (?, ?, ?, ?)"

	// The reader stops at Before.
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

// joinEntries encodes entries as the lines of one row.
func joinEntries(list []mailroom.Entry) ([]byte, error) {
	size := 0
	for i, e := range list {
		raw := e.Raw
		if e.Thread != list[0].Thread || e.Seq != list[0].Seq+int64(i) {
			return nil, mailroom.Errorf(mailroom.CodeInternal,
				"entry %d of thread %q does not follow in the entries of thread %q from %d",
				e.Seq, e.Thread, list[0].Thread, list[0].Seq)
		}
		if len(raw) == 0 || bytes.IndexByte(raw, '\n') >= 0 {
			return nil, mailroom.Errorf(mailroom.CodeInternal, "entry %d of thread %q is not one line of JSON", e.Seq, e.Thread)
		}
		size += len(raw) + 1
	}
	lines := make([]byte, 0, size)
	for i, e := range list {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = append(lines, e.Raw...)
	}
	return lines, nil
}

// Entries implements [mailroom.Reader]. A row holds several entries.
func (r reader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	text, args := entriesForward, []any{q.Thread, q.After}
	if q.Backward {
		text, args = entriesBackward, []any{q.Thread, q.After, q.Before}
	}
	var found []mailroom.Entry
	g := gauge{limit: q.Limit, budget: q.Bytes}
	err := r.query("read entries", text, args, func(row []driver.Value) (bool, error) {
		first, _ := row[0].(int64)
		lines, _ := row[1].([]byte)
		if !q.Backward && first >= q.Before {
			return false, nil
		}
		several, err := splitEntries(lines, first, q)
		for _, e := range several {
			found = append(found, e)
			if !g.add(len(e.Raw)) {
				return false, err
			}
		}
		return true, err
	})
	return found, err
}

// splitEntries decodes the entries of one row that match q, in its order. It skips lines outside of
// the bounds of q without decoding them.
func splitEntries(lines []byte, first int64, q store.EntryQuery) ([]mailroom.Entry, error) {
	var found []mailroom.Entry
	seq := first
	whole := q.Bytes <= 0 || len(lines) <= q.Bytes
	if whole {
		lines = bytes.Clone(lines) // the driver reuses the row's memory
	}
	for line := range bytes.SplitSeq(lines, []byte{'\n'}) {
		if q.After < seq && seq < q.Before {
			if !whole { // an entry must not keep the other lines of its row in memory
				line = bytes.Clone(line)
			}
			e, err := entry.Parse(line)
			if err != nil {
				return nil, err
			}
			if (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) && (q.Run == "" || e.Run == q.Run) {
				found = append(found, e)
			}
		}
		seq++
	}
	if q.Backward {
		slices.Reverse(found)
	}
	return found, nil
}
