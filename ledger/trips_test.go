package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store/postgres"
	"mailroom/thread"
)

// onTrips is a ledger over PostgreSQL whose round trips a test counts.
func onTrips(t *testing.T) (*fixture, *postgres.Store) {
	t.Helper()
	cluster := pgtest.Shared(t)
	s, err := postgres.Open(t.Context(), postgres.Options{URL: cluster.URL(), Schema: cluster.Schema(t),
		AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return open(t, s, ledger.Options{}), s
}

// A claim finds its due threads in the trip that locks its worker.
func TestAClaimTakesTwoTrips(t *testing.T) {
	for _, c := range []struct {
		name string
		due  []string // one run each
		ask  thread.ClaimRequest
		want int // runs
	}{
		{"of nothing", nil, thread.ClaimRequest{Slots: 2, LastAttempt: true}, 0},
		{"of all that is due", []string{"a", "b"}, thread.ClaimRequest{Slots: 4, LastAttempt: true}, 2},
		{"of the first of many", []string{"a", "b", "c", "d", "e"}, thread.ClaimRequest{Slots: 2, LastAttempt: true}, 2},
		{"beside runs of the same owner", []string{"a", "b", "c", "d", "e"},
			thread.ClaimRequest{Slots: 2, LastAttempt: true, Held: map[string]int{"ann": 9}, FairSlots: 3}, 2},
		{"without slots, for other owners", []string{"a", "b"}, thread.ClaimRequest{Held: map[string]int{"bob": 1}, FairSlots: 3}, 1},
		{"of runs on their last attempt", []string{"last"}, thread.ClaimRequest{Slots: 2, LastAttempt: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, s := onTrips(t)
			d.register("w")
			for _, id := range c.due {
				in := text(id, "hello")
				if id == "last" {
					in.MaxAttempts = 1
				}
				d.submit(in)
			}
			c.ask.Worker, c.ask.Round, c.ask.Agents = "w", 1, map[string]int{"echo": c.ask.Slots + c.ask.FairSlots}
			before := s.Traffic()
			work := must(d.Claim(d.ctx, c.ask))(t)
			after := s.Traffic()
			wantEqual(t, "claimed runs", len(work), c.want)
			wantEqual(t, "updates", after.Updates-before.Updates, 1)
			wantEqual(t, "trips", after.Trips-before.Trips, 2)
		})
	}
}

// With more due runs than slots, each batch settles runs and claims others.
func TestABatchWithABacklogTakesTwoTrips(t *testing.T) {
	d, s := onTrips(t)
	d.register("w")
	const threads, each = 10, 4
	for i := range threads * each {
		d.submit(text(fmt.Sprint("t", i%threads), "hello"))
	}
	before := s.Traffic()
	var all sync.WaitGroup
	all.Add(threads * each)
	k := &servingClaimer{t: t, workers: d.Workers, worker: "w", slots: 3, settled: all.Done}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := d.ServeClaims(ctx, k); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	cancel()
	ended.Wait()
	k.settles.Wait()
	after := s.Traffic()
	if got, want := after.Trips-before.Trips, 2*(after.Tries-before.Tries); got != want {
		t.Errorf("got %d trips in %d tries, want two each", got, after.Tries-before.Tries)
	}
}

// servingClaimer is a worker that completes each run at once.
type servingClaimer struct {
	t       *testing.T
	workers ledger.Workers
	worker  string
	slots   int
	settled func() // called for each run
	settles sync.WaitGroup

	mu    sync.Mutex // guards what follows
	round int64
	held  int
}

func (k *servingClaimer) NextClaim() thread.ClaimRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	return thread.ClaimRequest{
		Worker: k.worker, Round: k.round, Slots: k.slots - k.held, Agents: map[string]int{"echo": 2 * k.slots},
		LastAttempt: true,
		Held:        map[string]int{"ann": k.held}, FairSlots: k.slots,
	}
}

func (k *servingClaimer) OnClaimed(_ thread.ClaimRequest, work []thread.ClaimedRun, err error) {
	if err != nil {
		k.t.Error(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held += len(work)
	for _, w := range work {
		k.settles.Go(func() {
			s := complete(w.Claim, "ok")
			s.Number = 1
			if _, err := k.workers.Settle(context.Background(), s); err != nil {
				k.t.Error(err)
			}
			k.mu.Lock()
			k.held--
			k.mu.Unlock()
			k.workers.AskClaimers()
			k.settled()
		})
	}
}
