package thread_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// wantNext is when the current run may be claimed again, from now.
func wantNext(w *fixture, want time.Duration) {
	w.t.Helper()
	if got := w.row.Due.At.Sub(w.now); got != want {
		w.t.Errorf("available again after %v, want %v", got, want)
	}
	w.now = w.row.Due.At
}

func TestTheDelayOfARetryGrows(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.MaxAttempts = 12
	w.must(s)
	for _, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		w.mustStart("a")
		w.end(failed(mailroom.ClassTransient))
		wantNext(w, want*time.Millisecond)
	}
}

func TestJitterLengthensARetryByUpToAFifth(t *testing.T) {
	for _, c := range []struct {
		jitter float64
		want   time.Duration
	}{{0, 250 * time.Millisecond}, {0.5, 275 * time.Millisecond}, {1, 300 * time.Millisecond}} {
		w := newFixture(t)
		w.must(in("", "a"))
		w.mustStart("a")
		s := failed(mailroom.ClassTransient)
		s.Jitter = c.jitter
		w.end(s)
		wantNext(w, c.want)
	}
}

func TestARetryIsNeverBeforeARetryAfter(t *testing.T) {
	for _, class := range []mailroom.Class{mailroom.ClassTransient, mailroom.ClassUnavailable} {
		for _, c := range []struct{ after, want time.Duration }{
			{0, 250 * time.Millisecond},
			{100 * time.Millisecond, 250 * time.Millisecond},
			{time.Minute, time.Minute},
			{time.Hour, time.Hour},
			{time.Minute + time.Nanosecond, time.Minute + time.Microsecond}, // stores keep microseconds
		} {
			w := newFixture(t)
			w.must(in("", "a"))
			w.mustStart("a")
			s := failed(class)
			s.Failure.RetryAfter = c.after
			w.end(s)
			wantNext(w, c.want)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	for _, attempts := range []int{1, 2, 5, 7} {
		w := newFixture(t)
		s := in("", "a")
		if s.MaxAttempts = attempts; attempts == 5 {
			s.MaxAttempts = 0 // the default
		}
		w.must(s)
		w.must(in("", "next"))
		for n := 1; n < attempts; n++ {
			w.mustStart("a")
			wantEqual(t, "status", w.end(failed(mailroom.ClassTransient)).Status, mailroom.StatusQueued)
			w.now = w.row.Due.At
		}
		w.mustStart("a")
		r := w.end(failed(mailroom.ClassTransient))
		wantEqual(t, "status", r.Status, mailroom.StatusFailed)
		wantEqual(t, "error", r.Error, &mailroom.RunError{Class: mailroom.ClassExhausted, Message: "no luck"})
		wantEqual(t, "attempts and failures", []int{r.Attempt, r.Failures}, []int{attempts, attempts})
		wantEqual(t, "entry", body[entry.RunFailed](t, w.last()), entry.RunFailed{Error: *r.Error, Failures: attempts})
		w.mustStart("next")
	}
}

func TestAPermanentErrorIsADeadLetterAfterOneAttempt(t *testing.T) {
	w := newFixture(t)
	for i := range 50 {
		w.must(in("", fmt.Sprint("r", i)))
	}
	for i := range 50 {
		w.mustStart(fmt.Sprint("r", i))
		r := w.end(failed(mailroom.ClassPermanent))
		wantEqual(t, "attempt", r.Attempt, 1)
		wantEqual(t, "class", r.Error.Class, mailroom.ClassPermanent)
	}
	if r := w.start(); r != nil {
		t.Errorf("started %s", r.ID)
	}
}

func TestAnUnknownClassIsTransient(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	r := w.end(failed("whatever"))
	wantEqual(t, "status", r.Status, mailroom.StatusQueued)
	wantEqual(t, "failures", r.Failures, 1)
	wantEqual(t, "class", body[entry.RunRescheduled](t, w.last()).Error.Class, mailroom.ClassTransient)
}

func TestAnOutageCostsNoFailureForADay(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.MaxAttempts = 1
	w.must(s)
	w.mustStart("a")
	w.end(failed(mailroom.ClassUnavailable))
	first := w.now
	delays := []time.Duration{}
	for w.state("a") == "queued" {
		delays = append(delays, w.row.Due.At.Sub(w.now))
		w.now = w.row.Due.At
		w.mustStart("a")
		w.end(failed(mailroom.ClassUnavailable))
	}
	r := w.runs["a"]
	wantEqual(t, "state", w.state("a"), "failed")
	wantEqual(t, "class", r.Error.Class, mailroom.ClassExhausted)
	wantEqual(t, "failures", r.Failures, 0)
	if past := w.now.Sub(first); past < 24*time.Hour || past > 24*time.Hour+5*time.Minute {
		t.Errorf("given up after %v, want about 24 h", past)
	}
	for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000,
		300000, 300000} {
		wantEqual(t, fmt.Sprint("delay ", i), delays[i], want*time.Millisecond)
	}
}

// TestTimeWithoutAClaimDoesNotCountAsOutage: a run fails in an outage, is not claimed for a week, and
// fails in the outage again.
func TestTimeWithoutAClaimDoesNotCountAsOutage(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(failed(mailroom.ClassUnavailable))
	for i := range 3 {
		w.now = w.row.Due.At.Add(7 * 24 * time.Hour)
		w.mustStart("a")
		putOff := 250 * time.Millisecond * (1<<(i+1) - 1) // and no more
		wantEqual(t, "outage", w.now.Sub(w.runs["a"].OutageSince), putOff)
		w.end(failed(mailroom.ClassUnavailable))
		wantEqual(t, "state", w.state("a"), "queued")
		wantEqual(t, "outages", w.runs["a"].Outages, i+2)
	}
}

// TestALimitThatEndsLaterThanARunGivesUpIsWaitedFor has a limit of a week. The outage is counted from its end, and a
// provider that names a further time for ever is not believed for ever.
func TestALimitThatEndsLaterThanARunGivesUpIsWaitedFor(t *testing.T) {
	const week = 7 * 24 * time.Hour
	w := newFixture(t)
	w.must(in("", "a"))
	begin := w.now
	limited := failed(mailroom.ClassUnavailable)
	limited.Failure.RetryAfter = week
	w.mustStart("a")
	w.end(limited)
	wantNext(w, week)
	w.mustStart("a")
	w.end(failed(mailroom.ClassUnavailable))
	wantEqual(t, "status after the limit", w.runs["a"].Status, mailroom.StatusQueued)
	w.now = w.row.Due.At
	for range 20 {
		if w.runs["a"].Status != mailroom.StatusQueued {
			break
		}
		w.mustStart("a")
		w.end(limited)
		if w.runs["a"].Status == mailroom.StatusQueued {
			w.now = w.row.Due.At
		}
	}
	if waited := w.now.Sub(begin); waited < 5*week || waited > 9*week {
		t.Errorf("gave up after %v, want about 45 days", waited)
	}
}

// TestAFaultOfTheAgentKeepsTheRun fails for the agent for weeks. A run that must not be repeated ends at once.
func TestAFaultOfTheAgentKeepsTheRun(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	own := failed(mailroom.ClassPermanent)
	own.Failure.Agent = true
	for range 50 {
		w.mustStart("a")
		w.end(own)
		wantEqual(t, "status", w.runs["a"].Status, mailroom.StatusQueued)
		wantEqual(t, "failures and outages", w.runs["a"].Failures+w.runs["a"].Outages, 0)
		w.now = w.now.Add(24 * time.Hour)
	}
	s := in("", "b")
	s.NoRetry = true
	other := newFixture(t)
	other.must(s)
	other.mustStart("b")
	other.end(own)
	wantEqual(t, "status of a run without repeats", other.runs["b"].Status, mailroom.StatusFailed)
}

func TestAFailureWithoutARepeatSaysWhenTheAgentWorksAgain(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0:                      "",
		90 * time.Minute:       " (works again at 2026-11-01T13:31:00Z)",
		1000 * 24 * time.Hour:  " (works again at 2026-12-06T12:01:00Z)", // 35 days
		-time.Hour:             "",
		90*time.Minute - 1e9/2: " (works again at 2026-11-01T13:30:00Z)",
	} {
		w := newFixture(t)
		w.now = time.Date(2026, 11, 1, 12, 0, 0, 5e8, time.UTC)
		s := in("", "a")
		s.NoRetry = true
		w.must(s)
		w.mustStart("a")
		limit := failed(mailroom.ClassUnavailable)
		limit.Failure.RetryAfter, limit.Failure.Err = after, errors.New(strings.Repeat("x", 5000))
		w.end(limit)
		got := w.runs["a"].Error.Message
		if !strings.HasSuffix(got, "x"+want) || len(got) != 4096 {
			t.Errorf("after %s: %d bytes that end with %q, want %q", after, len(got), got[max(0, len(got)-50):], want)
		}
	}
}

