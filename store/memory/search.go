package memory

import (
	"cmp"
	"slices"

	"mailroom"
	"mailroom/store"
)

// search answers a query whose field Search is set, and sets the results in s.
func (r reader) search(s *store.Search) error {
	s.State = r.index
	return s.Run(store.Windows{Look: func(w store.Window, limit int) (found []store.Match, err error) {
		for _, row := range r.indexed.all() {
			if row.id >= w.Low && row.id < w.High && hasAll(row.words, s.Words) && hasAny(row.words, s.AnyOf) {
				found = append(found, store.Match{Row: row.id, Content: row.content})
			}
		}
		slices.SortFunc(found, func(a, b store.Match) int { return cmp.Compare(b.Row, a.Row) })
		return first(found, limit), nil
	}})
}

func hasAll(words, wanted []string) bool {
	for _, word := range wanted {
		if !slices.Contains(words, word) {
			return false
		}
	}
	return true
}

func hasAny(words, wanted []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(words, w) })
}

func (t *tx) addSummaries(c *store.Changes) {
	for _, s := range c.Summaries {
		cut(&s.Key.At)
		sums, _ := t.summary.get(s.Key)
		t.summary.put(s.Key, sums.Plus(s.Sums))
	}
}

func (t *tx) writeIndex(x *store.Indexing) error {
	if x == nil {
		return nil
	}
	if t.index != x.Before {
		t.failed = mailroom.Errorf(mailroom.CodeConflict, "the index of messages was changed by another process")
		return t.failed
	}
	for _, row := range x.Drop {
		t.indexed.drop(indexKey{row.Thread, row.Seq})
	}
	id := x.After.Last - int64(len(x.Rows))
	for _, row := range x.Rows {
		id++
		key := indexKey{row.Thread, row.Seq}
		t.indexed.drop(key)
		if of := t.threadWithKey(row.Thread); of != nil && t.hasEntry(of.ID, row.Seq) {
			t.indexed.put(key, indexRow{id: id, content: store.EntryRef{Thread: of.ID, Seq: row.Content},
				words: slices.Clone(row.Words)})
		}
	}
	t.index = x.After
	return nil
}

func (t *tx) threadWithKey(key int64) *mailroom.Thread {
	for _, row := range t.threads.all() {
		if row.Key == key {
			return row
		}
	}
	return nil
}

func (t *tx) hasEntry(thread string, seq int64) bool {
	log, _ := t.logs.get(thread)
	return slices.ContainsFunc(log, func(e mailroom.Entry) bool { return e.Seq == seq })
}

// dropIndexed drops the rows of a thread below a seq.
func (t *tx) dropIndexed(thread, seq int64) {
	for key := range t.indexed.all() {
		if key.thread == thread && key.seq < seq {
			t.indexed.drop(key)
		}
	}
}
