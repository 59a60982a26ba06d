package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func searchCases() []testCase {
	return []testCase{
		{"finds messages with all words, the newest first", searchFinds},
		{"reads one window after the other", searchReadsWindows},
		{"loses what is dropped", searchLosesDropped},
		{"refuses an index that another process changed", searchRefusesConflicts},
	}
}

// indexed adds rows to the index of messages.
func (s *handle) indexed(rows []store.IndexRow, drop ...store.IndexRow) {
	s.t.Helper()
	s.update(func(tx store.Tx) { must(s.t, tx.Write(&store.Changes{Index: nextIndexing(s.t, tx, rows, drop...)})) })
}

func nextIndexing(t *testing.T, r store.Reader, rows []store.IndexRow, drop ...store.IndexRow) *store.Indexing {
	for i := range rows {
		rows[i].Content = max(rows[i].Content, rows[i].Seq)
	}
	before := search(t, r, &store.Search{}).State
	after := before
	after.Last, after.Order = before.Last+int64(len(rows)), "abcdef012345"
	after.At, after.Until = store.Position{Commit: before.At.Commit + 1, Thread: 3, Seq: 4},
		base().Add(time.Duration(before.At.Commit)*time.Second)
	return &store.Indexing{Before: before, After: after, Rows: rows, Drop: drop}
}

func search(t *testing.T, r store.Reader, q *store.Search) *store.Search {
	get(r.Entries(store.EntryQuery{Search: q}))(t)
	return q
}

// found returns the entries that a search finds, as thread and seq.
func (s *handle) found(words ...string) (all []string) {
	s.t.Helper()
	s.view(func(r store.Reader) {
		for q := (store.Search{Words: words, Limit: 2}); ; q.Before = q.Next {
			search(s.t, r, &q)
			for _, e := range q.Found {
				all = append(all, fmt.Sprint(e.Content.Thread, e.Content.Seq))
			}
			if q.Next == 0 {
				return
			}
		}
	})
	return all
}

func (s *handle) wantFound(want []string, words ...string) {
	s.t.Helper()
	if got := s.found(words...); !slices.Equal(got, want) {
		s.t.Errorf("%q: found %v, want %v", words, got, want)
	}
}

// logged makes a thread. Each number in commits is a commit of as many entries, which one row of the log holds.
func (s *handle) logged(id string, commits ...int) *mailroom.Thread {
	s.t.Helper()
	row := &mailroom.Thread{ID: id, Owner: "ann", FirstSeq: 1}
	for _, n := range commits {
		var kinds []string
		for range n {
			kinds = append(kinds, entry.KindMessage)
		}
		from := row.LastSeq + 1
		row.LastSeq += int64(n)
		s.update(func(tx store.Tx) {
			_, rows, err := Lock(tx, nil, []string{id})
			must(s.t, err)
			key := rows[0].Key
			row.Key = key
			must(s.t,
				tx.Write(&store.Changes{Threads: []*mailroom.Thread{row},
					Entries: [][]mailroom.Entry{entries(id, from, "", kinds...)}}))
		})
	}
	return row
}

func searchFinds(t *testing.T, s *handle) {
	a, b := s.logged("a", 2, 1), s.logged("b", 3)
	s.wantFound(nil, "one")
	s.indexed([]store.IndexRow{
		{Thread: a.Key, Seq: 1, Words: []string{"one", "wörld", store.OwnerWord("ann")}},
		{Thread: b.Key, Seq: 1, Words: []string{"one", "two", "दुनिया"}},
		{Thread: b.Key, Seq: 9, Words: []string{"one"}}, {Thread: 77, Seq: 1, Words: []string{"one"}}, // no such entries
	})
	s.indexed([]store.IndexRow{{Thread: a.Key, Seq: 3, Words: []string{"two", "one"}},
		{Thread: a.Key, Seq: 2, Words: []string{"onetwo", "日", "本"}}})
	s.wantFound([]string{"a3", "b1", "a1"}, "one")
	s.wantFound([]string{"a3", "b1"}, "two", "one")
	s.wantFound([]string{"a1"}, store.OwnerWord("ann"))
	s.wantFound([]string{"a1"}, "wörld")
	s.wantFound([]string{"b1"}, "दुनिया", "one")
	s.wantFound([]string{"a2"}, "本")
	for _, none := range []string{"on", "world", "wörl", "three", store.OwnerWord("bob")} {
		s.wantFound(nil, "one", none)
	}
	s.indexed([]store.IndexRow{{Thread: b.Key, Seq: 2, Words: []string{"one", store.OwnerWord("bob")}}})
	for _, tc := range []struct {
		any  []string
		want []string
	}{
		{[]string{store.OwnerWord("ann")}, []string{"a1"}},
		{[]string{store.OwnerWord("ann"), store.OwnerWord("bob")}, []string{"b2", "a1"}},
		{[]string{store.OwnerWord("eve")}, nil},
	} {
		s.view(func(r store.Reader) {
			var got []string
			for _, m := range search(t, r, &store.Search{Words: []string{"one"}, AnyOf: tc.any, Limit: 9}).Found {
				got = append(got, fmt.Sprint(m.Content.Thread, m.Content.Seq))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("any of %q: found %v, want %v", tc.any, got, tc.want)
			}
		})
	}
	s.indexed(nil, store.IndexRow{Thread: b.Key, Seq: 2})
	// A row replaces that of its entry.
	s.indexed([]store.IndexRow{{Thread: a.Key, Seq: 1, Content: 2, Words: []string{"new", "one"}}})
	s.wantFound([]string{"a2", "a3", "b1"}, "one")
	s.wantFound(nil, "wörld")
	s.indexed(nil, store.IndexRow{Thread: a.Key, Seq: 1}, store.IndexRow{Thread: a.Key, Seq: 8})
	s.wantFound([]string{"a3", "b1"}, "one")
	s.view(func(r store.Reader) {
		state := search(t, r, &store.Search{}).State
		wantSame(t, "state", state, store.IndexState{
			Last: 8, Order: "abcdef012345", At: store.Position{Commit: 6, Thread: 3, Seq: 4}, Until: base().Add(5 * time.Second),
		})
	})
}

