package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// echoLimit returns options in which the agent echo has a limit.
func echoLimit(l thread.Limit) ledger.Options {
	return ledger.Options{Limits: func(agent string) ledger.Limits {
		if agent == "echo" {
			return ledger.Limits{Agent: l}
		}
		return ledger.Limits{}
	}}
}

func perMinute(n, burst int) thread.Rate { return thread.Rate{N: n, Per: time.Minute, Burst: burst} }

func (d *fixture) submitEach(n int, prefix string) {
	d.t.Helper()
	for i := range n {
		d.submit(text(fmt.Sprint(prefix, i), "hello"))
	}
}

func TestAnAgentStartsNoMoreRunsAtOnceThanItsLimit(t *testing.T) {
	d := open(t, nil, echoLimit(thread.Limit{Running: 3}))
	d.register("w", "v")
	d.submitEach(10, "t")
	work := append(d.claim("w", 2), d.claim("v", 5)...)
	wantEqual(t, "running", len(work), 3)
	wantEqual(t, "claimed at the limit", len(d.claim("w", 5)), 0)
	d.settle(complete(work[0].Claim, "done"))
	work = append(work[1:], d.claimOne("v"))
	d.settle(failure(work[0].Claim, mailroom.ClassTransient))
	d.settle(thread.Settle{Claim: work[1].Claim, Number: 1, Outcome: thread.OutcomeRelease})
	wantEqual(t, "after a failure and a release", len(d.claim("w", 5)), 2)
}

// A run that waits for a person holds no place, and takes one again when it goes on.
func TestAParkedRunHoldsNoPlaceOfALimit(t *testing.T) {
	d := open(t, nil, echoLimit(thread.Limit{Running: 1}))
	d.register("w")
	d.submitEach(2, "t")
	first := d.claimOne("w")
	ask := mailroom.Ask{Name: "ok", Kind: mailroom.TicketApproval, Prompt: "ok?"}
	d.settle(thread.Settle{Claim: first.Claim, Number: 1, Outcome: thread.OutcomePark, Asks: []mailroom.Ask{ask},
		Wait: &mailroom.Wait{Names: []string{"ok"}}})
	second := d.claimOne("w")
	must(d.Decide(d.ctx, thread.Decision{Ticket: thread.TicketID(first.Claim.Run, "ok"),
		Verdict: mailroom.VerdictApprove, Digest: thread.AskDigest(&ask), By: "ann"}))(t)
	wantEqual(t, "claimed while another runs", len(d.claim("w", 5)), 0)
	d.settle(complete(second.Claim, "done"))
	wantEqual(t, "run", d.claimOne("w").Claim.Run, first.Claim.Run)
}

func TestALostClaimFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, echoLimit(thread.Limit{Running: 1}))
		d.register("dies", "w")
		d.submitEach(2, "t")
		d.claimOne("dies")
		for range 4 {
			<-time.After(10 * time.Second)
			must(d.Renew(d.ctx, thread.Renewal{Worker: "w", Round: 100}))(t)
		}
		must(0, d.Sweep(d.ctx, "w"))(t)
		wantEqual(t, "claimed after the lease", len(d.claim("w", 5)), 1)
	})
}

func TestARateStartsRunsAtItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := echoLimit(thread.Limit{Rate: perMinute(30, 2)})
		o.Poll = time.Hour // the claim is woken at the time of the rate, and by nothing else
		d := open(t, nil, o)
		d.register("w")
		d.submitEach(6, "t")
		begin := time.Now()
		for _, after := range []time.Duration{0, 2, 4, 6, 8} {
			work := must(d.Claim(d.ctx, thread.ClaimRequest{
				Worker: "w", Round: int64(after) + 1, Slots: 5, Agents: map[string]int{"echo": 5}, Wait: true,
			}))(t)
			want := 1
			if after == 0 {
				want = 2 // the burst
			}
			wantEqual(t, "started", len(work), want)
			wantEqual(t, "after", time.Since(begin).Round(time.Millisecond), after*time.Second)
		}
	})
}

// An agent at its limit holds up neither another agent nor a later run of its own once it may start.
func TestALimitedAgentDoesNotDelayOthers(t *testing.T) {
	d := open(t, nil, echoLimit(thread.Limit{Running: 1}))
	must(d.Register(d.ctx, store.Worker{ID: "w", Agents: []string{"echo", "other"}}))(t)
	d.submitEach(3, "t")
	in := text("u", "hello")
	in.Agent = "other"
	d.submit(in)
	work := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: 1, Slots: 8,
		Agents: map[string]int{"echo": 8, "other": 8}}))(t)
	agents := map[string]int{}
	for _, w := range work {
		agents[w.Run.Agent]++
	}
	wantEqual(t, "started", agents, map[string]int{"echo": 1, "other": 1})
}

