package channeltest

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/store"
)

// LogBuffer collects the output of a log.
type LogBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *LogBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// NewLedger returns a ledger on a store, and the bus that announces its commits. All agents have the retries that a
// server gives to a channel's.
func NewLedger(on store.Store, o ledger.Options) (*ledger.Ledger, *bus.Bus) {
	b := bus.New()
	o.Publish = func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) }
	if o.Retry == nil {
		o.Retry = func(string) retry.Policy { return retry.Delivery() }
	}
	return ledger.New(on, o), b
}

// StartServer runs a ledger, an engine and a channel until stop. stopChannel stops the engine and the channel only,
// for a test of what the rest of a server does without them. Another call of either does nothing.
func StartServer(t *testing.T, l *ledger.Ledger, e *engine.Engine, r *channel.Runner) (stopChannel, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // the tests check the results
	if err := l.Workers().EndLocalWorkers(ctx, false); err != nil {
		t.Fatal(err)
	}
	parts.Go(func() { _ = e.Run(ctx) }) // as above
	parts.Go(func() { r.Run(ctx) })
	stopChannel = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
	})
	return stopChannel, sync.OnceFunc(func() {
		stopChannel()
		cancelLedger()
		last.Wait()
	})
}
