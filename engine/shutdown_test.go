package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestShutdownReleasesSoThatTheWorkIsClaimableAtOnce(t *testing.T) {
	everywhere(t, func(h *fixture) {
		causes := make(chan error, 1)
		first := h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "half"))
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		started := make(chan time.Time, 1)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			started <- time.Now()
			return s.Stream(ctx, "whole")
		})
		begin := time.Now()
		first.stop()
		if cause := <-causes; cause != mailroom.ErrReleased {
			t.Errorf("got cause %v, want %v", cause, mailroom.ErrReleased)
		}
		if at := <-started; at.Sub(begin) != 30*time.Second {
			t.Errorf("started by another worker after %v, want after the shutdown grace of 30 s", at.Sub(begin))
		}
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || r.Crashes != 0 || r.Failures != 0 {
			t.Errorf("got attempt %d, %d crashes, %d failures, want 2 and none", r.Attempt, r.Crashes, r.Failures)
		}
		again := only[entry.RunRescheduled](h, "t", entry.KindRescheduled)
		if again.Reason != "released" || again.Attempt != 1 || again.Error != nil {
			t.Errorf("got %+v, want attempt 1 released", again)
		}
		if diff := cmp.Diff([]string{"hello", "half", "whole"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunsThatFinishWithinTheGraceComplete(t *testing.T) {
	everywhere(t, func(h *fixture) {
		w := h.serve(work(20 * time.Second))
		out := h.send("t", "hello")
		h.wait(time.Second)
		begin := time.Now()
		w.stop()
		if took := time.Since(begin); took != 19*time.Second {
			t.Errorf("shutdown took %v, want as long as the run", took)
		}
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", r.Attempt)
		}
	})
}

func TestNothingIsClaimedWhileShuttingDown(t *testing.T) {
	everywhere(t, func(h *fixture) {
		w := h.serve(work(20 * time.Second))
		h.send("t", "hello")
		h.wait(time.Second)
		w.quit()
		h.wait(time.Second)
		if w.Ready() == nil {
			t.Error("ready while shutting down")
		}
		out := h.send("u", "too late")
		behind := h.send("t", "behind")
		<-w.done
		for _, out := range []store.Submitted{out, behind} {
			if r := h.status(out.Run, mailroom.StatusQueued); r.Attempt != 0 {
				t.Errorf("got attempt %d, want none", r.Attempt)
			}
		}
	})
}

func TestClaimReceivedDuringShutdownIsReleased(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			t.Error("the agent was started")
			return nil
		}))
		h.wait(time.Second)
		p.line.freeze()
		out := h.send("t", "hello")
		h.wait(2 * time.Second) // the claim is in flight
		p.engines[0].quit()
		h.wait(time.Second)
		p.line.thaw()
		<-p.engines[0].done
		if r := h.status(out.Run, mailroom.StatusQueued); r.Attempt != 1 || r.Crashes != 0 {
			t.Errorf("attempt %d, %d crashes; want one released claim", r.Attempt, r.Crashes)
		}
	})
}

func TestClaimReceivedAfterTheEndIsReleasedWithTheLease(t *testing.T) {
	everywhere(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			t.Error("the agent was started")
			return nil
		}))
		h.wait(time.Second)
		p.line.freeze()
		out := h.send("t", "hello")
		h.wait(2 * time.Second) // the claim is in flight
		p.engines[0].quit()
		h.wait(time.Minute)
		p.line.thaw()
		<-p.engines[0].done
		if r := h.status(out.Run, mailroom.StatusRunning); r.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", r.Attempt)
		}
		h.serve(streaming("hi"))
		h.wait(3 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestIdleEngineShutsDownAtOnceAndEndsItsLease(t *testing.T) {
	localOnly(t, func(h *fixture) {
		w := h.serve(streaming("hi"))
		h.wait(10 * time.Second)
		begin := time.Now()
		w.stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("duration %v", took)
		}
		h.must(w.err)
		if row := h.onlyWorker(); !row.Dead {
			t.Errorf("got %+v, want a lease given up", row)
		}
		if w.Ready() == nil {
			t.Error("ready after the end")
		}
	})
}

func TestStopBeforeTheRegistrationEndsTheEngine(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.newProcess()
		h.others = append(h.others, p)
		p.line.freeze()
		w := p.start(serving(streaming("hi")))
		h.wait(time.Second)
		time.AfterFunc(2*time.Second, p.line.thaw) // whether the lease has begun is not known before
		begin := time.Now()
		w.stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("duration %v", took)
		}
		if row := h.onlyWorker(); !row.Dead {
			t.Errorf("got %+v, want no lease", row)
		}
	})
}

func TestRunIsStoppedWhileShuttingDown(t *testing.T) {
	localOnly(t, func(h *fixture) {
		w := h.serve(work(time.Hour))
		out := h.send("t", "hello")
		h.wait(time.Second)
		w.quit()
		h.wait(time.Second)
		h.cancel(out)
		begin := time.Now()
		<-w.done
		if took := time.Since(begin); took > time.Second {
			t.Errorf("shutdown took %v after its last run was stopped", took)
		}
		h.status(out.Run, mailroom.StatusCancelled)
	})
}

