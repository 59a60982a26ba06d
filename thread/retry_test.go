package thread_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/internal/retry"
	"mailroom/thread"
)

// drawPolicy draws what a server or a worker says about retries: any part of it may be missing.
func drawPolicy(t *rapid.T) retry.Policy {
	delay := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, 7 * time.Second, time.Minute,
		3 * time.Hour})
	return retry.Policy{Attempts: rapid.SampledFrom([]int{0, 1, 2, 4, 7}).Draw(t, "attempts"),
		First: delay.Draw(t, "first"), Most: delay.Draw(t, "most"), OutageMost: delay.Draw(t, "most in an outage"),
		Factor: rapid.SampledFrom([]float64{0, 1, 1.5, 10}).Draw(t, "factor"),
		Outage: rapid.SampledFrom([]time.Duration{0, 400 * 24 * time.Hour}).Draw(t, "outage")}
}

// drawOwn draws what a submit says about retries, mostly nothing.
func drawOwn(t *rapid.T) retry.Policy {
	p := drawPolicy(t)
	p.Attempts = 0
	if rapid.Bool().Draw(t, "nothing of its own") || p.Check() != nil {
		return retry.Policy{}
	}
	return p
}

// Each attempt of a random history is claimed under another policy. Its failure is judged by that policy alone,
// whatever the one before said, and what the submit says stays.
func TestAFailureIsRetriedByThePolicyOfItsClaim(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newFixture(t)
		s := in("", "a")
		s.MaxAttempts = rapid.SampledFrom([]int{0, 0, 3}).Draw(rt, "of the submit")
		s.Retry = drawOwn(rt)
		w.must(s)
		failures, outages := 0, 0
		for range 12 {
			w.retries = drawPolicy(rt)
			policy := s.Retry.Over(w.retries.Over(retry.Default()))
			w.mustStart("a")
			most := max(policy.Attempts, failures+1)
			if s.MaxAttempts != 0 {
				most = s.MaxAttempts
			}
			if got := w.runs["a"].MaxAttempts; got != most {
				rt.Fatalf("claimed under %+v after %d failures: max_attempts %d, want %d", w.retries, failures, got, most)
			}
			class := rapid.SampledFrom([]mailroom.Class{mailroom.ClassTransient, mailroom.ClassTransient,
				mailroom.ClassUnavailable}).Draw(rt, "class")
			end := failed(class)
			end.Jitter = rapid.Float64Range(0, 1).Draw(rt, "jitter")
			end.Failure.RetryAfter = rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Second}).Draw(rt, "named by the provider")
			w.end(end)
			var want time.Duration
			if class == mailroom.ClassUnavailable {
				outages++
				want = policy.InOutage().Delay(outages, end.Jitter)
			} else {
				failures++
				outages = 0
				want = policy.Delay(failures, end.Jitter)
			}
			if r := w.runs["a"]; (r.Status == mailroom.StatusFailed) != (failures >= most) {
				rt.Fatalf("%s after %d of %d failures", r.Status, failures, most)
			} else if r.Status == mailroom.StatusFailed {
				return
			}
			want = max(want, retry.Named(end.Failure.RetryAfter, end.Jitter))
			if got := w.row.Due.At.Sub(w.now); got < want || got >= want+time.Microsecond { // stores keep microseconds
				rt.Fatalf("failure %d, outage %d under %+v: again after %v, want %v", failures, outages, w.retries, got, want)
			}
			w.now = w.row.Due.At
		}
	})
}

// The worker never settles, so the policy that came with its claim decides about the retry.
func TestAnOverdueClaimIsRetriedByThePolicyOfItsWorker(t *testing.T) {
	w := newFixture(t)
	w.limit, w.retries = time.Hour, retry.Policy{Attempts: 2, First: 20 * time.Second}
	w.must(in("", "a"))
	for _, want := range []string{"queued", "failed"} {
		w.mustStart("a")
		w.wait(time.Hour)
		w.overrun()
		wantEqual(t, "state", w.state("a"), want)
		if want == "queued" {
			wantNext(w, 20*time.Second)
		}
	}
}

func TestALowerNumberOfAttemptsStillAllowsTheOneThatBegins(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	for range 3 {
		w.mustStart("a")
		w.end(failed(mailroom.ClassTransient))
		w.now = w.row.Due.At
	}
	w.retries.Attempts = 2
	w.mustStart("a")
	wantEqual(t, "failures and their bound", []int{w.runs["a"].Failures, w.runs["a"].MaxAttempts}, []int{3, 4})
	w.end(failed(mailroom.ClassTransient))
	wantEqual(t, "state", w.state("a"), "failed")
}

// The row of an older version does not say whether its number of attempts comes from the submit. A run must not have
// more attempts than its submit allows.
func TestARunOfAnOlderVersionKeepsItsNumberOfAttempts(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.runs["a"].AgentAttempts, w.runs["a"].MaxAttempts = false, 1
	w.retries.Attempts = 9
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	wantEqual(t, "state", w.state("a"), "failed")
}

