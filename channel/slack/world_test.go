package slack_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// alone is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here, and so is the position.
type alone struct {
	t       *testing.T
	sl      *slacktest.Platform
	options slack.Options
	pace    channel.ReconnectPolicy
	runner  *channel.Runner
	logs    *logs

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	refuse   error // of take
	position string
	platform chat.Platform
	traits   chat.Capabilities
	tokens   [2]string // of the bot and of the app
	crash    func()    // ends the runner; nothing is taken from then on
}

// newAlone makes one; run starts it.
func newAlone(t *testing.T, sl *slacktest.Platform) *alone {
	t.Helper()
	w := &alone{t: t, sl: sl, logs: &logs{}, tokens: [2]string{slacktest.Token, slacktest.AppToken}}
	w.options = slack.Options{API: sl.URL, Token: w.token(0), AppToken: w.token(1), Fresh: time.Second}
	w.pace = channel.ReconnectPolicy{First: 20 * time.Millisecond, Most: 100 * time.Millisecond, Attempts: -1, Fresh: time.Minute} // a busy machine is no failure
	return w
}

func (w *alone) token(n int) func() (string, error) {
	return func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.tokens[n], nil
	}
}

func (w *alone) run() *alone {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "sl", Kind: slack.Kind, Ledger: l, Pace: w.pace, Log: log,
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
	w.crash = func() {
		w.refuses(errors.New("the process is gone"))
		cancel()
		parts.Wait()
	}
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		for _, secret := range []string{slacktest.Token, slacktest.AppToken, "?ticket="} {
			if all := w.logs.all() + w.runner.State().LastError; strings.Contains(all, secret) {
				w.t.Errorf("%q is in what is told: %s", secret, all)
			}
		}
		if w.t.Failed() {
			w.t.Logf("%s\n%s", w.logs.all(), w.sl)
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
	at := b.w.position
	b.w.mu.Unlock()
	return b.Platform.Receive(ctx, at, b.w.take)
}

func (b *bare) Deliver(context.Context, channel.Delivery, mailroom.Session) error { return nil }

func (w *alone) take(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse == nil {
		w.events = append(w.events, e)
		w.position = e.Position
	}
	return w.refuse
}

// refuses has the next events refused with an error; nil takes them.
func (w *alone) refuses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// starts sets the position that is received from.
func (w *alone) starts(position string) *alone {
	w.position = position
	return w
}

func (w *alone) taken() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// wait waits for as many events, each with a key of its own, and returns them.
func (w *alone) wait(n int) []chat.Event {
	w.t.Helper()
	var found []chat.Event
	until(w.t, "enough events", func() bool {
		found = nil
		seen := map[string]bool{}
		for _, e := range w.taken() {
			if !seen[e.Key] {
				found = append(found, e)
			}
			seen[e.Key] = true
		}
		return len(found) >= n
	})
	w.sl.Until(w.t, "everything acknowledged", func() bool { return w.sl.Pending() == 0 })
	if len(found) > n {
		w.t.Fatalf("%d events, want %d: %+v", len(found), n, found)
	}
	return found
}

// texts are those of what was taken, each key once.
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
