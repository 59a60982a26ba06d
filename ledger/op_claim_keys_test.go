package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// perKey returns options in which the agent echo may run so many runs for each key.
func perKey(most int) ledger.Options {
	return ledger.Options{Limits: func(agent string) ledger.Limits {
		if agent == "echo" {
			return ledger.Limits{Key: thread.Limit{Running: most}, KeyFrom: "customer"}
		}
		return ledger.Limits{}
	}}
}

// withKey returns a submit of ann to a thread of its own.
func withKey(key, id string) thread.Submit {
	in := text(id, "hello")
	in.LimitKey = key
	return in
}

// threadsOf returns the threads of claimed runs, sorted.
func threadsOf(work []thread.ClaimedRun) string {
	var ids []string
	for _, w := range work {
		ids = append(ids, w.Claim.Thread)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func TestAKeyHasNoMoreRunningRunsThanItsLimit(t *testing.T) {
	d := open(t, nil, perKey(2))
	d.register("w", "v")
	for i := range 40 { // the backlog of one key is before everything else
		d.submit(withKey("acme", fmt.Sprintf("a%02d", i)))
	}
	d.submit(withKey("bolt", "b"))
	d.submit(text("c", "no key"))
	work := d.claim("w", 4)
	wantEqual(t, "started", threadsOf(work), "a00 a01 b c")
	wantEqual(t, "claimed while the key is full", threadsOf(append(d.claim("w", 4), d.claim("v", 4)...)), "")
	d.settle(complete(work[0].Claim, "done"))
	wantEqual(t, "after an end", threadsOf(d.claim("v", 4)), "a02")
	d.settle(failure(work[1].Claim, mailroom.ClassTransient))
	wantEqual(t, "after a failure", threadsOf(d.claim("v", 4)), "a03")
}

// What the key is read from: the submit, else the metadata that the agent's settings name.
func TestAKeyIsReadFromTheMetadataThatTheAgentNames(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	for i, customer := range []string{"acme", "bolt", "acme", strings.Repeat("x", 900) + "1", strings.Repeat("x", 900) + "2"} {
		in := text(fmt.Sprint("t", i), "hello")
		in.Metadata = map[string]string{"customer": customer}
		d.submit(in)
	}
	d.submit(withKey("bolt", "own"))
	wantEqual(t, "started", threadsOf(d.claim("w", 9)), "t0 t1 t3 t4")
}

func TestAKeyThatIsTooLongIsRefused(t *testing.T) {
	d := open(t, nil, perKey(1))
	for _, key := range []string{strings.Repeat("x", mailroom.MaxKey+1), "a\x00b"} {
		_, err := d.Submit(d.ctx, withKey(key, "t"))
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || !strings.Contains(err.Error(), "concurrency_key") {
			t.Errorf("got error %v", err)
		}
	}
	if d.thread("t") != nil {
		t.Error("a refused submit made a thread")
	}
}

func TestAKeyOfOneOwnerBlocksNoOtherOwner(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	for _, owner := range []string{"ann", "bob", "admin"} {
		for i := range 3 {
			in := ofOwner(owner, fmt.Sprint(owner, i))
			in.LimitKey = "same"
			d.submit(in)
		}
	}
	wantEqual(t, "started", threadsOf(d.claim("w", 9)), "admin0 ann0 bob0")
}

// The commit that frees a place starts the next run: nothing polls.
func TestAFreedPlaceOfAKeyIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perKey(1)
		o.Poll = time.Hour
		d := open(t, nil, o)
		d.register("w")
		d.submit(withKey("k", "a"))
		first := d.claimOne("w")
		d.submit(withKey("k", "b"))
		got := make(chan string)
		ctx, stop := context.WithTimeout(d.ctx, 2*time.Hour)
		defer stop()
		go func() {
			work, err := d.Claim(ctx, thread.ClaimRequest{Worker: "w", Round: 99, Slots: 2,
				Agents: map[string]int{"echo": 2}, Wait: true})
			if err != nil {
				t.Error(err)
			}
			got <- threadsOf(work)
		}()
		synctest.Wait()
		begin := time.Now()
		d.settle(complete(first.Claim, "done"))
		wantEqual(t, "claimed", <-got, "b")
		wantEqual(t, "after", time.Since(begin), 0)
	})
}

// A thread that waits, or for which a place is kept, may go at any time: the place goes to the next one.
func TestAThreadThatGoesGivesUpItsPlaceOfAKey(t *testing.T) {
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
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprint(what, " kept=", kept), func(t *testing.T) {
				d := open(t, nil, perKey(1))
				d.register("w")
				d.submit(withKey("k", "a"))
				first := d.claimOne("w")
				second := d.submit(withKey("k", "b"))
				d.submit(withKey("k", "c"))
				wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "")
				if kept {
					d.settle(complete(first.Claim, "done")) // keeps the place for b, which no worker takes
					wantEqual(t, "kept", d.thread("b").Kept, true)
				}
				leave(d, second.Run)
				if !kept {
					d.settle(complete(first.Claim, "done"))
				}
				wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "c")
			})
		}
	}
}

