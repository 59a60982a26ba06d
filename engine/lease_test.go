package engine_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/store"
	"mailroom/thread"
)

// renewals returns a hook that calls verdict for each write of a live worker's row, with n counting
// from 1.
func renewals(verdict func(n int) error) func(*store.Changes) error {
	n := 0
	return func(c *store.Changes) error {
		for _, w := range c.Workers {
			if !w.Dead {
				n++
				return verdict(n)
			}
		}
		return nil
	}
}

// onlyWorker returns the only worker row.
func (h *fixture) onlyWorker() *store.Worker {
	h.t.Helper()
	all := h.workers()
	if len(all) != 1 {
		h.t.Fatalf("got %d workers, want 1", len(all))
	}
	return all[0]
}

// work returns an agent that runs for d, or until its context ends.
func work(d time.Duration) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestLeaseIsRenewedWhileRunsAreActive(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(work(3 * time.Minute))
		rival := h.elsewhere(engine.Options{}) // serves no agent, and sweeps
		out := h.send("t", "a long run")
		h.wait(time.Second)
		for range 170 {
			h.wait(time.Second)
			for _, w := range h.workers() {
				if w.Dead || !w.LeaseUntil.After(time.Now()) {
					t.Fatalf("worker %+v at %v: the lease was not renewed", w, time.Now())
				}
			}
		}
		h.wait(20 * time.Second)
		rival.stop()
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", r.Attempt)
		}
	})
}

func TestFailedRenewalsAreRetried(t *testing.T) {
	for name, hook := range map[string]func(l *line, f func(*store.Changes) error){
		"before the write": func(l *line, f func(*store.Changes) error) { l.onWrite(f, nil) },
		"after the write":  func(l *line, f func(*store.Changes) error) { l.onWrite(nil, f) },
	} {
		t.Run(name, func(t *testing.T) {
			localOnly(t, func(h *fixture) {
				p := h.elsewhere(serving(work(time.Minute)))
				h.elsewhere(engine.Options{})
				out := h.send("t", "hello")
				h.wait(time.Second)
				failed := 0
				hook(p.line, renewals(func(n int) error {
					if n%4 == 0 {
						return nil
					}
					failed++
					return unknown()
				}))
				h.wait(2 * time.Minute)
				p.line.onWrite(nil, nil)
				if failed < 10 {
					t.Errorf("got %d failed renewals, want three of four", failed)
				}
				if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
					t.Errorf("got attempt %d, want 1", r.Attempt)
				}
			})
		})
	}
}

// A worker that cannot reach the store cancels its runs before its lease ends. Another worker
// claims them only after that end, within one sweep. Later writes of the first worker are refused.
func TestLostWorkerStopsBeforeAnotherStarts(t *testing.T) {
	localOnly(t, func(h *fixture) {
		cancelled := make(chan time.Time, 1)
		overtaken := make(chan struct{})
		refusals := make(chan error, 4)
		zombie := func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "before"))
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != mailroom.ErrLeaseLost {
				t.Errorf("got cause %v, want %v", cause, mailroom.ErrLeaseLost)
			}
			cancelled <- time.Now()
			<-overtaken
			late := context.WithoutCancel(ctx)
			refusals <- s.Append(late, mailroom.Step{Name: "late", Checkpoint: []byte(`"late"`)})
			refusals <- s.Append(late,
				mailroom.Step{Sends: []mailroom.Send{{Name: "n", Thread: "x", Parts: mailroom.Text("late")}}})
			_, err := s.Steered(ctx)
			refusals <- err
			_, err = s.Do(late, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
				t.Error("an effect was called after the claim was lost")
				return nil, nil
			})
			refusals <- err
			return nil // this would complete the run
		}
		first := h.elsewhere(serving(zombie))
		out := h.send("t", "hello")
		h.wait(7 * time.Second)
		first.line.freeze()
		leaseEnd := h.onlyWorker().LeaseUntil

		started := make(chan time.Time, 1)
		h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			started <- time.Now()
			return work(time.Minute)(ctx, s)
		}))
		if at := <-cancelled; !at.Before(leaseEnd) {
			t.Errorf("cancelled at %v, want before the lease ends at %v", at, leaseEnd)
		}
		at := <-started
		if !at.After(leaseEnd) || at.After(leaseEnd.Add(2*time.Second)) {
			t.Errorf("claimed again at %v, want after the end of the lease at %v, within one sweep and one poll", at, leaseEnd)
		}
		first.line.thaw()
		close(overtaken)
		for range cap(refusals) {
			if err := <-refusals; mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
				t.Errorf("a late write: got %v, want code %s", err, mailroom.CodeLeaseLost)
			}
		}
		h.wait(2 * time.Minute)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if r.Attempt != 2 || r.Crashes != 1 || r.Checkpoint != nil || r.Step != 0 {
			t.Errorf("got attempt %d, crashes %d, checkpoint %s, step %d; want 2, 1, none, 0", r.Attempt, r.Crashes,
				r.Checkpoint, r.Step)
		}
		if got := h.entries("x"); len(got) != 0 {
			t.Errorf("a late send arrived: %v", got)
		}
	})
}

