// Package boardtest runs the feed of a board on a real ledger and engine, with a scripted agent.
package boardtest

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

// Server is a server that feeds from a board. Its store survives restarts.
type Server struct {
	t *testing.T
	// Set before Start.
	Options board.Options
	Agent   *Agent
	Limit   int // of concurrent runs; 0 for the engine's default
	Logs    *channeltest.LogBuffer
	Store   store.Store

	// Set by Start.
	Runner *channel.Runner
	Ledger *ledger.Ledger
	Stop   func()
}

// New returns a server that feeds from a board. Start runs it.
func New(t *testing.T, b board.Board) *Server {
	t.Helper()
	w := &Server{t: t, Store: memory.New(), Agent: &Agent{}, Logs: &channeltest.LogBuffer{}, Stop: func() {}}
	w.Options = board.Options{Kind: "fake", Open: func() (board.Board, error) { return b, nil }, Agent: "codex",
		Labels: []string{"agent"}, Interval: 5 * time.Millisecond, Recheck: 50 * time.Millisecond}
	t.Cleanup(func() {
		w.Stop()
		if err := w.Store.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.Logs.String())
		}
	})
	return w
}

// WithSQLite keeps the data in SQLite.
func (w *Server) WithSQLite() *Server {
	w.t.Helper()
	s, err := sqlite.Open(w.t.Context(), filepath.Join(w.t.TempDir(), "mailroom.db"), sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Store = s
	return w
}

// Start runs the server until Stop is called.
func (w *Server) Start() *Server {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.Logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	l, b := channeltest.NewLedger(w.Store, ledger.Options{})
	w.Ledger = l
	watch, err := board.New(w.Options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Runner = channel.New(channel.Options{Name: "roof", Kind: w.Options.Kind, Connect: watch.Connect, Ledger: l, Log: log,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 2 * time.Millisecond, MaxDelay: 10 * time.Millisecond,
			ParkAfter: -1, IdleTimeout: time.Minute, ConnectTimeout: time.Minute},
	})
	agents := map[string]engine.Agent{channel.AgentName("roof"): {Agent: w.Runner.Agent(), Ready: w.Runner.Connected}}
	for _, name := range append([]string{w.Options.Agent}, w.Options.Agents...) {
		agents[name] = engine.Agent{Agent: w.Agent, Limit: w.Limit}
	}
	e := engine.New(l.Workers(), b, engine.Options{Agents: agents, Local: true, ShutdownGrace: 50 * time.Millisecond,
		StopGrace: time.Second, Log: log})
	_, w.Stop = channeltest.StartServer(w.t, l, e, w.Runner)
	return w
}

// NoStore is the store of a server that shares the store of another one.
type NoStore struct{ store.Store }

// Close leaves the store open for its owner.
func (NoStore) Close() error { return nil }

// Retry retries a run like a person.
func (w *Server) Retry(run string) {
	w.t.Helper()
	if _, err := w.Ledger.Retry(w.t.Context(), thread.Retry{Run: run, By: "ann"}); err != nil {
		w.t.Fatal(err)
	}
}

// Agent runs the work that a test sets and counts its attempts by thread.
type Agent struct {
	mu       sync.Mutex
	work     func(ctx context.Context, s mailroom.Session) error // nil replies "done"
	attempts map[string]int
	inputs   map[string]string
}

// Run implements [mailroom.Agent].
func (c *Agent) Run(ctx context.Context, s mailroom.Session) error {
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

// SetWork replaces the work of the next attempts.
func (c *Agent) SetWork(work func(ctx context.Context, s mailroom.Session) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = work
}

// Count returns how often the agent ran for an issue.
func (c *Agent) Count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts[board.Thread("roof", id)]
}

// Input returns the latest input for an issue.
func (c *Agent) Input(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inputs[board.Thread("roof", id)]
}

// Runs returns the runs of a thread, newest first.
func (w *Server) Runs(thread string) (found []*mailroom.Run) {
	w.t.Helper()
	err := w.Store.View(w.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{Thread: thread})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// WaitRun waits until the newest run of an issue has a status.
func (w *Server) WaitRun(id string, status mailroom.Status) *mailroom.Run {
	w.t.Helper()
	thread := board.Thread("roof", id)
	w.WaitFor("the run of "+id+" is "+string(status), func() bool {
		runs := w.Runs(thread)
		return len(runs) > 0 && runs[0].Status == status
	})
	return w.Runs(thread)[0]
}

// Settled reports whether all runs and deliveries of an issue have ended.
func (w *Server) Settled(id string) bool {
	w.t.Helper()
	thread := board.Thread("roof", id)
	for _, thread := range []string{thread, channel.DeliveryThreadID(thread)} {
		for _, run := range w.Runs(thread) {
			if !run.Status.Finished() {
				return false
			}
		}
	}
	return true
}

// WaitFor waits for a condition.
func (w *Server) WaitFor(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("condition not met in time: %s; the channel is %+v", what, w.Runner.State())
		}
	}
}

// GatedWork returns work that waits until open is called.
func GatedWork(reply string) (work func(ctx context.Context, s mailroom.Session) error, open func()) {
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
