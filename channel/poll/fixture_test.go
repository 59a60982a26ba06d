package poll_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// world is a bridge of the channel "b", with an agent "codex", at a platform.
type world struct {
	t        *testing.T
	platform *polltest.Platform
	store    mailroom.Store
	agent    mailroom.Agent
	options  poll.Options
	logs     *logs
	deadline time.Duration // of an attempt; 0: the engine's default

	// Set by start.
	ledger *ledger.Ledger
	runner *channel.Runner
	stop   func()
}

func newWorld(t *testing.T, agent mailroom.Agent) *world {
	t.Helper()
	w := &world{t: t, platform: polltest.New(t), store: memory.New(), agent: agent, logs: &logs{}, stop: func() {}}
	w.options = poll.Options{
		URL: w.platform.URL, Workspace: polltest.Workspace, Agent: "codex", Token: polltest.Token,
		Interval: 5 * time.Millisecond, Timeout: 20 * time.Second,
	}
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Log(w.logs.all())
		}
	})
	return w
}

// start runs the bridge until stop.
func (w *world) start() *world {
	w.t.Helper()
	bridge, err := poll.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := bus.New()
	w.ledger = ledger.New(w.store, ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	w.runner = channel.New(channel.Options{
		Name: "b", Kind: poll.Kind, Connect: bridge.Connect, Ledger: w.ledger, Log: log,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, Polled: true, FatalGrace: w.options.ReconnectPolicy().FatalGrace, IdleTimeout: w.options.ReconnectPolicy().IdleTimeout},
	})
	e := engine.New(w.ledger, b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: w.agent, Deadline: w.deadline}, channel.AgentName("b"): {Agent: w.runner.Agent(), Ready: w.runner.Connected}},
		Local:  true, ShutdownGrace: 2 * time.Second, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = w.ledger.Run(ledgerCtx) }) // what it cannot write, nobody waits for
	if err := w.ledger.EndLocal(ctx, false); err != nil {
		w.t.Fatal(err)
	}
	parts.Go(func() { _ = e.Run(ctx) }) // as above
	parts.Go(func() { w.runner.Run(ctx) })
	w.stop = func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		w.stop = func() {}
	}
	return w
}

// logs keeps what is logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// upper answers with what it is told, in capitals, and counts its runs by what they
// were told.
type upper struct {
	mu   sync.Mutex
	runs map[string]int
	told []string
}

func (u *upper) Run(ctx context.Context, s mailroom.Session) error {
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
	u.told = append(u.told, text)
	u.mu.Unlock()
	return s.Stream(ctx, strings.ToUpper(text))
}

func (u *upper) order() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.told...)
}

// says is an agent that does one thing.
type says = mailroom.AgentFunc

// entries are those of a thread's log.
func (w *world) entries(thread string) []mailroom.Entry {
	w.t.Helper()
	var found []mailroom.Entry
	err := w.store.View(w.t.Context(), func(r mailroom.Reader) (err error) {
		found, err = r.Entries(mailroom.EntryQuery{Thread: thread})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// count is how many entries of a kind a thread has.
func (w *world) count(thread, kind string) int {
	n := 0
	for _, e := range w.entries(thread) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// until waits for something that the platform is not told.
func (w *world) until(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("never: %s; the state is %+v", what, w.runner.State())
		}
	}
}

// out is the delivery thread of the canvas.
const out = "out:b:canvas:" + polltest.Workspace

func id(i int) string { return fmt.Sprintf("a-%d", i) }
