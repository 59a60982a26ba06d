package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

func writeCases() []testCase {
	return []testCase{
		{"gives keys that grow in commit order", keysGrow},
		{"updates all fields", updateWritesAllFields},
		{"a row may refer to another of the same Changes", fullChangesAreWritten},
		{"keeps the last of several rows with one key", lastRowIsKept},
		{"writes any number of rows", anyNumberOfRows},
		{"times are kept in UTC and whole microseconds", timesAreCut},
		{"refuses what contradicts the rows as internal", contradictionsAreInternal},
		{"writes nothing for empty Changes", func(t *testing.T, s *handle) {
			s.write(fullChanges())
			before := s.everything()
			s.write(&store.Changes{}, &store.Changes{Entries: [][]mailroom.Entry{nil}})
			wantSame(t, "rows", s.everything(), before)
		}},
	}
}

func keysGrow(t *testing.T, s *handle) {
	var lastThread, lastRun, lastTicket int64
	for _, id := range []string{"b", "a", "c"} {
		row, r := thread(id), run("r"+id, id)
		second := thread(id + "2")
		q := ticket("q"+id, r.ID, id)
		s.write(&store.Changes{
			Threads: []*mailroom.Thread{row, second}, Runs: []*mailroom.Run{r}, Tickets: []*mailroom.Ticket{q},
		})
		if row.Key <= lastThread || second.Key <= row.Key {
			t.Errorf("thread keys: got %d and %d after %d, want growing ones", row.Key, second.Key, lastThread)
		}
		if r.Key <= lastRun {
			t.Errorf("run key: got %d after %d, want a greater one", r.Key, lastRun)
		}
		if q.Key <= lastTicket {
			t.Errorf("ticket key: got %d after %d, want a greater one", q.Key, lastTicket)
		}
		lastThread, lastRun, lastTicket = second.Key, r.Key, q.Key
	}
	s.write(&store.Changes{DropThreads: []string{"c", "c2"}})
	row, r, q := thread("d"), run("rd", "d"), ticket("qd", "rd", "d")
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{r}, Tickets: []*mailroom.Ticket{q},
	})
	if row.Key <= lastThread || r.Key <= lastRun || q.Key <= lastTicket {
		t.Errorf("after a drop: got keys %d, %d and %d, want more than %d, %d and %d: a key is never given twice",
			row.Key, r.Key, q.Key, lastThread, lastRun, lastTicket)
	}
}

func updateWritesAllFields(t *testing.T, s *handle) {
	c := fullChanges()
	s.write(c)

	row := claimedThread(11)
	row.Key, row.ID = c.Threads[0].Key, "t"
	r := filled[mailroom.Run](12)
	r.Key, r.ID, r.Thread = c.Runs[0].Key, "r", "t"
	w := filled[store.Worker](13)
	w.ID = "w"
	q := filled[mailroom.Ticket](14)
	q.Key, q.ID, q.Thread, q.Run = c.Tickets[0].Key, "q", "t", "r"
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{&row}, Runs: []*mailroom.Run{&r}, Workers: []*store.Worker{&w},
		Tickets: []*mailroom.Ticket{&q},
	})
	got := s.everything()
	wantSame(t, "threads", got.Threads, []*mailroom.Thread{c.Threads[1], &row})
	wantSame(t, "runs", got.Runs, []*mailroom.Run{&r})
	wantSame(t, "workers", got.Workers, []*store.Worker{&w})
	q.Agent = got.Tickets[0].Agent // a run keeps its agent, so a store may have either here
	wantSame(t, "tickets", got.Tickets, []*mailroom.Ticket{&q})

	zeroThread := mailroom.Thread{Key: row.Key, ID: "t"}
	zeroRun := mailroom.Run{Key: r.Key, ID: "r", Thread: "t"}
	zeroWorker := store.Worker{ID: "w"}
	zeroTicket := mailroom.Ticket{Key: q.Key, ID: "q", Thread: "t", Run: "r"}
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{&zeroThread}, Runs: []*mailroom.Run{&zeroRun},
		Workers: []*store.Worker{&zeroWorker}, Tickets: []*mailroom.Ticket{&zeroTicket},
	})
	got = s.everything()
	wantSame(t, "threads set to zero", got.Threads, []*mailroom.Thread{c.Threads[1], &zeroThread})
	wantSame(t, "runs set to zero", got.Runs, []*mailroom.Run{&zeroRun})
	wantSame(t, "workers set to zero", got.Workers, []*store.Worker{&zeroWorker})
	zeroTicket.Agent = got.Tickets[0].Agent
	wantSame(t, "tickets set to zero", got.Tickets, []*mailroom.Ticket{&zeroTicket})
}

