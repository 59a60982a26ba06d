package storetest

import (
	"slices"
	"testing"

	"mailroom"
	"mailroom/store"
)

// someTickets returns tickets of two runs of thread t and one of u, oldest first.
func someTickets() *store.Changes {
	c := &store.Changes{
		Threads: []*mailroom.Thread{thread("t"), thread("u")},
		Runs:    []*mailroom.Run{run("r1", "t"), run("r2", "t"), run("ru", "u")},
	}
	add := func(id, run, thread string, kind mailroom.TicketKind, state mailroom.TicketState) {
		k := ticket(id, run, thread)
		k.Kind, k.State = kind, state
		c.Tickets = append(c.Tickets, k)
	}
	add("decided", "r1", "t", mailroom.TicketApproval, mailroom.TicketDecided)
	add("void", "r1", "t", mailroom.TicketTimer, mailroom.TicketVoid)
	add("approval", "r1", "t", mailroom.TicketApproval, mailroom.TicketOpen)
	add("other", "ru", "u", mailroom.TicketApproval, mailroom.TicketOpen)
	add("question", "r2", "t", mailroom.TicketInput, mailroom.TicketOpen)
	add("expired", "ru", "u", mailroom.TicketEvent, mailroom.TicketExpired)
	add("child", "r2", "t", mailroom.TicketChildren, mailroom.TicketOpen)
	return c
}

func ticketCases() []testCase {
	type query = store.TicketQuery
	open := []mailroom.TicketState{mailroom.TicketOpen}
	fromQuestion := func(c *store.Changes) int64 { return c.Tickets[4].Key }
	cases := []struct {
		name  string
		query query
		from  func(*store.Changes) int64
		want  []string
		any   bool // order unspecified
	}{
		{name: "all, newest first", want: []string{"child", "expired", "question", "other", "approval", "void", "decided"}},
		{name: "limit", query: query{Limit: 2}, want: []string{"child", "expired"}},
		{name: "of a prefix", query: query{Prefix: "o", Limit: 2}, want: []string{"other"}},
		{name: "of a prefix, behind all", query: query{Prefix: "o", After: "other", Limit: 2}},
		{name: "below a key", from: fromQuestion, want: []string{"other", "approval", "void", "decided"}},
		{name: "all, oldest first", query: query{Oldest: true, Limit: 3}, want: []string{"decided", "void", "approval"}},
		{name: "above a key", query: query{Oldest: true}, from: fromQuestion, want: []string{"expired", "child"}},
		{name: "open ones", query: query{States: open}, want: []string{"child", "question", "other", "approval"}},
		{name: "open ones, a page", query: query{States: open, Limit: 1}, from: fromQuestion, want: []string{"other"}},
		{name: "of some states", query: query{States: []mailroom.TicketState{mailroom.TicketVoid, mailroom.TicketDecided,
			mailroom.TicketExpired, "none"}}, want: []string{"expired", "void", "decided"}},
		{name: "of an unknown state", query: query{States: []mailroom.TicketState{"none"}}},
		{name: "of a thread", query: query{Thread: "t", Limit: 9},
			want: []string{"child", "question", "approval", "void", "decided"}},
		{name: "of a thread, a page", query: query{Thread: "t", Limit: 1}, from: fromQuestion, want: []string{"approval"}},
		{name: "open ones of a thread", query: query{Thread: "t", States: open},
			want: []string{"child", "question", "approval"}},
		{name: "decided ones of a thread", query: query{Thread: "t", States: []mailroom.TicketState{mailroom.TicketDecided}},
			want: []string{"decided"}},
		{name: "of a kind", query: query{Kinds: []mailroom.TicketKind{mailroom.TicketApproval}},
			want: []string{"other", "approval", "decided"}},
		{name: "of some kinds and a state",
			query: query{Kinds: []mailroom.TicketKind{mailroom.TicketInput, mailroom.TicketApproval, "none"},
				States: open}, want: []string{"question", "other", "approval"}},
		{name: "of an unknown kind", query: query{Kinds: []mailroom.TicketKind{"none"}}},
		{name: "of a run", query: query{Runs: []string{"r1"}}, want: []string{"approval", "decided", "void"}, any: true},
		{name: "of some runs", query: query{Runs: []string{"ru", "none", "r2", "ru"}},
			want: []string{"child", "expired", "other", "question"}, any: true},
		{name: "open ones of some runs", query: query{Runs: []string{"ru", "r1"}, States: open},
			want: []string{"approval", "other"}, any: true},
		{name: "of some runs, below a key", query: query{Runs: []string{"ru", "r2"}}, from: fromQuestion,
			want: []string{"other"}, any: true},
		{name: "of runs of another thread", query: query{Runs: []string{"r1"}, Thread: "u"}},
		{name: "these", query: query{IDs: []string{"void", "none", "child", "void"}}, want: []string{"child", "void"},
			any: true},
		{name: "these of a run", query: query{IDs: []string{"void", "child"}, Runs: []string{"r2"}}, want: []string{"child"},
			any: true},
		{name: "these of a kind and a state", query: query{IDs: []string{"decided", "approval", "child"}, States: open,
			Kinds: []mailroom.TicketKind{mailroom.TicketApproval}}, want: []string{"approval"}, any: true},
		{name: "of no thread", query: query{Thread: "none"}},
	}
	return []testCase{{"by", func(t *testing.T, s *handle) {
		c := someTickets()
		s.write(c)
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				q := tc.query
				if tc.from != nil {
					q.From = tc.from(c)
				}
				got := ticketIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Ticket, error) { return r.Tickets(q) }))
				if tc.any {
					slices.Sort(got)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		}
	}}, {"of an owner and of threads", ticketsWithin}, {"reflect writes of the transaction", ticketsFollowWrites}}
}

