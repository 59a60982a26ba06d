package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// overrun is what the ledger does to a thread whose claim may be over.
func (w *fixture) overrun() (did bool) {
	w.t.Helper()
	err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		text := l.Partials.Text(l.Current, w.part[l.Current])
		did = l.Revoke(thread.Revoke{Cause: thread.RevokeOverdue, Text: text}, w.now)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return did
}

func TestAClaimEndsAtItsDeadlineOrStopGrace(t *testing.T) {
	const limit, grace = time.Hour, 10 * time.Second
	for _, c := range []struct {
		name    string
		stop    func(w *fixture) // a minute after the claim
		ends    time.Duration    // after the claim
		entries string
		state   string
	}{
		{"at the deadline", func(*fixture) {}, limit, "run.rescheduled a", "queued"},
		{"at the deadline, although a stop shortly before it has a grace", func(w *fixture) {
			w.wait(limit - time.Minute - time.Second)
			_, _ = w.cancel("a")
		}, limit, "run.cancelled a", "cancelled/cancelled"},
		{"at the grace after a cancel", func(w *fixture) { _, _ = w.cancel("a") }, time.Minute + grace, "run.cancelled a", "cancelled/cancelled"},
		{"at the grace after an interrupt", func(w *fixture) { w.interrupt() }, time.Minute + grace, "run.cancelled a", "cancelled/interrupted"},
		{"at the first stop's grace after a second one", func(w *fixture) {
			w.interrupt()
			w.wait(time.Second)
			w.must(in(mailroom.ModeInterrupt, "b"))
		}, time.Minute + grace, "run.cancelled a", "cancelled/interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.limit, w.grace = limit, grace
			w.must(in("", "a"))
			claimed := w.now
			claim := w.mustStart("a")
			w.wait(time.Minute)
			c.stop(w)
			ends := claimed.Add(c.ends)
			wantEqual(t, "due", w.row.Due, mailroom.Due{At: ends})
			w.now = ends.Add(-time.Microsecond)
			if w.overrun() {
				t.Fatal("it ended before its time")
			}
			w.now = ends
			seq := w.row.LastSeq
			if !w.overrun() {
				t.Fatal("it did not end at its time")
			}
			w.wantSince(seq, c.entries)
			wantEqual(t, "state", w.state("a"), c.state)
			if w.row.Worker != "" || !w.runs["a"].ClaimEnds.IsZero() {
				t.Errorf("it is held by %q until %v", w.row.Worker, w.runs["a"].ClaimEnds)
			}
			_, err := w.append(thread.StepCommit{Claim: claim, Number: 1})
			wantCode(t, err, mailroom.CodeLeaseLost)
			if w.overrun() {
				t.Error("it ended twice")
			}
		})
	}
}

func TestARunThatIgnoresAStopIsForced(t *testing.T) {
	w := newFixture(t)
	w.limit, w.grace = time.Hour, time.Second
	w.must(in("", "a"))
	w.must(in("", "b"))
	w.mustStart("a")
	if _, err := w.cancel("a"); err != nil {
		t.Fatal(err)
	}
	w.wait(time.Second)
	w.overrun()
	if got := body[entry.RunStop](t, w.last()); !got.Forced || got.By != "bob" {
		t.Errorf("it ended with %+v", got)
	}
	w.mustStart("b")
}

func TestEachOverdueClaimCountsAsAFailure(t *testing.T) {
	w := newFixture(t)
	w.limit, w.grace = time.Hour, time.Second
	w.must(in("", "a"))
	for range mailroom.DefaultAttempts {
		w.now = w.row.Due.At
		w.mustStart("a")
		w.now = w.row.Due.At
		w.overrun()
	}
	wantEqual(t, "state", w.state("a"), "failed")
	wantEqual(t, "class", w.runs["a"].Error.Class, mailroom.ClassExhausted)
}

func TestAStepMovesTheEndOfItsClaimUpToTheBound(t *testing.T) {
	const limit, longest, grace = time.Hour, 3 * time.Hour, 10 * time.Second // with the grace, as the ledger names them
	type ask struct{ after, extend time.Duration }
	for _, c := range []struct {
		name string
		asks []ask
		stop time.Duration // of the run, after the claim; 0: none
		ends time.Duration // after the claim
	}{
		{"no step asks", []ask{{time.Minute, 0}}, 0, limit},
		{"less than is left", []ask{{time.Minute, time.Minute}}, 0, limit},
		{"more than is left", []ask{{30 * time.Minute, time.Hour}}, 0, 90*time.Minute + grace},
		{"two steps", []ask{{30 * time.Minute, time.Hour}, {45 * time.Minute, time.Hour}}, 0, 105*time.Minute + grace},
		{"beyond the bound", []ask{{time.Minute, 100 * time.Hour}}, 0, longest},
		{"again beyond the bound", []ask{{time.Minute, 100 * time.Hour}, {time.Hour, 100 * time.Hour}}, 0, longest},
		{"after a stop", []ask{{30 * time.Minute, time.Hour}}, 29*time.Minute + 55*time.Second, 30*time.Minute + 5*time.Second},
		{"before a stop", []ask{{30 * time.Minute, time.Hour}}, 31 * time.Minute, 31*time.Minute + grace},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.limit, w.longest, w.grace = limit, longest, grace
			w.must(in("", "a"))
			claimed, claim := w.now, w.mustStart("a")
			for i, a := range c.asks {
				if c.stop > 0 && c.stop <= a.after {
					w.now = claimed.Add(c.stop)
					_, _ = w.cancel("a")
				}
				w.now = claimed.Add(a.after)
				if _, err := w.append(thread.StepCommit{Claim: claim, Number: i + 1,
					Step: mailroom.Step{Name: "x", Extend: a.extend}}); err != nil {
					t.Fatal(err)
				}
			}
			if c.stop > 0 && w.runs["a"].Stop == "" {
				w.now = claimed.Add(c.stop)
				_, _ = w.cancel("a")
			}
			wantEqual(t, "end", w.runs["a"].ClaimEnds.Sub(claimed), c.ends)
			w.now = w.runs["a"].ClaimEnds.Add(-time.Microsecond)
			if w.overrun() {
				t.Error("it ended before its time")
			}
			w.wait(time.Microsecond)
			if !w.overrun() {
				t.Error("it did not end at its time")
			}
			wantEqual(t, "time to spare after the claim", w.runs["a"].ClaimSpare, 0)
		})
	}
}
