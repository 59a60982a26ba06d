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

// fixture runs the platform under a real channel.Runner, without package chat. It records the
// events.
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
	recordErr    error // returned by record
	platform     chat.Platform
	capabilities chat.Capabilities
	token        string
}

// newFixture returns a fixture that has not been started.
func newFixture(t *testing.T, tg *telegramtest.Platform) *fixture {
	t.Helper()
	fx := &fixture{t: t, tg: tg, logs: &logBuffer{}, token: telegramtest.Token}
	fx.options = telegram.Options{API: tg.URL, Poll: time.Second, Token: func() (string, error) {
		fx.mu.Lock()
		defer fx.mu.Unlock()
		return fx.token, nil
	}}
	fx.policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a slow machine must not look silent
	return fx
}

func (fx *fixture) start() *fixture {
	fx.t.Helper()
	log := slog.New(slog.NewTextHandler(fx.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	fx.ledger = ledger.New(memory.New(), ledger.Options{})
	fx.runner = channel.New(channel.Options{
		Name: "tg", Kind: telegram.Kind, Ledger: fx.ledger, Reconnect: fx.policy, Log: log,
		Connect: func(ctx context.Context, host *channel.Host) (channel.Adapter, error) {
			p, caps, err := fx.options.Dial(ctx, host)
			if err != nil {
				return nil, err
			}
			fx.mu.Lock()
			defer fx.mu.Unlock()
			fx.platform, fx.capabilities = p, caps
			return &recordingAdapter{p, fx}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = fx.ledger.Run(ledgerCtx) }) // callers get its errors
	parts.Go(func() { fx.runner.Run(ctx) })
	fx.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		_, secret, _ := strings.Cut(telegramtest.Token, ":")
		if all := fx.logs.String(); strings.Contains(all, secret) || strings.Contains(fx.runner.State().LastError, secret) {
			fx.t.Errorf("the token is in a log or an error: %s\n%s", fx.runner.State().LastError, all)
		}
		if fx.t.Failed() {
			fx.t.Logf("%s\n%s", fx.logs.String(), fx.tg)
		}
	})
	return fx
}

// recordingAdapter is an adapter that passes events to its fixture.
type recordingAdapter struct {
	chat.Platform
	fx *fixture
}

func (b *recordingAdapter) Receive(ctx context.Context) error {
	return b.Platform.Receive(ctx, "", b.fx.record)
}

func (b *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

func (fx *fixture) record(_ context.Context, e chat.Event) error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.recordErr == nil {
		fx.events = append(fx.events, e)
	}
	return fx.recordErr
}

// failWith makes record return err; nil accepts events again.
func (fx *fixture) failWith(err error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.recordErr = err
}

func (fx *fixture) recorded() []chat.Event {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return append([]chat.Event(nil), fx.events...)
}

// texts returns the texts of the recorded events.
func (fx *fixture) texts() string {
	var all []string
	for _, e := range fx.recorded() {
		all = append(all, e.Text)
	}
	return strings.Join(all, ", ")
}

// waitConnected waits until the channel is connected, and returns its platform.
func (fx *fixture) waitConnected() chat.Platform {
	fx.t.Helper()
	fx.waitState("connected", func(s channel.State) bool { return s.Condition == channel.ConditionConnected })
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.platform
}

// waitState waits until good accepts the channel's state, and returns the state.
func (fx *fixture) waitState(what string, good func(channel.State) bool) channel.State {
	fx.t.Helper()
	var s channel.State
	waitFor(fx.t, what, func() bool { s = fx.runner.State(); return good(s) })
	return s
}

// waitFor polls until good returns true.
func waitFor(t *testing.T, what string, good func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("timeout waiting for %s", what)
		}
	}
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
