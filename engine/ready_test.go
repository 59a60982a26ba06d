package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
)

// when is an agent "a" that is ready when open says so, and another, "b", that
// always is.
func (h *house) when(open *atomic.Bool, order *seen[string]) engine.Options {
	return engine.Options{Agents: map[string]engine.Agent{
		"a": {Agent: h.ordered(order), Ready: open.Load}, "b": {Agent: work(time.Millisecond)},
	}}
}

// waits checks that a run was neither started nor put off.
func (h *house) waits(out mailroom.Submitted) {
	h.t.Helper()
	r := h.status(out.Run, mailroom.StatusQueued)
	if r.Attempt != 0 || r.Outages != 0 || r.AvailableAt.After(r.CreatedAt) {
		h.t.Errorf("attempt %d after %d outages, available %v after it was submitted; want it untouched", r.Attempt, r.Outages, r.AvailableAt.Sub(r.CreatedAt))
	}
}

func TestRunsOfAnAgentThatIsNotReadyWaitAsTheyAre(t *testing.T) {
	inHouse(t, func(h *house) {
		var open atomic.Bool
		var order seen[string]
		h.start(h.when(&open, &order))
		first, second := h.send("t", "first"), h.send("t", "second")
		h.wait(3 * time.Minute) // no grace of an agent that nobody serves fails them
		other := h.send("u", "of another agent", func(in *mailroom.Submit) { in.Agent = "b" })
		h.wait(time.Second)
		h.status(other.Run, mailroom.StatusCompleted)
		h.waits(first)
		h.waits(second)
		if diff := cmp.Diff([]string{"message", "run.queued", "message", "run.queued"}, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
		open.Store(true) // and nobody says so: an engine elsewhere has asked for a while
		h.wait(25 * time.Second)
		for _, out := range []mailroom.Submitted{first, second} {
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
				t.Errorf("got attempt %d, want 1", r.Attempt)
			}
		}
		if diff := cmp.Diff([]string{"first", "second"}, order.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnAgentThatIsReadyAgainStartsAtOnceWhatWaits(t *testing.T) {
	inside(t, func(h *house) {
		var open atomic.Bool
		var order seen[string]
		h.start(h.when(&open, &order))
		out := h.send("t", "hello")
		h.wait(time.Hour + 300*time.Millisecond) // between two looks of the ledger
		open.Store(true)
		begin := time.Now()
		h.ledger.Wake()
		h.wait(2 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); !r.StartedAt.Equal(begin) {
			t.Errorf("started %v after the agent was ready, want at once", r.StartedAt.Sub(begin))
		}
		open.Store(false)
		out = h.send("t", "and again")
		h.wait(time.Hour)
		h.waits(out)
	})
}

// TestOfTwoProcessesTheOneWhoseAgentIsReadyTakesTheRuns kills that one then: the other
// one goes on only when it is ready itself.
func TestOfTwoProcessesTheOneWhoseAgentIsReadyTakesTheRuns(t *testing.T) {
	inside(t, func(h *house) {
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
			t.Fatalf("%d were run where the agent is ready, and %d where it is not", n, len(order.all()))
		}
		begun := h.send("t", "begun")
		h.wait(1500 * time.Millisecond) // the other process looks each second
		h.status(begun.Run, mailroom.StatusRunning)
		p.kill()
		h.wait(time.Hour)
		if r := h.status(begun.Run, mailroom.StatusQueued); r.Attempt != 1 || r.Crashes != 1 {
			t.Errorf("attempt %d after %d crashes, want it to wait after the first", r.Attempt, r.Crashes)
		}
		here.Store(true)
		h.wait(3 * time.Second)
		h.status(begun.Run, mailroom.StatusCompleted)
	})
}