func fullChangesAreWritten(t *testing.T, s *handle) {
	c := fullChanges()
	s.write(c)
	got := s.everything()
	wantSame(t, "threads", got.Threads, []*mailroom.Thread{c.Threads[1], c.Threads[0]})
	wantSame(t, "runs", got.Runs, c.Runs)
	wantSame(t, "entries", got.Entries["t"], c.Entries[0])
	wantSame(t, "partials", got.Partials["r"], c.Partials)
	wantSame(t, "workers", got.Workers, c.Workers)
	wantSame(t, "tickets", got.Tickets, c.Tickets)
	wantSame(t, "definitions", got.Kept, c.Definitions)
	wantSame(t, "pauses", got.Pauses, c.Pauses)
	wantSame(t, "summaries", got.Ended, c.Summaries)
	wantSame(t, "agents with due threads", got.Agents, []string{c.Threads[0].Due.Agent})
	s.view(func(r store.Reader) {
		wantSame(t, "keys", get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k"}}))(t), c.Keys)
	})
}

// anyNumberOfRows writes batches of new runs and entries, with updates of other runs between them.
func anyNumberOfRows(t *testing.T, s *handle) {
	var threads []*mailroom.Thread
	var runs []*mailroom.Run
	lists := map[string][]mailroom.Entry{}
	for _, n := range []int{1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40} {
		c := &store.Changes{}
		for i := range n {
			id := fmt.Sprintf("t%d-%d", n, i)
			row, r := thread(id), run("r"+id, id)
			row.LastSeq = 2
			c.Threads = append(c.Threads, row)
			c.Entries = append(c.Entries, entries(id, 1, r.ID, entry.KindMessage, entry.KindQueued))
			if len(runs) > i && i%2 == 0 {
				runs[i].Status, runs[i].Step = mailroom.StatusCompleted, n
				c.Runs = append(c.Runs, runs[i])
			}
			c.Runs = append(c.Runs, r)
		}
		s.write(c)
		for i, r := range c.Runs {
			if i > 0 && r.Key <= c.Runs[i-1].Key && c.Runs[i-1].Step == 0 && r.Step == 0 {
				t.Errorf("batch of %d: the run %s has the key %d, and the one before %d; want growing ones",
					n, r.ID, r.Key, c.Runs[i-1].Key)
			}
			if r.Step == 0 {
				runs = append(runs, r)
			}
		}
		threads = append(threads, c.Threads...)
		for _, list := range c.Entries {
			lists[list[0].Thread] = list
		}
	}
	s.view(func(r store.Reader) {
		wantSame(t, "threads", get(r.Threads(store.ThreadQuery{Oldest: true}))(t), threads)
		wantSame(t, "runs", get(r.Runs(store.RunQuery{Oldest: true}))(t), runs)
		for id, want := range lists {
			wantSame(t, "entries of "+id, get(r.Entries(store.EntryQuery{Thread: id}))(t), want)
		}
	})
}

func contradictionsAreInternal(t *testing.T, s *handle) {
	c := fullChanges()
	s.write(c)
	before := s.everything()
	bareAndMore := func(more store.Changes) *store.Changes {
		more.Threads = append(more.Threads, c.Threads[1])
		return &more
	}
	gone := thread("gone")
	gone.Key = 1 << 40
	goneRun := run("gone", "t")
	goneRun.Key = 1 << 40
	goneTicket := ticket("gone", "r", "t")
	goneTicket.Key = 1 << 40
	hole := entries("bare", 1, "", entry.KindStep, entry.KindStep)
	hole[1] = entries("bare", 3, "", entry.KindStep)[0]
	for name, wrong := range map[string]*store.Changes{
		"a second thread with an id":   {Threads: []*mailroom.Thread{thread("t")}},
		"an update of no thread":       {Threads: []*mailroom.Thread{gone}},
		"a second run with an id":      bareAndMore(store.Changes{Runs: []*mailroom.Run{run("r", "bare")}}),
		"an update of no run":          {Runs: []*mailroom.Run{goneRun}},
		"a run without its thread":     {Runs: []*mailroom.Run{run("r9", "bare")}},
		"entries without their thread": {Entries: [][]mailroom.Entry{entries("bare", 1, "", entry.KindStep)}},
		"a key without its thread":     {Keys: []store.SubmitKey{key("bare", "k")}},
		"entries with a hole":          bareAndMore(store.Changes{Entries: [][]mailroom.Entry{hole}}),
		"a partial of no run":          {Partials: []store.Partial{partial("none", 0, "x")}},
		"a second ticket with an id":   {Tickets: []*mailroom.Ticket{ticket("q", "r", "t")}},
		"an update of no ticket":       {Tickets: []*mailroom.Ticket{goneTicket}},
		"a ticket of no run":           {Tickets: []*mailroom.Ticket{ticket("q2", "none", "t")}},
		"a ticket of another thread":   {Tickets: []*mailroom.Ticket{ticket("q2", "r", "bare")}},
		"entries that are there": {
			Threads: []*mailroom.Thread{c.Threads[0]},
			Entries: [][]mailroom.Entry{entries("t", 1, "", entry.KindStep, entry.KindStep)},
		},
		"a key that is there": {
			Threads: []*mailroom.Thread{c.Threads[0]}, Keys: []store.SubmitKey{key("t", "k")},
		},
	} {
		err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(wrong) })
		if mailroom.CodeOf(err) != mailroom.CodeInternal {
			t.Errorf("%s: got error %v, want one of code internal", name, err)
		}
	}
	wantSame(t, "rows", s.everything(), before)
}