func TestAnOutageEndsWithAStepOrAnotherError(t *testing.T) {
	for name, between := range map[string]func(w *fixture){
		"a step":            func(w *fixture) { w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}}); w.end(released()) },
		"a transient error": func(w *fixture) { w.end(failed(mailroom.ClassTransient)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "a"))
			w.mustStart("a")
			w.end(failed(mailroom.ClassUnavailable))
			w.wait(23 * time.Hour)
			w.mustStart("a")
			between(w)
			w.wait(2 * time.Hour)
			w.mustStart("a")
			w.end(failed(mailroom.ClassUnavailable))
			wantEqual(t, "state", w.state("a"), "queued")
			wantNext(w, 250*time.Millisecond)
		})
	}
}

func TestThreeCrashesInARowAreADeadLetter(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.must(in("", "next"))
	for n, want := range []time.Duration{0, time.Second} {
		w.mustStart("a")
		w.expire()
		wantEqual(t, "crashes", w.runs["a"].Crashes, n+1)
		wantNext(w, want)
	}
	wantEqual(t, "last chance", w.row.Due.LastAttempt, true)
	w.mustStart("a")
	seq := w.row.LastSeq
	w.expire()
	w.wantSince(seq, "run.failed a")
	wantEqual(t, "class", w.runs["a"].Error.Class, mailroom.ClassCrashed)
	wantEqual(t, "failures", w.runs["a"].Failures, 0)
	wantEqual(t, "last chance of the next", w.row.Due.LastAttempt, false)
	w.mustStart("next")
}

