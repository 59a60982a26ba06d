package ledger_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/ledger"
)

func (m *model) do(t *rapid.T, name string, f func(l *ledger.Ledger) error) error {
	t.Helper()
	_, err := twice(t, m.twin, name, func(l *ledger.Ledger) (struct{}, error) { return struct{}{}, f(l) })
	return err
}

// late: every write under a claim that was taken away is refused as such.
func (m *model) late(t *rapid.T) {
	dead := slices.DeleteFunc(slices.Clone(m.claims), m.holds)
	c := pick(t, dead, "old claim")
	number := 1
	if r := m.run(c.Run); r != nil {
		number = r.Step + 1
	}
	for name, f := range map[string]func(l *ledger.Ledger) error{
		"late append": func(l *ledger.Ledger) error {
			_, err := l.Append(m.ctx, mailroom.Append{Claim: c, Number: number, Message: &mailroom.Said{ID: "late", Text: "late"}, Step: mailroom.Step{
				Checkpoint: json.RawMessage(`{"late":true}`), Sends: []mailroom.Send{{Name: "late", Parts: mailroom.Text("late")}},
			}})
			return err
		},
		"late flush": func(l *ledger.Ledger) error {
			return l.Flush(m.ctx, c, mailroom.Partial{Message: "late", Text: "late"})
		},
		"late steered": func(l *ledger.Ledger) error { _, err := l.Steered(m.ctx, c); return err },
		"late settle": func(l *ledger.Ledger) error {
			_, err := l.Settle(m.ctx, mailroom.Settle{Claim: c, Number: number, Outcome: mailroom.Complete, Message: &mailroom.Said{ID: "late", Text: "late"}})
			return err
		},
	} {
		if err := m.do(t, name, f); mailroom.CodeOf(err) != mailroom.LeaseLost {
			t.Fatalf("%s under %+v: got error %v, want lease_lost", name, c, err)
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	run := pick(t, m.runs(), "run")
	_, _ = twice(t, m.twin, "cancel", func(l *ledger.Ledger) (*mailroom.Run, error) { return l.Cancel(m.ctx, run, "ann") })
}

func (m *model) interrupt(t *rapid.T) {
	thread := threads().Draw(t, "thread")
	_, _ = twice(t, m.twin, "interrupt", func(l *ledger.Ledger) (mailroom.Interrupted, error) { return l.Interrupt(m.ctx, thread, "ann") })
}

func (m *model) retry(t *rapid.T) {
	in := mailroom.Retry{Run: pick(t, m.runs(), "run"), By: "ann", Fresh: rapid.Bool().Draw(t, "fresh"), SameVersion: rapid.Bool().Draw(t, "same version")}
	_, _ = twice(t, m.twin, "retry", func(l *ledger.Ledger) (*mailroom.Run, error) { return l.Retry(m.ctx, in) })
}

func (m *model) edit(t *rapid.T) {
	thread, id, _ := strings.Cut(pick(t, m.messages, "message"), " ")
	text := m.name("edit ")
	_, _ = twice(t, m.twin, "edit", func(l *ledger.Ledger) (mailroom.Message, error) {
		return l.Edit(m.ctx, thread, id, mailroom.Text(text))
	})
}

func (m *model) retract(t *rapid.T) {
	thread, id, _ := strings.Cut(pick(t, m.messages, "message"), " ")
	if err := m.do(t, "retract", func(l *ledger.Ledger) error { return l.Retract(m.ctx, thread, id) }); err != nil {
		return
	}
	msg, err := twice(t, m.twin, "message", func(l *ledger.Ledger) (mailroom.Message, error) { return l.Message(m.ctx, thread, id) })
	if err != nil || msg.State != mailroom.Retracted {
		t.Fatalf("message %s was retracted and is %q, error %v", id, msg.State, err)
	}
}

func (m *model) patch(t *rapid.T) {
	agent := rapid.SampledFrom([]string{"echo", "codex"}).Draw(t, "agent")
	thread := threads().Draw(t, "thread")
	_, _ = twice(t, m.twin, "patch", func(l *ledger.Ledger) (*mailroom.Thread, error) {
		return l.PatchThread(m.ctx, thread, mailroom.ThreadPatch{Agent: &agent, Metadata: json.RawMessage(`{"a": 1}`)})
	})
}

func (m *model) delete(t *rapid.T) {
	thread := threads().Draw(t, "thread")
	if m.do(t, "delete", func(l *ledger.Ledger) error { return l.DeleteThread(m.ctx, thread) }) != nil {
		return
	}
	for id := range m.keys {
		if strings.HasPrefix(id, thread+" ") {
			delete(m.keys, id)
		}
	}
	m.messages = slices.DeleteFunc(m.messages, func(s string) bool { return strings.HasPrefix(s, thread+" ") })
}

// renew: a worker keeps what it names, and no more.
func (m *model) renew(t *rapid.T) {
	id := pick(t, slices.Sorted(maps.Keys(m.workers)), "worker")
	w := m.workers[id]
	out, err := twice(t, m.twin, "renew", func(l *ledger.Ledger) (ledger.Renewed, error) {
		return l.Renew(m.ctx, ledger.Renewal{Worker: id, Round: w.asked, Held: w.held})
	})
	if err != nil {
		delete(m.workers, id)
		return
	}
	w.round = w.asked
	w.held = slices.DeleteFunc(w.held, func(c mailroom.Claim) bool { return slices.Contains(out.Lost, c) })
	for thread, row := range m.after.Threads {
		if row.Worker == id && !slices.ContainsFunc(w.held, func(c mailroom.Claim) bool { return c.Run == row.Current }) {
			t.Fatalf("worker %s still has run %s of thread %s, which it did not name", id, row.Current, thread)
		}
	}
}

func (m *model) leave(t *rapid.T) {
	id := pick(t, slices.Sorted(maps.Keys(m.workers)), "worker")
	if err := m.do(t, "leave", func(l *ledger.Ledger) error { return l.Leave(m.ctx, id) }); err != nil {
		t.Fatalf("leave: %v", err)
	}
	if rapid.Bool().Draw(t, "swept at once") {
		m.sweep(t)
	}
	delete(m.workers, id)
}

// sweep: after it no dead worker holds anything, and no lease that lasts is dead.
func (m *model) sweep(t *rapid.T) {
	if err := m.do(t, "sweep", func(l *ledger.Ledger) error { return l.Sweep(m.ctx, "") }); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	alive := map[string]bool{}
	for _, w := range m.after.Workers {
		alive[w.ID] = !w.Dead
		if over := m.clock.read().After(w.LeaseUntil); over != w.Dead && over {
			t.Fatalf("worker %s is dead: %v, its lease until %v at %v", w.ID, w.Dead, w.LeaseUntil, m.clock.read())
		}
	}
	for thread, row := range m.after.Threads {
		if row.Worker != "" && !alive[row.Worker] {
			t.Fatalf("thread %s is still held by worker %s", thread, row.Worker)
		}
	}
}

func (m *model) orphans(t *rapid.T) {
	if err := m.do(t, "orphans", func(l *ledger.Ledger) error {
		return l.Orphans(m.ctx, []string{"echo", "codex"}, time.Minute)
	}); err != nil {
		t.Fatalf("orphans: %v", err)
	}
}

func (m *model) wait(t *rapid.T) {
	m.clock.move(time.Duration(rapid.SampledFrom([]int{1, 250, 1000, 7000, 15001, 3600_000, 25 * 3600_000}).Draw(t, "ms")) * time.Millisecond)
}

// started: a claim takes the current run, or else the first of the queue by
// priority and place, and its attempt is one more than ever before.
func (m *model) started(t *rapid.T, before contents, one ledger.Work) {
	c := one.Claim
	if c.Attempt != m.attempts[c.Run]+1 {
		t.Fatalf("run %s is claimed at attempt %d after %d", c.Run, c.Attempt, m.attempts[c.Run])
	}
	m.attempts[c.Run] = c.Attempt
	if !m.holds(c) {
		t.Fatalf("claim %+v was given and does not hold", c)
	}
	row, now := before.Threads[c.Thread], m.clock.read()
	if row.Current != "" {
		r := before.Runs[c.Run]
		fired := r != nil && r.Status == mailroom.Waiting && !row.Due.At.IsZero() && !row.Due.At.After(now)
		if row.Current != c.Run || !fired && (r.Status != mailroom.Queued || r.AvailableAt.After(now)) {
			t.Fatalf("claimed run %s of thread %s while run %s was current, available at %v", c.Run, c.Thread, row.Current, r.AvailableAt)
		}
		return
	}
	mine := m.after.Runs[c.Run]
	for _, r := range m.after.Runs {
		if r.Thread == c.Thread && r.NeverStarted() && !r.NotBefore.After(now) &&
			(r.Priority < mine.Priority || r.Priority == mine.Priority && r.Place < mine.Place) {
			t.Fatalf("run %s (priority %d, place %d) started before run %s (%d, %d)", c.Run, mine.Priority, mine.Place, r.ID, r.Priority, r.Place)
		}
	}
}

// check holds between any two states of a store.
func (m *model) check(t *rapid.T) {
	m.ticketsKept(t)
	for thread, log := range m.before.Logs {
		now, ok := m.after.Logs[thread]
		if ok && m.after.Threads[thread].CreatedAt.Equal(m.before.Threads[thread].CreatedAt) &&
			(len(now) < len(log) || !slices.Equal(now[:len(log)], log)) {
			t.Fatalf("the log of thread %s was rewritten", thread)
		}
	}
	for id, was := range m.before.Runs {
		is := m.after.Runs[id]
		if is == nil {
			continue
		}
		if is.Attempt < was.Attempt || is.Step < was.Step {
			t.Fatalf("run %s went from attempt %d, step %d to %d, %d", id, was.Attempt, was.Step, is.Attempt, is.Step)
		}
		if was.Status.Finished() && !is.Status.Finished() && !is.NeverStarted() {
			t.Fatalf("run %s was %s and is %s", id, was.Status, is.Status)
		}
		for _, s := range was.Steers {
			m.steerKept(t, was, is, s)
		}
	}
}

// steerKept: a steered message that is unread is read later, becomes a run, or is
// superseded or retracted. It is never dropped.
func (m *model) steerKept(t *rapid.T, was, is *mailroom.Run, s mailroom.Steer) {
	if s.Read || s.Retracted || slices.ContainsFunc(is.Steers, func(x mailroom.Steer) bool { return x.Message == s.Message }) {
		return
	}
	own, _, _ := strings.Cut(s.Message, ".")
	if r := m.after.Runs[own]; r == nil || !slices.ContainsFunc(r.Inputs, func(in mailroom.Input) bool { return in.Message == s.Message }) {
		t.Fatalf("steered message %s of run %s (%s, then %s) was dropped unread", s.Message, was.ID, was.Status, is.Status)
	}
}
