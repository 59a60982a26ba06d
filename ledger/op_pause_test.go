package ledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/thread"
)

func pauseOf(agent string) store.Pause { return store.Pause{Agent: agent, By: "ann", Reason: "costs"} }

func TestAPausedAgentStartsNothingUntilItIsResumed(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("a", "one"))
	running := d.claimOne("w")
	if p := must(d.PauseAgent(d.ctx, pauseOf("echo")))(t); p.At.IsZero() || p.Reason != "costs" {
		t.Errorf("got %+v", p)
	}
	d.submit(text("b", "two"))
	if got := d.claim("w", 5); len(got) != 0 {
		t.Fatalf("claimed %d runs of a paused agent", len(got))
	}
	d.settle(thread.Settle{Claim: running.Claim, Number: 1, Outcome: thread.OutcomeComplete}) // it goes on
	wantEqual(t, "pauses", len(must(d.Pauses(d.ctx))(t)), 1)
	wantCode(t, d.ResumeAgent(d.ctx, "y"), mailroom.CodeConflict)
	if err := d.ResumeAgent(d.ctx, "echo"); err != nil {
		t.Fatal(err)
	}
	if got := d.claimOne("w"); got.Claim.Thread != "b" {
		t.Errorf("claimed %+v, want the run of b", got.Claim)
	}
	wantEqual(t, "pauses", len(must(d.Pauses(d.ctx))(t)), 0)
}

// The operator may stop the worker of an agent while it is paused.
func TestTheRunsOfAPausedAgentAreNoOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		run := d.submit(text("t", "hello")).Run
		must(d.PauseAgent(d.ctx, store.Pause{Agent: "echo", By: "ann"}))(t)
		<-time.After(2 * time.Minute)
		must(0, d.FailOrphans(d.ctx, nil, time.Minute))(t)
		wantEqual(t, "status in the pause", d.run(run).Status, mailroom.StatusQueued)
		must(0, d.ResumeAgent(d.ctx, "echo"))(t)
		must(0, d.FailOrphans(d.ctx, nil, time.Minute))(t)
		wantEqual(t, "status after it", d.run(run).Status, mailroom.StatusFailed)
	})
}

// TestAnAgentIsServedAtOnceAfterItsPause has a claim that waits longer than a test lasts.
func TestAnAgentIsServedAtOnceAfterItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Poll: time.Hour})
		d.register("w")
		must(d.PauseAgent(d.ctx, pauseOf("echo")))(t)
		got := make(chan []thread.ClaimedRun)
		go func() {
			work, err := d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: 1, Slots: 1, Agents: map[string]int{"echo": 1},
				Wait: true})
			if err != nil {
				t.Error(err)
			}
			got <- work
		}()
		d.submit(text("a", "one"))
		synctest.Wait()
		select {
		case work := <-got:
			t.Fatalf("claimed %d runs of a paused agent", len(work))
		default:
		}
		begin := time.Now()
		if err := d.ResumeAgent(d.ctx, "echo"); err != nil {
			t.Fatal(err)
		}
		if work := <-got; len(work) != 1 || time.Since(begin) > time.Second {
			t.Errorf("claimed %d runs after %s", len(work), time.Since(begin))
		}
	})
}

func TestAPauseOutlivesTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	first := open(t, handle(t, path), ledger.Options{})
	must(first.PauseAgent(first.ctx, pauseOf("echo")))(t)
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, handle(t, path), ledger.Options{})
	next.register("w")
	next.submit(text("a", "one"))
	if got := next.claim("w", 1); len(got) != 0 {
		t.Errorf("claimed %d runs of a paused agent", len(got))
	}
}

// TestNothingStartsAfterAPauseWasAnswered races claims of two servers, and of workers that register at the
// same time, with pauses.
func TestNothingStartsAfterAPauseWasAnswered(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	var both [2]*fixture
	for i := range both {
		both[i] = open(t, openPostgres(t, postgres.Options{URL: cluster.URL(), Schema: schema, Node: fmt.Sprint("node-", i)}),
			ledger.Options{})
	}
	for round := range 20 {
		racePause(t, both, round)
		if err := both[0].ResumeAgent(t.Context(), "echo"); err != nil {
			t.Fatal(err)
		}
	}
}

func racePause(t *testing.T, both [2]*fixture, round int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wait sync.WaitGroup
	for i, d := range both {
		for n := range 3 {
			wait.Go(func() {
				worker := fmt.Sprintf("w%d-%d-%d", round, i, n)
				must(d.Register(t.Context(), store.Worker{ID: worker, Agents: []string{"echo"}}))(t)
				for claim := int64(1); ctx.Err() == nil; claim++ {
					must(d.Claim(t.Context(), thread.ClaimRequest{Worker: worker, Round: claim, Slots: 1,
						Agents: map[string]int{"echo": 1}}))(t)
				}
			})
		}
	}
	for n := range 30 {
		wait.Go(func() { both[n%2].submit(text(fmt.Sprintf("t%d-%d", round, n), "hello")) })
	}
	must(both[round%2].PauseAgent(t.Context(), pauseOf("echo")))(t)
	started := both[0].running()
	for n := range 10 {
		both[n%2].submit(text(fmt.Sprintf("u%d-%d", round, n), "hello"))
	}
	stop()
	wait.Wait()
	if late := both[0].running() - started; late > 0 {
		t.Fatalf("round %d: %d runs started after the pause", round, late)
	}
}

// running returns the number of runs that have started; the test ends none.
func (d *fixture) running() (n int) {
	d.t.Helper()
	d.view(func(r store.Reader) error {
		counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusRunning}})
		n = counts.Sum()
		return err
	})
	return n
}

func openPostgres(t *testing.T, o postgres.Options) store.Store {
	t.Helper()
	o.AllowUnsafe = true
	s, err := postgres.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
