package sqlite

import (
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	readIndexState = "SELECT last_id, order_name, entry_row, thread, seq, until FROM index_state WHERE one = 1"
	putIndexState  = "INSERT INTO index_state VALUES (1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last_id = excluded.last_id, " +
		"order_name = excluded.order_name, entry_row = excluded.entry_row, thread = excluded.thread, seq = excluded.seq, until = excluded.until"
	dropIndexed = "DELETE FROM indexed WHERE thread = ? AND seq = ?"
	putIndexed  = `INSERT INTO indexed SELECT ?1, ?2, ?3, ?4 WHERE (SELECT first_seq FROM entry WHERE thread = ?2 AND last_seq >= ?3
		ORDER BY last_seq LIMIT 1) <= ?3`
	putWords = "INSERT INTO word (rowid, words) VALUES (?, ?)"

	// FTS5 finds the next row that has several words quickly in ascending order, but reads most rows between in
	// descending order. From the newest row down, it finds the first matches quickly if there are many.
	findOldest = findWords + " ORDER BY w.rowid LIMIT ?"
	findNewest = findWords + " ORDER BY w.rowid DESC LIMIT ?"
	findWords  = `SELECT w.rowid, t.id, i.content FROM word w JOIN indexed i ON i.id = w.rowid JOIN thread t ON t.key = i.thread
		WHERE word MATCH ? AND w.rowid BETWEEN ? AND ?`
	countWord = "SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH ? LIMIT ?)"

	// rareRows is how many messages have a rare word, at most.
	rareRows = 256
)

// search answers a query with Search.
func search(r reader, s *store.Search) (err error) {
	if s.State, err = indexState(r); err != nil {
		return err
	}
	return s.Run(store.Windows{
		Look: func(w store.Window, limit int) ([]store.Match, error) {
			found, err := lookAt(r, s.Words, w, findOldest, limit+1)
			if err != nil || len(found) <= limit {
				slices.Reverse(found)
				return found, err
			}
			return lookAt(r, s.Words, w, findNewest, limit)
		},
		Skip: func(next store.Window, within time.Duration) (store.Window, error) {
			return skip(r, s.Words, next, within)
		},
	})
}

// lookAt returns the first matches of a window, in the order of the query.
func lookAt(r reader, words []string, w store.Window, query string, limit int) (found []store.Match, err error) {
	match := `"` + strings.Join(words, `" "`) + `"` // words have no quotes
	err = r.query("search", query, []any{match, w.Low, w.High - 1, int64(limit)}, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		found = append(found, store.Match{Row: c.int64(), Content: store.EntryRef{Thread: c.text(), Seq: c.int64()}})
		return true, c.err
	})
	return found, err
}

// skip makes one window of all older rows if one of the words is rare.
func skip(r reader, words []string, next store.Window, within time.Duration) (store.Window, error) {
	started := time.Now()
	for _, word := range words {
		n := 0
		err := r.query("search", countWord, []any{`"` + word + `"`, int64(rareRows + 1)}, func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			n = c.int()
			return false, c.err
		})
		switch {
		case err != nil || n == 0:
			return store.Window{}, err
		case n <= rareRows:
			return store.Window{Low: 1, High: next.High, Level: next.Level}, nil
		case time.Since(started) > within:
			return next, nil
		}
	}
	return next, nil
}

func indexState(r reader) (s store.IndexState, err error) {
	err = r.query("read the state of the index", readIndexState, nil, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		s.Last, s.Order = c.int64(), c.text()
		s.At = store.Position{Commit: c.int64(), Thread: c.int64(), Seq: c.int64()}
		s.Until = c.time()
		return false, c.err
	})
	return s, err
}

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
	id := x.After.Last - int64(len(x.Rows))
	for _, row := range x.Rows {
		id++
		if _, err := t.exec(dropIndexed, row.Thread, row.Seq); err != nil {
			return err
		}
		res, err := t.exec(putIndexed, id, row.Thread, row.Seq, row.Content)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0: // the entry is gone
			continue
		}
		if _, err := t.exec(putWords, id, strings.Join(row.Words, " ")); err != nil {
			return err
		}
	}
	at := x.After.At
	_, err = t.exec(putIndexState, x.After.Last, x.After.Order, at.Commit, at.Thread, at.Seq, micros(x.After.Until))
	return err
}
