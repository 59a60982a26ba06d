package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// maxPace is the time after which a thread notices at the latest that the rate for which it waits has changed.
const maxPace = 5 * time.Minute

// keyLimit returns options in which each key of the agent echo has this limit.
func keyLimit(l thread.Limit) ledger.Options {
	return ledger.Options{Poll: 24 * time.Hour, Limits: func(agent string) ledger.Limits {
		if agent == "echo" {
			return ledger.Limits{Key: l}
		}
		return ledger.Limits{}
	}}
}

// Each key has its own rate, and nothing else wakes the claims: Poll is a day.
func TestARateOfAKeyStartsItsRunsAtItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, keyLimit(thread.Limit{Rate: perMinute(6, 2)}))
		d.register("w")
		for i := range 5 {
			d.submit(withKey("acme", fmt.Sprint("a", i)))
		}
		for i := range 3 {
			d.submit(withKey("bolt", fmt.Sprint("b", i)))
		}
		d.submit(text("free", "hello"))
		wantEqual(t, "started", d.starts(time.Now(), 9), []string{"0s: a0 a1 b0 b1 free", "10s: a2 b2", "20s: a3", "30s: a4"})
	})
}

// A run that comes while others wait goes behind them, also if a start has become due since. Priority decides who is
// next, once the start that is kept has been taken.
func TestNoRunPassesThoseThatWaitForTheRateOfTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, keyLimit(thread.Limit{Rate: perMinute(6, 2)}))
		d.register("w")
		begin := time.Now()
		for i := range 5 {
			d.submit(withKey("k", fmt.Sprint("t", i)))
		}
		wantEqual(t, "started", threadsOf(d.claim("w", 9)), "t0 t1")
		urgent, p := withKey("k", "urgent"), 1
		urgent.Priority = &p
		d.submit(urgent)
		<-time.After(25 * time.Second) // two starts are due, and no worker took them
		d.submit(withKey("k", "late"))
		wantEqual(t, "started", d.starts(begin, 5), []string{"25s: t2 urgent", "35s: t3", "45s: t4", "55s: late"})
	})
}

// A message to the thread for which the next start is kept neither hastens the start nor loses it.
func TestAMessageDoesNotHastenTheStartOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		before := start(t, s, keyLimit(thread.Limit{Rate: perMinute(6, 1)}))
		before.register("w")
		begin := time.Now()
		for i := range 3 {
			before.submit(withKey("k", fmt.Sprint("t", i)))
		}
		wantEqual(t, "started", threadsOf(before.claim("w", 9)), "t0")
		wantEqual(t, "kept", before.thread("t1").Due.At.Sub(begin), 10*time.Second)
		must(0, before.close())(t)
		d := open(t, s, keyLimit(thread.Limit{Rate: perMinute(6, 1)})) // which has not loaded the run
		d.round = 1000
		<-time.After(3 * time.Second)
		d.submit(withKey("k", "t1"))
		wantEqual(t, "kept after a message", d.thread("t1").Due.At.Sub(begin), 10*time.Second)
		urgent, p := text("t1", "without a key"), 1
		urgent.Priority = &p
		d.submit(urgent)
		wantEqual(t, "due for a run without a key", !d.thread("t1").Due.At.After(time.Now()), true)
		wantEqual(t, "kept for the next one", d.thread("t2").Due.At.Sub(begin), 10*time.Second)
		wantEqual(t, "started", d.starts(begin, 4), []string{"3s: t1", "10s: t2", "20s: t1", "30s: t1"})
	})
}

func TestAThreadThatGoesGivesUpItsStartOfAKey(t *testing.T) {
	for what, leave := range map[string]func(d *fixture, run string){
		"cancel": func(d *fixture, run string) { must(d.Cancel(d.ctx, run, "ann"))(d.t) },
		"delete": func(d *fixture, run string) {
			must(d.Cancel(d.ctx, run, "ann"))(d.t)
			must(0, d.DeleteThread(d.ctx, "b", ann()))(d.t)
		},
		"replace": func(d *fixture, run string) {
			in := mode(mailroom.ModeLatest, "b", "without a key")
			in.NotBefore = time.Now().Add(time.Hour)
			d.submit(in)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, nil, keyLimit(thread.Limit{Rate: perMinute(1, 1)}))
				d.register("w")
				begin := time.Now()
				d.submit(withKey("k", "a"))
				second := d.submit(withKey("k", "b"))
				d.submit(withKey("k", "c"))
				wantEqual(t, "started", threadsOf(d.claim("w", 9)), "a")
				wantEqual(t, "kept", d.thread("b").Paced, true)
				leave(d, second.Run)
				wantEqual(t, "started", d.starts(begin, 1), []string{"1m0s: c"})
			})
		})
	}
}

