package ledger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// writeAhead writes rows with times of a clock that is ahead of the current one.
func (d *fixture) writeAhead(s store.Store, far time.Duration, thread, run string) {
	d.t.Helper()
	err := s.Update(d.ctx, func(tx store.Tx) error {
		_, threads, err := storetest.Lock(tx, nil, []string{thread})
		if err != nil {
			return err
		}
		runs, err := tx.Runs(store.RunQuery{IDs: []string{run}})
		if err != nil {
			return err
		}
		workers, err := tx.Workers()
		if err != nil {
			return err
		}
		t, r := threads[0], runs[0]
		t.Revision++
		t.UpdatedAt, t.Due.At, r.AvailableAt = t.UpdatedAt.Add(far), t.Due.At.Add(far), r.AvailableAt.Add(far)
		if !r.ClaimEnds.IsZero() {
			r.ClaimEnds = r.ClaimEnds.Add(far)
		}
		for _, w := range workers {
			w.LeaseUntil = w.LeaseUntil.Add(far)
		}
		return tx.Write(&store.Changes{Threads: threads, Runs: runs, Workers: workers})
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestARetryWaitsNoLongerThanItsDelayAfterTheClockWentBack(t *testing.T) {
	for name, worker := range map[string]func(*fixture){
		"a lost worker":         func(*fixture) {},
		"a renewing worker":     func(d *fixture) { d.renew("w", 1) },
		"a deregistered worker": func(d *fixture) { d.deregister("w") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				d := open(t, s, ledger.Options{})
				d.register("w")
				run := d.submit(text("t", "one")).Run
				c := d.claimOne("w").Claim
				d.settle(thread.Settle{Claim: c, Outcome: thread.OutcomeFail,
					Failure: &mailroom.Failure{Class: mailroom.ClassTransient, Err: errors.New("busy")}})
				delay := time.Until(d.run(run).AvailableAt)
				d.writeAhead(s, time.Hour, "t", run)
				worker(d)
				d.sweep()
				if left := time.Until(d.run(run).AvailableAt); left > delay {
					t.Errorf("the retry is due in %s, want at most its delay of %s", left, delay)
				}
				d.view(func(r store.Reader) error {
					rows, err := r.Workers()
					for _, w := range rows {
						if left := time.Until(w.LeaseUntil); left > 15*time.Second {
							t.Errorf("the lease of %s ends in %s, want within its length", w.ID, left)
						}
					}
					return err
				})
				<-time.After(delay + time.Second)
				d.register("x")
				if got := d.claimOne("x").Run.ID; got != run {
					t.Errorf("claimed %s, want %s", got, run)
				}
			})
		})
	}
}
