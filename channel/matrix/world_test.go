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

// servers start the homeservers that these tests are played on, and return their
// addresses. The build tag realchannels adds Dendrite.
var servers = map[string]func(t *testing.T) string{
	"made here": func(t *testing.T) string { return matrixtest.Start(t).URL },
}

// everywhere plays a test on all of them.
func everywhere(t *testing.T, play func(t *testing.T, url string)) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t))
		})
	}
}

// alone is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here. Ann is in a private room with the bot.
type alone struct {
	t        *testing.T
	url      string // of the homeserver
	way      *matrixtest.Way
	bot, ann *matrixtest.Person
	private  string
	options  matrix.Options
	pace     channel.ReconnectPolicy
	runner   *channel.Runner
	logs     *logs

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	position string // of the last one
	refuse   func(e chat.Event) error
	platform chat.Platform
	traits   chat.Capabilities
	token    string
}

// newAlone makes one; run starts it.
func newAlone(t *testing.T, url string) *alone {
	t.Helper()
	return newAloneAs(t, url, "")
}

// newAloneAs makes one beside others on its homeserver.
func newAloneAs(t *testing.T, url, more string) *alone {
	t.Helper()
	w := &alone{t: t, url: url, way: matrixtest.NewWay(t, url), logs: &logs{}}
	w.bot, w.ann = matrixtest.Enter(t, url, "mailroom"+more, "Mail Room"), matrixtest.Enter(t, url, "ann"+more, "Ann")
	w.token, w.private = w.bot.Token, w.ann.Room(true, w.bot)
	w.bot.Joins(w.private)
	w.options = matrix.Options{Homeserver: w.way.URL, Poll: time.Second, Token: func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, nil
	}}
	w.pace = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a busy machine is no failure
	return w
}

func (w *alone) run() *alone {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "mx", Kind: matrix.Kind, Ledger: l, Reconnect: w.pace, Log: log,
		Connect: func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
			p, traits, err := w.options.Dial(ctx, l)
			if err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.platform, w.traits = p, traits
			return &bare{p, w}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // what it cannot write, nobody waits for
	parts.Go(func() { w.runner.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		if all := w.logs.all(); strings.Contains(all, w.token) || strings.Contains(w.runner.State().LastError, w.token) {
			w.t.Errorf("the token is in what is told: %s\n%s", w.runner.State().LastError, all)
		}
		if w.t.Failed() {
			w.t.Logf("%s", w.logs.all())
		}
	})
	return w
}

// bare is an adapter that hands on.
type bare struct {
	chat.Platform
	w *alone
}

func (b *bare) Receive(ctx context.Context) error {
	b.w.mu.Lock()
	position := b.w.position
	b.w.mu.Unlock()
	return b.Platform.Receive(ctx, position, b.w.take)
}

func (b *bare) Deliver(context.Context, channel.Delivery, mailroom.Session) error { return nil }

func (w *alone) take(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(e); err != nil {
			return err
		}
	}
	w.events, w.position = append(w.events, e), e.Position
	return nil
}

// refuses has events refused with what f returns; nil takes them.
func (w *alone) refuses(f func(e chat.Event) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = f
}

// begins has the next connection begin at a position.
func (w *alone) begins(position string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = position
}

func (w *alone) taken() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// texts are those of what was taken.
func (w *alone) texts() string {
	var all []string
	for _, e := range w.taken() {
		all = append(all, e.Text)
	}
	return strings.Join(all, ", ")
}

// is waits until these texts were taken.
func (w *alone) is(want string) {
	w.t.Helper()
	matrixtest.Until(w.t, want, func() bool { return len(w.texts()) >= len(want) })
	if got := w.texts(); got != want {
		w.t.Errorf("taken was %q, want %q", got, want)
	}
}

// connected waits until the channel is, and returns its platform.
func (w *alone) connected() chat.Platform {
	w.t.Helper()
	w.untilState("connected", func(s channel.State) bool { return s.Condition == channel.ConditionConnected })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.platform
}

// untilState waits until the channel says something of itself.
func (w *alone) untilState(what string, good func(channel.State) bool) channel.State {
	w.t.Helper()
	var s channel.State
	matrixtest.Until(w.t, what, func() bool { s = w.runner.State(); return good(s) })
	return s
}

// again has the channel connect once more.
func (w *alone) again() chat.Platform {
	w.t.Helper()
	before := w.runner.State().Adapter
	w.runner.ConfigChanged()
	w.untilState("another adapter", func(s channel.State) bool { return s.Adapter > before })
	return w.connected()
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