func TestAtMostMaxCrashesLostClaimsAreFollowedByAnotherAttempt(t *testing.T) {
	lose := func(c thread.Revoke) func(*fixture) {
		return func(w *fixture) {
			c.Worker, c.Round = "w1", 1
			if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error { l.Revoke(c, w.now); return nil }); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	entered := released()
	entered.Entered = true
	for _, c := range []struct {
		name   string
		end    func(*fixture)
		starts [mailroom.MaxCrashes + 1]int // by max_crashes; 0: the run is started again each time
	}{
		{"a lost worker", lose(thread.Revoke{Cause: thread.RevokeDead}), [...]int{1, 1, 2, 3}},
		{"one that no run is charged with", lose(thread.Revoke{Cause: thread.RevokeDead, Uncharged: true}), [...]int{1, 0, 0, 0}},
		{"a claim that its worker does not hold", lose(thread.Revoke{Cause: thread.RevokeUnheld}), [...]int{1, 0, 0, 0}},
		{"one that it has not begun to work on", lose(thread.Revoke{Cause: thread.RevokeUnentered}), [...]int{0, 0, 0, 0}},
		{"given back after the start", func(w *fixture) { w.end(entered) }, [...]int{1, 0, 0, 0}},
		{"given back before the start", func(w *fixture) { w.end(released()) }, [...]int{0, 0, 0, 0}},
	} {
		for limit, want := range c.starts {
			t.Run(fmt.Sprint(c.name, "/", limit), func(t *testing.T) {
				w := newFixture(t)
				s := in("", "a")
				s.MaxCrashes = &limit
				w.must(s)
				starts := 0
				for starts < 5 && w.start() != nil {
					starts++
					c.end(w)
					w.wait(time.Second)
				}
				if want == 0 {
					wantEqual(t, "starts and state", []any{starts, w.state("a")}, []any{5, "queued"})
					return
				}
				wantEqual(t, "starts and state", []any{starts, w.state("a")}, []any{want, "failed"})
				wantEqual(t, "class", w.runs["a"].Error.Class, mailroom.ClassCrashed)
			})
		}
	}
}

func TestARetryByHandStartsARunThatMayStartOnce(t *testing.T) {
	w := newFixture(t)
	s, none := in("", "a"), 0
	s.MaxCrashes = &none
	w.must(s)
	w.mustStart("a")
	w.expire()
	wantEqual(t, "state", w.state("a"), "failed")
	if _, err := w.retry(thread.Retry{Run: "a", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.mustStart("a")
	w.expire()
	wantEqual(t, "state after a retry by hand", w.state("a"), "failed")
}

func TestLostClaimsOfAnUnchargedWorkerAreNoCrashes(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for lost := 1; lost <= mailroom.MaxLost; lost++ {
		w.mustStart("a")
		if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
			l.Revoke(thread.Revoke{Cause: thread.RevokeDead, Worker: "w1", Uncharged: true}, w.now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "crashes and lost claims", []int{w.runs["a"].Crashes, w.runs["a"].Lost}, []int{0, lost})
	}
	wantEqual(t, "state", w.state("a"), "failed") // the bound of lost claims holds all the same
	wantEqual(t, "class", w.runs["a"].Error.Class, mailroom.ClassCrashed)
}

func TestAStepResetsTheCountOfCrashes(t *testing.T) {
	for _, c := range []struct {
		name   string
		record bool
		want   int
	}{{"a step", false, 0}, {"a record", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "a"))
			for range 2 {
				w.mustStart("a")
				w.expire()
				w.wait(time.Second)
			}
			w.mustStart("a")
			w.step(thread.StepCommit{Step: mailroom.Step{Name: "one", NoProgress: c.record}})
			wantEqual(t, "crashes", w.runs["a"].Crashes, c.want)
		})
	}
}

