package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/store"
	"mailroom/thread"
)

// only returns the body of a thread's only entry of a kind.
func only[T any](h *fixture, thread, kind string) T {
	h.t.Helper()
	found := h.entries(thread, kind)
	if len(found) != 1 {
		h.t.Fatalf("got %d entries %s in thread %s, want 1: %v", len(found), kind, thread, h.kinds(thread))
	}
	return body[T](h, found[0])
}

func TestCancelStopsARunAndKeepsItsPartialText(t *testing.T) {
	localOnly(t, func(h *fixture) {
		causes := make(chan error, 1)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "as far as I "))
			h.expect(s.Stream(ctx, "came"))
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
		out := h.send("t", "hello")
		h.wait(300 * time.Millisecond)
		begin := time.Now()
		h.cancel(out)
		if cause := <-causes; cause != mailroom.ErrStopped {
			t.Errorf("got cause %v, want %v", cause, mailroom.ErrStopped)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("the stop took %v, want at once: a hint brings it", took)
		}
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCancelled); r.Reason != mailroom.ReasonCancelled || r.Reply != nil {
			t.Errorf("got reason %s, reply %v", r.Reason, r.Reply)
		}
		want := []string{entry.KindMessage, entry.KindQueued, entry.KindStarted, entry.KindStop, entry.KindMessage,
			entry.KindCancelled}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Fatal(diff)
		}
		m := body[mailroom.Message](h, h.entries("t", entry.KindMessage)[1])
		if m.Text != "as far as I came" || !m.Partial {
			t.Errorf("got text %q, partial %v, want what was streamed, marked partial", m.Text, m.Partial)
		}
		end := only[entry.RunStop](h, "t", entry.KindCancelled)
		if diff := cmp.Diff(entry.RunStop{Reason: mailroom.ReasonCancelled, By: "user"}, end); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStopReachesAnotherProcessWithARenewal(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.elsewhere(serving(work(time.Hour)))
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		h.cancel(out)
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCancelled)
	})
}

func TestStopBetweenClaimAndStartPreventsTheStart(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			t.Error("the agent was started")
			return nil
		}))
		h.wait(time.Second)
		p.line.onWrite(nil, func(c *store.Changes) error {
			for _, r := range c.Runs {
				if r.Status == mailroom.StatusRunning && r.Stop == "" {
					_, err := h.ledger.Cancel(context.Background(), r.ID, "user") // before the answer to the claim
					return err
				}
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCancelled); r.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", r.Attempt)
		}
	})
}

func TestStopAfterTheClaimOfALocalWorkerPreventsTheStart(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			t.Error("the agent was started")
			return nil
		})
		o.Local = true
		var renewals atomic.Int32
		hold := make(chan struct{})
		o.Observe.Renewal = func(error) {
			if renewals.Add(1) == 2 {
				<-hold // blocks the engine
			}
		}
		h.start(o)
		h.wait(6 * time.Second)
		out := h.send("t", "hello")
		h.status(out.Run, mailroom.StatusRunning)
		h.cancel(out)
		close(hold)
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCancelled); r.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", r.Attempt)
		}
	})
}

func TestAgentStartsOnlyOnceItsRunIsKnownToBeClaimed(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var entered seen[int]
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			entered.add(s.Run().Attempt)
			return nil
		}))
		h.wait(time.Second + time.Millisecond) // between two sweeps
		p.line.onView(unknown)
		out := p.send("t", "hello")
		h.wait(3 * time.Second)
		if got := entered.all(); len(got) > 0 {
			t.Errorf("entered at attempts %v while the store does not answer", got)
		}
		p.line.onView(nil)
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 0 {
			t.Errorf("%d failures, want none: the agent did not fail", r.Failures)
		}
		if diff := cmp.Diff([]int{1}, entered.all()); diff != "" {
			t.Errorf("entered at attempts: %s", diff)
		}
	})
}

