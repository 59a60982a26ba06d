package feed_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/engine"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// fixture is a tracker and a server that watches it.
type fixture struct {
	t           *testing.T
	folder      tracker.Folder
	agent       *scriptedAgent
	options     feed.Options
	ledgerFault func(name string) error // fails operations of the ledger; may be nil
	limit       int                     // of concurrent runs; 0 for the engine's default
	logs        *channeltest.LogBuffer
	store       store.Store

	// Set by start.
	ledger *ledger.Ledger
	runner *channel.Runner
	stop   func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	folder := tracker.FolderAt(filepath.Join(t.TempDir(), ".beads"))
	if err := folder.Init(); err != nil {
		t.Fatal(err)
	}
	return newFixtureOn(t, folder)
}

// newFixtureOn returns another server on an existing tracker.
func newFixtureOn(t *testing.T, folder tracker.Folder) *fixture {
	t.Helper()
	w := &fixture{
		t: t, folder: folder, store: memory.New(), agent: &scriptedAgent{}, logs: &channeltest.LogBuffer{}, stop: func() {},
	}
	w.options = feed.Options{Folder: folder, Agent: "codex", Types: []string{"bug", "feature", "task", "chore"},
		Interval: 5 * time.Millisecond}
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

// withSQLite stores the server's data in SQLite.
func (w *fixture) withSQLite() *fixture {
	w.t.Helper()
	store, err := sqlite.Open(w.t.Context(), filepath.Join(w.t.TempDir(), "mailroom.db"), sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
	return w
}

// start runs the server until stop is called.
func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, b := channeltest.NewLedger(w.store, ledger.Options{})
	w.ledger = l
	w.options.Projects = w.ledger.Projects()
	watch, err := feed.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.runner = channel.New(channel.Options{
		Name: "issue", Kind: feed.Kind, Connect: watch.Connect, Ledger: faultyLedger{w.ledger, w.ledgerFault}, Log: log,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond,
			ParkAfter: -1, IdleTimeout: watch.ReconnectPolicy().IdleTimeout},
	})
	agents := map[string]engine.Agent{channel.AgentName("issue"): {Agent: w.runner.Agent(), Ready: w.runner.Connected}}
	for _, name := range append([]string{w.options.Agent}, w.options.Agents...) {
		agents[name] = engine.Agent{Agent: w.agent, Limit: w.limit}
	}
	e := engine.New(w.ledger.Workers(), b, engine.Options{Agents: agents, Local: true,
		ShutdownGrace: 50 * time.Millisecond, StopGrace: time.Second, Log: log})
	_, w.stop = channeltest.StartServer(w.t, w.ledger, e, w.runner)
	return w
}

// faultyLedger fails operations as a test says.
type faultyLedger struct {
	*ledger.Ledger
	fault func(name string) error
}

func (f faultyLedger) Submit(ctx context.Context, in thread.Submit) (store.Submitted, error) {
	if f.fault != nil {
		if err := f.fault("submit"); err != nil {
			return store.Submitted{}, err
		}
	}
	return f.Ledger.Submit(ctx, in)
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
	return c.attempts["issue:"+id]
}

// input returns the latest input for an issue.
func (c *scriptedAgent) input(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inputs["issue:"+id]
}

func ann() tracker.Signature { return tracker.Signature{Actor: "ann", At: time.Now()} }

// edit changes the file like bd.
func (w *fixture) edit(change func(t *tracker.Tracker) error) {
	w.t.Helper()
	if _, err := w.folder.Update(w.t.Context(), change); err != nil {
		w.t.Fatal(err)
	}
}

// create adds issues with these ids.
func (w *fixture) create(ids ...string) {
	w.t.Helper()
	w.edit(func(t *tracker.Tracker) error {
		for _, id := range ids {
			if _, err := t.Create(tracker.NewIssue{Issue: tracker.Issue{ID: id, Title: "Do " + id,
				Priority: tracker.PriorityNormal}}, ann()); err != nil {
				return err
			}
		}
		return nil
	})
}

// set changes an issue.
func (w *fixture) set(id string, change func(it *tracker.Issue)) {
	w.t.Helper()
	w.edit(func(t *tracker.Tracker) error {
		_, err := t.Update(id, ann(), func(it *tracker.Issue) error { change(it); return nil })
		return err
	})
}

func (w *fixture) issue(id string) *tracker.Issue {
	w.t.Helper()
	t, _, err := w.folder.Read()
	if err != nil {
		w.t.Fatal(err)
	}
	it, err := t.Find(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return it
}

// waitStatus waits until an issue has a status.
func (w *fixture) waitStatus(id string, status tracker.Status) *tracker.Issue {
	w.t.Helper()
	w.waitFor(fmt.Sprintf("%s is %s", id, status), func() bool { return w.issue(id).Status == status })
	return w.issue(id)
}

// comments returns the first lines of an issue's comments with their authors.
func comments(it *tracker.Issue) (all []string) {
	for _, c := range it.Comments {
		first, _, _ := strings.Cut(c.Text, "\n")
		all = append(all, c.Author+": "+first)
	}
	return all
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
	has := func() bool {
		runs := w.runs("issue:" + id)
		return len(runs) > 0 && runs[0].Status == status
	}
	w.waitFor(fmt.Sprintf("the run of %s is %s", id, status), has)
	return w.runs("issue:" + id)[0]
}

// waitDelivered waits until all runs and deliveries of an issue have ended.
func (w *fixture) waitDelivered(id string) {
	w.t.Helper()
	w.waitFor("all deliveries of "+id, func() bool {
		for _, thread := range []string{"issue:" + id, "out:issue:" + id} {
			for _, run := range w.runs(thread) {
				if !run.Status.Finished() {
					return false
				}
			}
		}
		return len(w.runs("issue:"+id)) > 0
	})
}

func (w *fixture) waitFor(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
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
