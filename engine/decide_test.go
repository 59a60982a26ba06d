package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// asker returns an agent that waits for the asks and streams the decisions.
func asker(any bool, asks ...mailroom.Ask) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		got, err := s.Wait(ctx, any, asks...)
		if err != nil {
			return err
		}
		text := ""
		for _, k := range got {
			text += fmt.Sprintf("%s %s %s;", k.Name, k.State, k.Decision)
		}
		return s.Stream(ctx, text)
	}
}

func (h *fixture) wantReply(run, want string) {
	h.t.Helper()
	r := h.status(run, mailroom.StatusCompleted)
	if r.Reply == nil || *r.Reply != want {
		h.t.Errorf("got reply %v, want %q", r.Reply, want)
	}
}

func TestADecisionResumesTheRunAfterARestart(t *testing.T) {
	localOnly(t, func(h *fixture) {
		o := serving(asker(false, approval("go")))
		before := h.elsewhere(o)
		out := h.send("t", "deploy")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusWaiting)
		before.kill()
		h.wait(time.Hour)
		h.decide(h.ticket(out.Run, "go"), mailroom.VerdictApprove)
		h.elsewhere(o)
		h.wait(time.Second)
		h.wantReply(out.Run, "go decided approve;")
		if r := h.run(out.Run); r.Attempt != 2 || r.Crashes+r.Lost+r.Failures != 0 {
			t.Errorf("a wait counts no attempt: got %+v", r)
		}
	})
}

func TestTwoDecisionsAtOnceResumeTheRunOnce(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(asker(false, approval("one"), approval("two")))
		out := h.send("t", "deploy")
		h.wait(time.Minute)
		var both sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			k := h.ticket(out.Run, name)
			both.Go(func() {
				_, err := h.ledger.Decide(context.Background(),
					thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove, Digest: k.Digest})
				h.expect(err)
			})
		}
		both.Wait()
		h.wait(time.Second)
		h.wantReply(out.Run, "one decided approve;two decided approve;")
		if n := len(h.entries("t", entry.KindResumed)); n != 1 {
			t.Errorf("got %d run.resumed, want 1", n)
		}
	})
}

func TestARunThatWaitsForAnyTicketResumesAtTheFirstDecision(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(asker(true, approval("one"), approval("two")))
		out := h.send("t", "deploy")
		h.wait(time.Minute)
		h.decide(h.ticket(out.Run, "two"), mailroom.VerdictDeny)
		h.wait(time.Second)
		h.wantReply(out.Run, "one open ;two decided deny;")
		if k := h.ticket(out.Run, "one"); k.State != mailroom.TicketVoid {
			t.Errorf("got %s, want void: the run has ended", k.State)
		}
	})
}

func TestAnExpiredApprovalResumesTheRunWithoutApproving(t *testing.T) {
	localOnly(t, func(h *fixture) {
		a := approval("go")
		a.After = time.Hour
		h.serve(asker(false, a))
		out := h.send("t", "deploy")
		h.wait(time.Hour + 2*time.Second)
		h.wantReply(out.Run, "go expired ;")
		k := h.ticket(out.Run, "go")
		_, err := h.ledger.Decide(context.Background(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove,
			Digest: k.Digest})
		if code := mailroom.CodeOf(err); code != mailroom.CodeGone {
			t.Errorf("got %v, want code %s", err, mailroom.CodeGone)
		}
	})
}

func TestAfterWaitEveryCallFailsAndTheRunParksForAnyReturnValue(t *testing.T) {
	for name, returned := range map[string]error{"nil": nil, "an error": errors.New("ignored")} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(h *fixture) {
				h.serve(func(ctx context.Context, s mailroom.Session) error {
					if _, err := s.Wait(ctx, false, approval("go")); err == nil {
						return nil
					}
					_, again := s.Wait(ctx, false, approval("other"))
					_, input := s.Input(ctx)
					for i, err := range []error{again, input, s.Stream(ctx, "x"), s.Append(ctx, mailroom.Step{Name: "x"})} {
						if !errors.Is(err, mailroom.ErrParked) {
							t.Errorf("call %d: got %v, want %v", i, err, mailroom.ErrParked)
						}
					}
					return returned
				})
				out := h.send("t", "deploy")
				h.wait(time.Minute)
				h.status(out.Run, mailroom.StatusWaiting)
				h.decide(h.ticket(out.Run, "go"), mailroom.VerdictApprove)
				h.wait(time.Second)
				h.status(out.Run, mailroom.StatusCompleted)
			})
		})
	}
}