func TestInterruptStopsTheRunAndItsReplacementStarts(t *testing.T) {
	localOnly(t, func(h *fixture) {
		order := &seen[string]{}
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			h.expect(err)
			order.add(in[0].Text)
			if in[0].Text != "first" {
				return nil
			}
			<-ctx.Done()
			<-time.After(3 * time.Second) // stops slowly
			return context.Cause(ctx)
		})
		first, queued := h.send("t", "first"), h.send("t", "queued")
		h.wait(time.Second)
		begin := time.Now()
		now := h.send("t", "now", mode(mailroom.ModeInterrupt))
		if now.Stopping == nil || *now.Stopping != first.Run {
			t.Errorf("got stopping %v, want %s", now.Stopping, first.Run)
		}
		h.wait(time.Second)
		h.status(now.Run, mailroom.StatusQueued) // it waits until the other run has stopped
		h.wait(5 * time.Second)
		if r := h.status(now.Run, mailroom.StatusCompleted); r.StartedAt.Sub(begin) != 3*time.Second {
			t.Errorf("the replacement started after %v, want after the stop of the other run, after 3 s", r.StartedAt.Sub(begin))
		}
		if r := h.status(first.Run, mailroom.StatusCancelled); r.Reason != mailroom.ReasonInterrupted {
			t.Errorf("got reason %s", r.Reason)
		}
		if r := h.status(queued.Run, mailroom.StatusCancelled); r.Reason != mailroom.ReasonSuperseded {
			t.Errorf("got reason %s", r.Reason)
		}
		if diff := cmp.Diff([]string{"first", "now"}, order.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunThatDoesNotStopIsForcedAndItsSlotStaysTaken(t *testing.T) {
	localOnly(t, func(h *fixture) {
		release := make(chan struct{})
		late := make(chan error, 1)
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if in, err := s.Input(ctx); err != nil || in[0].Text != "deaf" {
				return err
			}
			h.expect(s.Stream(ctx, "half a "))
			<-release
			late <- s.Append(context.WithoutCancel(ctx), mailroom.Step{Name: "late"})
			return s.Stream(context.WithoutCancel(ctx), "sentence")
		})
		o.Runs = 2
		h.start(o)
		deaf := h.send("t", "deaf")
		h.wait(time.Second)
		begin := time.Now()
		next := h.send("t", "next", mode(mailroom.ModeInterrupt))
		h.wait(9 * time.Second)
		h.status(deaf.Run, mailroom.StatusRunning)
		h.wait(2 * time.Second)
		r := h.status(deaf.Run, mailroom.StatusCancelled)
		if got := r.FinishedAt.Sub(begin); got != 10*time.Second {
			t.Errorf("forced after %v, want the stop grace of 10 s", got)
		}
		if end := only[entry.RunStop](h, "t", entry.KindCancelled); !end.Forced || end.Reason != mailroom.ReasonInterrupted {
			t.Errorf("got %+v, want forced by the interrupt", end)
		}
		if r := h.status(next.Run, mailroom.StatusCompleted); r.StartedAt.Sub(begin) > 10*time.Second+10*time.Millisecond {
			t.Errorf("the replacement started after %v", r.StartedAt.Sub(begin))
		}

		// The agent that does not return still uses one of two slots.
		slow := []store.Submitted{h.send("u", "deaf"), h.send("v", "deaf")}
		h.wait(time.Second)
		h.status(slow[0].Run, mailroom.StatusRunning)
		h.status(slow[1].Run, mailroom.StatusQueued)
		close(release)
		refused := 0
		for range 3 {
			if err := <-late; mailroom.CodeOf(err) == mailroom.CodeLeaseLost {
				refused++
			} else {
				h.expect(err)
			}
		}
		if refused != 1 {
			t.Errorf("%d refused late steps, want the one of the forced run", refused)
		}
		h.wait(time.Second)
		for _, out := range slow {
			h.status(out.Run, mailroom.StatusCompleted)
		}
		if diff := cmp.Diff([]string{"deaf", "next", "half a "}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestForcedRunWithOneSlotWaitsForTheAgentToReturn(t *testing.T) {
	everywhere(t, func(h *fixture) {
		release := make(chan struct{})
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			<-release
			return nil
		})
		o.Runs = 1
		h.start(o)
		deaf := h.send("t", "deaf")
		h.wait(time.Second)
		next := h.send("t", "next", mode(mailroom.ModeInterrupt))
		h.wait(time.Minute)
		h.status(deaf.Run, mailroom.StatusCancelled)
		h.status(next.Run, mailroom.StatusQueued)
		close(release)
		h.wait(time.Second)
		h.status(next.Run, mailroom.StatusCompleted)
	})
}

func TestStoppedRunWhoseWorkerDiesEndsCancelled(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.start(engine.Options{}) // this engine sweeps
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "a beginning"))
			<-ctx.Done()
			return nil
		}))
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		h.cancel(out)
		p.kill()
		h.wait(20 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCancelled); r.Attempt != 1 || r.Reason != mailroom.ReasonCancelled {
			t.Errorf("got attempt %d, reason %s", r.Attempt, r.Reason)
		}
		if diff := cmp.Diff([]string{"hello", "a beginning"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunThatCompletesDespiteAStopIsCompleted(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "done anyway"))
			<-ctx.Done()
			return nil
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.cancel(out)
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Reply == nil || *r.Reply != "done anyway" {
			t.Errorf("got reply %v", r.Reply)
		}
	})
}

