package sqlite

import (
	"database/sql/driver"
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

	// FTS5 reads from the greatest rowid of the window down, until it has enough.
	findWords = `SELECT w.rowid, t.id, i.content FROM word w JOIN indexed i ON i.id = w.rowid JOIN thread t ON t.key = i.thread
		WHERE word MATCH ? AND w.rowid BETWEEN ? AND ? ORDER BY w.rowid DESC LIMIT ?`
	newestWithWord = "SELECT rowid FROM word WHERE word MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT 1"
)

// search answers a query with Search.
func search(r reader, s *store.Search) (err error) {
	if s.State, err = indexState(r); err != nil {
		return err
	}
	match := `"` + strings.Join(s.Words, `" "`) + `"` // words have no quotes
	return s.Run(store.Windows{
		Look: func(w store.Window, limit int) (found []store.Match, err error) {
			args := []any{match, w.Low, w.High - 1, int64(limit)}
			err = r.query("search", findWords, args, func(row []driver.Value) (bool, error) {
				c := columns{row: row}
				found = append(found, store.Match{Row: c.int64(), Content: store.EntryRef{Thread: c.text(), Seq: c.int64()}})
				return true, c.err
			})
			return found, err
		},
		Skip: func(next store.Window, within time.Duration) (store.Window, error) {
			return skip(r, s.Words, next, within)
		},
	})
}

// skip goes from word to word, each time to the newest row that has the word and is not newer than the row
// before. It ends at a row that all words have, or after a bounded time. FTS5 seeks each of these rows.
func skip(r reader, words []string, next store.Window, within time.Duration) (store.Window, error) {
	high, started := next.High, time.Now()
	for same := 0; same < len(words) && time.Since(started) < within; {
		for _, word := range words {
			row := int64(0)
			err := r.query("search", newestWithWord, []any{`"` + word + `"`, high}, func(found []driver.Value) (bool, error) {
				c := columns{row: found}
				row = c.int64()
				return false, c.err
			})
			if err != nil || row == 0 {
				return store.Window{}, err
			}
			if same++; row+1 < high {
				same, high = 1, row+1
			}
		}
	}
	if high > next.Low {
		return store.Window{Low: next.Low, High: high, Level: next.Level}, nil
	}
	return store.WindowBelow(high, 0), nil
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
