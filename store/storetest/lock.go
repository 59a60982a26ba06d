package storetest

import (
	"slices"
	"testing"

	"mailroom"
	"mailroom/store"
)

func lockCases() []testCase {
	return []testCase{
		{"returns rows in the order asked", func(t *testing.T, s *handle) {
			c := &store.Changes{
				Threads: []*mailroom.Thread{thread("a"), thread("c"), thread("b")},
				Workers: []*store.Worker{{ID: "w1"}, {ID: "w3"}, {ID: "w2"}},
			}
			s.write(c)
			s.update(func(tx store.Tx) {
				workers, threads, err := tx.Lock([]string{"w3", "w1", "w2"}, []string{"b", "a", "none", "c"})
				must(t, err)
				var ids []string
				for _, w := range workers {
					ids = append(ids, w.ID)
				}
				if want := []string{"w3", "w1", "w2"}; !slices.Equal(ids, want) {
					t.Errorf("workers: got %v, want %v", ids, want)
				}
				if got, want := threadIDs(threads), []string{"b", "a", "none", "c"}; !slices.Equal(got, want) {
					t.Errorf("threads: got %v, want %v", got, want)
				}
				wantSame(t, "a locked row", threads[3], c.Threads[1])
			})
		}},
		{"a missing worker is nil, a missing thread has its id and no key", func(t *testing.T, s *handle) {
			s.update(func(tx store.Tx) {
				workers, threads, err := tx.Lock([]string{"none"}, []string{"none"})
				must(t, err)
				if len(workers) != 1 || workers[0] != nil {
					t.Errorf("workers: got %v, want one nil", workers)
				}
				wantSame(t, "threads", threads, []*mailroom.Thread{{ID: "none"}})
			})
		}},
		{"a missing thread does not exist until it is written", func(t *testing.T, s *handle) {
			s.update(func(tx store.Tx) {
				_, rows, err := tx.Lock(nil, []string{"written", "left"})
				must(t, err)
				if got := get(tx.Threads(store.ThreadQuery{}))(t); len(got) != 0 {
					t.Errorf("threads after Lock: got %v, want none", threadIDs(got))
				}
				must(t, tx.Write(&store.Changes{Threads: rows[:1]}))
			})
			if got, want := threadIDs(s.everything().Threads), []string{"written"}; !slices.Equal(got, want) {
				t.Errorf("threads after the update: got %v, want %v", got, want)
			}
		}},
		{"may be called again, also after Due", lockAgain},
		{"takes many", lockTakesMany},
	}
}

func lockAgain(t *testing.T, s *handle) {
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{thread("a"), thread("b"), dueThread("due", "echo", 1, base(), false)},
		Workers: []*store.Worker{{ID: "w"}},
	})
	s.update(func(tx store.Tx) {
		lock := func(workers []string, threads ...string) ([]*store.Worker, []*mailroom.Thread) {
			t.Helper()
			ws, rows, err := tx.Lock(workers, threads)
			must(t, err)
			return ws, rows
		}
		_, first := lock(nil, "b", "new")
		first[0].Agent, first[1].Agent = "changed", "changed"
		must(t, tx.Write(&store.Changes{Threads: first}))
		if _, again := lock(nil, "a", "b", "new"); again[0].Agent != "echo" {
			t.Errorf("a row that was not locked before: got agent %q, want echo", again[0].Agent)
		} else {
			wantSame(t, "rows locked before, as the transaction wrote them", again[1:], first)
		}
		due, _, err := tx.Due(base(), []store.Capacity{{Agent: "echo", Slots: 1}})
		must(t, err)
		ws, rows := lock([]string{"w", "none"}, "none", "due")
		wantSame(t, "workers after Due", ws, []*store.Worker{{ID: "w"}, nil})
		wantSame(t, "threads after Due", rows, []*mailroom.Thread{{ID: "none"}, due[0]})
		rows[0].Agent = "made"
		must(t, tx.Write(&store.Changes{Threads: rows[:1]}))
	})
	if got, want := threadIDs(s.everything().Threads), []string{"none", "new", "due", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("threads: got %v, want %v", got, want)
	}
}

func lockTakesMany(t *testing.T, s *handle) {
	var ids []string
	c := &store.Changes{}
	for i := range 1000 {
		ids = append(ids, string(rune('一'+i)))
		if i%2 == 0 {
			c.Threads = append(c.Threads, thread(ids[i]))
		}
	}
	s.write(c)
	s.update(func(tx store.Tx) {
		_, rows, err := tx.Lock(nil, ids)
		must(t, err)
		if got := threadIDs(rows); !slices.Equal(got, ids) {
			t.Errorf("got %d threads, not those asked for in their order", len(got))
		}
		for i, row := range rows {
			if there := row.Key != 0; there != (i%2 == 0) {
				t.Errorf("thread %d: got key %d", i, row.Key)
			}
		}
	})
}