// A run without a key, or with another one, that comes first in its thread does not wait for the key of the run behind.
func TestAnUrgentRunPassesTheGateOfItsThread(t *testing.T) {
	s := memory.New()
	before := start(t, s, perKey(1))
	before.register("w")
	before.submit(withKey("k", "a"))
	first := before.claimOne("w")
	before.submit(withKey("k", "b"))
	wantEqual(t, "claimed", threadsOf(before.claim("w", 5)), "")
	must(0, before.close())(t)
	d := open(t, s, perKey(1)) // which has not loaded the run that waits
	d.round = 1000
	urgent := text("b", "urgent")
	p := 1
	urgent.Priority = &p
	d.submit(urgent)
	work := d.claimOne("w")
	wantEqual(t, "priority", work.Run.Priority, 1)
	d.settle(complete(work.Claim, "done"))
	wantEqual(t, "claimed after it", threadsOf(d.claim("w", 5)), "")
	d.settle(complete(first.Claim, "done"))
	wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "b")
}

func TestThreadsLeaveAGateByPriorityThenTime(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	d.submit(withKey("k", "first"))
	work := d.claimOne("w")
	for i, p := range []int{128, 200, 5, 128} {
		in := withKey("k", fmt.Sprint("t", i))
		in.Priority = &p
		d.submit(in)
	}
	wantEqual(t, "claimed", threadsOf(d.claim("w", 9)), "")
	var order []string
	for range 4 {
		d.settle(complete(work.Claim, "done"))
		work = d.claimOne("w")
		order = append(order, work.Claim.Thread)
	}
	wantEqual(t, "order", strings.Join(order, " "), "t2 t0 t3 t1")
}

func TestALostClaimFreesThePlaceOfItsKey(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("dies", "w")
	d.submit(withKey("k", "a"))
	d.claimOne("dies")
	d.submit(withKey("k", "b"))
	wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "")
	d.expireWorker("dies")
	wantEqual(t, "claimed after the lease", len(d.claim("w", 5)), 1)
}

// A run that waits holds no place of its key, and waits for one again when it goes on.
func TestAParkedRunHoldsNoPlaceOfItsKey(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	d.submit(withKey("k", "a"))
	d.submit(withKey("k", "b"))
	first := d.claimOne("w")
	ask := mailroom.Ask{Name: "ok", Kind: mailroom.TicketApproval, Prompt: "ok?"}
	d.settle(thread.Settle{Claim: first.Claim, Number: 1, Outcome: thread.OutcomePark, Asks: []mailroom.Ask{ask},
		Wait: &mailroom.Wait{Names: []string{"ok"}}})
	second := d.claimOne("w")
	must(d.Decide(d.ctx, thread.Decision{Ticket: thread.TicketID(first.Claim.Run, "ok"),
		Verdict: mailroom.VerdictApprove, Digest: thread.AskDigest(&ask), By: "ann"}))(t)
	wantEqual(t, "claimed while another runs", threadsOf(d.claim("w", 5)), "")
	d.settle(complete(second.Claim, "done"))
	wantEqual(t, "run", d.claimOne("w").Claim.Run, first.Claim.Run)
}

// The limit is in the configuration of a server, which changes at a restart.
func TestAChangedLimitOfKeysLetsWaitingThreadsOut(t *testing.T) {
	for most, want := range map[int]int{3: 2, 0: 99, 1: 0} { // besides the one that runs
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			s := memory.New()
			before := start(t, s, perKey(1))
			before.register("w")
			before.submit(withKey("k", "first"))
			first := before.claimOne("w")
			for i := range 99 {
				before.submit(withKey("k", fmt.Sprint("t", i)))
			}
			wantEqual(t, "claimed", threadsOf(before.claim("w", 9)), "")
			must(0, before.close())(t)
			d := open(t, s, perKey(most))
			d.round = 1000
			d.sweep()
			n := 0
			for {
				work := d.claim("w", 7)
				if n += len(work); len(work) == 0 {
					break
				}
			}
			wantEqual(t, "claimed after the restart", n, want)
			d.settle(complete(first.Claim, "done"))
			if want < 99 {
				wantEqual(t, "claimed after an end", len(d.claim("w", 7)), 1)
			}
		})
	}
}

