package ledger_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// claimUnder claims the one due run for a worker that says how it is retried.
func (d *fixture) claimUnder(p retry.Policy) thread.ClaimedRun {
	d.t.Helper()
	d.round++
	work := must(d.Claim(d.ctx, thread.ClaimRequest{
		Worker: "w", Round: d.round, Slots: 1, Agents: map[string]int{"echo": 1}, LastAttempt: true, Retry: p,
	}))(d.t)
	if len(work) != 1 {
		d.t.Fatalf("claimed %d runs, want 1", len(work))
	}
	return work[0]
}

func retryAs(p retry.Policy) ledger.Options {
	return ledger.Options{Retry: func(string) retry.Policy { return p }}
}

// The default, the configuration, the worker and the submit: each says more than the one before.
func TestTheNearestLevelSaysHowARunIsRetried(t *testing.T) {
	server := retry.Policy{Attempts: 2, First: 10 * time.Second, Most: time.Minute}
	worker := retry.Policy{Attempts: 3, First: 20 * time.Second}
	for _, c := range []struct {
		name           string
		server, worker retry.Policy
		submit         retry.Policy
		accepted       int // max_attempts before the first claim
		attempts       int
		first          time.Duration
	}{
		{"nothing said", retry.Policy{}, retry.Policy{}, retry.Policy{}, 5, 5, 5 * time.Second},
		{"by the server", server, retry.Policy{}, retry.Policy{}, 2, 2, 10 * time.Second},
		{"by the worker", server, worker, retry.Policy{}, 2, 3, 20 * time.Second},
		{"a part of it by the worker", server, retry.Policy{First: time.Second}, retry.Policy{}, 2, 2, time.Second},
		{"by the submit", server, worker, retry.Policy{Attempts: 4, First: 3 * time.Second}, 4, 4, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, nil, retryAs(c.server))
				d.register("w")
				in := text("t", "hello")
				in.Retry = c.submit
				run := d.submit(in).Run
				wantEqual(t, "max_attempts when accepted", d.run(run).MaxAttempts, c.accepted)
				for n := 1; ; n++ {
					r := d.settle(failure(d.claimUnder(c.worker).Claim, mailroom.ClassTransient))
					wantEqual(t, "max_attempts", r.MaxAttempts, c.attempts)
					if r.Status == mailroom.StatusFailed {
						wantEqual(t, "attempts", n, c.attempts)
						return
					}
					wait := time.Until(r.AvailableAt)
					if n == 1 {
						wantEqual(t, "first delay", wait, c.first)
					}
					<-time.After(wait)
				}
			})
		})
	}
}

// Two servers with other settings, as while one is changed after the other. The server of the claim decides, also if
// the other one takes the settle: a remote worker may reach any.
func TestTheServerOfTheClaimSaysHowItsAttemptIsRetried(t *testing.T) {
	for name, newStore := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store {
			s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "a.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			a := open(t, s, retryAs(retry.Policy{Attempts: 2, First: time.Hour, Most: 24 * time.Hour}))
			run := a.submit(text("t", "hello")).Run
			a.register("w")
			claim := a.claimUnder(retry.Policy{}).Claim
			if err := a.close(); err != nil {
				t.Fatal(err)
			}
			b := start(t, s, retryAs(retry.Policy{Attempts: 1, First: time.Millisecond, Most: time.Millisecond}))
			failedAt := time.Now()
			r := b.settle(failure(claim, mailroom.ClassTransient))
			wantEqual(t, "status", r.Status, mailroom.StatusQueued)
			if wait := r.AvailableAt.Sub(failedAt); wait < 59*time.Minute {
				t.Errorf("the retry is due after %v, want an hour", wait)
			}
			wantEqual(t, "attempts", b.run(run).MaxAttempts, 2)
		})
	}
}

// A run that a steered message became has no number of its own either.
func TestASteeredMessageThatBecomesARunHasTheAttemptsOfItsClaim(t *testing.T) {
	d := open(t, nil, retryAs(retry.Policy{Attempts: 2}))
	d.register("w")
	d.submit(text("t", "hello"))
	first := d.claimUnder(retry.Policy{}).Claim
	in := mode(mailroom.ModeSteer, "t", "more")
	in.Run = "later"
	d.submit(in)
	d.settle(complete(first, "done"))
	c := d.claimUnder(retry.Policy{Attempts: 6})
	wantEqual(t, "run and attempts", []any{c.Run.ID, c.Run.MaxAttempts}, []any{"later", 6})
	d.settle(thread.Settle{Claim: c.Claim, Outcome: thread.OutcomeComplete})
}
