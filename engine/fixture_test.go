package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a store with a ledger without faults, and processes that tests stop, kill or cut off.
type fixture struct {
	*process // the fixture's own process, with the ledger that tests submit through
	t        *testing.T
	store    store.Store
	others   []*process
}

// everywhere runs f twice: with engines over their process's ledger, and with remote engines over
// HTTP. The same rules must hold.
func everywhere(t *testing.T, f func(h *fixture)) {
	t.Run("local", func(t *testing.T) { inBubble(t, false, f) })
	t.Run("remote", func(t *testing.T) { inBubble(t, true, f) })
}

// localOnly runs f with local engines only, for behavior of a single process: its hints, its worker
// rows.
func localOnly(t *testing.T, f func(h *fixture)) { inBubble(t, false, f) }

// inBubble runs f in a synctest bubble on a new memory store, and checks the store's invariants
// afterwards. The bubble waits for all goroutines.
func inBubble(t *testing.T, remote bool, f func(h *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t, store: memory.New()}
		h.process = h.newProcess()
		h.process.remote = remote
		f(h)
		if remote && h.endpoint == nil {
			t.Error("no engine was remote: use localOnly instead of everywhere")
		}
		for _, p := range append(h.others, h.process) {
			p.stop()
		}
		h.check()
		h.must(h.store.Close())
	})
}

// check verifies the invariants of the whole store.
func (h *fixture) check() {
	h.t.Helper()
	found, err := storetest.Check(context.Background(), h.store)
	h.must(err)
	for _, bad := range found {
		h.t.Error(bad)
	}
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// expect is must for an agent, which runs on another goroutine than the test.
func (h *fixture) expect(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

// serve starts an engine with one agent, "a", in the fixture's own process.
func (h *fixture) serve(f mailroom.AgentFunc) *worker {
	return h.start(serving(f))
}

// elsewhere starts an engine in a new process.
func (h *fixture) elsewhere(o engine.Options) *process {
	p := h.newProcess()
	h.others = append(h.others, p)
	p.start(o)
	return p
}

// serving returns the options of an engine with agent "a".
func serving(f mailroom.AgentFunc) engine.Options {
	return engine.Options{Agents: map[string]engine.Agent{"a": {Agent: f}}}
}

func mode(m mailroom.Mode) func(*thread.Submit) {
	return func(in *thread.Submit) { in.Mode = m }
}

func (h *fixture) run(id string) *mailroom.Run {
	h.t.Helper()
	found := query(h, func(r store.Reader) ([]*mailroom.Run, error) {
		return r.Runs(store.RunQuery{IDs: []string{id}})
	})
	if len(found) != 1 {
		h.t.Fatalf("run %s: %d found", id, len(found))
	}
	return found[0]
}

// workers returns the worker rows, by id.
func (h *fixture) workers() []*store.Worker {
	h.t.Helper()
	return query(h, func(r store.Reader) ([]*store.Worker, error) { return r.Workers() })
}

// entries returns a thread's entries of some kinds, or all.
func (h *fixture) entries(thread string, kinds ...string) []mailroom.Entry {
	h.t.Helper()
	return query(h, func(r store.Reader) ([]mailroom.Entry, error) {
		return r.Entries(store.EntryQuery{Thread: thread, Kinds: kinds})
	})
}

// query reads from the fixture's store.
func query[T any](h *fixture, f func(store.Reader) ([]T, error)) (found []T) {
	h.t.Helper()
	h.must(h.store.View(context.Background(), func(r store.Reader) (err error) {
		found, err = f(r)
		return err
	}))
	return found
}

func (h *fixture) kinds(thread string) []string {
	h.t.Helper()
	var kinds []string
	for _, e := range h.entries(thread) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// texts returns the message texts of a thread, in the order of the log.
func (h *fixture) texts(thread string) []string {
	h.t.Helper()
	var texts []string
	for _, e := range h.entries(thread, entry.KindMessage) {
		texts = append(texts, body[mailroom.Message](h, e).Text)
	}
	return texts
}

func body[T any](h *fixture, e mailroom.Entry) (v T) {
	h.t.Helper()
	h.must(e.Decode(&v))
	return v
}

// wait lets virtual time pass and then waits until all goroutines are idle.
func (h *fixture) wait(d time.Duration) {
	<-time.After(d) // virtual time
	synctest.Wait()
}

// status checks a run's status and returns the run.
func (h *fixture) status(id string, want mailroom.Status) *mailroom.Run {
	h.t.Helper()
	r := h.run(id)
	if r.Status != want {
		h.t.Errorf("run %s: got %s (error %v), want %s", id, r.Status, r.Error, want)
	}
	return r
}

// streaming returns an agent that streams text and completes.
func streaming(text string) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text) }
}
