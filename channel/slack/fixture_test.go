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

// fixture is the platform under the real runner, with nothing of a chat above it: what
// arrives is kept here, and so is the position.
type fixture struct {
	t       *testing.T
	sl      *slacktest.Platform
	options slack.Options
	policy  channel.ReconnectPolicy
	runner  *channel.Runner
	logs    *logBuffer

	// Owned by mu.
	mu           sync.Mutex
	events       []chat.Event
	recordErr    error // of take
	position     string
	platform     chat.Platform
	capabilities chat.Capabilities
	tokens       [2]string // of the bot and of the app
	crash        func()    // ends the runner; nothing is taken from then on
}

// newFixture makes one; run starts it.
func newFixture(t *testing.T, sl *slacktest.Platform) *fixture {
	t.Helper()
	w := &fixture{t: t, sl: sl, logs: &logBuffer{}, tokens: [2]string{slacktest.Token, slacktest.AppToken}}
	w.options = slack.Options{API: sl.URL, Token: w.tokenFunc(0), AppToken: w.tokenFunc(1), IdleTimeout: time.Second}
	w.policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond, ParkAfter: -1, IdleTimeout: time.Minute} // a busy machine is no failure
	return w
}

func (w *fixture) tokenFunc(n int) func() (string, error) {
	return func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.tokens[n], nil
	}
}

func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	w.runner = channel.New(channel.Options{
		Name: "sl", Kind: slack.Kind, Ledger: l, Reconnect: w.policy, Log: log,
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
	last.Go(func() { _ = l.Run(ledgerCtx) }) // what it cannot write, nobody waits for
	parts.Go(func() { w.runner.Run(ctx) })
	w.crash = func() {
		w.failWith(errors.New("the process is gone"))
		cancel()
		parts.Wait()
	}
	w.t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		for _, secret := range []string{slacktest.Token, slacktest.AppToken, "?ticket="} {
			if all := w.logs.String() + w.runner.State().LastError; strings.Contains(all, secret) {
				w.t.Errorf("%q is in what is told: %s", secret, all)
			}
		}
		if w.t.Failed() {
			w.t.Logf("%s\n%s", w.logs.String(), w.sl)
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
	b.f.mu.Lock()
	at := b.f.position
	b.f.mu.Unlock()
	return b.Platform.Receive(ctx, at, b.f.record)
}

func (b *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

func (w *fixture) record(_ context.Context, e chat.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recordErr == nil {
		w.events = append(w.events, e)
		w.position = e.Position
	}
	return w.recordErr
}

// failWith has the next events refused with an error; nil takes them.
func (w *fixture) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordErr = err
}

// startAt sets the position that is received from.
func (w *fixture) startAt(position string) *fixture {
	w.position = position
	return w
}

func (w *fixture) recorded() []chat.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]chat.Event(nil), w.events...)
}

// waitEvents waits for as many events, each with a key of its own, and returns them.
func (w *fixture) waitEvents(n int) []chat.Event {
	w.t.Helper()
	var found []chat.Event
	waitFor(w.t, "enough events", func() bool {
		found = nil
		seen := map[string]bool{}
		for _, e := range w.recorded() {
			if !seen[e.Key] {
				found = append(found, e)
			}
			seen[e.Key] = true
		}
		return len(found) >= n
	})
	w.sl.WaitFor(w.t, "everything acknowledged", func() bool { return w.sl.Pending() == 0 })
	if len(found) > n {
		w.t.Fatalf("%d events, want %d: %+v", len(found), n, found)
	}
	return found
}

// texts are those of what was taken, each key once.
func (w *fixture) texts() string {
	var all []string
	seen := map[string]bool{}
	for _, e := range w.recorded() {
		if !seen[e.Key] {
			all = append(all, e.Text)
		}
		seen[e.Key] = true
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
