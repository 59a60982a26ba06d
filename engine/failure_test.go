package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/internal/retry"
	"mailroom/store"
	"mailroom/thread"
)

// seen collects what agents report from their goroutines.
type seen[T any] struct {
	mu    sync.Mutex
	items []T
}

func (s *seen[T]) add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, v)
}

func (s *seen[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items)
}

func TestTransientErrorsAreRetriedWithGrowingDelays(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var starts seen[time.Time]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			starts.add(time.Now())
			return errors.New("who knows")
		})
		out := h.send("t", "hello")
		h.wait(time.Minute)
		at := starts.all()
		if len(at) != mailroom.DefaultAttempts {
			t.Fatalf("got %d attempts, want %d", len(at), mailroom.DefaultAttempts)
		}
		for i, base := range []time.Duration{250, 500, 1000, 2000} {
			base *= time.Millisecond
			got := at[i+1].Sub(at[i])
			// The engine claims it exactly at its time, without a notice.
			if got < base || got > base+base/5 {
				t.Errorf("retry %d after %v, want %v to a fifth more", i+1, got, base)
			}
		}
		r := h.status(out.Run, mailroom.StatusFailed)
		want := &mailroom.RunError{Class: mailroom.ClassExhausted, Message: "who knows"}
		if diff := cmp.Diff(want, r.Error); diff != "" {
			t.Error(diff)
		}
		var again []string
		for _, e := range h.entries("t", entry.KindRescheduled) {
			b := body[entry.RunRescheduled](h, e)
			again = append(again, fmt.Sprintf("%s %d %s", b.Reason, b.Attempt, b.Error.Class))
		}
		if diff := cmp.Diff([]string{"retry 1 transient", "retry 2 transient", "retry 3 transient", "retry 4 transient"},
			again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRetryHonoursTheProvidersRetryAfter(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var starts seen[time.Time]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			starts.add(time.Now())
			if s.Run().Attempt > 1 {
				return nil
			}
			return fmt.Errorf("call the model: %w", &mailroom.Failure{Class: mailroom.ClassUnavailable,
				RetryAfter: 90 * time.Second, Err: errors.New("429")})
		})
		out := h.send("t", "hello")
		h.wait(2 * time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		at := starts.all()
		if len(at) != 2 || at[1].Sub(at[0]) < 90*time.Second || at[1].Sub(at[0]) > 108*time.Second {
			t.Errorf("got starts at %v, want the second 90 s to 108 s after the first", at)
		}
	})
}

func TestRetriesAreAsTheServerSaysForTheAgent(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.process.retries = retry.Policy{Attempts: 4, First: 10 * time.Second, Most: 15 * time.Second}
		var starts seen[time.Time]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			starts.add(time.Now())
			if s.Run().Attempt == 2 {
				return &mailroom.Failure{Class: mailroom.ClassTransient, RetryAfter: time.Minute, Err: errors.New("later")}
			}
			return errors.New("who knows")
		})
		out := h.send("t", "hello")
		h.wait(3 * time.Minute)
		if r := h.status(out.Run, mailroom.StatusFailed); r.MaxAttempts != 4 {
			t.Errorf("max_attempts %d, want 4", r.MaxAttempts)
		}
		wantPauses(t, starts.all(), 10*time.Second, time.Minute, 15*time.Second)
	})
}

// wantPauses compares the times between attempts, which jitter makes longer by up to a fifth.
func wantPauses(t *testing.T, at []time.Time, want ...time.Duration) {
	t.Helper()
	if len(at) != len(want)+1 {
		t.Fatalf("%d attempts, want %d", len(at), len(want)+1)
	}
	for i, least := range want {
		if got := at[i+1].Sub(at[i]); got < least || got > least+least/5 {
			t.Errorf("pause %d is %v, want %v and up to a fifth more", i+1, got, least)
		}
	}
}

