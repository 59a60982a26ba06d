package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/thread"
)

// holding returns an engine that is not running and has the lease of a worker.
func holding(t *testing.T, worker string) *Engine {
	e := New(ledger.New(memory.New(), ledger.Options{}).Workers(), bus.New(), Options{
		Agents: map[string]Agent{"echo": {Agent: mailroom.AgentFunc(func(context.Context, mailroom.Session) error {
			return nil
		})}},
	})
	e.lease.worker = worker
	e.lease.extend(time.Now(), e.options.Lease)
	t.Cleanup(e.lease.stop)
	return e
}

// assignment is a claim of a run in a thread.
func claimedRun(id string) thread.ClaimedRun {
	return thread.ClaimedRun{
		Claim: mailroom.Claim{Thread: id, Run: id, Attempt: 1}, Run: &mailroom.Run{ID: id, Agent: "echo", Attempt: 1},
		Thread: &mailroom.Thread{ID: id}, Input: []mailroom.Message{},
	}
}

// A worker that lost its lease registers again under another name. An answer to a claim of the former one may come
// after that.
func TestAClaimOfAFormerWorkerDoesNotStart(t *testing.T) {
	e := holding(t, "new")
	life, end := context.WithCancel(t.Context())
	defer end()
	e.slots.OnClaimed(thread.ClaimRequest{Worker: "old", Round: 1}, []thread.ClaimedRun{claimedRun("t")}, nil)
	e.startAll(life)
	s := e.active[claimedRun("t").Claim]
	if cause := context.Cause(s.ctx); !errors.Is(cause, mailroom.ErrLeaseLost) {
		t.Errorf("its run goes on: %v", cause)
	}
	end()
	e.wg.Wait()
}

func TestARenewalEndsTheRunsOfLostClaimsOnly(t *testing.T) {
	e := holding(t, "w")
	for _, thread := range []string{"lost", "held"} {
		w := claimedRun(thread)
		e.active[w.Claim] = e.newSession(t.Context(), "w", w, e.bus.SubscribeEntries(thread, 4))
	}
	held := []mailroom.Claim{claimedRun("lost").Claim, claimedRun("unknown").Claim, claimedRun("held").Claim}
	e.obey(held, thread.Renewed{Lost: held[:2]})
	for thread, want := range map[string]error{"lost": mailroom.ErrLeaseLost, "held": nil} {
		s := e.active[claimedRun(thread).Claim]
		if got := context.Cause(s.ctx); !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", thread, got, want)
		}
		s.cancel(nil)
	}
}

// An attempt ends while a renewal that names it is under way, and a retry begins.
func TestAStopIsForTheAttemptThatTheRenewalNamed(t *testing.T) {
	e := holding(t, "w")
	w := claimedRun("t")
	stopped := w.Claim
	w.Claim.Attempt++
	next := e.newSession(t.Context(), "w", w, e.bus.SubscribeEntries("t", 4))
	e.active[w.Claim] = next
	out := thread.Renewed{Stops: []thread.Stop{{Run: stopped.Run, Reason: mailroom.ReasonCancelled}}}
	e.obey([]mailroom.Claim{stopped}, out)
	if cause := context.Cause(next.ctx); cause != nil {
		t.Errorf("the retry was stopped too: %v", cause)
	}
	e.obey([]mailroom.Claim{stopped, w.Claim}, out)
	if cause := context.Cause(next.ctx); !errors.Is(cause, mailroom.ErrStopped) {
		t.Errorf("got %v for the attempt that was named", cause)
	}
}

// A renewal that succeeds allows claims again, but not in the pause after a failed one, nor in a shutdown.
func TestARenewalEndsNoPauseAndNoShutdown(t *testing.T) {
	e := holding(t, "w")
	claims := func() bool {
		e.slots.forbid()
		e.allow()
		return e.slots.NextClaim().Worker == "w"
	}
	if !claims() {
		t.Error("an engine with its lease does not claim")
	}
	e.pause = make(chan time.Time)
	if claims() {
		t.Error("it claims in its pause")
	}
	e.pause, e.stopping = nil, true
	if claims() {
		t.Error("it claims while it stops")
	}
}
