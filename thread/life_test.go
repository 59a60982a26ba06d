package thread_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestThePlainLifeOfARun(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "think"}})
	w.end(completed("hello"))
	w.wantSince(0, "message a, run.queued a, run.started a, step a, message a, run.completed a")

	wantEqual(t, "started", body[entry.RunStarted](t, w.log[2]), entry.RunStarted{Worker: "w1", Messages: []int64{1}})
	reply := "hello"
	wantEqual(t, "completed", body[entry.RunCompleted](t, w.log[5]), entry.RunCompleted{Reply: &reply, Steps: 1})
	for _, e := range w.log[2:] {
		wantEqual(t, "attempt of "+e.Kind, e.Attempt, c.Attempt)
	}
	wantEqual(t, "current, worker and round", []any{w.row.Current, w.row.Worker, w.row.Round}, []any{"", "", int64(0)})
}

func TestEveryEndWritesItsEntries(t *testing.T) {
	partial := func(s thread.Settle) thread.Settle {
		s.Message = partialText("so f")
		return s
	}
	stopped := func(w *fixture) { states["stopping"](w) }
	for _, c := range []struct {
		name  string
		begin func(w *fixture)
		end   thread.Settle
		want  string
		state string
	}{
		{"complete", states["running"], completed("hello"), "message x, run.completed x", "completed"},
		{"complete without a word", states["running"], thread.Settle{Outcome: thread.OutcomeComplete}, "run.completed x", "completed"},
		{"fail for good", states["running"], partial(failed(mailroom.ClassPermanent)), "message x, run.failed x", "failed"},
		{"retry", states["running"], partial(failed(mailroom.ClassTransient)), "message x, run.rescheduled x", "queued"},
		{"outage", states["running"], failed(mailroom.ClassUnavailable), "run.rescheduled x", "queued"},
		{"release", states["running"], partial(released()), "message x, run.rescheduled x", "queued"},
		{"complete after a stop", stopped, completed("hello"), "message x, run.completed x", "completed"},
		{"fail after a stop", stopped, partial(failed(mailroom.ClassPermanent)), "message x, run.cancelled x", "cancelled/cancelled"},
		{"retry after a stop", stopped, failed(mailroom.ClassTransient), "run.cancelled x", "cancelled/cancelled"},
		{"release after a stop", stopped, partial(released()), "message x, run.cancelled x", "cancelled/cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.begin(w)
			seq := w.row.LastSeq
			w.end(c.end)
			w.wantSince(seq, c.want)
			wantEqual(t, "state", w.state("x"), c.state)
			if c.end.Message != nil {
				m := body[mailroom.Message](t, w.log[seq])
				wantEqual(t, "partial", m.Partial, c.end.Outcome != thread.OutcomeComplete)
			}
			current := "x"
			if w.runs["x"].Status.Finished() {
				current = ""
			}
			wantEqual(t, "current and worker", []string{w.row.Current, w.row.Worker}, []string{current, ""})
		})
	}
}

func TestARescheduleSaysWhyWhenAndWhichAttempt(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	wantEqual(t, "retry", body[entry.RunRescheduled](t, w.last()), entry.RunRescheduled{
		Reason: "retry", Attempt: 1, AvailableAt: w.now.Add(250 * time.Millisecond),
		Error: &mailroom.RunError{Class: mailroom.ClassTransient, Message: "no luck"},
	})
	w.wait(time.Second)
	w.mustStart("a")
	w.expire()
	wantEqual(t, "lost", body[entry.RunRescheduled](t, w.last()),
		entry.RunRescheduled{Reason: "lease_lost", Attempt: 2, AvailableAt: w.now})
	w.mustStart("a")
	w.end(released())
	wantEqual(t, "released", body[entry.RunRescheduled](t, w.last()),
		entry.RunRescheduled{Reason: "released", Attempt: 3, AvailableAt: w.now})
}

func TestALaterAttemptListsNoInputs(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(released())
	w.mustStart("a")
	wantEqual(t, "started", body[entry.RunStarted](t, w.last()).Messages, []int64{})
}

func TestAStepIsWrittenInOrder(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	a := thread.StepCommit{
		Claim: c, Number: 1, Message: partialText("I look it up."),
		Step: mailroom.Step{
			Name: "look up", Checkpoint: json.RawMessage(`{"at":1}`),
			Entries: []mailroom.AgentEntry{{Kind: "tool.started", Body: json.RawMessage(`{"call":"1"}`)},
				{Kind: "x.mine", Body: json.RawMessage(`{}`)}},
			Sends: []mailroom.Send{{Name: "ask", Thread: "u"}},
		},
	}
	seq := w.row.LastSeq
	err := w.do(thread.ScopeRow, nil, func(l *thread.State) error {
		_, err := l.Append(&a, []store.Submitted{{Thread: "u", Message: "m.1", Run: "m"}}, w.now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wantSince(seq, "step a, message a, tool.started a, x.mine a, send a")
	wantEqual(t, "checkpoint", string(w.runs["a"].Checkpoint), `{"at":1}`)
	wantEqual(t, "sent", body[entry.Sent](t, w.last()), entry.Sent{Thread: "u", Message: "m.1", Run: "m"})
}

func TestAStepIsRecognisedByItsNumber(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	named := func(number int, name string) thread.StepCommit {
		return thread.StepCommit{Claim: c, Number: number, Step: mailroom.Step{Name: name}}
	}
	first := w.step(named(1, "one"))
	log := len(w.log)
	again, err := w.append(named(1, "one"))
	if err != nil || again != first || len(w.log) != log {
		t.Errorf("the same step again: got seq %d, error %v and %d new entries, want seq %d", again, err,
			len(w.log)-log, first)
	}
	for _, bad := range []thread.StepCommit{named(1, "other"), named(3, "hole"), named(-1, "before")} {
		_, err := w.append(bad)
		wantCode(t, err, mailroom.CodeConflict)
	}
	w.step(named(2, "two"))
	_, err = w.append(named(1, "one"))
	wantCode(t, err, mailroom.CodeConflict)
}

func TestASettleIsRecognisedByItsNumber(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.must(in("", "b"))
	s := completed("hello")
	s.Claim, s.Number = w.mustStart("a"), 1
	w.end(s)
	w.mustStart("b")
	log := len(w.log)
	r := w.end(s)
	wantEqual(t, "status", r.Status, mailroom.StatusCompleted)
	wantEqual(t, "entries", len(w.log), log)
	s.Message = partialText("other")
	_, err := w.settle(s)
	wantCode(t, err, mailroom.CodeLeaseLost)
}

func TestASettleThatDoesNotFollowConflicts(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}})
	for _, number := range []int{1, 3} {
		s := completed("hello")
		s.Number = number
		_, err := w.settle(s)
		wantCode(t, err, mailroom.CodeConflict)
	}
}