func TestAPausedAgentKeepsThePlacesOfItsKeys(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	d.submit(withKey("k", "a"))
	first := d.claimOne("w")
	d.submit(withKey("k", "b"))
	d.submit(withKey("k", "c"))
	wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "")
	must(d.PauseAgent(d.ctx, store.Pause{Agent: "echo", By: "ann"}))(t)
	d.settle(complete(first.Claim, "done"))
	wantEqual(t, "claimed while paused", threadsOf(d.claim("w", 5)), "")
	must(0, d.ResumeAgent(d.ctx, "echo"))(t)
	wantEqual(t, "claimed", threadsOf(d.claim("w", 5)), "b")
}

func TestARunSaysWhichKeyItWaitsFor(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	d.submit(withKey("acme", "a"))
	first := d.claimOne("w")
	waiting := d.submit(withKey("acme", "b")).Run
	text := func() (out string) {
		d.view(func(r store.Reader) error {
			all, err := ledger.WaitsFor(r, r.Now(), []*mailroom.Run{d.run(waiting)}, nil)
			if err == nil && len(all[waiting]) > 0 {
				out = string(all[waiting][0].Cause) + ": " + all[waiting][0].Text()
			}
			return err
		})
		return out
	}
	want := `limit: the end of a run: 1 of 1 runs of agent echo with key "acme" are running`
	wantEqual(t, "before a claim", text(), want)
	d.claim("w", 5)
	wantEqual(t, "at the gate", text(), want)
	d.settle(complete(first.Claim, "done"))
	wantEqual(t, "with a kept place", text(), "slot: a free slot of agent echo")
}

// Many keys, each with a backlog, are served in turns by claims that have few slots, and none is left behind.
func TestNoKeyIsLeftBehind(t *testing.T) {
	d := open(t, nil, perKey(1))
	d.register("w")
	const keys, each = 30, 5
	for i := range keys * each {
		d.submit(withKey(fmt.Sprint("k", i%keys), fmt.Sprint("t", i)))
	}
	done := 0
	for rounds := 0; done < keys*each; rounds++ {
		if rounds > 20*keys*each {
			t.Fatalf("%d of %d runs have ended", done, keys*each)
		}
		running := map[string]int{}
		work := d.claim("w", 4)
		for _, w := range work {
			if running[w.Run.LimitKey]++; running[w.Run.LimitKey] > 1 {
				t.Fatalf("%d runs of key %s", running[w.Run.LimitKey], w.Run.LimitKey)
			}
		}
		for _, w := range work {
			d.settle(complete(w.Claim, "done"))
			done++
		}
	}
}

// Three servers work off the backlogs of some keys, and count at each start what runs of the key at that moment.
func TestThreeServersTogetherNeverExceedTheLimitOfAKey(t *testing.T) {
	for name, servers := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			const most, runs, keys = 2, 90, 2
			all := servers(t, 3, perKey(most))
			for i := range runs {
				retryBusy(t, func() (store.Submitted, error) {
					return all[i%3].Submit(t.Context(), withKey(fmt.Sprint("k", i%keys), fmt.Sprint("t", i)))
				})
			}
			var mu sync.Mutex
			running, peak, ended := map[string]int{}, 0, 0
			var group sync.WaitGroup
			for i, d := range all {
				worker := fmt.Sprint("w", i)
				d.register(worker)
				group.Go(func() {
					for round := int64(1); ; round++ {
						mu.Lock()
						rest := runs - ended
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
						for _, w := range work {
							running[w.Run.LimitKey]++
							peak = max(peak, running[w.Run.LimitKey])
						}
						mu.Unlock()
						for _, w := range work {
							mu.Lock()
							running[w.Run.LimitKey]-- // before the place is free, so that the counter is never too high
							ended++
							mu.Unlock()
							end := thread.Settle{Claim: w.Claim, Number: 1, Outcome: thread.OutcomeComplete}
							retryBusy(t, func() (*mailroom.Run, error) { return d.Settle(d.ctx, end) })
						}
					}
				})
			}
			group.Wait()
			if peak > most || peak < 2 {
				t.Errorf("%d ran at once, at most %d may and several must", peak, most)
			}
		})
	}
}

// Owners that start nothing any more leave no row behind.
func TestMetersOfOwnersThatNeverReturnAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{OwnerLimit: thread.Limit{Rate: perMinute(60, 1)}})
		d.register("w")
		for i := range 30 {
			d.submit(ofOwner(fmt.Sprint("owner", i), fmt.Sprint("t", i)))
		}
		for _, w := range d.claim("w", 50) {
			d.settle(complete(w.Claim, "done"))
		}
		meters := func() (n int) {
			d.view(func(r store.Reader) error {
				found, err := r.Count(store.CountQuery{Meters: &store.MeterQuery{Prefix: thread.MeterPrefix}})
				n = len(found.Meters)
				return err
			})
			return n
		}
		d.sweep()
		wantEqual(t, "meters in use", meters(), 30)
		<-time.After(2 * time.Minute)
		d.sweep()
		wantEqual(t, "meters", meters(), 0)
	})
}