func ticketsWithin(t *testing.T, s *handle) {
	c := someTickets()
	v := thread("v")
	v.Owner = "bob"
	c.Threads[0].Owner, c.Threads[1].Owner = "ann", "eve"
	c.Threads, c.Runs = append(c.Threads, v), append(c.Runs, run("rv", "v"))
	last := ticket("last", "rv", "v")
	last.State = mailroom.TicketOpen
	c.Tickets = append(c.Tickets, last)
	s.write(c)
	u, of := c.Threads[1].Key, v.Key
	type query = store.TicketQuery
	open := []mailroom.TicketState{mailroom.TicketOpen}
	for _, tc := range []struct {
		name  string
		query query
		want  []string
	}{
		{"of ann", query{Owner: "ann"}, []string{"child", "question", "approval", "void", "decided"}},
		{"of ann, open", query{Owner: "ann", States: open, Limit: 2}, []string{"child", "question"}},
		{"of ann, a page", query{Owner: "ann", From: c.Tickets[4].Key, Limit: 2}, []string{"approval", "void"}},
		{"of bob and u", query{Owner: "bob", Threads: []int64{u}}, []string{"last", "expired", "other"}},
		{"of bob and u, open, oldest first", query{Owner: "bob", Threads: []int64{u}, States: open, Oldest: true},
			[]string{"other", "last"}},
		{"of u and v, a kind", query{Threads: []int64{of, u}, Kinds: []mailroom.TicketKind{mailroom.TicketEvent}},
			[]string{"expired"}},
		{"of u, an unknown state", query{Threads: []int64{u}, States: []mailroom.TicketState{"none"}}, nil},
		{"of a stranger", query{Owner: "zoe"}, nil},
		{"a page of bytes", query{Owner: "ann", Threads: []int64{u, of}, Bytes: 1}, []string{"last"}},
	} {
		got := ticketIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Ticket, error) { return r.Tickets(tc.query) }))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func ticketsFollowWrites(t *testing.T, s *handle) {
	c := someTickets()
	s.write(c)
	open := store.TicketQuery{States: []mailroom.TicketState{mailroom.TicketOpen}}
	s.update(func(tx store.Tx) {
		decided, again := c.Tickets[2], c.Tickets[1]
		decided.State, again.State = mailroom.TicketDecided, mailroom.TicketOpen
		must(t, tx.Write(&store.Changes{Tickets: []*mailroom.Ticket{decided, again, ticket("new", "r1", "t")}}))
		want := []string{"new", "child", "question", "other", "void"}
		if got := ticketIDs(get(tx.Tickets(open))(t)); !slices.Equal(got, want) {
			t.Errorf("open tickets in the transaction: got %v, want %v", got, want)
		}
	})
	want := []string{"new", "void", "approval", "decided"}
	slices.Sort(want)
	got := ticketIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Ticket, error) {
		return r.Tickets(store.TicketQuery{Runs: []string{"r1"}})
	}))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("tickets of r1: got %v, want %v", got, want)
	}
}