func TestThePolicyOfAWorkerDecidesHowItsRunsAreRetried(t *testing.T) {
	everywhere(t, func(h *fixture) {
		if !h.process.remote {
			h.process.retries = retry.Policy{Attempts: 3, First: 20 * time.Second, Most: 20 * time.Second}
		} else { // the worker's policy wins over the server's
			h.process.retries = retry.Policy{Attempts: 9, First: time.Millisecond, Most: time.Second}
			h.process.workerRetries = retry.Policy{Attempts: 3, First: 20 * time.Second}
		}
		var starts seen[time.Time]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			starts.add(time.Now())
			return errors.New("who knows")
		})
		out := h.send("t", "hello")
		own := h.send("own", "hello", func(in *thread.Submit) { in.MaxAttempts = 1 })
		h.wait(3 * time.Minute)
		if r := h.status(out.Run, mailroom.StatusFailed); r.Failures != 3 || r.MaxAttempts != 3 {
			t.Errorf("%d of %d failures, want 3 of 3", r.Failures, r.MaxAttempts)
		}
		if r := h.status(own.Run, mailroom.StatusFailed); r.Attempt != 1 || r.MaxAttempts != 1 {
			t.Errorf("the submit's own max_attempts 1: %d attempts of %d", r.Attempt, r.MaxAttempts)
		}
		at := starts.all()
		wantPauses(t, append(at[:1:1], at[2:]...), 20*time.Second, 20*time.Second)
	})
}

func TestOutageOfAnHourEndsInSuccess(t *testing.T) {
	localOnly(t, func(h *fixture) {
		up := time.Now().Add(time.Hour)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if time.Now().Before(up) {
				return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no model available")}
			}
			return s.Stream(ctx, "at last")
		})
		var runs []store.Submitted
		for i := range 20 {
			runs = append(runs, h.send(fmt.Sprint("t", i), "hello"))
		}
		h.wait(time.Hour + 7*time.Minute)
		for _, out := range runs {
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 0 || r.Attempt < 10 || r.Attempt > 40 {
				t.Errorf("%d failures in %d attempts, want none, several attempts, and no retry storm", r.Failures, r.Attempt)
			}
		}
	})
}

func TestFiftyPermanentFailuresCostFiftyAttempts(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var entered seen[string]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			entered.add(s.Run().ID)
			return fmt.Errorf("call the model: %w", &mailroom.Failure{Class: mailroom.ClassPermanent,
				Err: errors.New("content filtered")})
		})
		var runs []store.Submitted
		for i := range 50 {
			runs = append(runs, h.send(fmt.Sprint("t", i%10), "hello"))
		}
		h.wait(10 * time.Minute)
		if got := len(entered.all()); got != 50 {
			t.Errorf("got %d attempts, want 50", got)
		}
		want := &mailroom.RunError{Class: mailroom.ClassPermanent, Message: "content filtered"}
		for _, out := range runs {
			if diff := cmp.Diff(want, h.status(out.Run, mailroom.StatusFailed).Error); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestThreadContinuesAfterADeadLetter(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			if err != nil {
				return err
			}
			if in[0].Text == "bad" {
				return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("no")}
			}
			return s.Stream(ctx, "re: "+in[0].Text)
		})
		bad, good := h.send("t", "bad"), h.send("t", "good")
		h.wait(time.Second)
		h.status(bad.Run, mailroom.StatusFailed)
		h.status(good.Run, mailroom.StatusCompleted)

		// A user can retry it; it gets one more attempt.
		_, err := h.ledger.Retry(context.Background(), thread.Retry{Run: bad.Run, By: "user"})
		h.must(err)
		h.wait(time.Second)
		if r := h.status(bad.Run, mailroom.StatusFailed); r.Attempt != 2 {
			t.Errorf("got attempt %d, want 2", r.Attempt)
		}
	})
}

