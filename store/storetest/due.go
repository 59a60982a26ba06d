package storetest

import (
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

func dueCases() []testCase {
	type want = store.Capacity
	soon, later, latest := after(10), after(20), after(30)
	rows := func() *store.Changes {
		return &store.Changes{Threads: []*mailroom.Thread{
			thread("idle"),
			dueThread("low", "a", 200, after(-50), false),
			dueThread("second", "a", 100, after(-20), false),
			dueThread("first", "a", 100, after(-30), false),
			dueThread("tie1", "a", 100, after(-10), false),
			dueThread("tie2", "a", 100, after(-10), false),
			dueThread("urgent", "a", 0, base(), false),
			dueThread("urgent later", "a", 0, later, false),
			dueThread("low later", "a", 255, soon, false),
			dueThread("alone", "a", 0, after(-5), true),
			dueThread("alone later", "a", 7, latest, true),
			dueThread("b1", "b", 128, after(-1), false),
			dueThread("b later", "b", 1, latest, false),
			claimed("wx second", "wx", after(-1)), claimed("wx later", "wx", later),
			claimed("wx first", "wx", after(-9)),
			claimed("wy later", "wy", soon), claimed("wy 1", "wy", after(-5)),
			claimed("wz later", "wz", latest), claimed("w endless", "w", time.Time{}),
		}}
	}
	cases := []struct {
		name  string
		wants []want
		due   []string
		next  time.Time
	}{
		{"by priority, due time, key", []want{{Agent: "a", Slots: 100}},
			[]string{"urgent", "first", "second", "tie1", "tie2", "low"}, soon},
		{"at most as many as there are slots", []want{{Agent: "a", Slots: 3}},
			[]string{"urgent", "first", "second"}, time.Time{}},
		{"one slot", []want{{Agent: "a", Slots: 1}}, []string{"urgent"}, time.Time{}},
		{"all but one", []want{{Agent: "a", Slots: 5}},
			[]string{"urgent", "first", "second", "tie1", "tie2"}, time.Time{}},
		{"last attempts only on demand", []want{{Agent: "a", Slots: 100, LastAttempt: true}}, []string{"alone"}, latest},
		{"only the wanted agent's", []want{{Agent: "b", Slots: 2}}, []string{"b1"}, latest},
		{"next is the earliest of all wants", []want{{Agent: "b", Slots: 2}, {Agent: "a", Slots: 100}},
			[]string{"b1", "urgent", "first", "second", "tie1", "tie2", "low"}, soon},
		{"next leaves out a want that was cut off", []want{{Agent: "a", Slots: 2}, {Agent: "b", Slots: 5}},
			[]string{"urgent", "first", "b1"}, latest},
		{"per want", []want{{Agent: "a", Slots: 1, LastAttempt: true}, {Agent: "a", Slots: 1}},
			[]string{"alone", "urgent"}, time.Time{}},
		{"overdue claims of all workers", []want{{Slots: 9}}, []string{"wx first", "wy 1", "wx second"}, soon},
		{"overdue claims, as many as there are slots", []want{{Slots: 2}}, []string{"wx first", "wy 1"}, time.Time{}},
		{"of no agent with due threads", []want{{Agent: "c", Slots: 1}}, nil, time.Time{}},
		{"for no wants", nil, nil, time.Time{}},
	}
	return []testCase{{"come", func(t *testing.T, s *handle) {
		s.write(rows())
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				s.update(func(tx store.Tx) {
					due, next, err := Due(tx, base(), c.wants)
					must(t, err)
					if got := threadIDs(due); !slices.Equal(got, c.due) {
						t.Errorf("due: got %v, want %v", got, c.due)
					}
					if !next.Equal(c.next) {
						t.Errorf("next: got %v, want %v", next, c.next)
					}
				})
			})
		}
	}}, {"reflect writes of the transaction", dueFollowsWrites},
		{"are those of their time if a Load named them", dueAfterLoad},
		{"are limited by shares of owners", dueShares},
		{"with many priorities and later ones between", duePriorities}}
}