func definitionCases() []testCase {
	def := func(agent, version, body string) store.Definition {
		return store.Definition{Agent: agent, Version: version, Body: []byte(body)}
	}
	return []testCase{
		{"keep their bytes", func(t *testing.T, s *handle) {
			rows := []store.Definition{{}, {Agent: "a"}, filled[store.Definition](7)}
			s.write(&store.Changes{Definitions: rows})
			wantSame(t, "definitions", s.everything().Kept, rows)
		}},
		{"are ordered by agent and version", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Definitions: []store.Definition{def("b", "1", "1"), def("a", "2", "2"), def("ab", "0", "3")}},
				&store.Changes{Definitions: []store.Definition{def("a", "10", "4")}})
			wantSame(t, "definitions", s.everything().Kept, []store.Definition{
				def("a", "10", "4"), def("a", "2", "2"), def("ab", "0", "3"), def("b", "1", "1")})
		}},
		{"keep the first body", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Definitions: []store.Definition{def("a", "1", "1"), def("a", "1", "2")}},
				&store.Changes{Definitions: []store.Definition{def("a", "1", "3"), def("a", "2", "4")}})
			wantSame(t, "definitions", s.everything().Kept, []store.Definition{def("a", "1", "1"), def("a", "2", "4")})
		}},
		{"are dropped by agent and version, and can be written again", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Definitions: []store.Definition{def("a", "1", "1"), def("a", "2", "2"), def("b", "1", "3")}},
				&store.Changes{
					DropDefinitions: []store.Definition{{Agent: "a", Version: "1"}, {Agent: "b", Version: "2"},
						{Agent: "b", Version: "1"}},
					Definitions: []store.Definition{def("b", "1", "4")},
				})
			wantSame(t, "definitions", s.everything().Kept, []store.Definition{def("a", "2", "2"), def("b", "1", "4")})
		}},
	}
}

func pauseCases() []testCase {
	pause := func(agent, reason string) store.Pause {
		return store.Pause{Agent: agent, By: "ann", Reason: reason, At: after(1)}
	}
	return []testCase{
		{"are replaced and dropped", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Pauses: []store.Pause{pause("b", "costs"), pause("a", "")}},
				&store.Changes{Pauses: []store.Pause{pause("b", "weekend")}})
			wantSame(t, "pauses", s.everything().Pauses, []store.Pause{pause("a", ""), pause("b", "weekend")})
			s.write(&store.Changes{DropPauses: []string{"a", "unknown"}})
			wantSame(t, "after a drop", s.everything().Pauses, []store.Pause{pause("b", "weekend")})
		}},
		{"are loaded with workers", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Pauses: []store.Pause{pause("b", "costs")}})
			load := func(n store.Need) (l *store.Loaded) {
				s.update(func(tx store.Tx) { l = get(tx.Load(n))(t) })
				return l
			}
			wantSame(t, "without", load(store.Need{}).Pauses, []store.Pause(nil))
			for range 2 { // the second time from memory
				wantSame(t, "pauses", load(store.Need{Pauses: true}).Pauses, []store.Pause{pause("b", "costs")})
			}
			s.write(&store.Changes{DropPauses: []string{"b"}})
			wantSame(t, "after a drop", load(store.Need{Pauses: true}).Pauses, []store.Pause(nil))
		}},
	}
}
