package sqlite

import (
	"math"

	"mailroom"
	"mailroom/store"
)

const insertEntry = "INSERT INTO entry (rowid, thread, last_seq, first_seq, lines, previous) VALUES (?, ?, ?, ?, ?, ?)"

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
	if q.Backward {
		return entriesBefore(r, q)
	}
	return entriesAfter(r, q)
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
	first, last := list[0].Seq, list[len(list)-1].Seq
	if first <= w.end.seq {
		return mailroom.Errorf(mailroom.CodeInternal, "entry %d of thread %q is written already", first, w.row.ID)
	}
	t.given.entryRow++
	previous := w.end.row
	w.end = logEnd{t.given.entryRow, last}
	return t.store.newRows.entries.add(t, intValue(t.given.entryRow), intValue(w.row.Key), intValue(last), intValue(first),
		blobValue(lines), intValue(previous))
}
