package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

func TestCancelByState(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(w *fixture)
		run   string
		want  string // entries
		state string
		code  mailroom.Code
	}{
		{"queued", states["queued"], "b", "run.cancelled b", "cancelled/cancelled", ""},
		{"held", func(w *fixture) { w.must(delayed(w, "a", time.Hour)) }, "a", "run.cancelled a", "cancelled/cancelled", ""},
		{"running", states["running"], "x", "run.stop_requested x", "running", ""},
		{"stopping already", states["stopping"], "x", "", "running", ""},
		{"in backoff", states["backoff"], "x", "run.cancelled x", "cancelled/cancelled", ""},
		{"cancelled already", func(w *fixture) { states["backoff"](w); w.interrupt() }, "a", "", "cancelled/superseded", ""},
		{"completed", func(w *fixture) { states["running"](w); w.end(completed("ok")) }, "x", "", "completed", mailroom.CodeConflict},
		{"failed", func(w *fixture) { states["running"](w); w.end(failed(mailroom.ClassPermanent)) }, "x", "", "failed", mailroom.CodeConflict},
		{"unknown", states["queued"], "unknown", "", "none", mailroom.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.begin(w)
			seq := w.row.LastSeq
			_, err := w.cancel(c.run)
			wantCode(t, err, c.code)
			w.wantSince(seq, c.want)
			wantEqual(t, "state", w.state(c.run), c.state)
			if c.want != "" {
				wantEqual(t, "entry", body[entry.RunStop](t, w.last()), entry.RunStop{Reason: mailroom.ReasonCancelled, By: "bob"})
			}
		})
	}
}

func TestInterruptByState(t *testing.T) {
	const both = "run.cancelled a, run.cancelled b"
	for _, c := range []struct {
		state, want, stopping string
		superseded            []string
	}{
		{"idle", "", "", []string{}},
		{"queued", both, "", []string{"a", "b"}},
		{"running", both + ", run.stop_requested x", "x", []string{"a", "b"}},
		{"stopping", both, "x", []string{"a", "b"}},
		{"backoff", both + ", run.cancelled x", "", []string{"a", "b"}},
	} {
		t.Run(c.state, func(t *testing.T) {
			w := newFixture(t)
			states[c.state](w)
			seq := w.row.LastSeq
			out := w.interrupt()
			w.wantSince(seq, c.want)
			wantEqual(t, "superseded", out.Superseded, c.superseded)
			if got := out.Stopping; (got == nil) != (c.stopping == "") || got != nil && *got != c.stopping {
				t.Errorf("stopping: got %v, want %q", got, c.stopping)
			}
			if c.stopping == "" {
				wantEqual(t, "due", w.row.Due, mailroom.Due{})
			}
		})
	}
}

func TestTheFirstReasonToStopStays(t *testing.T) {
	w := newFixture(t)
	states["stopping"](w)
	w.must(in(mailroom.ModeInterrupt, "n"))
	w.end(released())
	wantEqual(t, "state", w.state("x"), "cancelled/cancelled")
	w.mustStart("n")
}

func TestAReplacementStartsAfterTheInterruptedRunHasEnded(t *testing.T) {
	for name, end := range map[string]func(w *fixture){
		"settled": func(w *fixture) { w.end(released()) },
		"forced":  func(w *fixture) { s := released(); s.Forced = true; w.end(s) },
		"lost":    func(w *fixture) { w.expire() },
		"unheld": func(w *fixture) {
			if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
				l.Revoke(thread.Revoke{Cause: thread.RevokeUnheld, Worker: "w1", Round: 1}, w.now)
				return nil
			}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			states["running"](w)
			w.must(in(mailroom.ModeInterrupt, "n"))
			if r := w.start(); r != nil {
				t.Fatalf("started %s beside the run that stops", r.ID)
			}
			seq := w.row.LastSeq
			end(w)
			w.wantSince(seq, "run.cancelled x")
			wantEqual(t, "entry", body[entry.RunStop](t, w.last()),
				entry.RunStop{Reason: mailroom.ReasonInterrupted, By: "ann", Forced: name == "forced"})
			wantEqual(t, "state", w.state("x"), "cancelled/interrupted")
			w.mustStart("n")
		})
	}
}

func TestAStoppedRunWhoseWorkerDiesOnItsLastAttemptIsCancelled(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for range 2 {
		w.mustStart("a")
		w.expire()
		w.wait(time.Second)
	}
	w.mustStart("a")
	if _, err := w.cancel("a"); err != nil {
		t.Fatal(err)
	}
	w.expire()
	wantEqual(t, "state", w.state("a"), "cancelled/cancelled")
	wantEqual(t, "crashes", w.runs["a"].Crashes, 2)
}

// A repeated interrupt names the place up to which it applies.
func TestAnInterruptUpToAPlaceLeavesLaterRuns(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.must(in(mailroom.ModeSteer, "before"))
	place := w.row.NextPlace
	w.must(in(mailroom.ModeSteer, "after"))
	interrupt := func(place int64) (out thread.Interrupted) {
		if err := w.do(thread.ScopeAll, nil, func(l *thread.State) error {
			out = l.Interrupt(place, "bob", w.now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := interrupt(w.runs["a"].Place); len(out.Superseded) > 0 || out.Stopping != nil {
		t.Errorf("before the run: %+v", out)
	}
	out := interrupt(place)
	wantEqual(t, "superseded", out.Superseded, []string{"before"})
	wantEqual(t, "stopping", out.Stopping != nil, true)
	w.end(released())
	wantEqual(t, "queue", w.queue(), "after")
}

// The run takes a place beyond the named one when it enters the queue. It was there before the interrupt.
func TestAnInterruptReachesAScheduledRunThatIsJustDue(t *testing.T) {
	w := newFixture(t)
	w.must(delayed(w, "a", time.Second))
	place := w.row.NextPlace
	w.wait(time.Second)
	if err := w.do(thread.ScopeAll, nil, func(l *thread.State) error {
		l.Interrupt(place, "bob", w.now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "run", w.state("a"), "cancelled/superseded")
}

func TestAnInterruptSupersedesUnreadSteers(t *testing.T) {
	for _, state := range []string{"running", "backoff"} {
		t.Run(state, func(t *testing.T) {
			w := newFixture(t)
			states[state](w)
			w.must(in(mailroom.ModeSteer, "s"))
			child := in(mailroom.ModeSteer, "child")
			child.Parent = "elsewhere"
			w.must(child)
			w.wait(time.Second)
			out := w.must(in(mailroom.ModeInterrupt, "n"))
			wantEqual(t, "superseded", out.Superseded, []string{"a", "b", "s"})
			wantEqual(t, "run of the steer", w.state("s"), "cancelled/superseded")
			wantEqual(t, "its creation", w.runs["s"].CreatedAt, w.now)
			var named []string
			for _, e := range w.log {
				if e.Run == "s" {
					named = append(named, e.Kind)
				}
			}
			wantEqual(t, "entries of it", named, []string{entry.KindQueued, entry.KindCancelled})
			if state == "running" {
				w.end(released())
			}
			wantEqual(t, "queue", w.queue(), "child n")
		})
	}
}