// lastRowIsKept checks the kinds whose rows replace others: operations of one transaction may write one key
// several times. Of a definition, the first one is kept.
func lastRowIsKept(t *testing.T, s *handle) {
	c := &store.Changes{Threads: []*mailroom.Thread{thread("t")}, Runs: []*mailroom.Run{run("r", "t")}}
	for i, text := range []string{"first", "second", "last"} {
		c.Pauses = append(c.Pauses, store.Pause{Agent: "a", By: text, At: after(i)})
		c.Cursors = append(c.Cursors, store.Cursor{Channel: "c", Identity: "i", Position: json.RawMessage(`"` + text + `"`),
			MovedAt: after(i)})
		c.Reservations = append(c.Reservations, store.Reservation{ID: "v", Thread: "t", Name: text})
		c.Workers = append(c.Workers, &store.Worker{ID: "w", Host: text})
		c.Partials = append(c.Partials, partial("r", 0, text))
		c.Definitions = append(c.Definitions, store.Definition{Agent: "a", Version: "1",
			Body: json.RawMessage(`"` + text + `"`)})
		c.Meters = append(c.Meters, store.Meter{Key: "m", Count: int64(i)})
		c.Use = append(c.Use, store.UseChange{Token: "ann", Add: auth.Use{Bytes: 1}})
	}
	c.Tokens = []*auth.Token{{Name: "ann"}}
	s.write(c)
	got := s.everything()
	wantSame(t, "pauses", got.Pauses, c.Pauses[2:])
	wantSame(t, "cursors", got.Cursors, c.Cursors[2:])
	wantSame(t, "meters", got.Meters, c.Meters[2:])
	wantSame(t, "reservations", got.Reserved, c.Reservations[2:])
	wantSame(t, "workers", got.Workers, c.Workers[2:])
	wantSame(t, "partials", got.Partials["r"], c.Partials[2:])
	wantSame(t, "definitions", got.Kept, c.Definitions[:1])
	if n := got.Tokens[0].Used.Bytes; n != 3 {
		t.Errorf("the use is %d bytes, want the sum 3", n)
	}
}
