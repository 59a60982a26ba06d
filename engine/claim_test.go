package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

func TestTwoEnginesOverOneLedgerShareTheWork(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var by [2]atomic.Int32
		for i := range by {
			o := serving(func(ctx context.Context, s mailroom.Session) error {
				by[i].Add(1)
				return work(time.Second)(ctx, s)
			})
			o.Runs = 5
			h.start(o)
		}
		var runs []store.Submitted
		for range 40 {
			runs = append(runs, h.send("", "hello"))
		}
		h.wait(10 * time.Second)
		for _, out := range runs {
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
				t.Errorf("got attempt %d, want 1", r.Attempt)
			}
		}
		for i := range by {
			if n := by[i].Load(); n != 20 {
				t.Errorf("engine %d ran %d, want half of 40", i, n)
			}
		}
	})
}

// The answer to a claim may be lost, so that the worker does not know about the claim. Its next
// renewal does not name the claim, and so releases it.
func TestClaimWhoseResponseWasLostIsReleasedByARenewal(t *testing.T) {
	localOnly(t, func(h *fixture) {
		entered := make(chan int, 10)
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			entered <- s.Run().Attempt
			return nil
		}))
		h.wait(time.Second)
		lost := false
		p.line.onWrite(nil, func(c *store.Changes) error {
			for _, r := range c.Runs {
				if r.Status == mailroom.StatusRunning && !lost {
					lost = true
					return unknown()
				}
			}
			return nil
		})
		begin := time.Now()
		out := h.send("t", "hello")
		if n := <-entered; n != 2 {
			t.Errorf("the agent started with attempt %d, want 2, because the response to the first claim was lost", n)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("duration %v", took)
		}
		h.wait(time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("got %d failures, %d crashes, want none", r.Failures, r.Crashes)
		}
	})
}

func TestClaimOfALostLeaseIsReleased(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var entered seen[int]
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			entered.add(s.Run().Attempt)
			return nil
		}))
		h.wait(time.Second)
		p.line.freeze()
		out := h.send("t", "hello") // the claim for it is in flight when the lease ends
		h.wait(30 * time.Second)
		p.line.onWrite(nil, func(c *store.Changes) error {
			if len(c.Runs) > 0 {
				p.line.freeze() // the next write: the renewal
				p.line.onWrite(nil, nil)
			}
			return nil
		})
		p.line.thaw()
		h.wait(time.Second)
		p.line.thaw()
		h.wait(10 * time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		// The worker may claim the run once more at the moment in which its lease is found lost, and releases that claim too.
		if got := entered.all(); len(got) != 1 || got[0] < 2 || got[0] > 3 {
			t.Errorf("attempts that started the agent: %v, want one after the first", got)
		}
		if r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("got %d failures, %d crashes, want none", r.Failures, r.Crashes)
		}
	})
}

func TestRestartAfterAKillDoesNotWaitForTheLease(t *testing.T) {
	localOnly(t, func(h *fixture) {
		local := serving(work(time.Minute))
		local.Local = true
		p := h.elsewhere(local)
		out := h.send("t", "hello")
		h.wait(time.Second)
		p.kill()

		next := h.newProcess()
		h.others = append(h.others, next)
		started := make(chan time.Duration, 1)
		begin := time.Now()
		h.must(next.ledger.Workers().EndLocalWorkers(context.Background(), false))
		next.start(serving(func(ctx context.Context, s mailroom.Session) error {
			started <- time.Since(begin)
			return nil
		}))
		if took := <-started; took > 2*time.Second {
			t.Errorf("the run started after %v, want at once", took)
		}
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || r.Crashes != 1 {
			t.Errorf("got attempt %d, crashes %d, want 2 and 1", r.Attempt, r.Crashes)
		}
	})
}

func TestClosedStoreEndsTheEngineAtOnce(t *testing.T) {
	localOnly(t, func(h *fixture) {
		causes := make(chan error, 1)
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		}))
		h.send("t", "hello")
		h.wait(time.Second)
		begin := time.Now()
		p.kill()
		if cause := <-causes; !errors.Is(cause, mailroom.ErrLeaseLost) {
			t.Errorf("got cause %v, want %v", cause, mailroom.ErrLeaseLost)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("duration %v", took)
		}
		if p.engines[0].Ready() == nil {
			t.Error("Ready() = true with a closed store")
		}
		h.must(h.ledger.Workers().EndLocalWorkers(context.Background(), false))
		h.wait(20 * time.Second)
		h.must(h.ledger.Workers().Sweep(context.Background(), ""))
	})
}

func TestStoreThatFailsIsRetriedWithPauses(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := serving(streaming("hi"))
		o.Runs = 1
		p := h.elsewhere(o)
		h.wait(time.Second)
		tries := 0
		p.line.onWrite(func(*store.Changes) error {
			tries++
			return unknown()
		}, nil)
		out := h.send("t", "hello")
		h.wait(10 * time.Second)
		p.line.onWrite(nil, nil)
		if tries < 5 || tries > 100 {
			t.Errorf("%d attempts in 10 s", tries)
		}
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}