// claimed returns a thread that a worker holds until its claim ends. Zero: it does not end.
func claimed(id, worker string, end time.Time) *mailroom.Thread {
	row := thread(id)
	row.Worker, row.Due = worker, mailroom.Due{At: end}
	return row
}

func dueAfterLoad(t *testing.T, s *handle) {
	busyThread(s, "busy")
	s.write(&store.Changes{Threads: []*mailroom.Thread{
		dueThread("due", "echo", 2, base(), false), dueThread("last", "echo", 3, base(), false),
		dueThread("later", "echo", 1, time.Now().Add(time.Hour), false),
	}})
	share := &store.Share{Most: 2, Held: map[string]int{"ann": 1}}
	for name, named := range map[string][]store.Capacity{
		"the same want": {{Agent: "echo", Slots: 2}}, "more slots": {{Agent: "echo", Slots: 9}},
		"fewer slots":   {{Agent: "echo", Slots: 1}},
		"another agent": {{Agent: "a", Slots: 9}}, "a share": {{Agent: "echo", Slots: 9, Share: share}},
		"both": {{Agent: "echo", Slots: 1}, {Agent: "echo", Slots: 9, Share: share}},
	} {
		for _, at := range []time.Time{{}, base(), after(-1)} {
			s.update(func(tx store.Tx) {
				first, err := tx.Load(store.Need{Threads: []string{"due"}, Due: named, DueAt: at})
				must(t, err)
				wantSame(t, name+": loaded threads", threadIDs(first.Threads), []string{"due"})
				for _, want := range []struct {
					want store.Capacity
					due  []string
				}{
					{store.Capacity{Slots: 1}, []string{"busy"}},
					{store.Capacity{Slots: 9, Share: share}, []string{"last"}},
					{store.Capacity{Slots: 1}, nil},
				} {
					want.want.Agent = "echo"
					l, next, err := tx.Due(tx.Now(), []store.Capacity{want.want}, nil)
					must(t, err)
					wantSame(t, name+": due threads", threadIDs(l.Threads), want.due)
					if later := !next.IsZero(); later != (want.due == nil) || later && next.Before(time.Now()) {
						t.Errorf("%s: got next %v after %v", name, next, want.due)
					}
					if slices.Contains(want.due, "busy") {
						wantSame(t, name+": runs", runIDs(l.Runs), []string{"busy current"})
						wantSame(t, name+": tickets", ticketIDs(l.Tickets), []string{"busy ticket"})
						wantHeads(t, l, "busy")
					}
				}
			})
		}
	}
}

func dueFollowsWrites(t *testing.T, s *handle) {
	s.write(&store.Changes{Threads: []*mailroom.Thread{
		dueThread("t1", "a", 1, base(), false), dueThread("t2", "a", 2, base(), false),
		dueThread("t4", "a", 4, base(), false),
		dueThread("t5", store.GatePrefix+"1 a", 1, base(), false), dueThread("t6", store.GatePrefix+"2 a", 1, base(), false),
	}})
	ask := func(tx store.Tx) []string {
		due, _, err := Due(tx, base(), []store.Capacity{{Agent: "a", Slots: 10}, {Agent: "b", Slots: 10, LastAttempt: true}})
		must(t, err)
		return threadIDs(due)
	}
	s.update(func(tx store.Tx) {
		_, rows, err := Lock(tx, nil, []string{"t1", "t2"})
		must(t, err)
		rows[0].Due = mailroom.Due{}
		rows[1].Due.Agent, rows[1].Due.LastAttempt = "b", true
		must(t, tx.Write(&store.Changes{Threads: append(rows, dueThread("t3", "a", 1, base(), false))}))
		if got, want := ask(tx), []string{"t4"}; !slices.Equal(got, want) {
			t.Errorf("due threads that the transaction has neither loaded nor written: got %v, want %v", got, want)
		}
		if got := ask(tx); len(got) > 0 {
			t.Errorf("due for the second time: got %v, want none", got)
		}
		if got, want := dueAgents(t, tx), []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("agents: got %v, want %v", got, want)
		}
	})
	s.update(func(tx store.Tx) {
		if got, want := ask(tx), []string{"t3", "t4", "t2"}; !slices.Equal(got, want) {
			t.Errorf("due in the next transaction: got %v, want %v", got, want)
		}
	})
}