func TestRunInBackoffKeepsItsThreadAndNoOther(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var order seen[string]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			if err != nil {
				return err
			}
			order.add(in[0].Text)
			if s.Run().Attempt == 1 && in[0].Text == "first" {
				return errors.New("once")
			}
			return nil
		})
		h.send("t", "first")
		h.send("t", "second")
		h.wait(100 * time.Millisecond)
		h.send("other", "elsewhere")
		h.wait(time.Second)
		want := []string{"first", "elsewhere", "first", "second"}
		if diff := cmp.Diff(want, order.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAgentThatExistsNowhereFailsOnceAfterTheGrace(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(streaming("hi"))
		ghost := func(in *thread.Submit) { in.Agent = "ghost" }
		h.wait(2 * time.Minute) // longer than the grace for unknown agents
		begin := time.Now()
		out := h.send("t", "hello", ghost)
		h.wait(55 * time.Second)
		h.status(out.Run, mailroom.StatusQueued)
		h.wait(20 * time.Second)
		r := h.status(out.Run, mailroom.StatusFailed)
		if got := r.FinishedAt.Sub(begin); got < time.Minute || got > 75*time.Second {
			t.Errorf("failed after %v, want the grace of a minute", got)
		}
		if r.Attempt != 0 || r.Error.Class != mailroom.ClassPermanent || !strings.Contains(r.Error.Message, `"ghost"`) {
			t.Errorf("attempt %d, error %v; want no attempt and a permanent error with the agent", r.Attempt, r.Error)
		}
		h.wait(10 * time.Minute)
		want := []string{entry.KindMessage, entry.KindQueued, entry.KindFailed}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEngineThatJustStartedFailsNoOrphans(t *testing.T) {
	localOnly(t, func(h *fixture) {
		out := h.send("t", "hello", func(in *thread.Submit) { in.Agent = "b" })
		h.wait(10 * time.Minute)
		h.serve(streaming("hi"))
		h.wait(55 * time.Second) // within the grace: other engines may still start
		h.status(out.Run, mailroom.StatusQueued)
		h.wait(20 * time.Second)
		h.status(out.Run, mailroom.StatusFailed)
	})
}

func TestRunsOfAnAgentThatIsServedElsewhereWaitForAWorker(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := serving(streaming("hi"))
		o.Elsewhere = []string{"b"}
		h.start(o)
		out := h.send("t", "hello", func(in *thread.Submit) { in.Agent = "b" })
		other := h.send("u", "hello", func(in *thread.Submit) { in.Agent = "c" })
		h.wait(20 * time.Minute)
		h.status(out.Run, mailroom.StatusQueued)
		h.status(other.Run, mailroom.StatusFailed)
	})
}

func TestRunsOfAnAgentThatAnotherWorkerServesDoNotFail(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(streaming("hi"))
		other := serving(streaming("late"))
		other.Agents = map[string]engine.Agent{"b": {Agent: work(3 * time.Minute)}}
		other.Runs = 1
		h.elsewhere(other)
		toB := func(in *thread.Submit) { in.Agent = "b" }
		h.send("t1", "keeps the only slot", toB)
		out := h.send("t2", "waits", toB)
		h.wait(2*time.Minute + 30*time.Second)
		h.status(out.Run, mailroom.StatusQueued)
		h.wait(5 * time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

// 200 runs share a worker, and one of them kills it. Each loses its claim twice; then a run on its
// last attempt runs without other such runs, and only the culprit remains when the worker dies a
// third time.
func TestRunThatKillsItsWorkerFailsAlone(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var deaths int
		var poison string
		killed := make(chan struct{}, 1)
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().ID != poison {
				return work(3*time.Second)(ctx, s)
			}
			killed <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		o.Runs, o.Local = 200, true
		var runs []store.Submitted
		for i := range 200 {
			runs = append(runs, h.send(fmt.Sprint("t", i), "hello"))
		}
		poison = runs[77].Run
		all := time.After(15 * time.Minute)
		for running := true; running; {
			p := h.newProcess()
			h.must(p.ledger.Workers().EndLocalWorkers(context.Background(), false))
			p.start(o)
			select {
			case <-killed:
				deaths++
				h.wait(time.Second)
				p.kill()
			case <-all:
				p.stop()
				running = false
			}
		}
		if deaths != mailroom.MaxCrashes {
			t.Errorf("the worker died %d times, want %d", deaths, mailroom.MaxCrashes)
		}
		for _, out := range runs {
			if out.Run != poison {
				h.status(out.Run, mailroom.StatusCompleted)
				continue
			}
			if r := h.status(out.Run, mailroom.StatusFailed); r.Error.Class != mailroom.ClassCrashed || r.Failures != 0 {
				t.Errorf("got class %s, %d failures, want %s and none", r.Error.Class, r.Failures, mailroom.ClassCrashed)
			}
		}
	})
}