func TestTwentyLostClaimsInAllAreADeadLetter(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for n := 1; n <= 20; n++ {
		wantEqual(t, "last chance", w.row.Due.LastAttempt, n == 20)
		w.mustStart("a")
		w.step(thread.StepCommit{Step: mailroom.Step{Name: "progress"}})
		w.expire()
		w.wait(time.Second)
	}
	wantEqual(t, "state", w.state("a"), "failed")
	wantEqual(t, "class", w.runs["a"].Error.Class, mailroom.ClassCrashed)
}

func TestAReleasedAttemptDoesNotCount(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for n := 1; n <= 30; n++ {
		c := w.mustStart("a")
		wantEqual(t, "attempt", c.Attempt, n)
		w.end(released())
	}
	r := w.runs["a"]
	wantEqual(t, "failures, crashes, lost", []int{r.Failures, r.Crashes, r.Lost}, []int{0, 0, 0})
}

func TestTheDeathOfAWorkerRevokesNoClaimOfAnother(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	l := w.load(thread.ScopeHead, "")
	l.Revoke(thread.Revoke{Cause: thread.RevokeDead, Worker: "w2"}, w.now)
	wantEqual(t, "changed", l.Changed(), false)
}

func TestStoredTextIsKeptWhenTheWorkerIsLost(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	flush := func(offset int, s string) {
		t.Helper()
		if err := w.do(thread.ScopeRow, nil, func(l *thread.State) error {
			return l.Flush(c, store.Partial{Thread: "t", Run: "a", Attempt: 1, Message: "a.1-1", Offset: offset, Text: s})
		}); err != nil {
			t.Fatal(err)
		}
	}
	flush(0, "Hello, ")
	flush(7, "wor")
	flush(7, "world") // the answer was lost, and more text was written since
	seq := w.row.LastSeq
	w.expire()
	w.wantSince(seq, "message a, run.rescheduled a")
	m := body[mailroom.Message](t, w.log[seq])
	wantEqual(t, "id, text, partial", []any{m.ID, m.Text, m.Partial}, []any{"a.1-1", "Hello, world", true})
	wantEqual(t, "pieces left", len(w.part["a"]), 0)
}

func TestFlushedTextIsDeletedWithItsAttempt(t *testing.T) {
	for _, s := range []thread.Settle{released(), failed(mailroom.ClassTransient), failed(mailroom.ClassPermanent),
		{Outcome: thread.OutcomeComplete}} {
		w := newFixture(t)
		w.must(in("", "a"))
		c := w.mustStart("a")
		if err := w.do(thread.ScopeRow, nil, func(l *thread.State) error {
			return l.Flush(c, store.Partial{Thread: "t", Run: "a", Attempt: 1, Message: "a.1-1", Text: "never mind"})
		}); err != nil {
			t.Fatal(err)
		}
		w.end(s) // its agent took back what it streamed
		wantEqual(t, "pieces left after "+string(s.Outcome), len(w.part["a"]), 0)
	}
}

