package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

func loadCases() []testCase {
	return []testCase{
		{"returns rows in the order asked", func(t *testing.T, s *handle) {
			c := &store.Changes{
				Threads: []*mailroom.Thread{thread("a"), thread("c"), thread("b")},
				Workers: []*store.Worker{{ID: "w1"}, {ID: "w3"}, {ID: "w2"}},
			}
			s.write(c)
			s.update(func(tx store.Tx) {
				workers, threads, err := Lock(tx, []string{"w3", "w1", "w2"}, []string{"b", "a", "none", "c"})
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
				workers, threads, err := Lock(tx, []string{"none"}, []string{"none"})
				must(t, err)
				if len(workers) != 1 || workers[0] != nil {
					t.Errorf("workers: got %v, want one nil", workers)
				}
				wantSame(t, "threads", threads, []*mailroom.Thread{{ID: "none"}})
			})
		}},
		{"a missing thread does not exist until it is written", func(t *testing.T, s *handle) {
			s.update(func(tx store.Tx) {
				_, rows, err := Lock(tx, nil, []string{"written", "left"})
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
		{"reads the current runs, with their tickets", loadReadsCurrentRuns},
		{"reads the first runs of the queues", loadReadsHeads},
		{"reads a run that gave way at its place in the queue", loadReadsRunThatGaveWay},
		{"reads submit keys, with the runs of their results", loadReadsKeys},
		{"reads named runs once, also of threads that it does not lock", loadReadsNamedRuns},
		{"leaves out what the caller knows", loadLeavesOutKnownRows},
		{"is repeated by Due for the due threads", dueReadsWhatBelongsToThreads},
	}
}

// busyThread writes a thread with a running run that has asked a question, five queued runs and two
// scheduled ones.
func busyThread(s *handle, id string) {
	row := dueThread(id, "echo", 1, base(), false)
	row.Current, row.HeldAt, row.Revision = id+" current", after(1), 7
	current := run(id+" current", id)
	current.Status, current.Started, current.Asked = mailroom.StatusRunning, true, 1
	c := &store.Changes{
		Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{current},
		Tickets: []*mailroom.Ticket{ticket(id+" ticket", current.ID, id)},
	}
	for i := range 5 {
		queued := run(fmt.Sprintf("%s queued %d", id, i), id)
		queued.Place = int64(10 - i)
		c.Runs = append(c.Runs, queued)
	}
	for i := range 2 {
		scheduled := run(fmt.Sprintf("%s scheduled %d", id, i), id)
		scheduled.Scheduled, scheduled.NotBefore = true, after(2-i)
		c.Runs = append(c.Runs, scheduled)
	}
	s.write(c)
}

func (s *handle) load(n store.Need) (l *store.Loaded) {
	s.t.Helper()
	s.update(func(tx store.Tx) {
		var err error
		l, err = tx.Load(n)
		must(s.t, err)
	})
	return l
}

func sortedRuns(l *store.Loaded) []string {
	return slices.Sorted(slices.Values(runIDs(l.Runs)))
}

// wantHeads checks the queues of busyThread.
func wantHeads(t *testing.T, l *store.Loaded, id string) {
	t.Helper()
	got := map[store.RunSet][]string{}
	for _, h := range l.Heads {
		if h.Thread == id {
			got[h.Set] = runIDs(h.Runs)
		}
	}
	wantSame(t, "queues of "+id, got, map[store.RunSet][]string{
		store.RunsQueued:    {id + " queued 4", id + " queued 3", id + " queued 2"},
		store.RunsScheduled: {id + " scheduled 1", id + " scheduled 0"},
	})
}

func loadReadsCurrentRuns(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	l := s.load(store.Need{Threads: []string{"b", "none", "a"}})
	wantSame(t, "runs", sortedRuns(l), []string{"a current", "b current"})
	wantSame(t, "tickets", slices.Sorted(slices.Values(ticketIDs(l.Tickets))), []string{"a ticket", "b ticket"})
	for _, h := range l.Heads {
		t.Errorf("got the queue of %s, which was not asked for", h.Thread)
	}
}

func loadReadsHeads(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	s.write(&store.Changes{Threads: []*mailroom.Thread{thread("idle")}})
	l := s.load(store.Need{Threads: []string{"a", "b", "idle", "none"}, Queues: []string{"b", "idle", "none", "b"}})
	wantHeads(t, l, "b")
	for _, h := range l.Heads {
		if h.Thread != "b" && len(h.Runs) > 0 {
			t.Errorf("got runs of the queue of %s", h.Thread)
		}
	}
}

// loadReadsRunThatGaveWay starts the first run of a queue, and returns it to its place, behind a run that passes it. It
// has had an attempt, unlike all other runs of a queue.
func loadReadsRunThatGaveWay(t *testing.T, s *handle) {
	busyThread(s, "a")
	wantQueue := func(when string, want ...string) {
		t.Helper()
		var heads [][]string
		for _, h := range s.load(store.Need{Threads: []string{"a"}, Queues: []string{"a"}}).Heads {
			if h.Set == store.RunsQueued {
				heads = append(heads, runIDs(h.Runs))
			}
		}
		wantSame(t, "the head of the queue "+when, heads, [][]string{want})
		s.wantRuns("the queue "+when, store.RunQuery{Thread: "a", Set: store.RunsQueued, Limit: 3}, want...)
	}
	change := func(id string, f func(r *mailroom.Run)) {
		r := s.load(store.Need{Runs: []string{id}}).Runs[0]
		f(r)
		s.write(&store.Changes{Runs: []*mailroom.Run{r}})
	}
	first := "a queued 4"
	change(first, func(r *mailroom.Run) {
		r.Status, r.Started, r.Attempt, r.StartedAt = mailroom.StatusRunning, true, 1, after(1)
	})
	wantQueue("while its first run works", "a queued 3", "a queued 2", "a queued 1")
	change("a queued 1", func(r *mailroom.Run) { r.Priority-- })
	change(first, func(r *mailroom.Run) { r.Status, r.StartedAt = mailroom.StatusQueued, time.Time{} })
	wantQueue("when it gave way", "a queued 1", first, "a queued 3")
	counts := get1(t, s, func(r store.Reader) (store.Counts, error) {
		return r.Count(store.CountQuery{Thread: "a", Set: store.RunsQueued})
	})
	wantSame(t, "runs in the queue", counts.Sum(), 5)
}

func loadReadsKeys(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	known := key("b", "k")
	known.Result.Run = "b queued 0"
	other := key("a", "k")
	s.update(func(tx store.Tx) {
		_, rows, err := Lock(tx, nil, []string{"a", "b"})
		must(t, err)
		must(t, tx.Write(&store.Changes{Threads: rows, Keys: []store.SubmitKey{known, other}}))
	})
	l := s.load(store.Need{
		Threads: []string{"b", "none"},
		Keys: []store.KeyRef{{Thread: "b", Key: "k"}, {Thread: "b", Key: "unused"}, {Thread: "b", Key: "k"},
			{Thread: "none", Key: "k"}},
	})
	wantSame(t, "keys", l.Keys, []store.SubmitKey{known})
	wantSame(t, "runs", sortedRuns(l), []string{"b current", "b queued 0"})
}

func loadReadsNamedRuns(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	l := s.load(store.Need{Threads: []string{"a"}, Runs: []string{"a current", "a queued 1", "b current", "none",
		"a queued 1"}})
	wantSame(t, "runs", sortedRuns(l), []string{"a current", "a queued 1", "b current"})
	wantSame(t, "tickets", slices.Sorted(slices.Values(ticketIDs(l.Tickets))), []string{"a ticket", "b ticket"})
	wantSame(t, "locked threads", threadIDs(l.Threads), []string{"a"})
}

func loadLeavesOutKnownRows(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	rows := s.load(store.Need{Threads: []string{"a", "b"}}).Threads
	older := store.VersionOf(rows[1])
	older.Revision--
	n := store.Need{Threads: []string{"a", "b"}, Queues: []string{"a", "b"}, Runs: []string{"a queued 0"},
		Known: func(id string) store.Version {
			return map[string]store.Version{"a": store.VersionOf(rows[0]), "b": older}[id]
		}}
	check := func(l *store.Loaded, what string) {
		t.Helper()
		if got, want := store.VersionOf(l.Threads[0]), store.VersionOf(rows[0]); got != want || l.Threads[0].ID != "a" {
			t.Errorf("%s, known row: got %q at %v, want a at %v", what, l.Threads[0].ID, got, want)
		}
		wantSame(t, what+", other row", l.Threads[1], rows[1])
		wantHeads(t, l, "b")
		for _, h := range l.Heads {
			if h.Thread == "a" {
				t.Errorf("%s: got the queue of a known row", what)
			}
		}
	}
	l := s.load(n)
	check(l, "loaded")
	wantSame(t, "runs", sortedRuns(l), []string{"a queued 0", "b current"})
	s.update(func(tx store.Tx) {
		due, _, err := tx.Due(base(), []store.Capacity{{Agent: "echo", Slots: 9}}, n.Known)
		must(t, err)
		check(due, "due")
	})
}

func dueReadsWhatBelongsToThreads(t *testing.T, s *handle) {
	busyThread(s, "a")
	busyThread(s, "b")
	s.update(func(tx store.Tx) {
		l, _, err := tx.Due(base(), []store.Capacity{{Agent: "echo", Slots: 1}}, nil)
		must(t, err)
		wantSame(t, "threads", threadIDs(l.Threads), []string{"a"})
		wantSame(t, "runs", runIDs(l.Runs), []string{"a current"})
		wantSame(t, "tickets", ticketIDs(l.Tickets), []string{"a ticket"})
		wantHeads(t, l, "a")
	})
}

func lockAgain(t *testing.T, s *handle) {
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{thread("a"), thread("b"), dueThread("due", "echo", 1, base(), false)},
		Workers: []*store.Worker{{ID: "w"}},
	})
	s.update(func(tx store.Tx) {
		lock := func(workers []string, threads ...string) ([]*store.Worker, []*mailroom.Thread) {
			t.Helper()
			ws, rows, err := Lock(tx, workers, threads)
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
		due, _, err := Due(tx, base(), []store.Capacity{{Agent: "echo", Slots: 1}})
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
		_, rows, err := Lock(tx, nil, ids)
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
