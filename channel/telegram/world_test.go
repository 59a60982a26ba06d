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

// alone is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here.
type alone struct {
	t       *testing.T
	tg      *telegramtest.Platform
	options telegram.Options
	pace    channel.ReconnectPolicy
	ledger  *ledger.Ledger
	runner  *channel.Runner
	logs    *logs

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	refuse   error // of take
	platform chat.Platform
	traits   chat.Capabilities
	token    string
}

// newAlone makes one; run starts it.
func newAlone(t *testing.T, tg *telegramtest.Platform) *alone {
	t.Helper()
	w := &alone{t: t, tg: tg, logs: &logs{}, token: telegramtest.Token}
	w.options = telegram.Options{API: tg.URL, Poll: time.Second, Token: func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, nil
	}}
	w.pace = channel.ReconnectPolicy{First: 20 * time.Millisecond, Most: 100 * time.Millisecond, Attempts: -1, Fresh: time.Minute} // a busy machine is no failure
	return w
}

func (w *alone) run() *alone {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.ledger = ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "tg", Kind: telegram.Kind, Ledger: w.ledger, Pace: w.pace, Log: log,
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
	last.Go(func() { _ = w.ledger.Run(ledgerCtx) }) // what it cannot write, nobody waits for
	parts.Go(func() { w.runner.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		_, secret, _ := strings.Cut(telegramtest.Token, ":")
		if all := w.logs.all(); strings.Contains(all, secret) || strings.Contains(w.runner.State().LastError, secret) {
			w.t.Errorf("the token is in what is told: %s\n%s", w.runner.State().LastError, all)
		}
		if w.t.Failed() {
			w.t.Logf("%s\n%s", w.logs.all(), w.tg)
		}
	})
	return w
}

// bare is an adapter that hands on.
type bare struct {
	chat.Platform
	w *alone
}

func (b *bare) Receive(ctx context.Context) error { return b.Platform.Receive(ctx, "", b.w.take) }

func (b *bare) Deliver(context.Context, channel.Delivery, mailroom.Session) error { return nil }

func (w *alone) take(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse == nil {
		w.events = append(w.events, e)
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

// texts are those of what was taken.
func (w *alone) texts() string {
	var all []string
	for _, e := range w.taken() {
		all = append(all, e.Text)
	}
	return strings.Join(all, ", ")
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
