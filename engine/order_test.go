package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/engine"
	"mailroom/store"
	"mailroom/thread"
)

// gauge counts concurrent runs.
type gauge struct{ now, most atomic.Int32 }

func (g *gauge) in() (out func()) {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	return func() { g.now.Add(-1) }
}

func TestNoMoreRunsAtOnceThanTheProcessAndItsAgentsAllow(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var all, a, b gauge
		counted := func(g *gauge) mailroom.AgentFunc {
			return func(ctx context.Context, s mailroom.Session) error {
				defer all.in()()
				defer g.in()()
				return work(time.Second)(ctx, s)
			}
		}
		h.start(engine.Options{Runs: 5, Agents: map[string]engine.Agent{
			"a": {Agent: counted(&a)}, "b": {Agent: counted(&b), Limit: 2},
		}})
		var runs []store.Submitted
		for i := range 40 {
			runs = append(runs, h.send("", "hello", func(in *thread.Submit) { in.Agent = []string{"a", "b"}[i%2] }))
		}
		h.wait(11 * time.Second)
		for _, out := range runs {
			h.status(out.Run, mailroom.StatusCompleted)
		}
		for name, g := range map[string]struct {
			gauge *gauge
			want  int32
		}{"all": {&all, 5}, "a": {&a, 5}, "b": {&b, 2}} {
			if got := g.gauge.most.Load(); got != g.want && name != "a" || got > g.want {
				t.Errorf("%s: got %d at once, want %d", name, got, g.want)
			}
		}
	})
}

func TestAgentWithoutAFreeSlotDelaysNoOther(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.start(engine.Options{Agents: map[string]engine.Agent{
			"a": {Agent: work(time.Millisecond)}, "b": {Agent: work(time.Minute), Limit: 1},
		}})
		for range 10 {
			h.send("", "slow", func(in *thread.Submit) { in.Agent = "b" })
		}
		h.wait(time.Second)
		quick := h.send("", "quick")
		h.wait(2 * time.Millisecond)
		h.status(quick.Run, mailroom.StatusCompleted)
		h.wait(11 * time.Minute)
	})
}

// ordered returns an agent that records the text of each run and takes one second.
func (h *fixture) ordered(order *seen[string]) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		in, err := s.Input(ctx)
		if err != nil {
			return err
		}
		order.add(in[0].Text)
		return work(time.Second)(ctx, s)
	}
}

func priority(p int) func(*thread.Submit) {
	return func(in *thread.Submit) { in.Priority = &p }
}

func TestLowerPriorityNumberRunsFirst(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var order seen[string]
		o := serving(h.ordered(&order))
		o.Runs = 1
		h.start(o)
		h.send("t", "begun")
		h.wait(100 * time.Millisecond)
		for i, p := range []int{200, 128, 5, 128} {
			h.send("t", fmt.Sprint(p, " in t, ", i), priority(p))
			h.send(fmt.Sprint("u", i), fmt.Sprint(p, " alone, ", i), priority(p))
		}
		h.wait(15 * time.Second)
		want := []string{
			"begun", "5 alone, 2", "5 in t, 2", "128 alone, 1", "128 alone, 3",
			"128 in t, 1", "128 in t, 3", "200 alone, 0", "200 in t, 0",
		}
		if diff := cmp.Diff(want, order.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunsOfAThreadStartInOrderAndOneAtATime(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var order seen[string]
		var one gauge
		for range 2 {
			h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
				defer one.in()()
				return h.ordered(&order)(ctx, s)
			}))
		}
		var want []string
		for i := range 20 {
			h.send("t", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		h.wait(time.Minute)
		if diff := cmp.Diff(want, order.all()); diff != "" {
			t.Error(diff)
		}
		if n := one.most.Load(); n != 1 {
			t.Errorf("got %d at once, want 1", n)
		}
	})
}

func TestRunWithNotBeforeStartsAtItsTimeAndBlocksNoOther(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var order seen[string]
		h.serve(h.ordered(&order))
		at := time.Now().Add(time.Hour + 123*time.Millisecond)
		later := func(in *thread.Submit) { in.NotBefore = at }
		held := h.send("t", "held", later)
		alone := h.send("u", "alone", later)
		h.send("t", "now")
		h.wait(10 * time.Second)
		h.send("t", "and again")
		h.wait(2 * time.Hour)
		if diff := cmp.Diff([]string{"now", "and again"}, order.all()[:2]); diff != "" {
			t.Error(diff)
		}
		for _, out := range []store.Submitted{held, alone} {
			if r := h.status(out.Run, mailroom.StatusCompleted); !r.StartedAt.Equal(at) {
				t.Errorf("started at %v, want exactly %v, without a notice", r.StartedAt, at)
			}
		}
	})
}

func TestSubmitStartsItsRunAtOnce(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(streaming("hi"))
		h.wait(10*time.Second + 500*time.Millisecond)
		begin := time.Now()
		out := h.send("t", "hello")
		h.wait(time.Millisecond)
		if r := h.status(out.Run, mailroom.StatusCompleted); !r.FinishedAt.Equal(begin) {
			t.Errorf("finished %v after the submit, want no delay", r.FinishedAt.Sub(begin))
		}
	})
}
