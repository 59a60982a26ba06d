package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

// house is a store with what runs over it: its own ledger, which nothing
// disturbs, and processes that may be stopped, killed or cut off.
type house struct {
	*process // the house's own, with the ledger that tests submit through
	t        *testing.T
	store    mailroom.Store
	others   []*process
}

// inHouse runs f twice: with engines over the ledger of their own process, and
// with engines elsewhere, over HTTP. The rules are the same.
func inHouse(t *testing.T, f func(h *house)) {
	t.Run("inside", func(t *testing.T) { inBubble(t, false, f) })
	t.Run("elsewhere", func(t *testing.T) { inBubble(t, true, f) })
}

// inside is inHouse for what is so only within one process: its hints, its
// worker rows.
func inside(t *testing.T, f func(h *house)) { inBubble(t, false, f) }

// inBubble runs f in a bubble of virtual time, on a fresh memory store, and
// checks the invariants of what f leaves behind. Leaving the bubble waits for
// every goroutine that was started in it.
func inBubble(t *testing.T, remote bool, f func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, store: memory.New()}
		h.process = h.newProcess()
		h.process.remote = remote
		f(h)
		if remote && h.face == nil {
			t.Error("no engine was elsewhere: say inside instead of inHouse")
		}
		for _, p := range append(h.others, h.process) {
			p.stop()
		}
		h.check()
		h.must(h.store.Close())
	})
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

// expect is must for an agent, whose goroutine is not the test's.
func (h *house) expect(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

// serve starts an engine with one agent, "a", in the house's own process.
func (h *house) serve(f mailroom.AgentFunc) *worker {
	return h.start(serving(f))
}

// elsewhere starts an engine in a process of its own.
func (h *house) elsewhere(o engine.Options) *process {
	p := h.newProcess()
	h.others = append(h.others, p)
	p.start(o)
	return p
}

// serving are the options of an engine that serves agent "a".
func serving(f mailroom.AgentFunc) engine.Options {
	return engine.Options{Agents: map[string]engine.Agent{"a": {Agent: f}}}
}

func mode(m mailroom.Mode) func(*mailroom.Submit) {
	return func(in *mailroom.Submit) { in.Mode = m }
}

func (h *house) run(id string) *mailroom.Run {
	h.t.Helper()
	found := query(h, func(r mailroom.Reader) ([]*mailroom.Run, error) {
		return r.Runs(mailroom.RunQuery{IDs: []string{id}})
	})
	if len(found) != 1 {
		h.t.Fatalf("run %s: %d found", id, len(found))
	}
	return found[0]
}

// workers are the rows of the leases, by id.
func (h *house) workers() []*mailroom.Worker {
	h.t.Helper()
	return query(h, mailroom.Reader.Workers)
}

// entries are a thread's, of these kinds or all.
func (h *house) entries(thread string, kinds ...string) []mailroom.Entry {
	h.t.Helper()
	return query(h, func(r mailroom.Reader) ([]mailroom.Entry, error) {
		return r.Entries(mailroom.EntryQuery{Thread: thread, Kinds: kinds})
	})
}

// query reads from the house's store.
func query[T any](h *house, f func(mailroom.Reader) ([]T, error)) (found []T) {
	h.t.Helper()
	h.must(h.store.View(context.Background(), func(r mailroom.Reader) (err error) {
		found, err = f(r)
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

// texts are what was said in a thread, in order of the log.
func (h *house) texts(thread string) []string {
	h.t.Helper()
	var texts []string
	for _, e := range h.entries(thread, mailroom.KindMessage) {
		texts = append(texts, body[mailroom.Message](h, e).Text)
	}
	return texts
}

func body[T any](h *house, e mailroom.Entry) (v T) {
	h.t.Helper()
	h.must(e.Decode(&v))
	return v
}

// wait lets virtual time pass, and then everything come to rest.
func (h *house) wait(d time.Duration) {
	<-time.After(d) // of the bubble: no real time passes
	synctest.Wait()
}

// status checks how a run stands.
func (h *house) status(id string, want mailroom.Status) *mailroom.Run {
	h.t.Helper()
	r := h.run(id)
	if r.Status != want {
		h.t.Errorf("run %s: got %s (error %v), want %s", id, r.Status, r.Error, want)
	}
	return r
}

// say streams the reply and completes.
func say(text string) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text) }
}
