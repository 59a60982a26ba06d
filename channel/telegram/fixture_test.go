package telegram_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// fixture is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here.
type fixture struct {
	t       *testing.T
	tg      *telegramtest.Platform
	options telegram.Options
	policy  channel.ReconnectPolicy
	ledger  *ledger.Ledger
	runner  *channel.Runner
	logs    *logBuffer

	// Owned by mu.
	mu           sync.Mutex
	events       []chat.Event
	recordErr    error // of take
	platform     chat.Platform
	capabilities chat.Capabilities
	token        string
}

// newFixture makes one; run starts it.
func newFixture(t *testing.T, tg *telegramtest.Platform) *fixture {
	t.Helper()
	w := &fixture{t: t, tg: tg, logs: &logBuffer{}, token: telegramtest.Token}
	w.options = telegram.Options{API: tg.URL, Poll: time.Second, Token: func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, nil
	}}
	w.policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a busy machine is no failure
	return w
}

func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.ledger = ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "tg", Kind: telegram.Kind, Ledger: w.ledger, Reconnect: w.policy, Log: log,
		Connect: func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
			p, traits, err := w.options.Dial(ctx, l)
			if err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.platform, w.capabilities = p, traits
			return &recordingAdapter{p, w}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = w.ledger.Run(ledgerCtx) }) // what it cannot write, nobody waits for
	parts.Go(func() { w.runner.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		_, secret, _ := strings.Cut(telegramtest.Token, ":")
		if all := w.logs.String(); strings.Contains(all, secret) || strings.Contains(w.runner.State().LastError, secret) {
			w.t.Errorf("the token is in what is told: %s\n%s", w.runner.State().LastError, all)
		}
		if w.t.Failed() {
			w.t.Logf("%s\n%s", w.logs.String(), w.tg)
		}
	})
	return w
}

// recordingAdapter is an adapter that hands on.
type recordingAdapter struct {
	chat.Platform
	f *fixture
}

func (b *recordingAdapter) Receive(ctx context.Context) error {
	return b.Platform.Receive(ctx, "", b.f.record)
}

func (b *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

func (w *fixture) record(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recordErr == nil {
		w.events = append(w.events, e)
	}
	return w.recordErr
}

// failWith has the next events refused with an error; nil takes them.
func (w *fixture) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordErr = err
}

func (w *fixture) recorded() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// texts are those of what was taken.
func (w *fixture) texts() string {
	var all []string
	for _, e := range w.recorded() {
		all = append(all, e.Text)
	}
	return strings.Join(all, ", ")
}

// waitConnected waits until the channel is, and returns its platform.
func (w *fixture) waitConnected() chat.Platform {
	w.t.Helper()
	w.waitState("connected", func(s channel.State) bool { return s.Condition == channel.ConditionConnected })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.platform
}

// waitState waits until the channel says something of itself.
func (w *fixture) waitState(what string, good func(channel.State) bool) channel.State {
	w.t.Helper()
	var s channel.State
	waitFor(w.t, what, func() bool { s = w.runner.State(); return good(s) })
	return s
}

// waitFor waits for something that nobody tells of.
func waitFor(t *testing.T, what string, good func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// logBuffer keeps what is logged.
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
