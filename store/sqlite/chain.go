package sqlite

import (
	"math"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

// The rows of a thread's entries are a chain: each row has the rowid of the row before it, and the thread's row has the
// rowid of the last one. The index entry_thread has only the rows with an entry whose seq is a multiple of 32. A read
// begins at such a row, or at the last one, and follows the chain back. So new rows write a page of that index once in
// 32 entries and not each time: in a store with many threads, the rows of a commit would be on as many pages of it.
//
//   - entry.previous is 0 in the first row of a thread. The row that it names may be removed: then the chain ends.
//   - Rows from before version 33 of the tables have NULL there. The index has all of them, so it has the row before.
//   - A rowid is never used again, and the rowids of a thread have the order of its seqs.
const (
	// isIndexed is the condition of the index entry_thread, literally: SQLite compares the expressions.
	isIndexed = "(previous IS NULL OR last_seq / 32 > (first_seq - 1) / 32)"

	// chain has the rows of the thread with id ?1 from the first indexed one that ends at ?2 or later, or else from the
	// last one, back to the first one that ends above ?3.
	chain = `WITH RECURSIVE chain (at, previous, thread, first_seq, last_seq) AS (
		SELECT e.rowid, e.previous, e.thread, e.first_seq, e.last_seq FROM thread t CROSS JOIN entry e
			ON e.rowid = coalesce((SELECT rowid FROM entry
				WHERE thread = t.key AND last_seq >= ?2 AND ` + isIndexed + ` ORDER BY last_seq LIMIT 1), t.entry_row)
			WHERE t.id = ?1
		UNION ALL
		SELECT e.rowid, e.previous, e.thread, e.first_seq, e.last_seq FROM chain c CROSS JOIN entry e
			ON e.rowid = coalesce(c.previous, (SELECT rowid FROM entry
				WHERE thread = c.thread AND last_seq < c.last_seq AND ` + isIndexed + ` ORDER BY last_seq DESC LIMIT 1))
			WHERE c.first_seq > ?3 + 1) `

	// entriesForward reads the rows that end above ?3, up to one that ends at ?2 or later. The last column is the rowid
	// of the thread's last row.
	entriesForward = `SELECT rowid, last_seq, first_seq, lines, (SELECT entry_row FROM thread WHERE id = ?1) FROM entry
		WHERE rowid IN (` + chain + `SELECT at FROM chain WHERE last_seq > ?3) ORDER BY rowid`

	// entriesBackward reads the rows that end above ?3 and begin at ?2 or below, the last one first.
	entriesBackward = chain + `SELECT e.first_seq, e.lines FROM chain c CROSS JOIN entry e ON e.rowid = c.at
		WHERE c.last_seq > ?3 AND c.first_seq <= ?2`

	dropEntriesBelow = "DELETE FROM entry WHERE rowid IN (" + chain + "SELECT at FROM chain WHERE last_seq < ?2)"

	// lastRowBelow is the last row that begins below ?2, unless the thread is being deleted.
	lastRowBelow = chain + `SELECT at FROM chain
		WHERE first_seq < ?2 AND (SELECT deleted FROM thread WHERE id = ?1) IS NULL LIMIT 1`

	// hasEntry has a row if the thread has the entry ?2. ?3 is ?2 - 1.
	hasEntry = chain + "SELECT 1 FROM chain WHERE first_seq <= ?2 AND last_seq >= ?2"
	idOfKey  = "SELECT id FROM thread WHERE key = ?"

	// wrongLinks are rows that follow one that is not before them, and wrongEnds threads whose last row does not end
	// their log.
	wrongLinks = `SELECT e.rowid, e.previous FROM entry e CROSS JOIN entry p ON p.rowid = e.previous
		WHERE p.thread <> e.thread OR p.last_seq >= e.first_seq OR p.rowid >= e.rowid LIMIT `
	wrongEnds = `SELECT t.key, t.entry_row FROM thread t CROSS JOIN entry e ON e.rowid = t.entry_row
		WHERE e.thread <> t.key OR e.last_seq <> t.entry_seq LIMIT `

	rowsBetween = "SELECT thread, first_seq, last_seq FROM entry WHERE rowid BETWEEN ? AND ? LIMIT 2048"

	endOfLog = "SELECT entry_row, entry_seq FROM thread WHERE key = ?"
)

// Bounds of how many entries one statement reads forward, and some more. It has the rowids in memory, and follows the
// chain through all its rows before it returns one. So a read that may end early begins with few.
const (
	fewAtOnce  = 16
	mostAtOnce = 128
)

// entriesAfter reads entries of a thread forward.
func entriesAfter(r reader, q store.EntryQuery) (found []mailroom.Entry, err error) {
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	whole := len(q.Kinds) == 0 && q.Run == ""
	atOnce := int64(mostAtOnce)
	if q.Bytes > 0 || !whole && q.Limit > 0 {
		atOnce = fewAtOnce
	}
	for after, more := q.After, true; more && after < q.Before-1; atOnce = min(2*atOnce, mostAtOnce) {
		to := q.Before - 1
		if to-after > atOnce {
			to = after + atOnce
		}
		if left := int64(q.Limit - g.Rows); whole && q.Limit > 0 && to-after > left {
			to = after + left
		}
		more = false
		err = r.query("read entries", entriesForward, []any{q.Thread, to, after}, func(c *columns) (bool, error) {
			row, last, first := c.Int64(), c.Int64(), c.Int64()
			lines := c.blob()
			if more = row != c.Int64(); first >= q.Before {
				more = false
				return false, nil
			}
			after = last
			several, err := format.SplitEntries(lines, first, q)
			for _, e := range several {
				found = append(found, e)
				if !g.Add(len(e.Raw)) {
					more = false
					return false, err
				}
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// entriesBefore reads entries of a thread backward.
func entriesBefore(r reader, q store.EntryQuery) (found []mailroom.Entry, err error) {
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	args := []any{q.Thread, q.Before - 1, q.After}
	err = r.query("read entries", entriesBackward, args, func(c *columns) (bool, error) {
		first := c.Int64()
		lines := c.blob()
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

// logEnd is the end of a thread's log: the rowid of its last row, which may be removed, and its last seq, which the
// thread's row has too. Both are 0 before the first entry.
type logEnd struct{ row, seq int64 }

// readEnd returns the end of a thread's log as the transaction has written it.
func readEnd(t *tx, thread int64) (end logEnd, err error) {
	if end, ok := t.store.memo.ends[thread]; ok {
		return end, nil
	}
	err = t.session.query(t.ctx, endOfLog, []any{thread}, func(c *columns) (bool, error) {
		end = logEnd{c.Int64(), c.Int64()}
		return false, nil
	})
	return end, err
}

// dropAllEntries deletes the entries of a thread.
func dropAllEntries(t *tx, id string) error {
	return t.run(dropEntriesBelow, id, int64(math.MaxInt64), int64(0))
}

// entryRows has the first and the last seq of some rows of entries, by their thread.
type entryRows map[int64][][2]int64

// readRowsBetween reads rows of entries, at most about as many as a step of the index of messages has.
func readRowsBetween(t *tx, from, to store.Position) (entryRows, error) {
	rows := entryRows{}
	err := t.session.query(t.ctx, rowsBetween, []any{from.Commit, to.Commit}, func(c *columns) (bool, error) {
		thread := c.Int64()
		rows[thread] = append(rows[thread], [2]int64{c.Int64(), c.Int64()})
		return true, nil
	})
	return rows, err
}

// has reports whether the entry of a row of the index of messages exists. It reads the thread's log if the rows do not
// have the entry.
func (e entryRows) has(t *tx, row store.IndexRow) (found bool, err error) {
	for _, r := range e[row.Thread] {
		if r[0] <= row.Seq && row.Seq <= r[1] {
			return true, nil
		}
	}
	var id string
	err = t.session.query(t.ctx, idOfKey, []any{row.Thread}, func(c *columns) (bool, error) {
		id = c.Text()
		return false, nil
	})
	if err != nil || id == "" {
		return false, err
	}
	err = t.session.query(t.ctx, hasEntry, []any{id, row.Seq, row.Seq - 1}, func(*columns) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}