// A key with both limits starts a run when it has a place and a start.
func TestAKeyKeepsItsLimitAndItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, keyLimit(thread.Limit{Rate: perMinute(6, 3), Running: 2}))
		d.register("w")
		for i := range 7 {
			d.submit(withKey("k", fmt.Sprint("t", i)))
		}
		first := d.claim("w", 9)
		wantEqual(t, "started", threadsOf(first), "t0 t1")
		<-time.After(time.Second)
		wantEqual(t, "started while the key is full", threadsOf(d.claim("w", 9)), "")
		d.settle(complete(first[0].Claim, "done"))
		wantEqual(t, "started after an end", threadsOf(d.claim("w", 9)), "t2")
		d.settle(complete(first[1].Claim, "done"))
		wantEqual(t, "started before the rate", threadsOf(d.claim("w", 9)), "")
		<-time.After(9 * time.Second)
		wantEqual(t, "started at the rate", threadsOf(d.claim("w", 9)), "t3")
		<-time.After(time.Minute)
		wantEqual(t, "started at the rate without a place", threadsOf(d.claim("w", 9)), "")
	})
}

// The rate is in the configuration of a server, which changes at a restart.
func TestAChangedRateOfKeysHoldsForWaitingThreads(t *testing.T) {
	const day = 24 * time.Hour
	daily := thread.Limit{Rate: thread.Rate{N: 1, Per: day, Burst: 1}}
	for what, c := range map[string]struct {
		was, now thread.Limit
		last     time.Duration // when the last run starts at the latest
	}{
		"removed":             {daily, thread.Limit{}, maxPace},
		"raised":              {daily, thread.Limit{Rate: perMinute(1, 1)}, 98*time.Minute + maxPace},
		"lowered":             {daily, thread.Limit{Rate: thread.Rate{N: 1, Per: 2 * day, Burst: 1}}, 198 * day},
		"new":                 {thread.Limit{}, thread.Limit{Rate: perMinute(6, 1)}, 15 * time.Minute},
		"beside a limit":      {thread.Limit{Running: 1}, thread.Limit{Running: 1, Rate: perMinute(6, 1)}, 17 * time.Minute},
		"in place of a limit": {thread.Limit{Running: 1}, thread.Limit{Rate: perMinute(6, 1)}, 17 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				before := start(t, s, keyLimit(c.was))
				before.register("w")
				for i := range 100 {
					before.submit(withKey("k", fmt.Sprint("t", i)))
				}
				first := before.claim("w", 9)
				wantEqual(t, "started", len(first) == 1 || !c.was.Any(), true)
				for _, w := range first {
					before.settle(complete(w.Claim, "done"))
				}
				must(0, before.close())(t)
				d := open(t, s, keyLimit(c.now))
				d.round = 1000
				begin := time.Now()
				d.sweep()
				d.starts(begin, 100-len(first))
				if took := time.Since(begin); took > c.last || took < c.last*8/10 {
					t.Errorf("the last run started after %s, want about %s", took, c.last)
				}
			})
		})
	}
}

func TestARunSaysWhichRateItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, keyLimit(thread.Limit{Rate: thread.Rate{N: 4, Per: time.Hour, Burst: 1}}))
		d.register("w")
		var runs []*mailroom.Run
		for i := range 3 {
			runs = append(runs, d.run(d.submit(withKey("acme", fmt.Sprint("t", i))).Run))
		}
		d.claim("w", 9)
		for _, r := range runs[1:] {
			d.view(func(rd store.Reader) error {
				all, err := ledger.WaitsFor(rd, rd.Now(), []*mailroom.Run{r}, nil)
				if err != nil || len(all[r.ID]) != 1 {
					t.Fatal(all, err)
				}
				b := all[r.ID][0]
				wantEqual(t, "text", b.Text(), `its turn: agent echo with key "acme" starts 4 an hour`)
				wantEqual(t, "cause", b.Cause, thread.CauseRate)
				wantEqual(t, "next start", time.Until(b.Until).Round(time.Second), 15*time.Minute)
				return nil
			})
		}
	})
}

