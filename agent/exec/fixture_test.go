package exec_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// fixture is an engine that runs the stub as an agent named claude.
type fixture struct {
	*ledger.Ledger
	t     *testing.T
	bus   *bus.Bus
	home  string // folder of the stub's sessions
	stubs []string
	agent mailroom.Agent
}

// options returns options for a stub, which a test may change.
func (h *fixture) options(does string) exec.ProgramOptions {
	return exec.ProgramOptions{
		Profile: program.Find("claude"), Program: os.Args[0], Dir: h.t.TempDir(),
		Env: append([]string{"EXEC_TEST_ROLE=stub", "GORACE=atexit_sleep_ms=0", stubDoes + "=" + does,
			stubHome + "=" + h.home}, h.stubs...),
	}
}

// newFixture starts an engine with the stub, after change has edited its options.
func newFixture(t *testing.T, does string, change ...func(*exec.ProgramOptions)) *fixture {
	t.Helper()
	h := &fixture{t: t, bus: bus.New(), home: t.TempDir(), stubs: []string{"EXEC_TEST_ROOM=" + t.Name()}}
	store := memory.New()
	h.Ledger = ledger.New(store, ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) {
			h.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Log:   slog.New(slog.DiscardHandler),
		Retry: func(string) retry.Policy { return retry.Delivery() }, // short delays
	})
	o := h.options(does)
	for _, f := range change {
		f(&o)
	}
	a, err := exec.NewProgram(o)
	if err != nil {
		t.Fatal(err)
	}
	h.agent = a
	exec.SetLingerTimeout(a, 300*time.Millisecond)
	e := engine.New(h.Ledger.Workers(), h.bus, engine.Options{
		Agents: map[string]engine.Agent{"claude": {Agent: a}}, Local: true, ShutdownGrace: time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, quit := context.WithCancel(context.Background())
	life, end := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan error, 1)
	go func() { ended <- h.Run(life) }()
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		quit()
		if err := <-done; err != nil {
			t.Errorf("engine: %v", err)
		}
		end()
		if err := <-ended; err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	return h
}

// sendAndRead submits a text, and returns its run once the agent has begun to write.
func (h *fixture) sendAndRead(threadID, text string) string {
	h.t.Helper()
	hints := h.bus.Subscribe(threadID, 1000)
	defer hints.Close()
	run := h.send(threadID, text)
	for n := range hints.C {
		if n.Delta != nil {
			break
		}
	}
	return run
}

// send submits a text and returns its run.
func (h *fixture) send(threadID, text string, edit ...func(*thread.Submit)) string {
	h.t.Helper()
	in := thread.Submit{Thread: threadID, Agent: "claude", Sender: "user",
		Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := h.Submit(h.t.Context(), in)
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Run
}

func (h *fixture) entries(thread string) (entries []mailroom.Entry) {
	h.t.Helper()
	err := h.View(h.t.Context(), func(r store.Reader) (err error) {
		entries, err = r.Entries(store.EntryQuery{Thread: thread})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return entries
}

// await returns the first entry of a run with one of the kinds.
func (h *fixture) await(thread, run string, kinds ...string) mailroom.Entry {
	h.t.Helper()
	hints := h.bus.Subscribe(thread, 16)
	defer hints.Close()
	for {
		for _, e := range h.entries(thread) {
			if e.Run == run && slices.Contains(kinds, e.Kind) {
				return e
			}
		}
		select {
		case <-hints.C:
		case <-h.t.Context().Done():
			h.t.Fatal("the test has ended")
		}
	}
}

// ended waits for the end of a run and returns it.
func (h *fixture) ended(thread, run string) *mailroom.Run {
	h.t.Helper()
	h.await(thread, run, entry.KindCompleted, entry.KindFailed, entry.KindCancelled)
	var rows []*mailroom.Run
	err := h.View(h.t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Runs(store.RunQuery{IDs: []string{run}})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return rows[0]
}

// reply returns the reply of a completed run.
func (h *fixture) reply(thread, run string) string {
	h.t.Helper()
	r := h.ended(thread, run)
	if r.Status != mailroom.StatusCompleted {
		h.t.Fatalf("run is %s: %+v", r.Status, r.Error)
	}
	if r.Reply == nil {
		return ""
	}
	return *r.Reply
}

// bodies returns the bodies of a thread's entries of a kind.
func bodies[T any](h *fixture, thread, kind string) (all []T) {
	h.t.Helper()
	for _, e := range h.entries(thread) {
		if e.Kind != kind {
			continue
		}
		var v T
		if err := e.Decode(&v); err != nil {
			h.t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// requests returns the requests that the stub received in a session, in order.
func (h *fixture) requests(session string) (texts []string) {
	h.t.Helper()
	raw, err := os.ReadFile(h.home + "/" + session)
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var text string
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			h.t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}
