package poll_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// fixture is a bridge of channel "b" with agent "codex" and a fake platform.
type fixture struct {
	t        *testing.T
	platform *polltest.Platform
	store    store.Store
	agent    mailroom.Agent
	options  poll.Options
	logs     *channeltest.LogBuffer
	deadline time.Duration // of an attempt; 0 for the engine's default

	// Set by start.
	ledger *ledger.Ledger
	runner *channel.Runner
	stop   func()
}

func newFixture(t *testing.T, agent mailroom.Agent) *fixture {
	t.Helper()
	w := &fixture{
		t: t, platform: polltest.New(t), store: memory.New(), agent: agent, logs: &channeltest.LogBuffer{}, stop: func() {},
	}
	w.options = poll.Options{
		URL: w.platform.URL, Workspace: polltest.Workspace, Agent: "codex", Token: polltest.Token,
		Interval: 5 * time.Millisecond, Timeout: 20 * time.Second,
	}
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Log(w.logs.String())
		}
	})
	return w
}

// start runs the bridge until stop is called.
func (w *fixture) start() *fixture {
	w.t.Helper()
	bridge, err := poll.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, b := channeltest.NewLedger(w.store, ledger.Options{})
	w.ledger = l
	w.runner = channel.New(channel.Options{
		Name: "b", Kind: poll.Kind, Connect: bridge.Connect, Ledger: w.ledger, Log: log,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond,
			ParkAfter: -1, Polled: true, FatalGrace: w.options.ReconnectPolicy().FatalGrace,
			IdleTimeout: w.options.ReconnectPolicy().IdleTimeout},
	})
	e := engine.New(w.ledger.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: w.agent, Deadline: w.deadline},
			channel.AgentName("b"): {Agent: w.runner.Agent(), Ready: w.runner.Connected}},
		Local: true, ShutdownGrace: 2 * time.Second, Log: log,
	})
	_, w.stop = channeltest.StartServer(w.t, w.ledger, e, w.runner)
	return w
}

// upperAgent replies with its input in upper case and records its inputs.
type upperAgent struct {
	mu     sync.Mutex
	runs   map[string]int
	inputs []string
}

func (u *upperAgent) Run(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	text := input[0].Text
	u.mu.Lock()
	if u.runs == nil {
		u.runs = map[string]int{}
	}
	u.runs[text]++
	u.inputs = append(u.inputs, text)
	u.mu.Unlock()
	return s.Stream(ctx, strings.ToUpper(text))
}

func (u *upperAgent) received() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.inputs...)
}

// agentFunc is an agent implemented by a function.
type agentFunc = mailroom.AgentFunc

// entries returns the entries of a thread.
func (w *fixture) entries(thread string) []mailroom.Entry {
	w.t.Helper()
	var found []mailroom.Entry
	err := w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: thread})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// countEntries counts the entries of one kind in a thread.
func (w *fixture) countEntries(thread, kind string) int {
	n := 0
	for _, e := range w.entries(thread) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// waitFor polls until good returns true.
func (w *fixture) waitFor(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("condition not met in time: %s; the state is %+v", what, w.runner.State())
		}
	}
}

// canvasDelivery is the delivery thread of the canvas.
const canvasDelivery = "out:b:canvas:" + polltest.Workspace

func rowID(i int) string { return fmt.Sprintf("a-%d", i) }
