package channeltest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// fixture is a server with one channel. Its store survives restarts.
type fixture struct {
	t     *testing.T
	p     *Platform
	store mailroom.Store
	log   *logBuffer
	proxy *Proxy        // nil without a proxy
	hold  chan struct{} // delays the agent until closed; nil: no delay

	// Set by start.
	runner   *channel.Runner
	shutdown func() // nil while stopped

	// Owned by mu.
	mu   sync.Mutex
	live int // adapters between the call of Connect and the return of Close
}

func newFixture(t *testing.T, p *Platform) *fixture {
	t.Helper()
	if p.Reconnect.CloseTimeout == 0 {
		p.Reconnect.CloseTimeout = 3 * time.Second
	}
	if p.Reconnect.ParkAfter == 0 {
		p.Reconnect.ParkAfter = -1
	}
	o := &fixture{t: t, p: p, store: memory.New(), log: &logBuffer{}}
	t.Cleanup(func() {
		if o.shutdown != nil {
			o.shutdown()
		}
		if t.Failed() {
			t.Log(o.log.String())
		}
	})
	return o
}

// start runs the server until stop.
func (o *fixture) start() {
	o.t.Helper()
	log := slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	b := bus.New()
	l := ledger.New(o.store, ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	o.runner = channel.New(channel.Options{Name: "c", Kind: o.p.Kind, Connect: o.connect, Reconnect: o.p.Reconnect, Ledger: l, Log: log})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{Agent: {Agent: mailroom.AgentFunc(o.answer)}, channel.AgentName("c"): {Agent: o.runner.Agent(), Ready: o.runner.Connected}},
		Local:  true, ShutdownGrace: 2 * time.Second, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // the cases check the results
	if err := l.EndLocalWorkers(ctx, false); err != nil {
		o.t.Fatal(err)
	}
	parts.Go(func() { _ = e.Run(ctx) }) // as above
	parts.Go(func() { o.runner.Run(ctx) })
	o.shutdown = func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
	}
}

// answer is the echo agent.
func (o *fixture) answer(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	if o.hold != nil {
		select {
		case <-o.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Stream(ctx, input[len(input)-1].Text)
}

// stop stops the server and checks that every adapter has closed.
func (o *fixture) stop() {
	o.t.Helper()
	o.shutdown()
	o.shutdown = nil
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live != 0 || strings.Contains(o.log.String(), "did not stop in time") {
		o.t.Errorf("%d adapters have not closed", o.live)
	}
	if strings.Contains(o.log.String(), "adapter close failed") || strings.Contains(o.log.String(), "panic") {
		o.t.Error("the log reports a failed close or a panic")
	}
}

// State returns the channel's state.
func (o *fixture) State() channel.State { return o.runner.State() }

// Resume retries the channel now.
func (o *fixture) Resume() { o.runner.Resume() }

// awaitSettled waits until no run is queued, running or waiting.
func (o *fixture) awaitSettled() {
	o.t.Helper()
	o.await("all runs and deliveries have finished", func() bool {
		return o.runs(mailroom.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting}}) == 0
	})
}

// runs counts the runs that match a query.
func (o *fixture) runs(of mailroom.RunQuery) (n int) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r mailroom.Reader) (err error) {
		rows, err := r.Runs(of)
		n = len(rows)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// connect wraps the platform's Connect and counts running adapters.
func (o *fixture) connect(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
	o.countLive(1)
	a, err := o.p.Connect(ctx, l)
	if err != nil {
		o.countLive(-1)
		return nil, err
	}
	return countedAdapter{a, o}, nil
}

func (o *fixture) countLive(more int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live += more; o.live > 1 {
		o.t.Errorf("%d adapters run at once", o.live)
	}
}

// countedAdapter counts its adapter's Close.
type countedAdapter struct {
	channel.Adapter
	f *fixture
}

func (n countedAdapter) Close() error {
	defer n.f.countLive(-1)
	return n.Adapter.Close()
}

// logBuffer collects log output.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