func searchReadsWindows(t *testing.T, s *handle) {
	const n = 20_000 // of rows, the older and the newer half in three windows, with many empty ones between
	a := s.logged("a", 1000)
	for from := 0; from < n; from += 1000 {
		var rows []store.IndexRow
		for i := range 1000 {
			rows = append(rows, store.IndexRow{Thread: a.Key, Seq: int64(i + 1),
				Words: []string{"all", fmt.Sprint("n", from+i)}})
		}
		if from > 0 { // the same entries again, for numbers of a large index
			rows = rows[:10]
			must(t, s.Update(t.Context(), func(tx store.Tx) error {
				x := nextIndexing(t, tx, rows)
				x.After.Last += 990
				if from == n/2 {
					x.After.Last += 6_000_000
				}
				return tx.Write(&store.Changes{Index: x})
			}))
			continue
		}
		s.indexed(rows)
	}
	s.wantFound([]string{"a1000"}, "n999")
	s.wantFound([]string{"a5"}, fmt.Sprint("n", n-1000+4))
	s.wantFound(nil, "n4")
	s.wantFound([]string{"a1000"}, "all", "n999")
	s.wantFound(nil, "n999", "n998")
	if got := s.found("all"); len(got) != 1000 || got[0] != "a10" || got[9] != "a1" || got[10] != "a1000" ||
		got[999] != "a11" {
		t.Errorf("got %d rows, %v …", len(got), got[:min(len(got), 12)])
	}
	s.view(func(r store.Reader) { // a budget ends a search behind a window, not within a found one
		for q := (store.Search{Words: []string{"n999"}, Limit: 1, Budget: 1}); ; q.Before = q.Next {
			search(t, r, &q)
			if len(q.Found) == 1 {
				return
			}
			if q.Next == 0 || q.Before != 0 && q.Next >= q.Before {
				t.Errorf("after %d the search goes on before %d, want n999", q.Before, q.Next)
				return
			}
		}
	})
}

func searchLosesDropped(t *testing.T, s *handle) {
	a, b := s.logged("a", 3, 2, 1), s.logged("b", 2)
	var rows []store.IndexRow
	for seq := range int64(6) {
		rows = append(rows, store.IndexRow{Thread: a.Key, Seq: seq + 1, Words: []string{"all"}})
	}
	s.indexed(append(rows, store.IndexRow{Thread: b.Key, Seq: 1, Words: []string{"all"}}))
	drop := func(seq int64) {
		a.FirstSeq = seq
		s.write(&store.Changes{Threads: []*mailroom.Thread{a}, DropEntries: []store.Prefix{{Thread: "a", Seq: seq}}})
	}
	drop(2) // within the first commit
	s.wantFound([]string{"b1", "a6", "a5", "a4", "a3", "a2"}, "all")
	s.indexed([]store.IndexRow{{Thread: a.Key, Seq: 1, Words: []string{"all", "late"}}})
	s.wantFound(nil, "late")
	drop(5)
	s.wantFound([]string{"b1", "a6", "a5"}, "all")
	s.write(&store.Changes{DropThreads: []string{"a"}})
	s.wantFound([]string{"b1"}, "all")
	s.write(&store.Changes{DropThreads: []string{"b"}})
	s.wantFound(nil, "all")
}

func searchRefusesConflicts(t *testing.T, s *handle) {
	a := s.logged("a", 1)
	rows := []store.IndexRow{{Thread: a.Key, Seq: 1, Words: []string{"one"}}}
	var old *store.Indexing
	s.view(func(r store.Reader) { old = nextIndexing(t, r, rows) })
	s.indexed(rows)
	old.Rows = []store.IndexRow{{Thread: a.Key, Seq: 1, Words: []string{"two"}}}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(&store.Changes{Index: old}) }); err == nil {
		t.Error("got no error")
	}
	s.wantFound([]string{"a1"}, "one")
	s.wantFound(nil, "two")
}