func TestARetryByHandHasTheAttemptsOfItsNextClaim(t *testing.T) {
	for own, want := range map[int]int{0: 7, 1: 1} {
		t.Run(fmt.Sprint(own), func(t *testing.T) {
			w := newFixture(t)
			w.retries.Attempts = 1
			s := in("", "a")
			s.MaxAttempts = own
			w.must(s)
			w.mustStart("a")
			w.end(failed(mailroom.ClassTransient))
			wantEqual(t, "state", w.state("a"), "failed")
			if _, err := w.retry(thread.Retry{Run: "a"}); err != nil {
				t.Fatal(err)
			}
			w.retries.Attempts = 7
			w.mustStart("a")
			wantEqual(t, "attempts", w.runs["a"].MaxAttempts, want)
		})
	}
}

// A loss of the claim says nothing about the agent, so its retry is not what an agent's policy is about.
func TestALostClaimIsRetriedAtOnceWhateverThePolicy(t *testing.T) {
	w := newFixture(t)
	w.retries = retry.Policy{Attempts: 1, First: time.Hour}
	w.must(in("", "a"))
	for _, want := range []time.Duration{0, time.Second} {
		w.mustStart("a")
		w.expire()
		wantNext(w, want)
	}
}

func TestAnOutageBeginsWithTheFirstDelayAndEndsAfterADay(t *testing.T) {
	w := newFixture(t)
	// The longest delay after a failure, Most, says nothing about an outage.
	w.retries = retry.Policy{Attempts: 1, First: time.Minute, Factor: 2, Most: 2 * time.Minute,
		OutageMost: 20 * time.Minute}
	w.must(in("", "a"))
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 20, 20} {
		w.mustStart("a")
		w.end(failed(mailroom.ClassUnavailable))
		wantNext(w, want*time.Minute)
	}
	w.retries.OutageMost = 0
	w.mustStart("a")
	w.end(failed(mailroom.ClassUnavailable))
	wantNext(w, 5*time.Minute)
}

// The submit says how long its message may wait for a provider, here less than the worker. An outage before does not
// count, once an attempt ended otherwise.
func TestASubmitSaysHowLongAnOutageMayLast(t *testing.T) {
	w := newFixture(t)
	w.retries = retry.Policy{Attempts: 9, First: time.Second, Factor: 1, Outage: 400 * 24 * time.Hour}
	s := in("", "a")
	s.Retry = retry.Policy{First: 20 * time.Minute, OutageMost: 20 * time.Minute, Outage: time.Hour}
	w.must(s)
	unavailable := func(want string) {
		t.Helper()
		w.mustStart("a")
		w.end(failed(mailroom.ClassUnavailable))
		wantEqual(t, "state", w.state("a"), want)
	}
	for range 3 {
		unavailable("queued")
		wantNext(w, 20*time.Minute)
	}
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	wantNext(w, 20*time.Minute)
	for range 3 {
		unavailable("queued")
		wantNext(w, 20*time.Minute)
	}
	unavailable("failed")
}

func TestASubmitGivesOneNumberOfAttempts(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.Retry.Attempts = 2
	w.must(s)
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	w.now = w.row.Due.At
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	wantEqual(t, "state", w.state("a"), "failed")
	s = in("", "b")
	s.MaxAttempts, s.Retry.Attempts = 2, 2
	if _, err := w.submit(s); mailroom.CodeOf(err) != mailroom.CodeInvalid {
		t.Errorf("both: %v", err)
	}
	s.Retry = retry.Policy{First: time.Minute, Most: time.Second}
	if s.MaxAttempts = 0; s.Check() == nil {
		t.Error("a first delay longer than the longest was accepted")
	}
}

// The pause of an agent that cannot work probes it with its due runs, soon at first, whatever the delays of failures.
func TestAFaultOfTheAgentIsPacedByItsPause(t *testing.T) {
	w := newFixture(t)
	w.retries = retry.Policy{Attempts: 1, First: time.Hour}
	w.must(in("", "a"))
	own := failed(mailroom.ClassPermanent)
	own.Failure.Agent = true
	for range 3 {
		w.mustStart("a")
		w.end(own)
		wantNext(w, 250*time.Millisecond)
	}
}

// A worker may name any time, and its failure is not refused.
func TestATimeThatAFailureNamesIsBounded(t *testing.T) {
	for _, class := range []mailroom.Class{mailroom.ClassTransient, mailroom.ClassUnavailable} {
		for _, agent := range []bool{false, true} {
			for named, want := range map[time.Duration]time.Duration{
				retry.MaxNamed: retry.MaxNamed, retry.MaxNamed + 1: retry.MaxNamed, math.MaxInt64: retry.MaxNamed,
				36 * time.Hour: 36 * time.Hour,
			} {
				w := newFixture(t)
				w.must(in("", "a"))
				w.mustStart("a")
				end := failed(class)
				end.Failure.RetryAfter, end.Failure.Agent = named, agent
				w.end(end)
				if r := w.runs["a"]; r.Status != mailroom.StatusQueued {
					t.Errorf("%s after %v: the run is %s", class, named, r.Status)
					continue
				}
				wantNext(w, want)
			}
		}
	}
}
