package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// startClaimer starts a waiting claim of worker w and returns a channel with its result.
func startClaimer(ctx context.Context, d *fixture, agent string, slots int) <-chan []thread.ClaimedRun {
	answer := make(chan []thread.ClaimedRun, 1)
	go func() {
		work, err := d.Claim(ctx, thread.ClaimRequest{
			Worker: "w", Round: 1, Slots: slots, Agents: map[string]int{agent: slots}, LastAttempt: true, Wait: true,
		})
		if err != nil && ctx.Err() == nil {
			d.t.Error(err)
		}
		answer <- work
	}()
	synctest.Wait()
	return answer
}

func TestAWaitingClaimIsServedInTheCommitThatMakesARunDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		d.register("w")
		answer := startClaimer(t.Context(), d, "echo", 1)
		s.reset()
		out := d.submit(text("t", "hello"))
		work := <-answer
		if len(work) != 1 || work[0].Claim != (mailroom.Claim{Thread: "t", Run: out.Run, Attempt: 1}) {
			t.Errorf("got %v, want run %s", work, out.Run)
		}
		wantEqual(t, "commits", s.reset().Updates, 1)
	})
}

func TestAWaitingClaimIsServedInTheCommitThatEndsThePreviousRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		d.register("w")
		d.submit(text("t", "one"))
		two := d.submit(text("t", "two"))
		first := d.claimOne("w")
		answer := startClaimer(t.Context(), d, "echo", 1)
		s.reset()
		d.settle(complete(first.Claim, "ok"))
		if work := <-answer; len(work) != 1 || work[0].Run.ID != two.Run {
			t.Errorf("got %v, want run %s", work, two.Run)
		}
		wantEqual(t, "commits", s.reset().Updates, 1)
	})
}

func TestAWaitingClaimWakesWhenARunBecomesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Poll: time.Hour})
		d.register("w")
		d.submit(text("t", "hello"))
		d.settle(failure(d.claimOne("w").Claim, mailroom.ClassTransient))
		in := text("u", "later")
		in.NotBefore = time.Now().Add(time.Minute)
		answer := startClaimer(t.Context(), d, "echo", 1)
		d.submit(in)
		begin := time.Now()
		work := <-answer
		wantEqual(t, "thread", work[0].Claim.Thread, "t")
		wantEqual(t, "after", time.Since(begin), 5*time.Second)
		work = <-startClaimer(t.Context(), d, "echo", 1)
		wantEqual(t, "thread", work[0].Claim.Thread, "u")
		wantEqual(t, "after", time.Since(begin), time.Minute)
	})
}

func TestAWaitingClaimPollsForSubmitsOfOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		d, other := open(t, s, ledger.Options{}), open(t, s, ledger.Options{})
		d.register("w")
		answer := startClaimer(t.Context(), d, "echo", 1)
		begin := time.Now()
		other.submit(text("t", "hello"))
		wantEqual(t, "claims", len(<-answer), 1)
		if after := time.Since(begin); after > time.Second {
			t.Errorf("found after %v, want at most a second", after)
		}
	})
}

func TestAnIdleWaitingClaimPollsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		d.register("w")
		ctx, cancel := context.WithCancel(t.Context())
		answer := startClaimer(ctx, d, "echo", 1)
		s.reset()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := s.reset().Updates; got < 9 || got > 11 {
			t.Errorf("%d transactions in 10 s, want 10", got)
		}
		cancel()
		wantEqual(t, "claims", len(<-answer), 0)
	})
}

func TestAWaitingClaimForAnotherAgentIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		ctx, cancel := context.WithCancel(t.Context())
		answer := startClaimer(ctx, d, "codex", 1)
		d.submit(text("t", "hello"))
		cancel()
		wantEqual(t, "claims", len(<-answer), 0)
		wantEqual(t, "claims of its agent", len(d.claim("w", 1)), 1)
	})
}

func TestAWaitingClaimEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		ctx, cancel := context.WithCancel(t.Context())
		answer := startClaimer(ctx, d, "echo", 1)
		cancel()
		wantEqual(t, "claims", len(<-answer), 0)
		d.submit(text("t", "hello"))
		wantEqual(t, "still to be claimed", len(d.claim("w", 1)), 1)
	})
}

func TestAWaitingClaimOfALostWorkerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		refused := make(chan error, 1)
		go func() {
			_, err := d.Claim(t.Context(), thread.ClaimRequest{Worker: "w", Slots: 1, Agents: map[string]int{"echo": 1},
				Wait: true})
			refused <- err
		}()
		synctest.Wait()
		if err := d.Deregister(t.Context(), thread.Leave{Worker: "w"}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, <-refused, mailroom.CodeLeaseLost)
	})
}

// countingWorkers records how many rows of workers an Update locks at most.
type countingWorkers struct {
	store.Store
	most *int
}

type countingWorkersTx struct {
	store.Tx
	most *int
}

func (s countingWorkers) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(countingWorkersTx{tx, s.most}) })
}

func (tx countingWorkersTx) Load(n store.Need) (*store.Loaded, error) {
	*tx.most = max(*tx.most, len(n.Workers))
	return tx.Tx.Load(n)
}

// startWaiting registers workers that wait for one run each, and returns a channel with the runs that they claim.
func startWaiting(d *fixture, workers int) <-chan string {
	claimed := make(chan string, workers)
	for i := range workers {
		id := fmt.Sprint("w", i)
		d.register(id)
		go func() {
			work, err := d.Claim(d.ctx, thread.ClaimRequest{Worker: id, Round: 1, Slots: 1,
				Agents: map[string]int{"echo": 1}, LastAttempt: true, Wait: true})
			if err != nil || len(work) != 1 {
				d.t.Errorf("worker %s: got %d runs (%v), want 1", id, len(work), err)
				claimed <- ""
				return
			}
			claimed <- work[0].Claim.Run
		}()
	}
	synctest.Wait()
	return claimed
}

// A commit looks at a bounded number of the workers that wait for the same agent. The others get their runs at once
// all the same, and not with the next poll.
func TestACommitCostsNoMoreTheMoreWorkersAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 100
		most := 0
		d := open(t, countingWorkers{memory.New(), &most}, ledger.Options{Lease: time.Hour})
		claimed := startWaiting(d, workers)
		must(d.PauseAgent(d.ctx, pauseOf("echo")))(t)
		most = 0
		for i := range workers {
			d.submit(text(fmt.Sprint("t", i), "hello"))
		}
		begin := time.Now()
		if err := d.ResumeAgent(d.ctx, "echo"); err != nil { // all runs are due in one commit
			t.Fatal(err)
		}
		runs := map[string]bool{}
		for range workers {
			runs[<-claimed] = true
		}
		if most > 40 || len(runs) != workers || time.Since(begin) > 0 {
			t.Errorf("a commit locked %d workers, want at most 40; %d of %d runs were claimed after %s", most,
				len(runs), workers, time.Since(begin))
		}
	})
}