// staleWrites tries every write of a run under claim c.
func staleWrites(w *fixture, c mailroom.Claim) map[string]error {
	refused := map[string]error{}
	_, refused["append"] = w.append(thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{Name: "late",
		Checkpoint: json.RawMessage(`{}`)}})
	for _, s := range []thread.Settle{completed("late"), failed(mailroom.ClassPermanent), released()} {
		s.Claim, s.Number, s.Message = c, 1, partialText("late") // else it may be the repeat of one that came in time
		_, refused["settle "+string(s.Outcome)] = w.settle(s)
	}
	refused["flush"] = w.do(thread.ScopeRow, []string{c.Run}, func(l *thread.State) error {
		return l.Flush(c, store.Partial{Thread: "t", Run: c.Run, Text: "late"})
	})
	refused["steered"] = w.do(thread.ScopeRow, []string{c.Run}, func(l *thread.State) error {
		_, err := l.ReadSteers(c, w.now)
		return err
	})
	return refused
}

func TestALostClaimWritesNothing(t *testing.T) {
	for name, lose := range map[string]func(w *fixture){
		"lost":      func(w *fixture) { w.expire() },
		"reclaimed": func(w *fixture) { w.expire(); w.mustStart("a") },
		"released":  func(w *fixture) { w.end(released()) },
		"finished":  func(w *fixture) { w.end(completed("ok")) },
		"failed":    func(w *fixture) { w.end(failed(mailroom.ClassPermanent)) },
		"retried by hand": func(w *fixture) {
			w.end(failed(mailroom.ClassPermanent))
			if _, err := w.retry(thread.Retry{Run: "a"}); err != nil {
				w.t.Fatal(err)
			}
			w.mustStart("a")
		},
		"another run is current": func(w *fixture) { w.end(completed("ok")); w.must(in("", "b")); w.mustStart("b") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "a"))
			c := w.mustStart("a")
			lose(w)
			log := len(w.log)
			for op, err := range staleWrites(w, c) {
				if mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
					t.Errorf("%s: got error %v, want code %q", op, err, mailroom.CodeLeaseLost)
				}
			}
			wantEqual(t, "entries", len(w.log), log)
		})
	}
}

func TestAClaimStartsNoRunThatIsNotDue(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for name, claim := range map[string]func(l *thread.State) *mailroom.Run{
		"another agent": func(l *thread.State) *mailroom.Run {
			return l.Claim(thread.Claimant{Worker: "w", Round: 1}, "codex", false, w.now)
		},
		"last chance": func(l *thread.State) *mailroom.Run {
			return l.Claim(thread.Claimant{Worker: "w", Round: 1}, "echo", true, w.now)
		},
	} {
		if r := claim(w.load(thread.ScopeHead, "")); r != nil {
			t.Errorf("%s: started %s", name, r.ID)
		}
	}
	w.mustStart("a")
	if r := w.load(thread.ScopeHead, "").Claim(thread.Claimant{Worker: "w", Round: 1}, "echo", false, w.now); r != nil {
		t.Errorf("started %s beside the current run", r.ID)
	}
	w.end(failed(mailroom.ClassTransient))
	claim := func() *mailroom.Run {
		return w.load(thread.ScopeHead, "").Claim(thread.Claimant{Worker: "w", Round: 1}, "echo", false, w.now)
	}
	if r := claim(); r != nil {
		t.Errorf("started %s before the time of its retry", r.ID)
	}
	w.now = w.row.Due.At
	if claim() == nil {
		t.Error("the retry does not start at its time")
	}
}

func TestAClaimIsHeldByItsWorkerOnly(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	other := c
	other.Attempt++
	l := w.load(thread.ScopeHead, "")
	wantEqual(t, "by its worker, by another one, and another attempt",
		[]bool{l.Holds("w1", c), l.Holds("w2", c), l.Holds("w1", other)}, []bool{true, false, false})
}

func TestAnUnheldClaimIsReleased(t *testing.T) {
	for _, c := range []struct {
		name   string
		worker string
		round  int64
		want   bool
	}{
		{"of this round", "w1", 1, true},
		{"of an earlier round", "w1", 2, true},
		{"of a later round", "w1", 0, false},
		{"of another worker", "w2", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "a"))
			w.mustStart("a")
			var got bool
			if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
				got = l.Revoke(thread.Revoke{Cause: thread.RevokeUnheld, Worker: c.worker, Round: c.round}, w.now)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "released", got, c.want)
			wantEqual(t, "due at once", !w.row.Due.At.IsZero(), c.want)
			wantEqual(t, "crashes", w.runs["a"].Crashes, 0)
		})
	}
}
