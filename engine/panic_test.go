package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/thread"
)

// rigged is an error whose chain panics when the engine reads its class.
type rigged struct{}

func (rigged) Error() string { return "rigged" }
func (rigged) Unwrap() error { panic("bomb") }

// TestAPanicOfTheEnginesOwnCodeCountsAsAFailure makes attempts panic before their agent is entered
// and after it has returned. Each attempt counts, the run ends with the last one, and the engine
// continues.
func TestAPanicOfTheEnginesOwnCodeCountsAsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		started func(engine.Start)
		agent   mailroom.AgentFunc
	}{
		"before the agent": {
			started: func(s engine.Start) {
				if s.Run.Thread == "bad" {
					panic("bomb")
				}
			},
			agent: streaming("done"),
		},
		"after the agent": {
			agent: func(ctx context.Context, s mailroom.Session) error {
				if s.Run().Thread == "bad" {
					return rigged{}
				}
				return s.Stream(ctx, "done")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			localOnly(t, func(h *fixture) {
				o := serving(c.agent)
				o.Runs, o.Observe.Started = 1, c.started
				h.start(o)
				bad := h.send("bad", "x")
				h.wait(time.Minute)
				r := h.status(bad.Run, mailroom.StatusFailed)
				if r.Attempt != mailroom.DefaultAttempts || r.Error == nil || r.Error.Class != mailroom.ClassExhausted ||
					!strings.Contains(r.Error.Message, "panic: bomb") {
					t.Errorf("got %d attempts and error %v, want %d and the panic", r.Attempt, r.Error, mailroom.DefaultAttempts)
				}
				good := h.send("good", "x")
				h.wait(time.Second)
				h.status(good.Run, mailroom.StatusCompleted)
			})
		})
	}
}

// TestAPanicOfASettleCountsAsAFailure makes each settle with a message panic before its commit.
func TestAPanicOfASettleCountsAsAFailure(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.newProcess()
		h.others = append(h.others, p)
		o := serving(func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, s.Run().Thread) })
		p.engines = append(p.engines, p.begin(unsettled{p.ledger.Workers()}, p.bus, o))
		bad := h.send("bad", "x")
		good := h.send("good", "x")
		h.wait(time.Minute)
		r := h.status(bad.Run, mailroom.StatusFailed)
		if r.Failures != mailroom.DefaultAttempts || r.Lost != 0 || r.Error == nil ||
			!strings.Contains(r.Error.Message, "panic: bomb") {
			t.Errorf("got %d failures, %d lost claims and error %v, want %d, 0 and the panic", r.Failures, r.Lost, r.Error,
				mailroom.DefaultAttempts)
		}
		h.status(good.Run, mailroom.StatusCompleted)
	})
}

// unsettled is a ledger that panics when a settle has the message "bad".
type unsettled struct{ engine.Ledger }

func (l unsettled) SettleWith(ctx context.Context, in thread.Settle, free func()) (*mailroom.Run, error) {
	if in.Message != nil && in.Message.Text == "bad" {
		panic("bomb")
	}
	return l.Ledger.SettleWith(ctx, in, free)
}

// TestAPanicBesideAnAgentKeepsItsSlot makes the engine panic while the agent works: its context
// ends, the attempt fails, and the slot is free again only after the agent has returned.
func TestAPanicBesideAnAgentKeepsItsSlot(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.newProcess()
		h.others = append(h.others, p)
		var inAgent, most atomic.Int32
		leave := make(chan struct{})
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			most.Store(max(most.Load(), inAgent.Add(1)))
			defer inAgent.Add(-1)
			if s.Run().Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			<-leave
			return nil
		})
		o.Runs, o.Local = 1, true // the run is not read before the agent is entered
		o.Observe.Started = func(s engine.Start) {
			for range 10_000 * (2 - s.Run.Attempt) { // more hints than the buffer holds: the session reads the run
				p.bus.Publish(bus.Notice{Thread: "t", Entries: []mailroom.Entry{{}}})
			}
		}
		p.engines = append(p.engines, p.begin(bombed{p.ledger.Workers()}, p.bus, o))
		out := h.send("t", "x")
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusQueued); r.Failures != 1 || most.Load() != 1 {
			t.Errorf("before the agent returns: %d failures and %d concurrent agents, want 1 and 1", r.Failures, most.Load())
		}
		close(leave)
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || most.Load() != 1 {
			t.Errorf("%d attempts and %d concurrent agents, want 2 and 1", r.Attempt, most.Load())
		}
	})
}

// bombed is a ledger that panics when a claimed run is read.
type bombed struct{ engine.Ledger }

func (bombed) ClaimedRun(context.Context, mailroom.Claim) (*mailroom.Run, error) { panic("bomb") }

// TestAPanicOfTheLoopEndsTheEngineInOrder makes the observer of renewals panic. Run returns an error, and
// another engine finishes the runs.
func TestAPanicOfTheLoopEndsTheEngineInOrder(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var renewals atomic.Int32
		var cause atomic.Value
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			<-ctx.Done()
			cause.Store(context.Cause(ctx))
			return ctx.Err()
		})
		o.Observe.Renewal = func(error) {
			if renewals.Add(1) == 2 {
				panic("bomb")
			}
		}
		w := h.startLocal(o)
		out := h.send("t", "x")
		h.wait(10 * time.Second)
		select {
		case <-w.done:
		default:
			t.Fatal("the engine continues, want an error")
		}
		if w.err == nil || !strings.Contains(w.err.Error(), "panic: bomb") {
			t.Errorf("Run returned %v, want the panic", w.err)
		}
		if err := w.Ready(); err == nil {
			t.Error("the engine reports ready")
		}
		if cause.Load() == nil {
			t.Error("the agent's context has not ended")
		}
		h.serve(streaming("done"))
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}