func TestAWaitRefusesABadQuestionAtOnce(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for _, asks := range [][]mailroom.Ask{nil, {{Name: "unasked"}}, {{Name: "t", Kind: mailroom.TicketTimer}}} {
				if _, err := s.Wait(ctx, false, asks...); mailroom.CodeOf(err) != mailroom.CodeInvalid {
					t.Errorf("%+v: got %v, want code %s", asks, err, mailroom.CodeInvalid)
				}
			}
			return nil
		})
		out := h.send("t", "ask")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestAParkedRunHoldsNoSlotAndNoGoroutine(t *testing.T) {
	localOnly(t, func(h *fixture) {
		const n = 300
		h.wait(time.Minute)
		o := serving(asker(false, approval("go")))
		o.Runs = 4 // far fewer than the runs that park
		h.start(o)
		h.wait(time.Minute)
		before := runtime.NumGoroutine()
		var outs []store.Submitted
		for i := range n {
			outs = append(outs, h.send(fmt.Sprint("t", i), "deploy"))
		}
		h.wait(time.Minute)
		waiting := query(h, func(r store.Reader) ([]*mailroom.Run, error) {
			return r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusWaiting}})
		})
		if len(waiting) != n {
			t.Fatalf("%d runs wait, want %d", len(waiting), n)
		}
		if after := runtime.NumGoroutine(); after > before+8 {
			t.Errorf("%d goroutines with %d parked runs, %d without", after, n, before)
		}
		for _, row := range query(h, func(r store.Reader) ([]*mailroom.Thread, error) {
			return r.Threads(store.ThreadQuery{})
		}) {
			if row.Worker != "" || !row.Due.At.IsZero() {
				t.Errorf("thread %s: held by %q, due at %v; a parked run is neither", row.ID, row.Worker, row.Due.At)
			}
		}
		h.decide(h.ticket(outs[n/2].Run, "go"), mailroom.VerdictApprove)
		h.wait(time.Second)
		h.status(outs[n/2].Run, mailroom.StatusCompleted)
	})
}

func TestARunKeepsTheVersionItIsPinnedTo(t *testing.T) {
	localOnly(t, func(h *fixture) {
		pin := func(version string) func(*thread.Submit) {
			return func(in *thread.Submit) { in.AgentVersion = version }
		}
		ask := asker(false, approval("go"))
		before := h.elsewhere(engine.Options{Agents: map[string]engine.Agent{"a": {Agent: ask, Version: "v1"}}})
		kept := h.send("t", "deploy", pin("v1"))
		h.wait(time.Minute)
		before.stop()
		h.elsewhere(engine.Options{Agents: map[string]engine.Agent{
			"a": {Agent: streaming("the new one"), Version: "v2",
				OldVersion: func(_ context.Context, version string) (mailroom.Agent, error) {
					if version != "v1" {
						return nil, nil
					}
					return ask, nil
				}},
		}})
		h.decide(h.ticket(kept.Run, "go"), mailroom.VerdictApprove)
		lost, now := h.send("u", "deploy", pin("v0")), h.send("v", "deploy", pin("v2"))
		h.wait(time.Minute)
		h.wantReply(kept.Run, "go decided approve;")
		h.wantReply(now.Run, "the new one")
		r := h.status(lost.Run, mailroom.StatusFailed)
		if r.Error.Class != mailroom.ClassPermanent || r.Attempt != 1 {
			t.Errorf("got %+v after %d attempts, want a permanent error after one", r.Error, r.Attempt)
		}
	})
}
