package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// asking is the thread of the budget of a day that the tests use.
const asking = "budget:agent:coder:day"

// slots is how many runs of the agent work at the same time.
const slots = 4

// fixture is a store with a sequence of servers on it, in virtual time, which begins at midnight UTC on 2000-01-01. The
// agent coder uses a cent for each run.
type fixture struct {
	t      *testing.T
	store  store.Store
	ledger *ledger.Ledger
	limits budget.Limits
	turns  int // steps of a run, a cent each; 0: one
	zone   string
	stop   func()
}

func withFixture(t *testing.T, day string, f func(h *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t, store: memory.New(), stop: func() {}, zone: "UTC"}
		h.must(h.limits.Set(string(budget.Day), day))
		h.serve(h.store)
		defer func() { h.stop() }() // also if the test fails early
		f(h)
		h.stop()
		found, err := storetest.Check(context.Background(), h.store)
		h.must(err)
		for _, bad := range found {
			t.Error(bad)
		}
		h.must(h.store.Close())
	})
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// serve starts a server that writes through st; h.stop stops it.
func (h *fixture) serve(st store.Store) {
	zone, err := time.LoadLocation(h.zone)
	h.must(err)
	b := bus.New()
	l := ledger.New(st, ledger.Options{
		Poll:    10 * time.Minute, // as seldom as the engine sweeps
		Budgets: ledger.Budgets{Zone: zone, Agent: map[string]budget.Limits{"coder": h.limits}},
		Publish: func(thread string, entries []mailroom.Entry) {
			b.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
	})
	h.ledger = l
	e := engine.New(l.Workers(), b, engine.Options{
		Local: true, Lease: time.Hour, Renew: 20 * time.Minute, Sweep: 10 * time.Minute, // days pass in few steps
		Agents: map[string]engine.Agent{
			reserved.Asker: {Agent: NewRaise()},
			"coder":        {Agent: mailroom.AgentFunc(h.work), Deadline: 24 * time.Hour, Limit: slots},
		},
	})
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var both sync.WaitGroup
	ended := func(err error) {
		if err != nil && !errors.Is(err, store.ErrClosed) {
			h.t.Error(err)
		}
	}
	both.Go(func() { ended(l.Run(ledgerCtx)) })
	h.must(l.Workers().EndLocalWorkers(h.t.Context(), false))
	both.Go(func() {
		defer end()
		ended(e.Run(engineCtx))
	})
	h.stop = func() {
		quit()
		both.Wait()
	}
	h.rest(2 * time.Second) // longer than the grace of a lost claim
}

// work takes a second for each turn, which uses a cent, and goes on after its last turn.
func (h *fixture) work(ctx context.Context, s mailroom.Session) error {
	done := 0
	if from := s.Run().Checkpoint; from != nil {
		if err := json.Unmarshal(from, &done); err != nil {
			return err
		}
	}
	for ; done < max(h.turns, 1); done++ {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := s.Append(ctx, mailroom.Step{
			Name: fmt.Sprint("turn ", done), Checkpoint: []byte(fmt.Sprint(done + 1)),
			Usage: mailroom.Usage{CostUSD: 0.01, InputTokens: 90, OutputTokens: 10},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rest lets virtual time pass, and then waits until all goroutines are idle.
func (h *fixture) rest(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// submit sends n messages, each to a thread of its own.
func (h *fixture) submit(n int) {
	h.t.Helper()
	for i := range n {
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: fmt.Sprintf("job-%d", i), Agent: "coder", Key: "1", Sender: "admin", Owner: "admin",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("go")}},
			Origin:   mailroom.Origin{Via: "user", Sender: "admin"},
		})
		h.must(err)
	}
}

// done returns how many runs of the agent have completed.
func (h *fixture) done() int {
	h.t.Helper()
	n := 0
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		counts, err := r.Count(store.CountQuery{ByAgent: true})
		n = counts.Agents["coder"][mailroom.StatusCompleted]
		return err
	}))
	return n
}

// pool returns what is used of the budget of the day.
func (h *fixture) pool() budget.Pool {
	h.t.Helper()
	var pools []budget.Pool
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		zone, err := time.LoadLocation(h.zone)
		h.must(err)
		pools = budget.PoolsOf(budget.Scope{Kind: budget.Agent, Name: "coder"}, h.limits, r.Now(), zone)
		return ledger.ReadPools(r, pools)
	}))
	return pools[0]
}

// usedEver returns what was used of the budget in all days.
func (h *fixture) usedEver() (all mailroom.Amounts) {
	h.t.Helper()
	key := "agent:coder:day"
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: store.StepBudgetDay, Agent: &key}})
		for _, row := range rows.Summaries {
			all = all.Plus(store.AmountsOf(row.Sums))
		}
		return err
	}))
	return all
}

// tickets returns all questions about the budget, oldest first.
func (h *fixture) tickets() []*mailroom.Ticket { return h.ticketsOf(asking) }

// ticketsOf returns all questions in the thread of a budget, oldest first.
func (h *fixture) ticketsOf(id string) (all []*mailroom.Ticket) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) (err error) {
		all, err = r.Tickets(store.TicketQuery{Thread: id})
		return err
	}))
	slices.SortFunc(all, func(x, y *mailroom.Ticket) int { return cmp.Compare(x.Key, y.Key) })
	return all
}

// decide decides the open question.
func (h *fixture) decide(v mailroom.Verdict) {
	h.t.Helper()
	for _, k := range h.tickets() {
		if k.State == mailroom.TicketOpen {
			_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest, By: "ann"})
			h.must(err)
			return
		}
	}
	h.t.Fatal("no question is open")
}

// decideOne decides a question.
func (h *fixture) decideOne(k *mailroom.Ticket, v mailroom.Verdict) {
	h.t.Helper()
	_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest, By: "ann"})
	h.must(err)
}

// kinds returns how many entries of a kind the thread of the budget has.
func (h *fixture) kinds(kind string) int { return h.kindsOf(asking, kind) }

// kindsOf returns how many entries of a kind the thread of a budget has.
func (h *fixture) kindsOf(id, kind string) (n int) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: id, Kinds: []string{kind}, Limit: 1000})
		n = len(entries)
		return err
	}))
	return n
}

// waits returns what a queued run of the agent waits for, for a reader who sees those runs; "": none is queued.
func (h *fixture) waits(sees func(*mailroom.Run, *mailroom.Thread) bool) (text string) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued}, Limit: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		all, err := ledger.WaitsFor(r, r.Now(), rows, sees)
		if of := all[rows[0].ID]; len(of) > 0 {
			text = of[0].Text()
		}
		return err
	}))
	return text
}
