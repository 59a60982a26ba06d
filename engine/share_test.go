package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/store"
	"mailroom/thread"
)

func owned(by string) func(*thread.Submit) {
	return func(in *thread.Submit) { in.Owner = by }
}

// endless is an agent that runs until it is cancelled.
func endless(ctx context.Context, _ mailroom.Session) error {
	<-ctx.Done()
	return ctx.Err()
}

func slots(n int, f mailroom.AgentFunc) engine.Options {
	o := serving(f)
	o.Runs = n
	return o
}

// running counts the running runs of an owner.
func (h *fixture) running(runs []store.Submitted) (n int) {
	h.t.Helper()
	for _, out := range runs {
		if h.run(out.Run).Status == mailroom.StatusRunning {
			n++
		}
	}
	return n
}

func (h *fixture) sendAll(n int, owner string) (runs []store.Submitted) {
	h.t.Helper()
	for i := range n {
		runs = append(runs, h.send(fmt.Sprintf("%s-%d", owner, i), "hello", owned(owner)))
	}
	return runs
}

func TestRunsThatDoNotEndKeepNoOtherOwnerWaiting(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.start(slots(4, endless))
		h.wait(time.Second)
		hog := h.sendAll(70, "hog")
		h.wait(time.Second)
		if got := h.running(hog); got != 4 {
			t.Errorf("an owner alone has %d runs at work, want all 4 slots", got)
		}
		for i := range 3 {
			owner := fmt.Sprintf("owner%d", i)
			mine := h.sendAll(2, owner)
			h.wait(time.Second)
			if got := h.running(mine); got != 1 {
				t.Errorf("%s has %d runs at work, want 1", owner, got)
			}
		}
		if got := h.running(hog); got != 4 {
			t.Errorf("the first owner has %d runs at work, want 4 still", got)
		}
	})
}

func TestAFreeSlotGoesToTheOwnerWithFewerRuns(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.start(slots(4, work(time.Second)))
		h.wait(time.Second)
		hog := h.sendAll(40, "hog")
		h.wait(100 * time.Millisecond)
		late := h.sendAll(6, "late")
		h.wait(8 * time.Second)
		for _, out := range late {
			h.status(out.Run, mailroom.StatusCompleted)
		}
		left := 0
		for _, out := range hog {
			if h.run(out.Run).Status == mailroom.StatusQueued {
				left++
			}
		}
		if left == 0 {
			t.Error("the backlog of 40 runs was completed first")
		}
		h.wait(8 * time.Second)
		for _, out := range hog {
			h.status(out.Run, mailroom.StatusCompleted)
		}
	})
}

func TestTheLimitOfAnAgentHoldsForRunsOfAllOwners(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := slots(4, endless)
		o.Agents["a"] = engine.Agent{Agent: o.Agents["a"].Agent, Limit: 2}
		h.start(o)
		h.wait(time.Second)
		first := h.sendAll(3, "first")
		other := h.sendAll(3, "other")
		h.wait(2 * time.Second)
		if got := h.running(first) + h.running(other); got != 2 {
			t.Errorf("%d running runs of an agent with a limit of 2", got)
		}
	})
}

func TestRunsOverTheSlotsAreAtMostAsManyAsTheSlots(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.start(slots(2, endless))
		h.wait(time.Second)
		all := h.sendAll(2, "hog")
		for i := range 5 {
			all = append(all, h.sendAll(1, fmt.Sprint("guest", i))...)
		}
		h.wait(2 * time.Second)
		if got := h.running(all); got != 4 {
			t.Errorf("%d running runs of other owners, want 2", got)
		}
	})
}

// Guests are runs beyond the slots, so more sessions can end after the engine's loop than it has slots.
func TestAnEngineStopsWhileMoreAgentsHangThanItHasSlots(t *testing.T) {
	localOnly(t, func(h *fixture) {
		hang := make(chan struct{})
		w := h.start(slots(2, func(context.Context, mailroom.Session) error { // ignores its context
			<-hang
			return nil
		}))
		h.wait(time.Second)
		all := h.sendAll(2, "hog")
		for i := range 2 {
			all = append(all, h.sendAll(1, fmt.Sprint("guest", i))...)
		}
		h.wait(2 * time.Second)
		if got := h.running(all); got != 4 {
			t.Fatalf("%d runs hang, want 2 and as many guests", got)
		}
		w.quit()
		h.wait(41 * time.Second) // its two grace periods
		select {
		case <-w.done:
		default:
			t.Error("the engine has not stopped after its two grace periods")
		}
		close(hang)
	})
}
