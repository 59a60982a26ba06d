package storetest

import (
	"fmt"
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func positionCases() []testCase {
	return []testCase{
		{"every entry once, in the order of its thread, in pages of every size", positionPages},
		{"the end is before what is written later", positionEnd},
		{"a page ends with the entry that exceeds its bytes", positionBytes},
		{"a position is never given twice", positionsGrow},
		{"what retention removed is remembered", positionsRemoved},
	}
}

// after reads a page, again while the store holds entries back.
func (s *handle) after(at store.Position, limit, bytes int) ([]mailroom.Entry, store.AllEntries) {
	s.t.Helper()
	for {
		all := store.AllEntries{After: at}
		found := get1(s.t, s, func(r store.Reader) ([]mailroom.Entry, error) {
			return r.Entries(store.EntryQuery{All: &all, Limit: limit, Bytes: bytes})
		})
		if len(found) != len(all.Positions) {
			s.t.Fatalf("%d entries with %d positions", len(found), len(all.Positions))
		}
		if !all.Pending || len(found) > 0 && len(found) == limit {
			return found, all
		}
	}
}

func (s *handle) end() store.Position {
	s.t.Helper()
	_, all := s.after(store.Position{Commit: 1 << 62}, 0, 0)
	return all.End
}

func names(list []mailroom.Entry) (ids []string) {
	for _, e := range list {
		ids = append(ids, fmt.Sprint(e.Thread, " ", e.Seq))
	}
	return ids
}

func positionPages(t *testing.T, s *handle) {
	start := s.end()
	writeLogs(s)
	whole, all := s.after(start, 0, 0)
	byThread := map[string][]int64{}
	for _, e := range whole {
		byThread[e.Thread] = append(byThread[e.Thread], e.Seq)
	}
	wantSame(t, "entries by thread", byThread, map[string][]int64{"t": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "u": {1, 2}})
	for i, e := range whole {
		one := get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) {
			return r.Entries(store.EntryQuery{Thread: e.Thread, After: e.Seq - 1, Limit: 1})
		})
		wantSame(t, "an entry", []mailroom.Entry{e}, one)
		if i > 0 && all.Positions[i-1].Compare(all.Positions[i]) >= 0 {
			t.Errorf("position %v is not after %v", all.Positions[i], all.Positions[i-1])
		}
		if all.Positions[i].Seq != e.Seq || all.Positions[i].Compare(all.End) >= 0 {
			t.Errorf("position %v of entry %d, before the end %v", all.Positions[i], e.Seq, all.End)
		}
		rest, _ := s.after(all.Positions[i], 0, 0)
		wantSame(t, fmt.Sprint("after ", names(whole)[i]), names(rest), names(whole[i+1:]))
	}
	for limit := 1; limit <= len(whole)+1; limit++ {
		var got []mailroom.Entry
		for at := start; ; {
			page, all := s.after(at, limit, 0)
			if len(page) == 0 {
				break
			}
			got, at = append(got, page...), all.Positions[len(page)-1]
		}
		wantSame(t, fmt.Sprintf("pages of %d", limit), names(got), names(whole))
	}
}

func positionEnd(t *testing.T, s *handle) {
	writeLogs(s)
	for range 3 {
		all := store.AllEntries{None: true}
		if found := get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) {
			return r.Entries(store.EntryQuery{All: &all})
		}); len(found) > 0 {
			t.Errorf("got %v, want no entries", names(found))
		}
		if len(all.Order) != 12 {
			t.Errorf("the order has the name %q, want 12 characters", all.Order)
		}
		end := s.end()
		row := s.everything().Threads[0]
		row.LastSeq++
		e := entries(row.ID, row.LastSeq, "", entry.KindStep)
		s.write(&store.Changes{Threads: []*mailroom.Thread{row}, Entries: [][]mailroom.Entry{e}})
		got, _ := s.after(end, 0, 0)
		wantSame(t, "after the end", names(got), names(e))
	}
}

func positionBytes(t *testing.T, s *handle) {
	start := s.end()
	writeLogs(s)
	size := len(entries("t", 1, "r1", entry.KindMessage)[0].Raw)
	for _, budget := range []int{1, size, 3 * size} {
		for at := start; ; {
			page, all := s.after(at, 0, budget)
			sum := 0
			for _, e := range page[:max(len(page)-1, 0)] {
				sum += len(e.Raw)
			}
			if sum > budget {
				t.Errorf("%d bytes before the last entry, want at most %d", sum, budget)
			}
			if len(page) == 0 {
				break
			}
			at = all.Positions[len(page)-1]
		}
	}
}

func positionsGrow(t *testing.T, s *handle) {
	writeLogs(s)
	last := s.end()
	for range 3 {
		row := thread("new")
		s.write(&store.Changes{Threads: []*mailroom.Thread{row},
			Entries: [][]mailroom.Entry{entries("new", 1, "", entry.KindStep, entry.KindStep)}})
		got, all := s.after(last, 0, 0)
		if len(got) != 2 {
			t.Fatalf("got %v after %v, want the new entries", names(got), last)
		}
		last = all.Positions[1]
		s.write(&store.Changes{DropThreads: []string{"new"}})
	}
}

func positionsRemoved(t *testing.T, s *handle) {
	start := s.end()
	writeLogs(s)
	whole, all := s.after(start, 0, 0)
	positions := map[string]store.Position{"": all.Removed}
	for i, name := range names(whole) {
		positions[name] = all.Positions[i]
	}
	want := func(doing, last string) {
		t.Helper()
		if _, all := s.after(start, 0, 0); all.Removed != positions[last] {
			t.Errorf("%s: got %v as the last removed position, want %v of entry %q", doing, all.Removed, positions[last], last)
		}
	}
	drop := func(thread string, seq int64, last string) {
		t.Helper()
		s.write(&store.Changes{DropEntries: []store.Prefix{{Thread: thread, Seq: seq}}})
		want(fmt.Sprint(thread, " below ", seq), last)
	}
	drop("t", 1, "")
	drop("none", 5, "")
	drop("t", 2, "t 1")
	drop("t", 4, "t 3")
	drop("t", 8, "t 7")
	drop("t", 5, "t 7") // is removed already
	drop("u", 2, "t 7") // is earlier
	rows := s.everything().Threads
	row := rows[slices.IndexFunc(rows, func(row *mailroom.Thread) bool { return row.ID == "t" })]
	row.DeletedAt = base()
	s.write(&store.Changes{Threads: []*mailroom.Thread{row}})
	drop("t", 10, "t 7") // a part of a thread that is being deleted
	s.write(&store.Changes{DropThreads: []string{"t", "u"}})
	want("deleted threads", "t 7")
}