func TestLeaseIsRenewedAfterAnOutageLongerThanItself(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var attempts atomic.Int32
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			attempts.Add(1)
			return work(20*time.Second)(ctx, s)
		}))
		out := h.send("t", "hello")
		h.wait(time.Second)
		p.line.freeze()
		h.wait(time.Minute) // no other worker expires it
		if err := p.engines[0].Ready(); err == nil {
			t.Error("ready without a lease")
		}
		if n := attempts.Load(); n != 1 {
			t.Errorf("the agent was entered %d times while there was no lease, want 1", n)
		}
		p.line.thaw()
		h.wait(time.Minute)
		h.must(p.engines[0].Ready())
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("got %d failures, %d crashes, want none", r.Failures, r.Crashes)
		}
		h.onlyWorker() // with the same id
	})
}

// The lease counts from the transaction of the renewal, which may be anywhere between request and
// answer; only the time of the request is safe.
func TestSlowResponseToARenewalDoesNotExtendTheLease(t *testing.T) {
	localOnly(t, func(h *fixture) {
		cancelled := make(chan time.Time, 1)
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				<-ctx.Done()
				cancelled <- time.Now()
			}
			return context.Cause(ctx)
		}))
		h.send("t", "hello")
		h.wait(time.Second)
		var leaseEnd time.Time
		p.line.onWrite(nil, renewals(func(int) error {
			leaseEnd = h.onlyWorker().LeaseUntil
			p.line.freeze()
			<-time.After(6 * time.Second)
			return nil
		}))
		if at := <-cancelled; !at.Before(leaseEnd) {
			t.Errorf("cancelled at %v, want before the lease ends at %v", at, leaseEnd)
		}
		p.line.onWrite(nil, nil)
		p.line.thaw()
		h.wait(time.Minute)
	})
}

func TestMachineThatSleptRenewsBeforeItSweeps(t *testing.T) {
	localOnly(t, func(h *fixture) {
		sleeper := h.elsewhere(serving(streaming("hi")))
		h.wait(time.Second)
		self := h.onlyWorker().ID
		dead := h.elsewhere(serving(streaming("hi")))
		h.wait(time.Second)
		sleeper.line.freeze()
		dead.kill()
		h.wait(10 * time.Minute)

		swept := make(chan time.Time, 1)
		sleeper.line.onWrite(nil, func(c *store.Changes) error {
			for _, w := range c.Workers {
				if !w.Dead {
					continue
				}
				if w.ID == self {
					t.Error("the worker expired itself")
				}
				for _, row := range h.workers() {
					if row.ID == self && !row.LeaseUntil.After(time.Now()) {
						t.Errorf("the worker swept at %v with a lease until %v", time.Now(), row.LeaseUntil)
					}
				}
				swept <- time.Now()
			}
			return nil
		})
		woke := time.Now()
		sleeper.line.thaw()
		if at := <-swept; at.Sub(woke) > 3*time.Second {
			t.Errorf("the lost worker was found after %v", at.Sub(woke))
		}
		h.wait(time.Minute)
		sleeper.line.onWrite(nil, nil)
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestWorkerWhoseLeaseWasRevokedRegistersAgain(t *testing.T) {
	localOnly(t, func(h *fixture) {
		causes := make(chan error, 1)
		w := h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return context.Cause(ctx)
			}
			return s.Stream(ctx, "second")
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		old := h.onlyWorker().ID
		h.must(h.ledger.Workers().Deregister(context.Background(), thread.Leave{Worker: old})) // as a sweep would
		if cause := <-causes; cause != mailroom.ErrLeaseLost {
			t.Errorf("got cause %v, want %v", cause, mailroom.ErrLeaseLost)
		}
		h.wait(5 * time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if r.Attempt != 2 || r.Crashes != 0 && r.Crashes != 1 {
			t.Errorf("got %d attempts, want 2", r.Attempt)
		}
		h.must(w.Ready())
		if n := len(h.workers()); n != 2 {
			t.Errorf("got %d worker rows, want the old and the new", n)
		}
	})
}

func TestFailedRegistrationsAreRetried(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.newProcess()
		h.others = append(h.others, p)
		p.line.onWrite(renewals(func(n int) error {
			if n <= 3 {
				return unknown()
			}
			return nil
		}), nil)
		w := p.start(serving(streaming("hi")))
		out := h.send("t", "hello")
		h.wait(100 * time.Millisecond)
		if w.Ready() == nil {
			t.Error("ready without a lease")
		}
		h.wait(5 * time.Second)
		h.must(w.Ready())
		h.status(out.Run, mailroom.StatusCompleted)
	})
}
