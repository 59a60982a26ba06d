package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
	"mailroom/store"
	"mailroom/thread"
)

// when returns options with agent "a", which is ready while open is true, and "b", which is always
// ready.
func (h *fixture) when(open *atomic.Bool, order *seen[string]) engine.Options {
	return engine.Options{Agents: map[string]engine.Agent{
		"a": {Agent: h.ordered(order), Ready: open.Load}, "b": {Agent: work(time.Millisecond)},
	}}
}

// waits checks that a run was neither started nor rescheduled.
func (h *fixture) waits(out store.Submitted) {
	h.t.Helper()
	r := h.status(out.Run, mailroom.StatusQueued)
	if r.Attempt != 0 || r.Outages != 0 || r.AvailableAt.After(r.CreatedAt) {
		h.t.Errorf("attempt %d, %d outages, available %v after the submit; want 0, 0 and 0", r.Attempt, r.Outages,
			r.AvailableAt.Sub(r.CreatedAt))
	}
}

func TestRunsOfAnAgentThatIsNotReadyWaitUnchanged(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var open atomic.Bool
		var order seen[string]
		h.start(h.when(&open, &order))
		first, second := h.send("t", "first"), h.send("t", "second")
		h.wait(3 * time.Minute) // longer than the grace for agents without a worker
		other := h.send("u", "of another agent", func(in *thread.Submit) { in.Agent = "b" })
		h.wait(time.Second)
		h.status(other.Run, mailroom.StatusCompleted)
		h.waits(first)
		h.waits(second)
		if diff := cmp.Diff([]string{"message", "run.queued", "message", "run.queued"}, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
		open.Store(true) // without a wake: a remote engine polls
		h.wait(25 * time.Second)
		for _, out := range []store.Submitted{first, second} {
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
				t.Errorf("got attempt %d, want 1", r.Attempt)
			}
		}
		if diff := cmp.Diff([]string{"first", "second"}, order.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnAgentThatIsReadyAgainStartsWaitingRunsAtOnce(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var open atomic.Bool
		var order seen[string]
		h.start(h.when(&open, &order))
		out := h.send("t", "hello")
		h.wait(time.Hour + 300*time.Millisecond) // between two polls of the ledger
		open.Store(true)
		begin := time.Now()
		h.ledger.AskClaimers()
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); !r.StartedAt.Equal(begin) {
			t.Errorf("started %v after the agent was ready, want 0", r.StartedAt.Sub(begin))
		}
		open.Store(false)
		out = h.send("t", "and again")
		h.wait(time.Hour)
		h.waits(out)
	})
}

// The test then kills the process whose agent is ready: the other one takes the runs only when its
// own agent is ready.
func TestOfTwoProcessesTheOneWithAReadyAgentClaimsTheRuns(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var here, there atomic.Bool
		var order, elsewhere seen[string]
		h.start(h.when(&here, &order))
		there.Store(true)
		p := h.elsewhere(h.when(&there, &elsewhere))
		for range 5 {
			h.send("", "hello")
		}
		h.wait(10 * time.Second)
		if n := len(elsewhere.all()); n != 5 || len(order.all()) != 0 {
			t.Fatalf("%d runs in the ready process, %d in the other one", n, len(order.all()))
		}
		begun := h.send("t", "begun")
		h.wait(1500 * time.Millisecond) // the other process polls every second
		h.status(begun.Run, mailroom.StatusRunning)
		p.kill()
		h.wait(time.Hour)
		if r := h.status(begun.Run, mailroom.StatusQueued); r.Attempt != 1 || r.Crashes != 1 {
			t.Errorf("attempt %d after %d crashes, want no second attempt", r.Attempt, r.Crashes)
		}
		here.Store(true)
		h.wait(3 * time.Second)
		h.status(begun.Run, mailroom.StatusCompleted)
	})
}