// TestATurnThatSpendsTheBudgetEndsAsItsAgentSays has agents whose last step spends the budget of a run or a thread.
func TestATurnThatSpendsTheBudgetEndsAsItsAgentSays(t *testing.T) {
	spent := mailroom.Budget{Amounts: mailroom.Amounts{Tokens: 10}}
	broken := &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("the model refuses the request")}
	for _, of := range []string{"run", "thread"} {
		for _, test := range []struct {
			name string
			end  error
			want mailroom.Status
		}{{"is done", nil, mailroom.StatusCompleted}, {"has failed for good", broken, mailroom.StatusFailed}} {
			t.Run(of+" "+test.name, func(t *testing.T) {
				everywhere(t, func(h *fixture) {
					h.serve(func(ctx context.Context, s mailroom.Session) error {
						h.expect(s.Stream(ctx, "the answer"))
						h.expect(s.Append(ctx, mailroom.Step{Usage: mailroom.Usage{InputTokens: 5, OutputTokens: 5}}))
						return test.end
					})
					out := h.send("t", "go", func(in *thread.Submit) {
						if of == "run" {
							in.Budget = spent
						} else {
							in.NotBefore = time.Now().Add(time.Minute)
						}
					})
					if of == "thread" {
						_, err := h.ledger.PatchThread(context.Background(), "t",
							thread.Patch{Budgets: map[budget.Period]mailroom.Budget{budget.Life: spent}})
						h.must(err)
					}
					h.wait(2 * time.Minute)
					if r := h.status(out.Run, test.want); r.Reply == nil || *r.Reply != "the answer" || r.Attempt != 1 {
						t.Errorf("after %d attempts it has the reply %v", r.Attempt, r.Reply)
					}
				})
			})
		}
	}
}

func TestRunDeadlineEndsTheAttemptAndCountsAsAFailure(t *testing.T) {
	everywhere(t, func(h *fixture) {
		causes := make(chan error, 5)
		h.start(engine.Options{Agents: map[string]engine.Agent{"a": {
			Deadline: 2 * time.Minute,
			Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
				if s.Run().Attempt > 1 {
					return nil
				}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			}),
		}}})
		out := h.send("t", "hello")
		begin := time.Now()
		if cause := <-causes; cause != mailroom.ErrDeadline || time.Since(begin) != 2*time.Minute {
			t.Errorf("got cause %v after %v, want %v after 2m", cause, time.Since(begin), mailroom.ErrDeadline)
		}
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 || r.Attempt != 2 {
			t.Errorf("got %d failures, %d attempts, want 1 and 2", r.Failures, r.Attempt)
		}
		want := &mailroom.RunError{Class: mailroom.ClassTransient, Message: "the run deadline of 2m0s has passed"}
		if diff := cmp.Diff(want, only[entry.RunRescheduled](h, "t", entry.KindRescheduled).Error); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStuckAgentIsEndedByItsRunDeadline(t *testing.T) {
	everywhere(t, func(h *fixture) {
		release := make(chan struct{})
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				<-release
			}
			return nil
		})
		o.Deadline = time.Minute
		h.start(o)
		out := h.send("t", "hello")
		h.wait(69 * time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 || r.Attempt != 2 {
			t.Errorf("got %d failures, %d attempts, want 1 and 2", r.Failures, r.Attempt)
		}
		close(release)
	})
}

// An agent that ignores the loss of the lease keeps its claim when the lease comes back, but no
// longer than its deadline.
func TestStuckAgentIsEndedByItsRunDeadlineAfterALeaseIsRenewed(t *testing.T) {
	localOnly(t, func(h *fixture) {
		release := make(chan struct{})
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				<-release
			}
			return nil
		})
		o.Deadline = 2 * time.Minute
		p := h.elsewhere(o)
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		p.line.freeze()
		h.wait(time.Minute)
		p.line.thaw()
		h.wait(30 * time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 {
			t.Errorf("got attempt %d, want 2", r.Attempt)
		}
		close(release)
	})
}

func TestAnAttemptWithoutAnAnswerOfTheStoreIsNoFailure(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var entered seen[int]
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			entered.add(s.Run().Attempt)
			return nil
		}))
		h.wait(time.Second + time.Millisecond) // between two sweeps
		p.line.onView(unknown)
		out := p.send("t", "hello")
		h.wait(16 * time.Second) // longer than a lease, which renewals keep
		p.line.onView(nil)
		h.wait(20 * time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if got := entered.all(); len(got) != 1 || got[0] < 2 || r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("entered at attempts %v with %d failures and %d crashes, want a later attempt and none", got,
				r.Failures, r.Crashes)
		}
	})
}

func TestADeadlineStopsARunAtWorkWithinASweep(t *testing.T) {
	everywhere(t, func(h *fixture) {
		causes := make(chan error, 1)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
		out := h.send("t", "hello", func(in *thread.Submit) { in.Timeout = time.Minute })
		next := h.send("t", "next", func(in *thread.Submit) { in.Timeout = 50 * time.Second })
		h.wait(59 * time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		if r := h.status(next.Run, mailroom.StatusCancelled); r.Reason != mailroom.ReasonDeadline || r.Attempt != 0 {
			t.Errorf("the run behind it: got reason %q at attempt %d, want %q and no start", r.Reason, r.Attempt,
				mailroom.ReasonDeadline)
		}
		if cause := <-causes; cause != mailroom.ErrStopped {
			t.Errorf("got cause %v, want %v", cause, mailroom.ErrStopped)
		}
		h.wait(5 * time.Second)
		r := h.status(out.Run, mailroom.StatusCancelled)
		if late := r.FinishedAt.Sub(r.Deadline); r.Reason != mailroom.ReasonDeadline || late < 0 || late > 10*time.Second {
			t.Errorf("got reason %q, %v after the deadline", r.Reason, late)
		}
	})
}
