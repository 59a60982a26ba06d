package discord_test

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
	"mailroom/channel/discord"
	"mailroom/channel/discord/discordtest"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// fixture runs the platform under a real channel.Runner, without package chat. It records the
// events and the position.
type fixture struct {
	t       *testing.T
	dc      *discordtest.Platform
	options discord.Options
	policy  channel.ReconnectPolicy
	runner  *channel.Runner
	logs    *logBuffer
	stop    func()

	// Owned by mu.
	mu           sync.Mutex
	events       []chat.Event
	recordErr    error         // returned by record
	hold         chan struct{} // record waits until it is closed; nil: it does not wait
	position     string
	platform     chat.Platform
	capabilities chat.Capabilities
	token        string
}

// newFixture returns a fixture that has not been started.
func newFixture(t *testing.T, dc *discordtest.Platform) *fixture {
	t.Helper()
	fx := &fixture{t: t, dc: dc, logs: &logBuffer{}, token: discordtest.Token}
	fx.options = discord.Options{API: dc.URL, Token: func() (string, error) {
		fx.mu.Lock()
		defer fx.mu.Unlock()
		return fx.token, nil
	}}
	fx.policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a slow machine must not look silent
	return fx
}

// start runs the channel as a new process with the saved position.
func (fx *fixture) start() *fixture {
	fx.t.Helper()
	log := slog.New(slog.NewTextHandler(fx.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	dial := fx.options.Dialer()
	fx.runner = channel.New(channel.Options{
		Name: "dc", Kind: discord.Kind, Ledger: l, Reconnect: fx.policy, Log: log,
		Connect: func(ctx context.Context, host *channel.Host) (channel.Adapter, error) {
			p, caps, err := dial(ctx, host)
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
	last.Go(func() { _ = l.Run(ledgerCtx) }) // callers get its errors
	parts.Go(func() { fx.runner.Run(ctx) })
	fx.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
	})
	fx.t.Cleanup(func() {
		fx.stop()
		if all := fx.logs.String() + fx.runner.State().LastError; strings.Contains(all, secret) {
			fx.t.Errorf("the token is in a log or an error: %s", all)
		}
		if fx.t.Failed() {
			fx.t.Logf("%s\n%s", fx.logs.String(), fx.dc)
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
	b.fx.mu.Lock()
	at := b.fx.position
	b.fx.mu.Unlock()
	return b.Platform.Receive(ctx, at, b.fx.record)
}

func (b *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

// record records an event and its position. It blocks while hold is open.
func (fx *fixture) record(_ context.Context, e chat.Event) error {
	fx.mu.Lock()
	hold := fx.hold
	fx.mu.Unlock()
	if hold != nil {
		<-hold
	}
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.recordErr == nil {
		fx.events = append(fx.events, e)
		fx.position = e.Position
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

// texts returns the texts of the recorded events, each key once.
func (fx *fixture) texts() string {
	var all []string
	seen := map[string]bool{}
	for _, e := range fx.recorded() {
		if !seen[e.Key] {
			all = append(all, e.Text)
		}
		seen[e.Key] = true
	}
	return strings.Join(all, ", ")
}

// waitTexts waits until the recorded texts are want.
func (fx *fixture) waitTexts(want string) {
	fx.t.Helper()
	waitFor(fx.t, want+", and not "+fx.texts(), func() bool { return fx.texts() == want })
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
