package ledger_test

import (
	"errors"
	"fmt"
	"strings"
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

// starts claims runs as they become due until so many have started, and returns the threads that started at each time
// after begin, such as "0s: a b". It completes each run at once.
func (d *fixture) starts(begin time.Time, n int) (list []string) {
	d.t.Helper()
	for n > 0 {
		d.round++
		work := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: d.round, Slots: 50, LastAttempt: true,
			Agents: map[string]int{"echo": 50}, Wait: true}))(d.t)
		at := time.Since(begin).Round(time.Millisecond).String() + ": "
		if len(list) > 0 && strings.HasPrefix(list[len(list)-1], at) {
			list[len(list)-1] += " " + threadsOf(work)
		} else {
			list = append(list, at+threadsOf(work))
		}
		for _, w := range work {
			d.settle(complete(w.Claim, "done"))
		}
		n -= len(work)
	}
	return list
}

// Rows that were written an hour ahead delay the starts of an agent, an owner and a key by the sweep that cuts them,
// and by a burst of the rate.
func TestAClockThatWentBackDelaysStartsByABurst(t *testing.T) {
	limit := thread.Limit{Rate: perMinute(6, 2)}
	for what, o := range map[string]ledger.Options{
		"agent": echoLimit(limit), "owner": {OwnerLimit: limit}, "key": keyLimit(limit),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				d := open(t, s, o)
				d.register("w")
				for i := range 2 {
					d.submit(withKey("k", fmt.Sprint("t", i)))
				}
				run := d.submit(withKey("k", "last")).Run
				wantEqual(t, "started", len(d.claim("w", 9)), 2)
				d.writeAhead(s, time.Hour, "last", run)
				must(0, s.Update(d.ctx, func(tx store.Tx) error {
					found, err := tx.Count(store.CountQuery{Meters: &store.MeterQuery{}})
					if err != nil {
						return err
					}
					for i := range found.Meters {
						found.Meters[i].At = found.Meters[i].At.Add(time.Hour)
					}
					return tx.Write(&store.Changes{Meters: found.Meters})
				}))(t)
				begin := time.Now()
				d.sweep()
				d.starts(begin, 1)
				if took := time.Since(begin); took < time.Second || took > 21*time.Second {
					t.Errorf("started after %s, want within a burst of the rate", took)
				}
			})
		})
	}
}

// A rate that was raised at a restart holds from the next sweep on, whatever the former one had used up.
func TestARaisedRateStartsTheNextRunInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		before := start(t, s, echoLimit(thread.Limit{Rate: thread.Rate{N: 1, Per: 24 * time.Hour, Burst: 1}}))
		before.register("w")
		before.submit(text("a", "hello"))
		before.submit(text("b", "hello"))
		wantEqual(t, "started", len(before.claim("w", 9)), 1)
		must(0, before.close())(t)
		d := open(t, s, echoLimit(thread.Limit{Rate: perMinute(6, 2)}))
		d.round = 1000
		begin := time.Now()
		d.sweep()
		wantEqual(t, "started", d.starts(begin, 1), []string{"10s: b"})
	})
}