// explode panics; the stack in the error names it.
func explode() { panic("boom") }

func TestPanicIsATransientErrorWithItsStack(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				explode()
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		again := h.entries("t", entry.KindRescheduled)
		if len(again) != 1 {
			t.Fatalf("got %d reschedules, want 1", len(again))
		}
		e := body[entry.RunRescheduled](h, again[0]).Error
		if e.Class != mailroom.ClassTransient || !strings.Contains(e.Message, "panic: boom") ||
			!strings.Contains(e.Message, "engine_test.explode") {
			t.Errorf("got %+v, want a transient error with the panic and its stack", e)
		}
	})
}

func TestAgentThatEndsItsGoroutineHasFailed(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 {
			t.Errorf("got %d failures, want 1", r.Failures)
		}
	})
}

// A settle that the store refuses must not make the run repeat forever without counting attempts.
func TestRefusedSettleCountsAsAFailure(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var entered seen[int]
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			entered.add(s.Run().Attempt)
			return s.Stream(ctx, "unwritable")
		}))
		p.line.onWrite(func(c *store.Changes) error {
			for _, r := range c.Runs {
				if r.Status == mailroom.StatusCompleted {
					return errors.New("constraint failed")
				}
			}
			return nil
		}, nil)
		out := h.send("t", "hello")
		h.wait(10 * time.Minute)
		r := h.status(out.Run, mailroom.StatusFailed)
		if r.Failures != mailroom.DefaultAttempts || !strings.Contains(r.Error.Message, "constraint failed") {
			t.Errorf("%d failures, error %v; want %d and the store's error", r.Failures, r.Error, mailroom.DefaultAttempts)
		}
		if n := len(entered.all()); n != mailroom.DefaultAttempts {
			t.Errorf("entered %d times, want %d", n, mailroom.DefaultAttempts)
		}
	})
}

func TestASettleThatTimesOutInTheStoreIsNoFailureOfTheAgent(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(work(6 * time.Second))
		out := h.send("t", "hello", func(in *thread.Submit) { in.MaxAttempts = 1 })
		h.wait(time.Second)
		h.line.freeze() // a renewal hangs in the store, and the settle waits for it
		h.wait(25 * time.Second)
		h.line.thaw()
		h.wait(time.Minute)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if r.Failures != 0 || r.Attempt != 2 {
			t.Errorf("got %d failures in %d attempts, want none in 2", r.Failures, r.Attempt)
		}
	})
}

// What a run asks for and is refused is refused again, except by a state of the server that may change.
func TestTheCodeOfARefusalSaysWhetherARunIsRetried(t *testing.T) {
	attempts := map[mailroom.Code]int{
		mailroom.CodeInvalid: 1, mailroom.CodeTooLarge: 1, mailroom.CodeConflict: 1,
		mailroom.CodeUnserved: 2, mailroom.CodeQuotaExceeded: 2, mailroom.CodeInternal: 2,
	}
	for code, want := range attempts {
		t.Run(string(code), func(t *testing.T) {
			everywhere(t, func(h *fixture) {
				calls := 0
				h.serve(func(context.Context, mailroom.Session) error {
					if calls++; calls == 1 {
						return fmt.Errorf("ask: %w", mailroom.Errorf(code, "refused"))
					}
					return nil
				})
				out := h.send("t", "hello")
				h.wait(time.Minute)
				status := mailroom.StatusCompleted
				if want == 1 {
					status = mailroom.StatusFailed
				}
				if r := h.status(out.Run, status); r.Attempt != want {
					t.Errorf("got %d attempts, want %d", r.Attempt, want)
				}
			})
		})
	}
	t.Run("a failure says it", func(t *testing.T) {
		everywhere(t, func(h *fixture) {
			h.serve(func(_ context.Context, s mailroom.Session) error {
				if s.Run().Attempt > 1 {
					return nil
				}
				return &mailroom.Failure{Class: mailroom.ClassTransient, Err: mailroom.Errorf(mailroom.CodeInvalid, "refused")}
			})
			out := h.send("t", "hello")
			h.wait(time.Minute)
			h.status(out.Run, mailroom.StatusCompleted)
		})
	})
}
