package storetest

import (
	"cmp"
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func entryCases() []testCase {
	type query = store.EntryQuery
	cases := []struct {
		name  string
		query query
		want  []int64
	}{
		{"all", query{}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{"all backward", query{Backward: true}, []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
		{"after the last of a batch", query{After: 3, Limit: 3}, []int64{4, 5, 6}},
		{"after the middle of a batch", query{After: 6}, []int64{7, 8, 9, 10}},
		{"before the first of a batch", query{Before: 5}, []int64{1, 2, 3, 4}},
		{"before the middle of a batch", query{Before: 3}, []int64{1, 2}},
		{"between within one batch", query{After: 5, Before: 8}, []int64{6, 7}},
		{"between, nothing", query{After: 5, Before: 6}, nil},
		{"between crossed bounds", query{After: 8, Before: 3}, nil},
		{"between, over batches", query{After: 1, Before: 9}, []int64{2, 3, 4, 5, 6, 7, 8}},
		{"backward before the middle of a batch", query{Before: 8, Backward: true, Limit: 4}, []int64{7, 6, 5, 4}},
		{"backward before the first of a batch", query{Before: 5, Backward: true, Limit: 2}, []int64{4, 3}},
		{"backward before the first entry", query{Before: 1, Backward: true}, nil},
		{"backward between within one batch", query{After: 5, Before: 8, Backward: true}, []int64{7, 6}},
		{"backward after the middle of a batch", query{After: 7, Backward: true}, []int64{10, 9, 8}},
		{"backward before a seq beyond the log", query{Before: 100, Backward: true, Limit: 2}, []int64{10, 9}},
		{"after the last", query{After: 10}, nil},
		{"far after the last", query{After: 1 << 40}, nil},
		{"of one kind", query{Kinds: []string{entry.KindStep}}, []int64{4, 7, 8}},
		{"of some kinds, a page", query{Kinds: []string{entry.KindStep, entry.KindMessage, "x.none"}, After: 1, Limit: 3},
			[]int64{4, 5, 7}},
		{"of some kinds, backward", query{Kinds: []string{entry.KindMessage}, Backward: true, Limit: 2}, []int64{9, 5}},
		{"of a run", query{Run: "r1"}, []int64{1, 2, 3, 4, 10}},
		{"of a run and a kind", query{Run: "r2", Kinds: []string{entry.KindMessage}, Before: 9}, []int64{5}},
		{"of an unknown run", query{Run: "none"}, nil},
		{"limit over batches", query{Limit: 7}, []int64{1, 2, 3, 4, 5, 6, 7}},
	}
	return []testCase{{"by", func(t *testing.T, s *handle) {
		writeLogs(s)
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				q := tc.query
				q.Thread = "t"
				got := seqs(get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) { return r.Entries(q) }))
				if !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		}
	}}, {"by reference", func(t *testing.T, s *handle) {
		writeLogs(s)
		at := []store.EntryRef{{Thread: "none", Seq: 1}}
		for _, seq := range []int64{7, 6, 10, 11, 3, 4, 7, 0, 1} { // adjacent ones in a row, in two rows and beyond the end
			at = append(at, store.EntryRef{Thread: "t", Seq: seq})
		}
		found := get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) { return r.Entries(store.EntryQuery{At: at}) })
		slices.SortFunc(found, func(a, b mailroom.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
		wantSame(t, "entries by reference", seqs(found), []int64{1, 3, 4, 6, 7, 10})
		for _, e := range found {
			same := get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) {
				return r.Entries(store.EntryQuery{Thread: "t", After: e.Seq - 1, Limit: 1})
			})
			wantSame(t, "entry by reference", []mailroom.Entry{e}, same)
		}
	}}, {"of a thread without any", func(t *testing.T, s *handle) {
		writeLogs(s)
		s.view(func(r store.Reader) {
			for _, id := range []string{"empty", "none"} {
				if got := get(r.Entries(query{Thread: id}))(t); len(got) != 0 {
					t.Errorf("entries of %s: got %v, want none", id, seqs(got))
				}
			}
			if got, want := seqs(get(r.Entries(query{Thread: "u"}))(t)), []int64{1, 2}; !slices.Equal(got, want) {
				t.Errorf("entries of u: got %v, want %v", got, want)
			}
		})
	}}, {"every page, forward and backward", everyPage}}
}

// writeLogs writes the entries 1 to 10 of thread t in batches 1-3, 4, 5-9 and 10, and some entries
// of u.
func writeLogs(s *handle) {
	c := &store.Changes{
		Threads: []*mailroom.Thread{thread("t"), thread("u"), thread("empty")},
		Entries: [][]mailroom.Entry{
			entries("t", 1, "r1", entry.KindMessage, entry.KindQueued, entry.KindStarted),
			entries("u", 1, "ru", entry.KindMessage, entry.KindQueued),
		},
	}
	s.write(c)
	for _, batch := range [][]mailroom.Entry{
		entries("t", 4, "r1", entry.KindStep),
		entries("t", 5, "r2", entry.KindMessage, entry.KindQueued, entry.KindStep, entry.KindStep, entry.KindMessage),
		entries("t", 10, "r1", entry.KindCompleted),
	} {
		s.write(&store.Changes{Threads: c.Threads[:1], Entries: [][]mailroom.Entry{batch}})
	}
}

// everyPage reads a log of batches of 1 to 7 entries in pages of all sizes.
func everyPage(t *testing.T, s *handle) {
	row := thread("t")
	s.write(&store.Changes{Threads: []*mailroom.Thread{row}})
	for size := int64(1); size <= 7; size++ {
		kinds := slices.Repeat([]string{entry.KindStep}, int(size))
		s.write(&store.Changes{
			Threads: []*mailroom.Thread{row},
			Entries: [][]mailroom.Entry{entries("t", row.LastSeq+1, "", kinds...)},
		})
		row.LastSeq += size
	}
	s.view(func(r store.Reader) {
		for limit := 1; limit <= 9; limit++ {
			forward, backward := int64(0), row.LastSeq+1
			for forward < row.LastSeq {
				page := get(r.Entries(store.EntryQuery{Thread: "t", After: forward, Limit: limit}))(t)
				for _, e := range page {
					if forward++; e.Seq != forward {
						t.Fatalf("pages of %d: got seq %d, want %d", limit, e.Seq, forward)
					}
				}
				if len(page) == 0 {
					t.Fatalf("pages of %d: got none after %d", limit, forward)
				}
			}
			for backward > 1 {
				page := get(r.Entries(store.EntryQuery{Thread: "t", Before: backward, Backward: true, Limit: limit}))(t)
				for _, e := range page {
					if backward--; e.Seq != backward {
						t.Fatalf("pages of %d backward: got seq %d, want %d", limit, e.Seq, backward)
					}
				}
				if len(page) == 0 {
					t.Fatalf("pages of %d: got none before %d", limit, backward)
				}
			}
		}
	})
}
