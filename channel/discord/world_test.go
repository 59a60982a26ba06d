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

// alone is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here, and so is the position.
type alone struct {
	t       *testing.T
	dc      *discordtest.Platform
	options discord.Options
	pace    channel.ReconnectPolicy
	runner  *channel.Runner
	logs    *logs
	stop    func()

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	refuse   error         // of take
	hold     chan struct{} // that take waits for; nil: it does not
	at       string
	platform chat.Platform
	traits   chat.Capabilities
	token    string
}

// newAlone makes one; run starts it.
func newAlone(t *testing.T, dc *discordtest.Platform) *alone {
	t.Helper()
	w := &alone{t: t, dc: dc, logs: &logs{}, token: discordtest.Token}
	w.options = discord.Options{API: dc.URL, Token: func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, nil
	}}
	w.pace = channel.ReconnectPolicy{First: 20 * time.Millisecond, Most: 100 * time.Millisecond, Attempts: -1, Fresh: time.Minute} // a busy machine is no failure
	return w
}

// run starts a process with the position of the last one.
func (w *alone) run() *alone {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	dial := w.options.Dialer()
	w.runner = channel.New(channel.Options{
		Name: "dc", Kind: discord.Kind, Ledger: l, Pace: w.pace, Log: log,
		Connect: func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
			p, traits, err := dial(ctx, l)
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
	w.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
	})
	w.t.Cleanup(func() {
		w.stop()
		if all := w.logs.all() + w.runner.State().LastError; strings.Contains(all, secret) {
			w.t.Errorf("the token is in what is told: %s", all)
		}
		if w.t.Failed() {
			w.t.Logf("%s\n%s", w.logs.all(), w.dc)
		}
	})
	return w
}

// secret is the part of the token that nobody may see.
const secret = "TheSecretOfTheBotThatIsUsedInTests"

// bare is an adapter that hands on.
type bare struct {
	chat.Platform
	w *alone
}

func (b *bare) Receive(ctx context.Context) error {
	b.w.mu.Lock()
	at := b.w.at
	b.w.mu.Unlock()
	return b.Platform.Receive(ctx, at, b.w.take)
}

func (b *bare) Deliver(context.Context, channel.Delivery, mailroom.Session) error { return nil }

// take keeps an event once, and its position each time, as the ledger does.
func (w *alone) take(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse == nil {
		w.events = append(w.events, e)
		w.at = e.Position
	}
	return w.refuse
}

// refuses has the next events refused with an error; nil takes them.
func (w *alone) refuses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

func (w *alone) taken() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// texts are those of what was taken, each event once.
func (w *alone) texts() string {
	var all []string
	seen := map[string]bool{}
	for _, e := range w.taken() {
		if !seen[e.Key] {
			all = append(all, e.Text)
		}
		seen[e.Key] = true
	}
	return strings.Join(all, ", ")
}

// reads waits until what was taken reads so.
func (w *alone) reads(want string) {
	w.t.Helper()
	until(w.t, want+", and not "+w.texts(), func() bool { return w.texts() == want })
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
	until(w.t, what, func() bool { s = w.runner.State(); return good(s) })
	return s
}

// until waits for something that nobody tells of.
func until(t *testing.T, what string, good func() bool) {
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
