package board_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/engine"
	"mailroom/issues/board"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// fixture is a server that feeds from a board. Its store survives restarts.
type fixture struct {
	t       *testing.T
	options board.Options
	agent   *scriptedAgent
	limit   int // of concurrent runs; 0 for the engine's default
	logs    *channeltest.LogBuffer
	store   store.Store

	// Set by start.
	runner *channel.Runner
	ledger *ledger.Ledger
	stop   func()
}

func newFixture(t *testing.T, b board.Board) *fixture {
	t.Helper()
	w := &fixture{t: t, store: memory.New(), agent: &scriptedAgent{}, logs: &channeltest.LogBuffer{}, stop: func() {}}
	w.options = board.Options{Kind: "fake", Open: func() (board.Board, error) { return b, nil }, Agent: "codex",
		Labels: []string{"agent"}, Interval: 5 * time.Millisecond, Recheck: 50 * time.Millisecond}
	t.Cleanup(func() {
		w.stop()
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.logs.String())
		}
	})
	return w
}

func (w *fixture) withSQLite() *fixture {
	w.t.Helper()
	s, err := sqlite.Open(w.t.Context(), filepath.Join(w.t.TempDir(), "mailroom.db"), sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	return w
}

// start runs the server until stop is called.
func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	l, b := channeltest.NewLedger(w.store, ledger.Options{})
	w.ledger = l
	watch, err := board.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.runner = channel.New(channel.Options{Name: "roof", Kind: w.options.Kind, Connect: watch.Connect, Ledger: l, Log: log,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 2 * time.Millisecond, MaxDelay: 10 * time.Millisecond,
			ParkAfter: -1, IdleTimeout: time.Minute, ConnectTimeout: time.Minute},
	})
	agents := map[string]engine.Agent{channel.AgentName("roof"): {Agent: w.runner.Agent(), Ready: w.runner.Connected}}
	for _, name := range append([]string{w.options.Agent}, w.options.Agents...) {
		agents[name] = engine.Agent{Agent: w.agent, Limit: w.limit}
	}
	e := engine.New(l.Workers(), b, engine.Options{Agents: agents, Local: true, ShutdownGrace: 50 * time.Millisecond,
		StopGrace: time.Second, Log: log})
	_, w.stop = channeltest.StartServer(w.t, l, e, w.runner)
	return w
}

// noStore is the store of a fixture that shares the store of another one.
type noStore struct{ store.Store }

func (noStore) Close() error { return nil }

// retry retries a run like a person.
func (w *fixture) retry(run string) {
	w.t.Helper()
	if _, err := w.ledger.Retry(w.t.Context(), thread.Retry{Run: run, By: "ann"}); err != nil {
		w.t.Fatal(err)
	}
}

// scriptedAgent runs the work set by a test and counts its attempts by thread.
type scriptedAgent struct {
	mu       sync.Mutex
	work     func(ctx context.Context, s mailroom.Session) error // nil replies "done"
	attempts map[string]int
	inputs   map[string]string
}

func (c *scriptedAgent) Run(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.attempts == nil {
		c.attempts, c.inputs = map[string]int{}, map[string]string{}
	}
	c.attempts[s.Run().Thread]++
	c.inputs[s.Run().Thread] = input[0].Text
	work := c.work
	c.mu.Unlock()
	if work == nil {
		return s.Stream(ctx, "done")
	}
	return work(ctx, s)
}

func (c *scriptedAgent) setWork(work func(ctx context.Context, s mailroom.Session) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = work
}

// count returns how often the agent ran for an issue.
func (c *scriptedAgent) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts[board.Thread("roof", id)]
}

// input returns the latest input for an issue.
func (c *scriptedAgent) input(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inputs[board.Thread("roof", id)]
}

// runs returns the runs of a thread, newest first.
func (w *fixture) runs(thread string) (found []*mailroom.Run) {
	w.t.Helper()
	err := w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{Thread: thread})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// waitRun waits until the newest run of an issue has a status.
func (w *fixture) waitRun(id string, status mailroom.Status) *mailroom.Run {
	w.t.Helper()
	thread := board.Thread("roof", id)
	w.waitFor("the run of "+id+" is "+string(status), func() bool {
		runs := w.runs(thread)
		return len(runs) > 0 && runs[0].Status == status
	})
	return w.runs(thread)[0]
}

// settled reports whether all runs and deliveries of an issue have ended.
func (w *fixture) settled(id string) bool {
	w.t.Helper()
	thread := board.Thread("roof", id)
	for _, thread := range []string{thread, channel.DeliveryThreadID(thread)} {
		for _, run := range w.runs(thread) {
			if !run.Status.Finished() {
				return false
			}
		}
	}
	return true
}

func (w *fixture) waitFor(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("condition not met in time: %s; the channel is %+v", what, w.runner.State())
		}
	}
}

// gatedWork returns work that waits until open is called.
func gatedWork(reply string) (work func(ctx context.Context, s mailroom.Session) error, open func()) {
	closed := make(chan struct{})
	return func(ctx context.Context, s mailroom.Session) error {
		select {
		case <-closed:
			return s.Stream(ctx, reply)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, sync.OnceFunc(func() { close(closed) })
}
