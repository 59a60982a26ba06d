package builtin_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a store with a ledger for the test itself and a sequence of servers.
type fixture struct {
	t      *testing.T
	store  store.Store
	ledger *ledger.Ledger
	front  *ledger.Ledger // accepts the submits
	pace   time.Duration
	stop   func()
}

// withFixture runs f in a bubble of virtual time and checks the invariants of the store afterwards.
func withFixture(t *testing.T, f func(h *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t, store: memory.New(), stop: func() {}}
		h.ledger = ledger.New(h.store, ledger.Options{Poll: time.Hour})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.ledger.Run(ctx) }()
		f(h)
		h.stop()
		end()
		h.must(<-ended)
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

// serve starts a server that writes through store; h.stop stops it.
func (h *fixture) serve(store store.Store) {
	b := bus.New()
	l := ledger.New(store, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	h.must(h.ledger.Workers().EndLocalWorkers(h.t.Context(), false))
	h.front = l
	e := engine.New(l.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{"tour": {Agent: builtin.NewTour(h.pace)}}, Local: true,
	})
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { h.ended(l.Run(ledgerCtx)) })
	both.Go(func() {
		defer end()
		h.ended(e.Run(engineCtx))
	})
	h.stop = func() {
		quit()
		both.Wait()
	}
}

// ended checks the error of a stopped part of a server.
func (h *fixture) ended(err error) {
	if err != nil && !errors.Is(err, store.ErrClosed) {
		h.t.Error(err)
	}
}

func (h *fixture) send(threadID string, edit ...func(*thread.Submit)) store.Submitted {
	h.t.Helper()
	in := thread.Submit{Thread: threadID, Agent: "tour", Messages: []thread.NewMessage{{Parts: mailroom.Text("show me")}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := h.front.Submit(h.t.Context(), in)
	h.must(err)
	return out
}

func (h *fixture) run(id string) *mailroom.Run {
	h.t.Helper()
	return one(h, func(r store.Reader) ([]*mailroom.Run, error) {
		return r.Runs(store.RunQuery{IDs: []string{id}})
	})
}

// child returns the run that the tour started.
func (h *fixture) child(parent string) *mailroom.Run {
	h.t.Helper()
	return one(h, func(r store.Reader) ([]*mailroom.Run, error) {
		return r.Runs(store.RunQuery{Parent: parent})
	})
}

func one[T any](h *fixture, f func(store.Reader) ([]T, error)) T {
	h.t.Helper()
	var found []T
	h.must(h.store.View(h.t.Context(), func(r store.Reader) (err error) {
		found, err = f(r)
		return err
	}))
	if len(found) != 1 {
		h.t.Fatalf("%d found, want one", len(found))
	}
	return found[0]
}

func (h *fixture) entries(thread string, kinds ...string) (found []mailroom.Entry) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: thread, Kinds: kinds})
		return err
	}))
	return found
}

// wait waits for a duration, and then until all goroutines are idle.
func (h *fixture) wait(d time.Duration) {
	<-time.After(d) // virtual time
	synctest.Wait()
}

// open returns the open approvals.
func (h *fixture) open() []*mailroom.Ticket {
	h.t.Helper()
	found, err := h.ledger.Workers().Tickets(h.t.Context(), store.TicketQuery{
		States: []mailroom.TicketState{mailroom.TicketOpen}, Kinds: []mailroom.TicketKind{mailroom.TicketApproval},
	})
	h.must(err)
	return found
}

func (h *fixture) decide(k *mailroom.Ticket, v mailroom.Verdict, reason string) {
	h.t.Helper()
	_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: v, Reason: reason, Digest: k.Digest,
		By: "anna"})
	h.must(err)
}

// killableStore is the store of a server that is killed before or after its n-th write to a log, or
// the write of a certain entry. Later writes do not reach the store.
type killableStore struct {
	store.Store
	n     int
	at    func(*mailroom.Entry) bool // instead of n
	after bool

	mu    sync.Mutex
	dead  bool // owned by mu
	count int  // owned by mu
}

func (m *killableStore) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

var errKilled = mailroom.Errorf(mailroom.CodeUnavailable, "killed: %w", store.ErrClosed)

func (m *killableStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if m.isDead() {
		return errKilled
	}
	err := m.Store.Update(ctx, func(tx store.Tx) error {
		return f(countingTx{Tx: tx, m: m})
	})
	if err == nil && m.isDead() {
		return errKilled
	}
	return err
}

func (m *killableStore) View(ctx context.Context, f func(store.Reader) error) error {
	if m.isDead() {
		return errKilled
	}
	return m.Store.View(ctx, f)
}

// countingTx counts the writes of a transaction that append entries.
type countingTx struct {
	store.Tx
	m *killableStore
}

func (c countingTx) Write(changes *store.Changes) error {
	if len(changes.Entries) > 0 {
		c.m.mu.Lock()
		c.m.count++
		c.m.dead = c.m.count == c.m.n || c.m.at != nil && slices.ContainsFunc(slices.Concat(changes.Entries...),
			func(e mailroom.Entry) bool {
				return c.m.at(&e)
			})
		dead := c.m.dead
		c.m.mu.Unlock()
		if dead && !c.m.after {
			return errKilled
		}
	}
	return c.Tx.Write(changes)
}