func TestLeaseIsRenewedWhileShuttingDown(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := serving(work(2 * time.Minute))
		o.ShutdownGrace = 5 * time.Minute
		w := h.start(o)
		h.elsewhere(serving(streaming("stolen")))
		h.wait(time.Second)
		out := h.send("t", "hello")
		h.wait(time.Second)
		w.stop()
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 || r.Reply != nil {
			t.Errorf("attempt %d, reply %v; want those of the first attempt", r.Attempt, r.Reply)
		}
	})
}

// An agent that does not return keeps its claim, which no other worker may get while the agent may
// still work; the lease ends with the process.
func TestStuckAgentIsAbandonedWithItsClaim(t *testing.T) {
	everywhere(t, func(h *fixture) {
		release := make(chan struct{})
		late := make(chan error, 1)
		w := h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-release
			late <- s.Append(context.WithoutCancel(ctx), mailroom.Step{Name: "late"})
			return nil
		})
		fine := h.send("u", "hello")
		out := h.send("t", "hello")
		h.wait(time.Second)
		begin := time.Now()
		w.stop()
		if took := time.Since(begin); took != 40*time.Second {
			t.Errorf("shutdown took %v, want the two graces, 30 s and 10 s", took)
		}
		h.must(w.err)
		h.status(out.Run, mailroom.StatusRunning)
		h.serve(streaming("taken over"))
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		h.wait(15 * time.Second)
		for _, out := range []store.Submitted{out, fine} {
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || r.Crashes != 1 {
				t.Errorf("got attempt %d, %d crashes, want 2 and 1", r.Attempt, r.Crashes)
			}
		}
		close(release)
		if err := <-late; mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
			t.Errorf("got %v, want code %s", err, mailroom.CodeLeaseLost)
		}
	})
}

func TestSettleIsRepeatedWhileItsOutcomeIsUnknown(t *testing.T) {
	for name, hook := range map[string]func(l *line, f func(*store.Changes) error){
		"not written": func(l *line, f func(*store.Changes) error) { l.onWrite(f, nil) },
		"written":     func(l *line, f func(*store.Changes) error) { l.onWrite(nil, f) },
	} {
		t.Run(name, func(t *testing.T) {
			localOnly(t, func(h *fixture) {
				p := h.elsewhere(serving(streaming("hi")))
				h.wait(time.Second)
				n := 0
				hook(p.line, func(c *store.Changes) error {
					for _, r := range c.Runs {
						if r.Status == mailroom.StatusCompleted && n < 3 {
							n++
							return unknown()
						}
					}
					return nil
				})
				out := h.send("t", "hello")
				h.wait(10 * time.Second)
				if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
					t.Errorf("got attempt %d, want 1", r.Attempt)
				}
				if diff := cmp.Diff([]string{"hello", "hi"}, h.texts("t")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestStoreThatClosesCancelsRunsAndEndsTheEngine(t *testing.T) {
	everywhere(t, func(h *fixture) {
		o := serving(work(time.Hour))
		o.Runs = 1 // no free slot, so no claim detects it
		p := h.elsewhere(o)
		out := h.send("t", "hello")
		h.wait(time.Second)
		p.line.die()
		begin := time.Now()
		<-p.engines[0].done
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("found out after %v, want with the next renewal", took)
		}
		if err := p.engines[0].err; !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v, want %v", err, store.ErrClosed)
		}
		h.must(h.ledger.Workers().Deregister(context.Background(), thread.Leave{Worker: h.onlyWorker().ID}))
		h.serve(streaming("again"))
		h.wait(3 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

// TestAnEngineThatStopsWhileItRegistersLeavesNoLease stops an engine before it knows that it has a lease.
// Until the end of that lease a copy or a restore would be refused, because a server uses the store.
func TestAnEngineThatStopsWhileItRegistersLeavesNoLease(t *testing.T) {
	localOnly(t, func(h *fixture) {
		w := h.begin(cutOff{h.ledger.Workers()}, h.bus, serving(streaming("hi")))
		h.wait(time.Second)
		if row := h.onlyWorker(); row.Dead {
			t.Fatalf("got %+v, want a registered worker", row)
		}
		w.stop()
		h.must(w.err)
		if row := h.onlyWorker(); !row.Dead {
			t.Errorf("the engine has stopped, but its worker has a lease until %v", row.LeaseUntil)
		}
	})
}

// cutOff is a ledger that registers, and whose caller does not wait for the answer.
type cutOff struct{ engine.Ledger }

func (l cutOff) Register(ctx context.Context, w store.Worker) (time.Time, error) {
	if _, err := l.Ledger.Register(ctx, w); err != nil {
		return time.Time{}, err
	}
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func TestAShutdownEndsARunWithMaxCrashes0ThatHasBegun(t *testing.T) {
	everywhere(t, func(h *fixture) {
		w := h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		once := func(in *thread.Submit) { in.MaxCrashes = new(int) }
		out := h.send("t", "hello", once)
		h.wait(time.Second)
		w.stop()
		r := h.status(out.Run, mailroom.StatusFailed)
		if r.Error == nil || r.Error.Class != mailroom.ClassCrashed || r.Attempt != 1 || r.Failures != 0 {
			t.Errorf("got attempt %d, error %+v; want one attempt and class crashed", r.Attempt, r.Error)
		}
	})
}
