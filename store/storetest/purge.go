package storetest

import (
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// purgeable writes a thread t of 10 entries, in rows of 3, 1, 5 and 1, and an identical thread u.
// Each has run r1 from entry 1, r2 from 4, and r3 from 6. Run late is written last and begins at 5,
// with a message that was steered to r1 first.
func purgeable(s *handle) {
	key := func(thread, key string, d store.Disposition) store.SubmitKey {
		return store.SubmitKey{Thread: thread, Key: key, Result: store.Submitted{Disposition: d}}
	}
	for _, id := range []string{"t", "u"} {
		row, name := thread(id), func(n string) string { return n + " of " + id }
		write := func(last int64, c *store.Changes) {
			row.LastSeq = last
			c.Threads = []*mailroom.Thread{row}
			s.write(c)
		}
		begin := func(n string, seq int64, submitted string) *mailroom.Run {
			r := run(name(n), id)
			r.FirstSeq, r.SubmitKey, r.Status, r.StartedAt = seq, submitted, mailroom.StatusCompleted, base()
			return r
		}
		parts := func(n string) (tickets []*mailroom.Ticket, pieces []store.Partial) {
			return []*mailroom.Ticket{ticket("ticket of "+name(n), name(n), id)},
				[]store.Partial{{Thread: id, Run: name(n), Text: "text"}}
		}
		c := &store.Changes{
			Runs: []*mailroom.Run{begin("r1", 1, "made 1")},
			Keys: []store.SubmitKey{key(id, "made 1", store.DispositionQueued),
				key(id, "collected at 3", store.DispositionCollected)},
			Entries: [][]mailroom.Entry{
				entries(id, 1, name("r1"), entry.KindMessage, entry.KindQueued, entry.KindMessage)},
		}
		c.Tickets, c.Partials = parts("r1")
		write(3, c)
		write(4, &store.Changes{
			Runs:    []*mailroom.Run{begin("r2", 4, "")},
			Entries: [][]mailroom.Entry{entries(id, 4, name("r2"), entry.KindMessage)},
		})
		c = &store.Changes{
			Runs: []*mailroom.Run{begin("r3", 6, "made 6")},
			Keys: []store.SubmitKey{key(id, "made 6", store.DispositionQueued),
				key(id, "steered at 5", store.DispositionSteered)},
			Entries: [][]mailroom.Entry{entries(id, 5, name("r3"), entry.KindMessage, entry.KindMessage,
				entry.KindQueued, entry.KindStep, entry.KindStep)},
		}
		c.Tickets, c.Partials = parts("r3")
		write(9, c)
		c = &store.Changes{
			Runs:    []*mailroom.Run{begin("late", 5, "steered at 5")},
			Entries: [][]mailroom.Entry{entries(id, 10, name("late"), entry.KindQueued)},
		}
		c.Tickets, c.Partials = parts("late")
		write(10, c)
	}
}

// kept is the remainder of a thread of purgeable.
type kept struct {
	seqs                    []int64
	runs, tickets, partials []string
	keys                    []string
}

func (s *handle) kept(thread string) kept {
	s.t.Helper()
	var k kept
	s.view(func(r store.Reader) {
		k.seqs = seqs(get(r.Entries(store.EntryQuery{Thread: thread}))(s.t))
		k.tickets = ticketIDs(get(r.Tickets(store.TicketQuery{Thread: thread}))(s.t))
		runs := get(r.Runs(store.RunQuery{Thread: thread}))(s.t)
		k.runs = runIDs(runs)
		for _, n := range []string{"r1", "r2", "r3", "late"} {
			if len(get(r.Partials(n+" of "+thread))(s.t)) > 0 {
				k.partials = append(k.partials, n)
			}
		}
		for _, row := range get(r.Keys(store.KeyQuery{Thread: thread,
			Keys: []string{"made 1", "collected at 3", "steered at 5", "made 6"}}))(s.t) {
			k.keys = append(k.keys, row.Key)
		}
	})
	return k
}

func (k kept) compare(t *testing.T, want kept) {
	t.Helper()
	if !slices.Equal(k.seqs, want.seqs) {
		t.Errorf("entries: got %v, want %v", k.seqs, want.seqs)
	}
	for _, list := range []struct {
		what      string
		got, want []string
	}{
		{"runs", k.runs, want.runs}, {"tickets", k.tickets, want.tickets},
		{"partials", k.partials, want.partials}, {"keys", k.keys, want.keys},
	} {
		if !slices.Equal(list.got, list.want) {
			t.Errorf("%s: got %q, want %q", list.what, list.got, list.want)
		}
	}
}

func purgeCases() []testCase {
	all := kept{
		seqs:     []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		runs:     []string{"late of t", "r3 of t", "r2 of t", "r1 of t"},
		tickets:  []string{"ticket of late of t", "ticket of r3 of t", "ticket of r1 of t"},
		partials: []string{"r1", "r3", "late"},
		keys:     []string{"made 1", "collected at 3", "steered at 5", "made 6"},
	}
	from := func(seq int64, runs, tickets, partials, keys int) kept {
		return kept{all.seqs[seq-1:], all.runs[:runs], all.tickets[:tickets], all.partials[partials:], all.keys[keys:]}
	}
	cases := []struct {
		name string
		seq  int64
		want kept
	}{
		{"nothing below the first", 1, all},
		{"nothing below zero", 0, all},
		{"the beginning of a row, with the run that begins there", 2, from(2, 3, 2, 1, 1)},
		{"a whole row", 4, from(4, 3, 2, 1, 2)},
		{"two rows", 5, from(5, 2, 2, 1, 2)},
		{"into a row, with the run that came late", 6, kept{
			seqs: all.seqs[5:], runs: []string{"r3 of t"}, tickets: []string{"ticket of r3 of t"},
			partials: []string{"r3"}, keys: []string{"made 6"},
		}},
		{"into the middle of a row", 9, kept{seqs: []int64{9, 10}}},
		{"all but the last", 10, kept{seqs: []int64{10}}},
		{"all", 11, kept{}},
		{"all and more", 1 << 40, kept{}},
	}
	drop := func(s *handle, thread string, seq int64) {
		s.write(&store.Changes{DropEntries: []store.Prefix{{Thread: thread, Seq: seq}}})
	}
	list := []testCase{
		{"in steps equals in one step", func(t *testing.T, s *handle) {
			purgeable(s)
			for _, c := range cases {
				drop(s, "t", c.seq)
				s.kept("t").compare(t, c.want)
			}
		}},
		{"of no thread", func(t *testing.T, s *handle) {
			purgeable(s)
			drop(s, "none", 5)
			s.kept("t").compare(t, all)
		}},
		{"keeps the log appendable", purgedGoesOn},
		{"happens before the writes of the same Changes", purgedFirst},
	}
	for _, c := range cases {
		list = append(list, testCase{c.name, func(t *testing.T, s *handle) {
			purgeable(s)
			others := s.kept("u")
			drop(s, "t", c.seq)
			s.kept("t").compare(t, c.want)
			s.kept("u").compare(t, others)
		}})
	}
	return list
}

func purgedGoesOn(t *testing.T, s *handle) {
	purgeable(s)
	s.write(&store.Changes{DropEntries: []store.Prefix{{Thread: "t", Seq: 8}}})
	for _, c := range []struct {
		query store.EntryQuery
		want  []int64
	}{
		{store.EntryQuery{After: 8}, []int64{9, 10}},
		{store.EntryQuery{Before: 9}, []int64{8}},
		{store.EntryQuery{Before: 8}, nil},
		{store.EntryQuery{Backward: true}, []int64{10, 9, 8}},
		{store.EntryQuery{Backward: true, Before: 9}, []int64{8}},
		{store.EntryQuery{Kinds: []string{entry.KindStep}}, []int64{8, 9}},
	} {
		c.query.Thread = "t"
		got := seqs(get1(t, s, func(r store.Reader) ([]mailroom.Entry, error) { return r.Entries(c.query) }))
		if !slices.Equal(got, c.want) {
			t.Errorf("entries of %+v: got %v, want %v", c.query, got, c.want)
		}
	}
	want := entries("t", 5, "r3 of t", entry.KindMessage, entry.KindMessage, entry.KindQueued, entry.KindStep)[3]
	wantSame(t, "the first entry", s.everything().Entries["t"][0], want)

	s.write(&store.Changes{DropEntries: []store.Prefix{{Thread: "t", Seq: 11}}})
	row := s.everything().Threads[1]
	row.LastSeq = 11
	r := run("new", "t")
	r.FirstSeq = 11
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{r},
		Entries: [][]mailroom.Entry{entries("t", 11, "new", entry.KindMessage)},
	}, &store.Changes{DropEntries: []store.Prefix{{Thread: "t", Seq: 11}}})
	s.kept("t").compare(t, kept{seqs: []int64{11}, runs: []string{"new"}})
}

func purgedFirst(t *testing.T, s *handle) {
	purgeable(s)
	row := s.everything().Threads[1]
	row.FirstSeq, row.LastSeq = 11, 12
	r := run("r1 of t", "t")
	r.FirstSeq = 11
	s.write(&store.Changes{
		DropEntries: []store.Prefix{{Thread: "t", Seq: 11}},
		Threads:     []*mailroom.Thread{row}, Runs: []*mailroom.Run{r},
		Entries: [][]mailroom.Entry{entries("t", 11, r.ID, entry.KindMessage, entry.KindQueued)},
		Keys:    []store.SubmitKey{key("t", "made 1")},
		Tickets: []*mailroom.Ticket{ticket("ticket of r1 of t", r.ID, "t")},
	})
	s.kept("t").compare(t, kept{
		seqs: []int64{11, 12}, runs: []string{r.ID}, tickets: []string{"ticket of r1 of t"}, keys: []string{"made 1"},
	})
}
