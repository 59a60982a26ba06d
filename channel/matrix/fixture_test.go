package matrix_test

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
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// servers start the homeservers that the tests run on, and return their URLs. The build tag
// realchannels adds Dendrite.
var servers = map[string]func(t *testing.T) string{
	"made here": func(t *testing.T) string { return matrixtest.Start(t).URL },
}

// forEachServer runs a test on every homeserver.
func forEachServer(t *testing.T, play func(t *testing.T, url string)) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t))
		})
	}
}

// fixture runs the platform under the real channel runner and records its events. Ann is in a
// private room with the bot.
type fixture struct {
	t        *testing.T
	url      string // of the homeserver
	proxy    *matrixtest.Proxy
	bot, ann *matrixtest.Person
	private  string
	options  matrix.Options
	policy   channel.ReconnectPolicy
	runner   *channel.Runner
	logs     *logBuffer

	// Owned by mu.
	mu           sync.Mutex
	events       []chat.Event
	position     string // of the last recorded event
	recordErr    func(e chat.Event) error
	platform     chat.Platform
	capabilities chat.Capabilities
	token        string
}

// newFixture returns a fixture; start starts it.
func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	return newFixtureNamed(t, url, "")
}

// newFixtureNamed returns one of several fixtures on the same homeserver.
func newFixtureNamed(t *testing.T, url, more string) *fixture {
	t.Helper()
	w := &fixture{t: t, url: url, proxy: matrixtest.NewProxy(t, url), logs: &logBuffer{}}
	w.bot, w.ann = matrixtest.NewPerson(t, url, "mailroom"+more, "Mail Room"), matrixtest.NewPerson(t, url, "ann"+more, "Ann")
	w.token, w.private = w.bot.Token, w.ann.NewRoom(true, w.bot)
	w.bot.Joins(w.private)
	w.options = matrix.Options{Homeserver: w.proxy.URL, Poll: time.Second, Token: func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, nil
	}}
	w.policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a busy machine must not look like a dead connection
	return w
}

func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "mx", Kind: matrix.Kind, Ledger: l, Reconnect: w.policy, Log: log,
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
	last.Go(func() { _ = l.Run(ledgerCtx) }) // returns when its context ends
	parts.Go(func() { w.runner.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		if all := w.logs.String(); strings.Contains(all, w.token) || strings.Contains(w.runner.State().LastError, w.token) {
			w.t.Errorf("the token is in the output: %s\n%s", w.runner.State().LastError, all)
		}
		if w.t.Failed() {
			w.t.Logf("%s", w.logs.String())
		}
	})
	return w
}

// recordingAdapter passes events to its fixture.
type recordingAdapter struct {
	chat.Platform
	f *fixture
}

func (b *recordingAdapter) Receive(ctx context.Context) error {
	b.f.mu.Lock()
	position := b.f.position
	b.f.mu.Unlock()
	return b.Platform.Receive(ctx, position, b.f.record)
}

func (b *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

func (w *fixture) record(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recordErr != nil {
		if err := w.recordErr(e); err != nil {
			return err
		}
	}
	w.events, w.position = append(w.events, e), e.Position
	return nil
}

// failWith makes recording an event fail with the error that f returns.
func (w *fixture) failWith(f func(e chat.Event) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordErr = f
}

// setPosition sets the position at which the next connection starts.
func (w *fixture) setPosition(position string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = position
}

func (w *fixture) recorded() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// texts returns the texts of the recorded events.
func (w *fixture) texts() string {
	var all []string
	for _, e := range w.recorded() {
		all = append(all, e.Text)
	}
	return strings.Join(all, ", ")
}

// waitTexts waits until exactly these texts are recorded.
func (w *fixture) waitTexts(want string) {
	w.t.Helper()
	matrixtest.WaitFor(w.t, want, func() bool { return len(w.texts()) >= len(want) })
	if got := w.texts(); got != want {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// waitConnected waits until the channel is connected, and returns its platform.
func (w *fixture) waitConnected() chat.Platform {
	w.t.Helper()
	w.waitState("connected", func(s channel.State) bool { return s.Condition == channel.ConditionConnected })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.platform
}

// waitState waits for a state of the channel.
func (w *fixture) waitState(what string, good func(channel.State) bool) channel.State {
	w.t.Helper()
	var s channel.State
	matrixtest.WaitFor(w.t, what, func() bool { s = w.runner.State(); return good(s) })
	return s
}

// reconnect makes the channel connect again.
func (w *fixture) reconnect() chat.Platform {
	w.t.Helper()
	before := w.runner.State().Adapter
	w.runner.ConfigChanged()
	w.waitState("another adapter", func(s channel.State) bool { return s.Adapter > before })
	return w.waitConnected()
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
