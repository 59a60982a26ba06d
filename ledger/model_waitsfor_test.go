package ledger_test

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// waitsFor returns why the open runs do not run, by the stores in turn, and at times by all: they must say the same.
func (m *model) waitsFor(t *rapid.T) map[string]ledger.Blocked {
	t.Helper()
	var ids []string
	for _, id := range m.runs() {
		if r := m.after.Runs[id]; m.after.Threads[r.Thread].DeletedAt.IsZero() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var said map[string]ledger.Blocked
	for i, s := range m.sides {
		if m.looks%8 != 0 && i != m.looks%len(m.sides) {
			continue
		}
		err := s.doors[0].View(m.ctx, func(rd store.Reader) error {
			rows, err := rd.Runs(store.RunQuery{IDs: ids})
			if err != nil {
				return err
			}
			all, err := ledger.WaitsFor(rd, m.clock.read(), rows, nil)
			if err != nil {
				return err
			}
			if said == nil {
				said = all
				return nil
			}
			if diff := diffOf(said, all); diff != "" {
				t.Fatalf("%s says something else of waiting runs than the store before (-before +it):\n%s", s.name, diff)
			}
			said = all
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return said
}

// checkWaitsFor checks that each run that does not run says what keeps it, and that this is true, and checks the limits.
// What the claims start is compared in checkStartable.
func (m *model) checkWaitsFor(t *rapid.T) {
	m.checkLimits(t)
	all := m.waitsFor(t)
	for _, id := range m.runs() {
		r := m.after.Runs[id]
		row := m.after.Threads[r.Thread]
		said := all[id]
		switch closed := r.Status == mailroom.StatusRunning || r.Status.Finished() || !row.DeletedAt.IsZero(); {
		case closed != (len(said) == 0):
			t.Fatalf("run %s is %s, and waits for %+v", id, r.Status, said)
		case closed:
			continue
		}
		for _, b := range said {
			m.coverage["waits for "+string(b.Cause)]++
		}
		m.checkBlocker(t, r, row, said[0])
		if next := said[0].Run; next != "" {
			if len(said) >= 8 || m.after.Runs[next] == nil || len(said)+len(all[next]) == 1 {
				continue // the list is cut, or the run before needs nothing
			}
			if diff := diffOf(said[1:], all[next]); diff != "" {
				t.Fatalf("run %s comes after run %s, which waits for other things (-said +itself):\n%s", id, next, diff)
			}
		}
	}
}

// checkBlocker checks one cause by the rows, and that the end of it is necessary.
func (m *model) checkBlocker(t *rapid.T, r *mailroom.Run, row *mailroom.Thread, b thread.Blocker) {
	now := m.clock.read()
	current := row.Current == r.ID
	live := 0
	for _, w := range m.after.Workers {
		at := row.Nodes[r.Agent]
		if !w.Dead && w.LeaseUntil.After(now) && slices.Contains(w.Agents, r.Agent) && (at == "" || at == w.Node) {
			live++
		}
	}
	right := false
	switch b.Cause {
	case thread.CauseDecision, thread.CauseChild, thread.CauseEvent, thread.CauseTimer:
		right = current && r.Status == mailroom.StatusWaiting && m.isNeeded(r, b.Tickets) && m.isOfKind(b)
	case thread.CauseRun:
		before := m.after.Runs[b.Run]
		right = before != nil && before.ID != r.ID && before.Thread == r.Thread && !before.Status.Finished() &&
			(row.Current == before.ID || row.Current == "" && before.NeverStarted() && before.Priority <= r.Priority)
	case thread.CauseTime, thread.CauseJoin:
		right = !current && r.NotBefore.After(now) && b.Until.Equal(r.NotBefore) &&
			r.Joins == (b.Cause == thread.CauseJoin)
	case thread.CauseRetry:
		right = current && r.Status == mailroom.StatusQueued && r.AvailableAt.After(now) && b.Until.Equal(r.AvailableAt)
	case thread.CausePause:
		right = slices.ContainsFunc(m.after.Pauses, func(p store.Pause) bool { return p.Agent == r.Agent })
	case thread.CauseWorker:
		right = live == 0 && row.Nodes[r.Agent] == ""
	case thread.CauseServer:
		right = live == 0 && row.Nodes[r.Agent] == b.Node && b.Node != ""
	case thread.CauseLimit:
		right = live > 0 && b.Bound.Meter.Count >= int64(b.Bound.Limit.Running) && m.limited
	case thread.CauseRate:
		right = live > 0 && m.limited && b.Bound.Limit.Rate.N > 0 && (b.Until.IsZero() || b.Until.After(now))
	case thread.CauseBudget:
		right = m.limited && slices.ContainsFunc(thread.Pools(row, now, time.UTC), func(p budget.Pool) bool {
			return p.State() == budget.Spent && p.Period == b.Budget.Pool.Period
		})
	case thread.CauseSlot:
		right = live > 0 && live == b.Workers
	}
	if !right {
		t.Fatalf("run %s (%s, current %v, agent %s) does not wait for %+v", r.ID, r.Status, current, r.Agent, b)
	}
}

// isNeeded reports whether a parked run waits until tickets are decided: all of them are open, and its wait ends with
// them.
func (m *model) isNeeded(r *mailroom.Run, tickets []*mailroom.Ticket) bool {
	open := map[string]bool{}
	for _, k := range m.ticketsOf(r.ID) {
		open[k.Name] = k.StateAt(m.clock.read()) == mailroom.TicketOpen
	}
	ended := r.Wait.Ended(func(name string) bool { return open[name] })
	for _, k := range tickets {
		if k.Run != r.ID || !open[k.Name] || !slices.Contains(r.Wait.Names, k.Name) {
			return false
		}
		open[k.Name] = false
	}
	return !ended && len(tickets) > 0 && r.Wait.Ended(func(name string) bool { return open[name] })
}

// isOfKind reports whether a wait is named for what is asked first: a person, then a child, then a program.
func (m *model) isOfKind(b thread.Blocker) bool {
	of := map[thread.Cause]bool{}
	for _, k := range b.Tickets {
		switch k.Kind {
		case mailroom.TicketApproval, mailroom.TicketInput:
			of[thread.CauseDecision] = true
		case mailroom.TicketChildren:
			of[thread.CauseChild] = true
		case mailroom.TicketTimer:
			of[thread.CauseTimer] = true
		default:
			of[thread.CauseEvent] = true
		}
	}
	for _, c := range []thread.Cause{thread.CauseDecision, thread.CauseChild, thread.CauseEvent, thread.CauseTimer} {
		if of[c] {
			return b.Cause == c && (b.Run == "" || c == thread.CauseChild) && m.isChild(b)
		}
	}
	return false
}

// isChild reports whether the run of a blocker, if it has one and the run is kept, has not ended and answers one of the
// blocker's tickets.
func (m *model) isChild(b thread.Blocker) bool {
	child := m.after.Runs[b.Run]
	return child == nil || !child.Status.Finished() && child.Caller != nil &&
		slices.ContainsFunc(b.Tickets, func(k *mailroom.Ticket) bool {
			return k.Run == child.Caller.Run && k.Name == child.Caller.Name
		})
}

// checkStartable compares what was said of waiting runs before a claim with what the claim has started: those whose
// turn it is and no others, as far as the claim had room.
func (m *model) checkStartable(t *rapid.T, said map[string]ledger.Blocked, asked thread.ClaimRequest, before contents) {
	now := m.clock.read()
	if !slices.ContainsFunc(before.Workers, func(w *store.Worker) bool { return w.ID == asked.Worker && w.Live(now) }) {
		return // a worker may come back after its lease, as long as no sweep has noticed
	}
	started := 0
	for id, r := range m.after.Runs {
		was := before.Runs[id]
		if was == nil || r.Attempt == was.Attempt {
			continue
		}
		started++
		// The claim ends runs whose deadline has passed, or whose question for a raise has expired, and starts the next
		// ones. It makes a run that more messages may join wait again, for seconds after a start of the server.
		ended := slices.ContainsFunc(slices.Collect(maps.Values(before.Runs)), func(o *mailroom.Run) bool {
			return o.Thread == r.Thread && o.ID != id && !o.Status.Finished() &&
				(m.endedOverdue(o.ID) || m.endedUnraised(o.ID) || o.Joins)
		})
		if of := said[id]; !ended && (len(of) != 1 || of[0].Cause != thread.CauseSlot) {
			t.Fatalf("a claim started run %s, which was said to wait for %+v", id, of)
		}
	}
	// A claim reads as many due threads as it has slots. It fills no slot again that a thread got in vain, because a
	// deadline has ended its run, another ticket keeps it, or a run of another agent has become due before the one that
	// the thread's row names.
	due := 0
	for _, row := range before.Threads {
		if agent, _ := thread.ParseDueAgent(row.Due.Agent); asked.Agents[agent] > 0 && !row.Due.At.After(now) {
			due++
		}
	}
	for id, of := range said {
		r, was := m.after.Runs[id], before.Runs[id]
		row := before.Threads[was.Thread]
		at := row.Nodes[was.Agent]
		named, _ := thread.ParseDueAgent(row.Due.Agent)
		asks := named == was.Agent && asked.Agents[was.Agent] > 0 && due <= m.room(asked, was.Agent, before) &&
			(at == "" || at == asked.Node)
		if asks && of[0].Cause == thread.CauseSlot && !was.Joins && !was.OnLastAttempt() && !was.HasPassed(now) &&
			r.Attempt == was.Attempt && (!m.limited || started == 0) { // under limits, one of them may have the last place
			t.Fatalf("run %s was said to wait for a free slot, and a claim with room did not start it", id)
		}
	}
}

// room returns how many due threads of an agent a claim reads at most.
func (m *model) room(asked thread.ClaimRequest, agent string, before contents) int {
	n := min(asked.Slots, asked.Agents[agent])
	most := limitsOfHistories(agent).Agent.Running
	if !m.limited || most == 0 {
		return n
	}
	for _, row := range before.Threads {
		if row.Worker != "" && before.Runs[row.Current].Agent == agent {
			most--
		}
	}
	return min(n, most)
}
