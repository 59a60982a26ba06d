package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// within returns a submit whose run ends after a duration.
func within(mode mailroom.Mode, run string, d time.Duration) thread.Submit {
	s := in(mode, run)
	s.Timeout = d
	return s
}

func (w *fixture) endOverdue(run string) {
	w.t.Helper()
	if err := w.do(thread.ScopeHead, []string{run}, func(l *thread.State) error { thread.EndOverdue(l, run, w.now); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

func wantDeadline(w *fixture, run string) {
	w.t.Helper()
	wantEqual(w.t, "status and reason", []any{w.runs[run].Status, w.runs[run].Reason},
		[]any{mailroom.StatusCancelled, mailroom.ReasonDeadline})
}

func TestADeadlineEndsARunInEachStatus(t *testing.T) {
	for name, before := range map[string]func(w *fixture){
		"queued":            func(w *fixture) {},
		"behind another":    func(w *fixture) { w.must(in("", "b")); w.mustStart("b") },
		"between attempts":  func(w *fixture) { w.mustStart("a"); w.end(failed(mailroom.ClassUnavailable)) },
		"after a lost one":  func(w *fixture) { w.mustStart("a"); w.expire() },
		"given back":        func(w *fixture) { w.mustStart("a"); w.end(released()) },
		"waits to be asked": func(w *fixture) { w.mustStart("a"); w.end(parked(false, ask("q", mailroom.TicketApproval))) },
		"already stopping":  func(w *fixture) { w.mustStart("a"); w.interrupt(); w.end(released()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			a := within("", "a", time.Minute)
			if a.Priority = nil; name == "behind another" {
				last := 255
				a.Priority = &last
			}
			w.must(a)
			before(w)
			w.wait(time.Minute - time.Microsecond)
			w.endOverdue("a") // too early
			if name == "already stopping" {
				wantEqual(t, "reason", w.runs["a"].Reason, mailroom.ReasonInterrupted)
				return
			}
			wantEqual(t, "reason before the deadline", w.runs["a"].Reason, "")
			w.wait(time.Microsecond)
			w.endOverdue("a")
			wantDeadline(w, "a")
		})
	}
}

func TestADeadlineStopsTheRunOfAWorker(t *testing.T) {
	w := newFixture(t)
	w.grace = 10 * time.Second
	w.must(within("", "a", time.Minute))
	w.must(in("", "next"))
	w.mustStart("a")
	w.wait(time.Minute)
	seq := w.row.LastSeq
	w.endOverdue("a")
	w.endOverdue("a") // once is enough
	w.wantSince(seq, "run.stop_requested a")
	wantEqual(t, "stop", body[entry.RunStop](t, w.last()).Reason, mailroom.ReasonDeadline)
	wantEqual(t, "the end of its claim", w.runs["a"].ClaimEnds.Sub(w.now), w.grace)
	w.end(released())
	wantDeadline(w, "a")
	w.mustStart("next")
}

func TestARunThatCompletesBeforeItStopsIsCompleted(t *testing.T) {
	w := newFixture(t)
	w.must(within("", "a", time.Minute))
	w.mustStart("a")
	w.wait(time.Hour)
	w.endOverdue("a")
	w.end(completed("just in time"))
	wantEqual(t, "status", w.runs["a"].Status, mailroom.StatusCompleted)
}

func TestNoClaimStartsARunAfterItsDeadline(t *testing.T) {
	w := newFixture(t)
	w.must(within("", "a", time.Minute))
	w.must(within("", "b", time.Minute))
	w.must(in("", "next"))
	w.wait(time.Minute)
	for _, id := range []string{"a", "b"} { // no sweep has come
		if r := w.start(); r != nil {
			t.Fatalf("started %s", r.ID)
		}
		wantDeadline(w, id)
	}
	w.mustStart("next")
}

func TestASteeredMessageKeepsTheDeadlineOfItsRun(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.must(within(mailroom.ModeSteer, "b", time.Minute))
	wantEqual(t, "deadline of the current run", w.runs["a"].Deadline, time.Time{})
	w.wait(time.Hour)
	w.end(completed("without it"))
	if r := w.start(); r != nil {
		t.Fatalf("started %s", r.ID)
	}
	wantDeadline(w, "b")
}

func TestARetryByHandHasNoDeadline(t *testing.T) {
	w := newFixture(t)
	w.must(within("", "a", time.Minute))
	w.wait(time.Minute)
	w.endOverdue("a")
	if _, err := w.retry(thread.Retry{Run: "a", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.endOverdue("a")
	w.mustStart("a")
}

func TestADeadlineLeavesTimeForTheRun(t *testing.T) {
	w := newFixture(t)
	w.wait(time.Hour)
	for name, edit := range map[string]func(s *thread.Submit){
		"passed":            func(s *thread.Submit) { s.Deadline = w.now },
		"before not_before": func(s *thread.Submit) { s.Timeout, s.NotBefore = time.Minute, w.now.Add(time.Minute) },
		"twice":             func(s *thread.Submit) { s.Timeout, s.Deadline = time.Minute, w.now.Add(time.Minute) },
		"negative":          func(s *thread.Submit) { s.Timeout = -1 },
		"in another era":    func(s *thread.Submit) { s.Timeout = 1 << 62 },
	} {
		s := in("", name)
		edit(&s)
		_, err := w.submit(s)
		wantCode(t, err, mailroom.CodeInvalid)
	}
	first := within("", "a", time.Minute)
	first.Key = "k"
	w.must(first)
	w.wait(time.Hour)
	wantEqual(t, "a repeat after the deadline", w.must(first).Run, "a")
}
