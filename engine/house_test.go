package engine_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

// house is a store with a ledger over it, and the engines started on it.
type house struct {
	t      *testing.T
	store  mailroom.Store
	bus    *bus.Bus
	ledger *ledger.Ledger
	ctx    context.Context
	wg     sync.WaitGroup
	stop   context.CancelFunc
}

// inHouse runs f in a bubble of virtual time, on a fresh memory store.
func inHouse(t *testing.T, f func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, memory.New())
		f(h)
		h.close()
	})
}

func newHouse(t *testing.T, store mailroom.Store) *house {
	h := &house{t: t, store: store, bus: bus.New()}
	h.ledger = ledger.New(store, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		h.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
	}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	h.ctx, h.stop = context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	inner := h.stop
	h.stop = func() { inner(); h.wg.Wait(); stop() }
	done := make(chan struct{})
	go func() { defer close(done); h.must(h.ledger.Run(ctx)) }()
	old := h.stop
	h.stop = func() { old(); <-done }
	return h
}

func (h *house) close() {
	h.stop()
	h.check()
	h.must(h.store.Close())
}

// check verifies the invariants of the whole store.
func (h *house) check() {
	h.t.Helper()
	found, err := storetest.Check(context.Background(), h.store)
	h.must(err)
	for _, bad := range found {
		h.t.Error(bad)
	}
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// start runs an engine until the house closes, or until the returned stop.
func (h *house) start(o engine.Options) (stop func()) {
	h.t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(h.t.Output(), nil))
	}
	e := engine.New(h.ledger, h.bus, o)
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan struct{})
	h.wg.Go(func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			h.t.Errorf("engine: %v", err)
		}
	})
	return func() { cancel(); <-done }
}

// serve starts an engine with one agent, "a".
func (h *house) serve(f mailroom.AgentFunc) (stop func()) {
	return h.start(engine.Options{Agents: map[string]engine.Agent{"a": {Agent: f}}})
}

// send submits text for agent a and returns the answer.
func (h *house) send(thread, text string, edit ...func(*mailroom.Submit)) mailroom.Submitted {
	h.t.Helper()
	in := mailroom.Submit{Thread: thread, Agent: "a", SetAgent: true, Messages: []mailroom.Draft{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := h.ledger.Submit(h.ctx, in)
	h.must(err)
	return out
}

func (h *house) run(id string) *mailroom.Run {
	h.t.Helper()
	var found []*mailroom.Run
	h.must(h.ledger.View(context.Background(), func(r mailroom.Reader) (err error) {
		found, err = r.Runs(mailroom.RunQuery{IDs: []string{id}})
		return err
	}))
	if len(found) != 1 {
		h.t.Fatalf("run %s: %d found", id, len(found))
	}
	return found[0]
}

func (h *house) entries(thread string) []mailroom.Entry {
	h.t.Helper()
	var found []mailroom.Entry
	h.must(h.ledger.View(context.Background(), func(r mailroom.Reader) (err error) {
		found, err = r.Entries(mailroom.EntryQuery{Thread: thread})
		return err
	}))
	return found
}

func (h *house) kinds(thread string) []string {
	h.t.Helper()
	var kinds []string
	for _, e := range h.entries(thread) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// wait lets virtual time pass until everything sleeps, then some more.
func (h *house) wait(d time.Duration) {
	<-time.After(d) // of the bubble: no real time passes
	synctest.Wait()
}

// say streams the reply and completes.
func say(text string) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text) }
}
