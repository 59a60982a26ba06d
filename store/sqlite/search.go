package sqlite

import (
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	readIndexState = "SELECT last_id, order_name, entry_row, thread, seq, until FROM index_state WHERE one = 1"
	putIndexState  = `INSERT INTO index_state VALUES (1, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last_id = excluded.last_id, order_name = excluded.order_name,
		entry_row = excluded.entry_row, thread = excluded.thread, seq = excluded.seq, until = excluded.until`
	dropIndexed = "DELETE FROM indexed WHERE thread = ? AND seq = ?"
	putIndexed  = "INSERT INTO indexed VALUES (?, ?, ?, ?)"
	putWords    = "INSERT INTO word (rowid, words) VALUES (?, ?)"

	// FTS5 finds the next row that has several words quickly in ascending order, but reads most rows between in
	// descending order. From the newest row down, it finds the first matches quickly if there are many.
	findOldest = findWords + " ORDER BY w.rowid LIMIT ?"
	findNewest = findWords + " ORDER BY w.rowid DESC LIMIT ?"
	findWords  = `SELECT w.rowid, t.id, i.content FROM word w JOIN indexed i ON i.id = w.rowid
		JOIN thread t ON t.key = i.thread
		WHERE word MATCH ? AND w.rowid BETWEEN ? AND ?`
	// A query for each of a thousand words would take longer than the words. CROSS JOIN keeps the order of the tables.
	countWords = `SELECT count(*) FROM (SELECT 1 FROM json_each(?) one CROSS JOIN word WHERE word MATCH one.value LIMIT ?)`
)

// search answers a query whose field Search is set, and sets the results in s.
func search(r reader, s *store.Search) (err error) {
	if s.State, err = indexState(r); err != nil {
		return err
	}
	return s.Run(store.Windows{
		Look: func(w store.Window, limit int) ([]store.Match, error) {
			// FTS5 looks up each word of AnyOf in each query, which takes as long as reading a row. So the first query reads
			// as many rows as there are words, and a second one is needed only if the window has more.
			all := max(limit, len(s.AnyOf))
			found, err := lookAt(r, s, w, findOldest, all+1)
			if err != nil || len(found) <= all {
				slices.Reverse(found)
				return found[:min(len(found), limit)], err
			}
			return lookAt(r, s, w, findNewest, limit)
		},
		Skip: func(next store.Window, within time.Duration) (store.Window, error) {
			return skip(r, s, next, within)
		},
	})
}

// lookAt returns the first matches of a window, in the order of the query.
func lookAt(r reader, s *store.Search, w store.Window, query string, limit int) (found []store.Match, err error) {
	match := `"` + strings.Join(s.Words, `" AND "`) + `"` // words have no quotes
	if len(s.AnyOf) > 0 {
		match += ` AND ("` + strings.Join(s.AnyOf, `" OR "`) + `")`
	}
	err = r.query("search", query, []any{match, w.Low, w.High - 1, int64(limit)}, func(c *columns) (bool, error) {
		found = append(found, store.Match{Row: c.Int64(), Content: store.EntryRef{Thread: c.Text(), Seq: c.Int64()}})
		return true, nil
	})
	return found, err
}

// skip returns one window of all older rows if few rows have a word of AnyOf or, in a search without AnyOf, if one of
// its words is rare. A search with AnyOf does not count the rows with its other words: what it costs must not depend
// on whether rows outside of AnyOf have these words.
func skip(r reader, s *store.Search, next store.Window, within time.Duration) (store.Window, error) {
	started := time.Now()
	whole := store.WholeBelow(next.High)
	if len(s.AnyOf) > 0 {
		switch rows, err := countRows(r, s.AnyOf...); {
		case err != nil || rows == 0:
			return store.Window{}, err
		case rows <= store.RareRows:
			return whole, nil
		}
		return next, nil
	}
	for _, word := range s.Words {
		n, err := countRows(r, word)
		switch {
		case err != nil || n == 0:
			return store.Window{}, err
		case n <= store.RareRows:
			return whole, nil
		case time.Since(started) > within:
			return next, nil
		}
	}
	return next, nil
}

// countRows counts the rows with each of some words, up to one more than a rare word has for all of them.
func countRows(r reader, words ...string) (n int, err error) {
	list := `["\"` + strings.Join(words, `\"","\"`) + `\""]` // words have no quotes
	err = r.query("search", countWords, []any{list, int64(store.RareRows + 1)}, func(c *columns) (bool, error) {
		n = c.Int()
		return false, nil
	})
	return n, err
}

func indexState(r reader) (s store.IndexState, err error) {
	err = r.query("read the state of the index", readIndexState, nil, func(c *columns) (bool, error) {
		s.Last, s.Order = c.Int64(), c.Text()
		s.At = store.Position{Commit: c.Int64(), Thread: c.Int64(), Seq: c.Int64()}
		s.Until = c.Time()
		return false, nil
	})
	return s, err
}

// writeIndex writes the words after all other rows: the statements for these open savepoints, and at each savepoint
// FTS5 writes the words that it has in memory to the table, as a segment that it must merge later.
func writeIndex(t *tx, x *store.Indexing) error {
	before, err := indexState(t.reader)
	if err != nil {
		return err
	}
	if before != x.Before {
		return mailroom.Errorf(mailroom.CodeConflict, "the index of messages was changed by another process")
	}
	for _, row := range x.Drop {
		if _, err := t.exec(dropIndexed, row.Thread, row.Seq); err != nil {
			return err
		}
	}
	for _, row := range x.Rows {
		if _, err := t.exec(dropIndexed, row.Thread, row.Seq); err != nil {
			return err
		}
	}
	first := x.After.Last - int64(len(x.Rows)) + 1
	kept := make([]bool, len(x.Rows))
	of, err := readRowsBetween(t, x.Before.At, x.After.At)
	if err != nil {
		return err
	}
	for i, row := range x.Rows {
		if kept[i], err = of.has(t, row); err != nil {
			return err
		}
		if !kept[i] {
			continue
		}
		if err := t.run(putIndexed, first+int64(i), row.Thread, row.Seq, row.Content); err != nil {
			return err
		}
	}
	for i, row := range x.Rows {
		if !kept[i] {
			continue
		}
		if _, err := t.exec(putWords, first+int64(i), strings.Join(row.Words, " ")); err != nil {
			return err
		}
	}
	at := x.After.At
	_, err = t.exec(putIndexState, x.After.Last, x.After.Order, at.Commit, at.Thread, at.Seq, micros(x.After.Until))
	return err
}
