package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

func (m *model) do(t *rapid.T, name string, f func(l *ledger.Ledger) error) error {
	t.Helper()
	_, err := onBoth(t, m.twin, name, func(l *ledger.Ledger) (struct{}, error) { return struct{}{}, f(l) })
	return err
}

// lateWrite checks that every write under a revoked claim fails with lease_lost.
func (m *model) lateWrite(t *rapid.T) {
	dead := slices.DeleteFunc(slices.Clone(m.claims), m.holds)
	c := pick(t, dead, "old claim")
	number := 1
	if r := m.run(c.Run); r != nil {
		number = r.Step + 1
	}
	for name, f := range map[string]func(l *ledger.Ledger) error{
		"late append": func(l *ledger.Ledger) error {
			_, err := l.Workers().Append(m.ctx, thread.StepCommit{Claim: c, Number: number,
				Message: &thread.PartialText{ID: "late", Text: "late"}, Step: mailroom.Step{
					Checkpoint: json.RawMessage(`{"late":true}`), Sends: []mailroom.Send{{Name: "late", Parts: mailroom.Text("late")}},
				}})
			return err
		},
		"late flush": func(l *ledger.Ledger) error {
			return l.Workers().Flush(m.ctx, c, store.Partial{Message: "late", Text: "late"})
		},
		"late upload": func(l *ledger.Ledger) error {
			return l.Workers().AddPiece(m.ctx, &thread.Piece{Claim: c, Upload: thread.UploadID(c, "late"), Digest: "late"})
		},
		"late steered": func(l *ledger.Ledger) error { _, err := l.Workers().MarkSteersRead(m.ctx, c); return err },
		"late settle": func(l *ledger.Ledger) error {
			_, err := l.Workers().Settle(m.ctx, thread.Settle{Claim: c, Number: number, Outcome: thread.OutcomeComplete,
				Message: &thread.PartialText{ID: "late", Text: "late"}})
			return err
		},
	} {
		if err := m.do(t, name, f); mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
			t.Fatalf("%s under %+v: got error %v, want lease_lost", name, c, err)
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	run := pick(t, m.runs(), "run")
	_, _ = onBoth(t, m.twin, "cancel", func(l *ledger.Ledger) (*mailroom.Run, error) {
		return l.Cancel(m.ctx, run, "ann")
	})
}

func (m *model) interrupt(t *rapid.T) {
	threadID := drawThread(t, "thread")
	_, _ = onBoth(t, m.twin, "interrupt", func(l *ledger.Ledger) (thread.Interrupted, error) {
		return l.Interrupt(m.ctx, threadID, ann())
	})
}

func (m *model) retry(t *rapid.T) {
	in := thread.Retry{Run: pick(t, m.runs(), "run"), By: "ann", Fresh: rapid.Bool().Draw(t, "fresh"),
		SameVersion: rapid.Bool().Draw(t, "same version")}
	r, err := onBoth(t, m.twin, "retry", func(l *ledger.Ledger) (*mailroom.Run, error) { return l.Retry(m.ctx, in) })
	if err == nil {
		m.recordRetry(r, in.Fresh)
	}
}

// giveWay ends an attempt so that a queued run of its thread starts before the next one, and checks that it will, and
// that the run that gives way keeps its place and is charged with nothing.
func (m *model) giveWay(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	to := "elsewhere"
	if waiting := m.queued(c.Thread); len(waiting) > 0 {
		to = one(t, waiting, "who passes").ID
	}
	was := m.run(c.Run)
	s := thread.Settle{Claim: c, Number: was.Step + 1, Outcome: thread.OutcomeRelease, GiveWay: to}
	r, err := onBoth(t, m.twin, "give way", func(l *ledger.Ledger) (*mailroom.Run, error) {
		return l.Workers().Settle(m.ctx, s)
	})
	if err != nil {
		t.Fatalf("give way: %v", err)
	}
	m.recordSettle(r)
	if r.Status != mailroom.StatusQueued || m.after.Threads[c.Thread].Current != "" {
		return // it was asked to stop, or cannot give way and is released
	}
	m.coverage["gave way"]++
	if !r.NeverStarted() || r.Place != was.Place || r.Failures != was.Failures || r.Crashes != was.Crashes {
		t.Fatalf("run %s gave way to %s and is %+v, was %+v", r.ID, to, r, was)
	}
	next := m.run(to)
	before := func(a, b *mailroom.Run) bool {
		return a.Priority < b.Priority || a.Priority == b.Priority && a.Place < b.Place
	}
	for _, other := range m.queued(c.Thread) {
		if other.ID != to && other.Priority >= was.Priority && before(other, next) { // a run more urgent than both may pass
			t.Fatalf("run %s gave way to %s, but %s starts before it", r.ID, to, other.ID)
		}
	}
}

// queued returns the runs of a thread that wait for their turn, ordered by id.
func (m *model) queued(thread string) (waiting []*mailroom.Run) {
	for _, id := range m.runs() {
		if r := m.run(id); r.Thread == thread && r.NeverStarted() && !r.Scheduled {
			waiting = append(waiting, r)
		}
	}
	return waiting
}

// message draws an acknowledged message, mostly a recent one.
func (m *model) message(t *rapid.T) *sentMessage {
	all := m.messages
	if n := len(all); n > 4 && chance(t, 60, "late") {
		all = all[n-4:]
	}
	return pick(t, all, "message")
}

func (m *model) edit(t *rapid.T) {
	s := m.message(t)
	text := m.name("edit ")
	_, err := onBoth(t, m.twin, "edit", func(l *ledger.Ledger) (mailroom.Message, error) {
		return l.Edit(m.ctx, s.thread, s.id, mailroom.Text(text))
	})
	if err == nil {
		s.text = text
	}
}

func (m *model) retract(t *rapid.T) {
	s := m.message(t)
	if err := m.do(t, "retract", func(l *ledger.Ledger) error { return l.Retract(m.ctx, s.thread, s.id) }); err == nil {
		s.retracted = true
	}
}

func (m *model) patch(t *rapid.T) {
	agent := one(t, []string{"echo", "codex"}, "agent")
	threadID := drawThread(t, "thread")
	_, _ = onBoth(t, m.twin, "patch", func(l *ledger.Ledger) (*mailroom.Thread, error) {
		return l.PatchThread(m.ctx, threadID, thread.Patch{Agent: &agent, Metadata: json.RawMessage(`{"a": 1}`)})
	})
}

func (m *model) delete(t *rapid.T) {
	thread := drawThread(t, "thread")
	if m.do(t, "delete", func(l *ledger.Ledger) error { return l.DeleteThread(m.ctx, thread, nil) }) != nil {
		return
	}
	for id := range m.keys {
		if strings.HasPrefix(id, thread+" ") {
			delete(m.keys, id)
		}
	}
	m.dropThread(thread)
}

// purge checks that a purge drops a prefix of a log, without entries of open runs.
func (m *model) purge(t *rapid.T) {
	thread := drawThread(t, "thread")
	retention := time.Duration(0)
	if chance(t, 30, "of late") {
		retention = time.Since(m.clock.read()) + 30*time.Minute
	}
	if err := m.do(t, "purge", func(l *ledger.Ledger) error { return l.Purge(m.ctx, thread, retention) }); err != nil {
		t.Fatalf("purge: %v", err)
	}
	for id, was := range m.before.Runs {
		if m.after.Runs[id] == nil {
			m.coverage["purged run"]++
			if !was.Status.Finished() {
				t.Fatalf("run %s was %s and was purged", id, was.Status)
			}
		}
	}
}

// renew checks that a worker keeps exactly the claims that it names.
func (m *model) renew(t *rapid.T) {
	id := pick(t, slices.Sorted(maps.Keys(m.workers)), "worker")
	w := m.workers[id]
	texts := map[mailroom.Claim]string{}
	for i, c := range w.held { // not drawn: the histories of a seed stay as they are
		if text := []string{"", "tests", "review"}[(m.n+i)%3]; text != "" {
			texts[c] = text
		}
	}
	out, err := onBoth(t, m.twin, "renew", func(l *ledger.Ledger) (thread.Renewed, error) {
		return l.Workers().Renew(m.ctx, thread.Renewal{Worker: id, Round: w.asked, Held: w.held, WaitsOn: texts})
	})
	if err != nil {
		delete(m.workers, id)
		return
	}
	w.round = w.asked
	for _, c := range w.held {
		if r := m.after.Runs[c.Run]; !slices.Contains(out.Lost, c) && r.WaitsOn != texts[c] {
			t.Fatalf("run %s waits on %q, want %q", c.Run, r.WaitsOn, texts[c])
		}
	}
	w.held = slices.DeleteFunc(w.held, func(c mailroom.Claim) bool { return slices.Contains(out.Lost, c) })
	for thread, row := range m.after.Threads {
		if row.Worker == id && !slices.ContainsFunc(w.held, func(c mailroom.Claim) bool { return c.Run == row.Current }) {
			t.Fatalf("worker %s still holds run %s of thread %s, which its renewal did not name", id, row.Current, thread)
		}
	}
}

// leave checks that a worker that says what it has entered gives back the rest at once, and that no run is charged.
func (m *model) leave(t *rapid.T) {
	id := pick(t, slices.Sorted(maps.Keys(m.workers)), "worker")
	in := thread.Leave{Worker: id, Release: m.n%2 == 0, Entered: m.workers[id].held} // as in renew, not drawn
	if err := m.do(t, "leave", func(l *ledger.Ledger) error { return l.Workers().Deregister(m.ctx, in) }); err != nil {
		t.Fatalf("leave: %v", err)
	}
	for name, row := range m.before.Threads {
		entered := func(c mailroom.Claim) bool { return c.Run == row.Current }
		if row.Worker != id || m.wasDead(id) || slices.ContainsFunc(in.Entered, entered) {
			continue
		}
		now, was, r := m.after.Threads[name], m.before.Runs[row.Current], m.after.Runs[row.Current]
		if in.Release == (now.Worker == id) || r.Lost != was.Lost || r.Crashes != was.Crashes {
			t.Fatalf("worker %s left (release: %t), and thread %s with a claim that it never entered is held by %q; lost %d, was %d",
				id, in.Release, name, now.Worker, r.Lost, was.Lost)
		}
	}
	if rapid.Bool().Draw(t, "swept at once") {
		m.sweep(t)
	}
	delete(m.workers, id)
}

// sweep checks that after a sweep no dead worker holds a claim, no worker with a valid lease is dead,
// and no run is charged with the end of an uncharged worker.
func (m *model) sweep(t *rapid.T) {
	if err := m.do(t, "sweep", func(l *ledger.Ledger) error { return l.Workers().Sweep(m.ctx, "") }); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	alive, uncharged := map[string]bool{}, map[string]bool{}
	for _, w := range m.after.Workers {
		uncharged[w.ID] = w.Uncharged
		alive[w.ID] = !w.Dead
		if over := m.clock.read().After(w.LeaseUntil); over != w.Dead && over {
			t.Fatalf("worker %s: dead %v, lease until %v, time %v", w.ID, w.Dead, w.LeaseUntil, m.clock.read())
		}
	}
	for thread, row := range m.after.Threads {
		if row.Worker != "" && !alive[row.Worker] {
			t.Fatalf("thread %s is still held by worker %s", thread, row.Worker)
		}
		if was := m.before.Threads[thread]; was != nil && uncharged[was.Worker] {
			if before, now := m.before.Runs[was.Current], m.after.Runs[was.Current]; now.Crashes > before.Crashes {
				t.Fatalf("run %s has %d crashes, %d before its uncharged worker %s was swept", now.ID, now.Crashes, before.Crashes,
					was.Worker)
			}
		}
	}
}

// crash lets the leases of all workers expire, one or more times.
func (m *model) crash(t *rapid.T) {
	for range one(t, []int{1, 1, 4}, "times") {
		m.clock.move(16 * time.Second)
		m.sweep(t)
		clear(m.workers)
		m.claimAs(t, m.register(t, false), true)
	}
}

func (m *model) orphans(t *rapid.T) {
	if err := m.do(t, "orphans", func(l *ledger.Ledger) error {
		return l.Workers().FailOrphans(m.ctx, []string{"echo", "codex"}, time.Minute)
	}); err != nil {
		t.Fatalf("orphans: %v", err)
	}
}

// reopen checks that a restart changes no rows, and that it ends the workers of the process.
func (m *model) reopen(t *rapid.T) {
	doors := len(m.sides[0].doors)
	if err := m.close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := m.open(doors); err != nil {
		t.Fatalf("reopen: %v", err)
	}
	was := m.after
	m.compare(t, "reopen")
	if diff := difference(was, m.after); diff != "" {
		t.Fatalf("after reopening (-before +after):\n%s", diff)
	}
	live := map[string]bool{}
	for _, w := range m.after.Workers {
		live[w.ID] = !w.Dead
	}
	uncharged := m.n%2 == 0 // by the number of names so far: a draw would change the histories of the reach test
	if err := m.do(t, "end local", func(l *ledger.Ledger) error {
		return l.Workers().EndLocalWorkers(m.ctx, uncharged)
	}); err != nil {
		t.Fatalf("end local: %v", err)
	}
	for _, w := range m.after.Workers {
		if w.Local && !w.Dead {
			t.Fatalf("worker %s is alive after a restart", w.ID)
		}
		if live[w.ID] && w.Dead && w.Uncharged != uncharged {
			t.Fatalf("worker %s ended by a restart: uncharged %v, want %v", w.ID, w.Uncharged, uncharged)
		}
	}
}

// versions checks that an agent version does not change until it is forgotten.
func (m *model) versions(t *rapid.T) {
	of := store.Definition{
		Agent:   one(t, []string{"echo", "codex"}, "agent"),
		Version: one(t, []string{"v1", "v2"}, "version"),
		Body:    json.RawMessage(fmt.Sprintf(`{"n": %d}`, m.n)),
	}
	name, f := "define", func(l *ledger.Ledger) error { return l.KeepDefinitions(m.ctx, []store.Definition{of}) }
	same := func(d store.Definition) bool { return d.Agent == of.Agent && d.Version == of.Version }
	forget := chance(t, 40, "forget")
	if forget {
		name, f = "forget", func(l *ledger.Ledger) error { return l.DropDefinitions(m.ctx, []store.Definition{of}) }
	}
	if err := m.do(t, name, f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if slices.ContainsFunc(m.after.Kept, same) == forget {
		t.Fatalf("after %s of %s %s: stored versions %v", name, of.Agent, of.Version, m.after.Kept)
	}
	if i := slices.IndexFunc(m.before.Kept, same); i >= 0 && !forget &&
		!slices.ContainsFunc(m.after.Kept, func(d store.Definition) bool {
			return same(d) && string(d.Body) == string(m.before.Kept[i].Body)
		}) {
		t.Fatalf("version %s of %s was changed", of.Version, of.Agent)
	}
}

func (m *model) advance(t *rapid.T) {
	m.clock.move(time.Duration(one(t, []int{1, 250, 1000, 1000, 3000, 3000, 7000, 7000, 3600_000, 25 * 3600_000},
		"ms")) * time.Millisecond)
}

// checkStarted checks that a claim starts the current run, or the first of the queue by priority and
// place, that its attempt is one more than the last one, and that no server claims a run whose session
// another one keeps.
func (m *model) checkStarted(t *rapid.T, before contents, one thread.ClaimedRun, node string) {
	c := one.Claim
	switch by := before.Threads[c.Thread].Nodes[one.Run.Agent]; {
	case by == "":
	case by != node:
		t.Fatalf("run %s of agent %s starts at server %q, its session is on %q", c.Run, one.Run.Agent, node, by)
	default:
		m.coverage["run of a session"]++
	}
	asked := 0 // a claim that finds the budget spent asks for a raise instead of starting the run
	if one.Run.Budget != nil {
		asked = one.Run.Budget.Asks
	}
	if c.Attempt <= m.attempts[c.Run] || c.Attempt > m.attempts[c.Run]+1+asked {
		t.Fatalf("run %s is claimed at attempt %d after %d", c.Run, c.Attempt, m.attempts[c.Run])
	}
	m.attempts[c.Run] = c.Attempt
	m.checkCrashes(t, m.after.Runs[c.Run])
	if r := m.after.Runs[c.Run]; r.HasDeadline() && !r.Deadline.After(m.clock.read()) {
		t.Fatalf("run %s starts after its deadline, %v", r.ID, r.Deadline)
	}
	if !m.holds(c) {
		t.Fatalf("claim %+v was returned, but the rows do not hold it", c)
	}
	row, now := before.Threads[c.Thread], m.clock.read()
	if row.Current != "" && !m.endedOverdue(row.Current) && !m.endedUnraised(row.Current) {
		r := before.Runs[c.Run]
		fired := r != nil && r.Status == mailroom.StatusWaiting && !row.Due.At.IsZero() && !row.Due.At.After(now)
		if row.Current != c.Run || !fired && (r.Status != mailroom.StatusQueued || r.AvailableAt.After(now)) {
			t.Fatalf("claimed run %s of thread %s while run %s was current, available at %v", c.Run, c.Thread, row.Current,
				r.AvailableAt)
		}
		return
	}
	mine := m.after.Runs[c.Run]
	for _, r := range m.after.Runs {
		if r.Thread == c.Thread && r.NeverStarted() && !r.NotBefore.After(now) &&
			(r.Priority < mine.Priority || r.Priority == mine.Priority && r.Place < mine.Place) {
			t.Fatalf("run %s (priority %d, place %d) started before run %s (%d, %d)", c.Run, mine.Priority, mine.Place, r.ID,
				r.Priority, r.Place)
		}
	}
}

// endedOverdue reports whether the deadline of a run ended it: a claim does so before the sweep comes, and then starts
// the next one.
func (m *model) endedOverdue(run string) bool {
	r := m.after.Runs[run]
	return r != nil && r.Status == mailroom.StatusCancelled && r.Reason == mailroom.ReasonDeadline
}

// checkCrashes checks that a run is not started again after as many crashes as its submit allows.
func (m *model) checkCrashes(t *rapid.T, r *mailroom.Run) {
	if r.CrashLimit == nil {
		return
	}
	m.coverage["run of bounded crashes"]++
	if n := *r.CrashLimit; n == 0 && r.Lost > 0 || n > 0 && r.Crashes >= n {
		t.Fatalf("run %s starts after %d lost claims, %d of them crashes in a row, with a bound of %d", r.ID, r.Lost,
			r.Crashes, n)
	}
}

// check checks the invariants between two successive states of a store.
func (m *model) check(t *rapid.T) {
	m.checkTickets(t)
	m.checkEnds(t)
	m.checkBudgets(t)
	m.checkLabels(t)
	m.checkBlobs(t)
	m.checkWaitsFor(t)
	m.dropPurged()
	for thread, log := range m.before.Logs {
		row, was := m.after.Threads[thread], m.before.Threads[thread]
		if row == nil || row.Key != was.Key {
			continue // deleted
		}
		if row.Owner != was.Owner {
			t.Fatalf("owner of thread %s changed from %s to %s", thread, was.Owner, row.Owner)
		}
		now := m.after.Logs[thread]
		log = log[min(int(row.FirstSeq-was.FirstSeq), len(log)):] // without the purged part
		if len(now) < len(log) || !slices.Equal(now[:len(log)], log) {
			t.Fatalf("the log of thread %s was rewritten", thread)
		}
	}
	for id, was := range m.before.Runs {
		is := m.after.Runs[id]
		if is == nil {
			continue
		}
		m.checkBounds(t, is)
		if is.Attempt < was.Attempt || is.Step < was.Step {
			t.Fatalf("run %s went from attempt %d, step %d to %d, %d", id, was.Attempt, was.Step, is.Attempt, is.Step)
		}
		if was.Status.Finished() && !is.Status.Finished() && !is.NeverStarted() {
			t.Fatalf("run %s changed from %s to %s", id, was.Status, is.Status)
		}
		for _, s := range was.Steers {
			m.checkSteerKept(t, was, is, s)
		}
	}
}

// checkEnds checks that the summary counts each end of the last operation once. What a deleted thread
// ended is not known.
func (m *model) checkEnds(t *rapid.T) {
	counted := func(c contents) map[mailroom.Status]int64 {
		sums := map[mailroom.Status]int64{}
		for _, s := range c.Ended {
			if s.Key.Step == store.StepDay && s.Key.Agent == "" {
				sums[s.Key.Status] += s.Sums.Runs
			}
		}
		return sums
	}
	was, is := counted(m.before), counted(m.after)
	for id, row := range m.after.Threads {
		log := m.after.Logs[id]
		if before := m.before.Threads[id]; before != nil && before.Key == row.Key {
			log = log[max(0, len(log)-int(row.LastSeq-before.LastSeq)):]
		}
		for _, line := range log {
			e, err := entry.Parse([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			switch e.Kind {
			case entry.KindCompleted:
				was[mailroom.StatusCompleted]++
			case entry.KindFailed:
				was[mailroom.StatusFailed]++
			case entry.KindCancelled:
				was[mailroom.StatusCancelled]++
			}
		}
	}
	for id := range m.before.Threads {
		if m.after.Threads[id] == nil {
			return
		}
	}
	if !maps.Equal(was, is) {
		t.Fatalf("the summary counts the ends %v, want %v", is, was)
	}
}

// checkLabels checks that the ends of the last operation are counted for the values of the label of its ledger.
func (m *model) checkLabels(t *rapid.T) {
	label, want := labelOf(m.looked), map[string]int64{} // not m.handle, which a move of the clock draws too
	for id, r := range m.after.Runs {
		before := m.before.Runs[id]
		if r.FinishedAt.IsZero() || before != nil && before.FinishedAt.Equal(r.FinishedAt) {
			continue
		}
		key := ""
		if value := store.LabelValue(r.Metadata[label]); value != "" {
			key = store.LabelKey(label, value)
			want[key]++
		}
		if r.Labelled.Key != key || key != "" && !r.Labelled.At.Equal(r.FinishedAt) {
			t.Fatalf("run %s with %v is counted for %+v, want %q", id, r.Metadata, r.Labelled, key)
		}
	}
	for id := range m.before.Threads {
		if m.after.Threads[id] == nil {
			return // what a deleted thread ended is not known
		}
	}
	for _, step := range [2]time.Duration{store.StepLabelDay, store.StepLabel} {
		is := map[string]int64{}
		for sign, c := range map[int64]contents{-1: m.before, 1: m.after} {
			for _, s := range c.Ended {
				if s.Key.Step == step {
					is[s.Key.Agent] += sign * s.Sums.Runs
				}
			}
		}
		maps.DeleteFunc(is, func(_ string, n int64) bool { return n == 0 })
		if !maps.Equal(is, want) {
			t.Fatalf("the steps of labels (%s) count %v more, want %v", step, is, want)
		}
	}
}

// owner draws the owner of a submit, mostly the thread's owner.
func (m *model) owner(t *rapid.T, thread string) string {
	if row := m.after.Threads[thread]; row != nil && !chance(t, 5, "a stranger") {
		return row.Owner
	}
	return one(t, []string{"ann", "ann", "cat", auth.Operator}, "owner")
}

// checkBounds checks that a run sent only to threads of its owner, unless the operator owns it.
func (m *model) checkBounds(t *rapid.T, r *mailroom.Run) {
	parent := m.after.Runs[r.Parent]
	if parent == nil {
		return
	}
	from, to := m.after.Threads[parent.Thread].Owner, m.after.Threads[r.Thread].Owner
	if r.Origin.Via == "wake" && to == auth.Operator {
		return // the operator's runs may send to all threads
	}
	if from != to && from != auth.Operator {
		t.Fatalf("run %s of %s was sent by run %s of %s", r.ID, to, parent.ID, from)
	}
}

// dropPurged drops deleted and purged runs from the model. A send that is repeated by its name creates
// a run with the same id.
func (m *model) dropPurged() {
	gone := func(run string) bool { return m.after.Runs[run] == nil }
	maps.DeleteFunc(m.attempts, func(run string, _ int) bool { return gone(run) })
	maps.DeleteFunc(m.steps, func(c mailroom.Claim, _ thread.StepCommit) bool { return gone(c.Run) })
	maps.DeleteFunc(m.handed, func(c mailroom.Claim, _ int64) bool { return gone(c.Run) })
	m.claims = slices.DeleteFunc(m.claims, func(c mailroom.Claim) bool { return gone(c.Run) })
	m.journal.dropRuns(gone)
}

// checkSteerKept checks that an unread steered message is read later, becomes a run, or is superseded
// or retracted.
func (m *model) checkSteerKept(t *rapid.T, was, is *mailroom.Run, s mailroom.Steer) {
	if s.Read || s.Retracted || slices.ContainsFunc(is.Steers, func(x mailroom.Steer) bool {
		return x.Message == s.Message
	}) {
		return
	}
	own, _, _ := strings.Cut(s.Message, ".")
	if r := m.after.Runs[own]; r == nil || !slices.ContainsFunc(r.Inputs, func(in mailroom.Input) bool {
		return in.Message == s.Message
	}) {
		t.Fatalf("steered message %s of run %s (%s, then %s) was dropped unread", s.Message, was.ID, was.Status, is.Status)
	}
}