// A key that starts nothing any more leaves no row behind.
func TestMetersOfKeysThatNeverReturnAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, keyLimit(thread.Limit{Rate: perMinute(1, 1)}))
		d.register("w")
		for i := range 30 {
			d.submit(withKey(fmt.Sprint("k", i), fmt.Sprint("t", i)))
		}
		meters := func() (n int) {
			d.view(func(r store.Reader) error {
				found, err := r.Count(store.CountQuery{Meters: &store.MeterQuery{}})
				n = len(found.Meters)
				return err
			})
			return n
		}
		d.starts(time.Now(), 30)
		d.sweep()
		wantEqual(t, "meters in use", meters(), 30)
		<-time.After(3 * time.Minute)
		d.sweep()
		wantEqual(t, "meters", meters(), 0)
	})
}

// checkRate checks that starts of one key, in any order, exceed its rate in no window.
func checkRate(t *testing.T, key string, at []time.Time, r thread.Rate) {
	t.Helper()
	slices.SortFunc(at, time.Time.Compare)
	each := r.Per / time.Duration(r.N)
	for i := range at {
		for j := i + r.Burst; j < len(at); j++ {
			if took, least := at[j].Sub(at[i]), time.Duration(j-i+1-r.Burst)*each; took < least-time.Millisecond {
				t.Fatalf("%d runs of key %s started in %s, which takes %s", j-i+1, key, took, least)
			}
		}
	}
}

// Three servers work off the backlogs of some keys. The times of the starts are those of the commits that claimed.
func TestThreeServersTogetherNeverExceedTheRateOfAKey(t *testing.T) {
	rate := thread.Rate{N: 20, Per: time.Second, Burst: 2}
	for name, servers := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			const runs, keys = 60, 2
			o := keyLimit(thread.Limit{Rate: rate, Running: 3})
			o.Poll = time.Second
			all := servers(t, 3, o)
			for i := range runs {
				retryBusy(t, func() (store.Submitted, error) {
					return all[i%3].Submit(t.Context(), withKey(fmt.Sprint("k", i%keys), fmt.Sprint("t", i)))
				})
			}
			var mu sync.Mutex
			started, waits, n := map[string][]time.Time{}, 0, 0
			var group sync.WaitGroup
			for i, d := range all {
				worker := fmt.Sprint("w", i)
				d.register(worker)
				group.Go(func() {
					for round := int64(1); ; round++ {
						mu.Lock()
						rest := runs - n
						mu.Unlock()
						if rest == 0 {
							return
						}
						ctx, stop := context.WithTimeout(d.ctx, 20*time.Millisecond)
						work := retryBusy(t, func() ([]thread.ClaimedRun, error) {
							work, err := d.Claim(ctx, thread.ClaimRequest{Worker: worker, Round: round, Slots: 4,
								Agents: map[string]int{"echo": 4}, Wait: true})
							if errors.Is(err, context.DeadlineExceeded) {
								err = nil
							}
							return work, err
						})
						stop()
						mu.Lock()
						if n += len(work); len(work) == 0 {
							waits++
						}
						for _, w := range work {
							started[w.Run.LimitKey] = append(started[w.Run.LimitKey], w.At)
						}
						mu.Unlock()
						for _, w := range work {
							end := thread.Settle{Claim: w.Claim, Number: 1, Outcome: thread.OutcomeComplete}
							retryBusy(t, func() (*mailroom.Run, error) { return d.Settle(d.ctx, end) })
						}
					}
				})
			}
			group.Wait()
			for key, at := range started {
				checkRate(t, key, at, rate)
			}
			if waits == 0 {
				t.Error("the rate was never used up")
			}
		})
	}
}