func ofOwner(owner, id string) thread.Submit {
	in := text(id, "hello")
	in.Owner, in.Sender, in.Origin.Sender = owner, owner, owner
	return in
}

func TestAnOwnerAtItsLimitIsPassedByOthers(t *testing.T) {
	d := open(t, nil, ledger.Options{OwnerLimit: thread.Limit{Running: 2}})
	d.register("w")
	for _, owner := range []string{"ann", "bob", "cleo", "admin"} { // the backlogs come one after the other
		for i := range 30 {
			d.submit(ofOwner(owner, fmt.Sprint(owner, i)))
		}
	}
	started := map[string]int{}
	for range 40 {
		for _, w := range d.claim("w", 4) {
			started[w.Thread.Owner]++
		}
	}
	wantEqual(t, "started", started, map[string]int{"ann": 2, "bob": 2, "cleo": 2, "admin": 30})
}

// Claims that wait find a place that another lane's commit has freed, and rest otherwise.
func TestAFreedPlaceOfAnOwnerIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{OwnerLimit: thread.Limit{Running: 1}, Poll: time.Hour})
		d.register("w")
		d.submitEach(2, "t")
		first := d.claimOne("w")
		got := make(chan int)
		go func() {
			work, err := d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: 99, Slots: 2,
				Agents: map[string]int{"echo": 2}, Wait: true})
			if err != nil {
				t.Error(err)
			}
			got <- len(work)
		}()
		synctest.Wait()
		begin := time.Now()
		d.settle(complete(first.Claim, "done"))
		wantEqual(t, "claimed", <-got, 1)
		wantEqual(t, "after", time.Since(begin), 0)
	})
}

// countedStore counts transactions, and refuses all after the first most.
type countedStore struct {
	store.Store
	n, most atomic.Int64
}

func (s *countedStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if s.n.Add(1) > s.most.Load() {
		return mailroom.Errorf(mailroom.CodeInternal, "too many transactions")
	}
	return s.Store.Update(ctx, f)
}

func TestClaimsOfAnOwnerAtItsLimitRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedStore{Store: memory.New()}
		s.most.Store(100)
		d := open(t, s, ledger.Options{OwnerLimit: thread.Limit{Running: 1}})
		d.register("w")
		d.submitEach(5, "t")
		d.claimOne("w")
		before := s.n.Load()
		ctx, stop := context.WithTimeout(d.ctx, 10*time.Second)
		defer stop()
		work, err := d.Claim(ctx, thread.ClaimRequest{Worker: "w", Round: 99, Slots: 2,
			Agents: map[string]int{"echo": 2}, Wait: true})
		if len(work) > 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %d runs and error %v", len(work), err)
		}
		if n := s.n.Load() - before; n > 40 {
			t.Errorf("%d transactions in 10 s, want about two in each", n)
		}
	})
}

// limitStores are the ways in which several ledgers share rows.
func limitStores(t *testing.T) map[string]func(t *testing.T, n int, o ledger.Options) []*fixture {
	t.Helper()
	return map[string]func(t *testing.T, n int, o ledger.Options) []*fixture{
		"sqlite": func(t *testing.T, n int, o ledger.Options) (all []*fixture) {
			path := filepath.Join(t.TempDir(), "mail.db")
			for range n {
				s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { must(0, s.Close())(t) })
				all = append(all, open(t, s, o))
			}
			return all
		},
		"postgres": func(t *testing.T, n int, o ledger.Options) (all []*fixture) {
			schema := pgtest.Shared(t).Schema(t)
			for i := range n {
				all = append(all, open(t, openPostgres(t, postgres.Options{URL: pgtest.Shared(t).URL(),
					Schema: schema, Node: fmt.Sprint("node", i), AllowUnsafe: true}), o))
			}
			return all
		},
	}
}

// Three servers work off a backlog, and count at each start what runs at that moment, in a counter that only they have.
func TestThreeServersTogetherNeverExceedALimit(t *testing.T) {
	for name, servers := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			const most, runs = 4, 90
			all := servers(t, 3, echoLimit(thread.Limit{Running: most}))
			for i := range runs {
				retryBusy(t, func() (store.Submitted, error) {
					return all[i%3].Submit(t.Context(), text(fmt.Sprint("t", i), "hello"))
				})
			}
			var mu sync.Mutex
			running, peak, ended := 0, 0, 0
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
						work := retryBusy(t, func() ([]thread.ClaimedRun, error) {
							return d.Claim(d.ctx, thread.ClaimRequest{Worker: worker, Round: round, Slots: 3,
								Agents: map[string]int{"echo": 3}})
						})
						mu.Lock()
						running += len(work)
						peak = max(peak, running)
						mu.Unlock()
						for _, w := range work {
							mu.Lock()
							running-- // before the place is free, so that the counter is never too high
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