func dueShares(t *testing.T, s *handle) {
	owned := func(owner string, rows ...*mailroom.Thread) []*mailroom.Thread {
		for _, row := range rows {
			row.Owner = owner
		}
		return rows
	}
	running := dueThread("running", "", 0, after(-60), false)
	s.write(&store.Changes{Threads: slices.Concat(
		owned("ann", dueThread("a1", "a", 5, after(-50), false), dueThread("a2", "a", 5, after(-40), false),
			dueThread("a3", "a", 5, after(-30), false), dueThread("a later", "a", 0, after(10), false)),
		owned("bob", dueThread("b1", "a", 5, after(-10), false), dueThread("b low", "a", 9, after(-20), false)),
		owned("cyd", dueThread("c1", "a", 7, after(-50), false), dueThread("c other", "b", 1, after(-50), false),
			dueThread("c alone", "a", 1, after(-50), true)),
		owned("", dueThread("unowned", "a", 6, after(-1), false)),
		owned("dan", dueThread("d later", "a", 0, after(1), false), running),
	)})
	held := func(most int, held map[string]int) *store.Share { return &store.Share{Most: most, Held: held} }
	for _, c := range []struct {
		name string
		want store.Capacity
		due  []string
	}{
		{"one of each", store.Capacity{Slots: 9, Share: held(1, nil)}, []string{"a1", "b1", "unowned", "c1"}},
		{"two of each", store.Capacity{Slots: 9, Share: held(2, nil)}, []string{"a1", "a2", "b1", "unowned", "c1", "b low"}},
		{"at most as many as there are slots", store.Capacity{Slots: 2, Share: held(1, nil)}, []string{"a1", "b1"}},
		{"less what they hold", store.Capacity{Slots: 9, Share: held(2, map[string]int{"ann": 2, "bob": 1, "": 7})},
			[]string{"b1", "c1"}},
		{"nothing for those over it",
			store.Capacity{Slots: 9, Share: held(1, map[string]int{"ann": 9, "bob": 1, "": 1, "cyd": 1})}, nil},
		{"alone ones", store.Capacity{Slots: 9, LastAttempt: true, Share: held(1, nil)}, []string{"c alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.update(func(tx store.Tx) {
				c.want.Agent = "a"
				due, next, err := Due(tx, base(), []store.Capacity{c.want})
				must(t, err)
				if got := threadIDs(due); !slices.Equal(got, c.due) || !next.IsZero() {
					t.Errorf("got %v and next %v, want %v and none", got, next, c.due)
				}
			})
		})
	}
}

func duePriorities(t *testing.T, s *handle) {
	c := &store.Changes{}
	var want []string
	for p := range 40 {
		id := string(rune('a' + p))
		at := base()
		if p%3 == 1 {
			at = after(100 - p) // the lowest priority value first
		} else {
			want = append(want, id)
		}
		c.Threads = append(c.Threads, dueThread(id, "a", p, at, false), dueThread(id+"+", "a", p, after(200), false))
	}
	slices.Reverse(c.Threads) // keys in reverse order of priorities
	s.write(c)
	s.update(func(tx store.Tx) {
		due, next, err := Due(tx, base(), []store.Capacity{{Agent: "a", Slots: len(want) + 1}})
		must(t, err)
		if got := threadIDs(due); !slices.Equal(got, want) {
			t.Errorf("due: got %v, want %v", got, want)
		}
		if want := after(100 - 37); !next.Equal(want) {
			t.Errorf("next: got %v, want %v", next, want)
		}
	})
	s.update(func(tx store.Tx) {
		cut, next, err := Due(tx, base(), []store.Capacity{{Agent: "a", Slots: len(want)}})
		must(t, err)
		if got := threadIDs(cut); !slices.Equal(got, want) || !next.IsZero() {
			t.Errorf("with just enough slots: got %v and next %v, want %v and none", got, next, want)
		}
	})
}