func TestAMessageReplacesItsFlushedText(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	c := w.mustStart("a")
	// In one transaction: a piece, the message, a piece of the next one, the loss.
	err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		piece := store.Partial{Thread: "t", Run: "a", Attempt: 1, Message: "a.1-1", Text: "one"}
		stored := []store.Partial{{Run: "a", Message: "a.1-1", Text: "long ago"}}
		if err := l.Flush(c, piece); err != nil {
			return err
		}
		if _, err := l.Append(&thread.StepCommit{Claim: c, Number: 1, Message: &thread.PartialText{ID: "a.1-1", Text: "one"}},
			nil, w.now); err != nil {
			return err
		}
		if err := l.Flush(c, piece); err != nil { // late: its worker does not know of the step
			return err
		}
		wantEqual(t, "unfinished", l.Partials.Text("a", stored), nil)
		piece.Message, piece.Text = "a.1-2", "two"
		if err := l.Flush(c, piece); err != nil {
			return err
		}
		wantEqual(t, "unfinished", l.Partials.Text("a", stored), &thread.PartialText{ID: "a.1-2", Text: "two"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "pieces left", len(w.part["a"]), 1)
}

func TestAnOrphanFailsOnce(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.must(in("", "b"))
	orphan := func(agent string) bool {
		var did bool
		if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
			did = l.FailOrphaned(agent, w.now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return did
	}
	wantEqual(t, "of another agent", orphan("codex"), false)
	wantEqual(t, "failed", orphan("echo"), true)
	wantEqual(t, "error", w.runs["a"].Error, &mailroom.RunError{Class: mailroom.ClassPermanent,
		Message: `no worker serves agent "echo"`})
	wantEqual(t, "the next one", w.state("b"), "queued")
}

func TestAFailedRunHasAnErrorGroup(t *testing.T) {
	for _, c := range []struct {
		class mailroom.Class
		err   string
		group string
	}{
		{mailroom.ClassPermanent, "no run 17", thread.ErrorGroup("no run 4")},
		{mailroom.ClassUnavailable, "no run 17", ""},
		{mailroom.ClassTransient, "no run 17", ""},
		{mailroom.ClassPermanent, "", thread.ErrorGroup("permanent")},
	} {
		w := newFixture(t)
		w.must(in("", "a"))
		w.mustStart("a")
		s := failed(c.class)
		s.Failure.Err = errors.New(c.err)
		wantEqual(t, fmt.Sprintf("group of %s %q", c.class, c.err), w.end(s).ErrorGroup, c.group)
	}
}

func TestAnErrorIsStoredAsValidText(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	s := failed(mailroom.ClassPermanent)
	s.Failure.Err = errors.New("exit 1: \xff\x00" + string(make([]byte, 5000)) + "é")
	got := w.end(s).Error.Message
	if !utf8.ValidString(got) || len(got) > 4096 || got[:10] != "exit 1: \uFFFD"[:10] {
		t.Errorf("got %d bytes %q", len(got), got[:20])
	}
}

func TestTheErrorOfTheLastAttemptIsKeptWhileTheRunWaitsForTheNext(t *testing.T) {
	for _, class := range []mailroom.Class{mailroom.ClassTransient, mailroom.ClassUnavailable} {
		for name, next := range map[string]func(w *fixture){
			"an attempt": func(w *fixture) { wantNext(w, 250*time.Millisecond); w.mustStart("a") },
			"a cancel":   func(w *fixture) { w.cancel("a") },
		} {
			w := newFixture(t)
			w.must(in("", "a"))
			w.mustStart("a")
			w.end(failed(class))
			if got := w.runs["a"].LastError; got == nil || *got != (mailroom.RunError{Class: class, Message: "no luck"}) {
				t.Errorf("%s: the run waits for its retry with the error %v", class, got)
			}
			next(w)
			if got := w.runs["a"].LastError; got != nil {
				t.Errorf("%s: after %s the run has the error %v of an earlier attempt", class, name, got)
			}
		}
	}
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(failed(mailroom.ClassPermanent))
	if got := w.runs["a"]; got.LastError != nil || got.Error == nil {
		t.Errorf("a dead letter has the error %v and the last error %v; it waits for nothing", got.Error, got.LastError)
	}
}
