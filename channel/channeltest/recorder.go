package channeltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// Recorder runs a chat platform under a real [channel.Runner], without package chat. It records
// the events and the position.
type Recorder struct {
	Policy channel.ReconnectPolicy // of the runner; set it before Start

	t   *testing.T
	p   *Platform
	log *LogBuffer

	// Set by Start.
	runner *channel.Runner
	stop   func()

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	position string
	fail     func(chat.Event) error // called before an event is recorded; may be nil
	platform chat.Platform
	caps     chat.Capabilities
}

// NewRecorder returns a recorder that has not been started. Its policy does not take a slow machine
// for a silent platform.
func NewRecorder(t *testing.T, p *Platform) *Recorder {
	t.Helper()
	r := &Recorder{t: t, p: p, log: &LogBuffer{}, stop: func() {}}
	r.Policy = channel.ReconnectPolicy{InitialDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond,
		ParkAfter: -1, IdleTimeout: time.Minute}
	if !r.connects() {
		r.Policy.IdleTimeout = -1
	}
	t.Cleanup(func() {
		r.Stop()
		if r.runner != nil {
			checkSecrets(t, p, r.log.String()+r.runner.State().LastError)
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// Start runs the channel as a new process that resumes at the recorded position.
func (r *Recorder) Start() *Recorder {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ledger.New(memory.New(), ledger.Options{})
	dial := r.p.Dialer()
	r.runner = channel.New(channel.Options{
		Name: "c", Kind: r.p.Kind, Ledger: l, Reconnect: r.Policy, Log: log,
		Connect: func(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
			p, caps, err := dial(ctx, h)
			if err != nil {
				return nil, err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.platform, r.caps = p, caps
			return &recordingAdapter{p, r}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // callers get its errors
	parts.Go(func() { r.runner.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
	})
	return r
}

// Stop ends the process.
func (r *Recorder) Stop() { r.stop() }

// Crash ends the process, which records nothing more.
func (r *Recorder) Crash() {
	r.FailWith(func(chat.Event) error { return errors.New("the process is gone") })
	r.Stop()
}

// recordingAdapter passes events to its recorder.
type recordingAdapter struct {
	chat.Platform
	r *Recorder
}

// Receive implements [channel.Adapter].
func (a *recordingAdapter) Receive(ctx context.Context) error {
	return a.Platform.Receive(ctx, a.r.Position(), a.r.record)
}

// Deliver implements [channel.Adapter].
func (a *recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return nil
}

func (r *Recorder) record(_ context.Context, e chat.Event) error {
	r.mu.Lock()
	fail := r.fail
	r.mu.Unlock()
	if fail != nil {
		if err := fail(e); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.position = append(r.events, e), e.Position
	return nil
}

// FailWith calls f before an event is recorded. An error of f refuses the event.
func (r *Recorder) FailWith(f func(chat.Event) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = f
}

// Position returns the position of the last recorded event.
func (r *Recorder) Position() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position
}

// SetPosition sets the position at which the next connection resumes.
func (r *Recorder) SetPosition(position string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = position
}

// State returns the channel's state.
func (r *Recorder) State() channel.State { return r.runner.State() }

// Resume retries the channel now.
func (r *Recorder) Resume() { r.runner.Resume() }

// ConfigChanged tells the channel that its configuration changed.
func (r *Recorder) ConfigChanged() { r.runner.ConfigChanged() }

// Log returns the text that the channel has logged.
func (r *Recorder) Log() string { return r.log.String() }

// Capabilities returns the capabilities of the latest connection.
func (r *Recorder) Capabilities() chat.Capabilities {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.caps
}

// Recorded returns the events, also repeated ones.
func (r *Recorder) Recorded() []chat.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]chat.Event(nil), r.events...)
}

// Events returns the events without repeated ones.
func (r *Recorder) Events() (events []chat.Event) {
	type id struct {
		kind chat.EventKind
		room chat.Room
		key  string
	}
	seen := map[id]bool{}
	for _, e := range r.Recorded() {
		if at := (id{e.Kind, e.Room, e.Key}); !seen[at] {
			seen[at] = true
			events = append(events, e)
		}
	}
	return events
}

// Texts returns the texts of Events.
func (r *Recorder) Texts() string {
	var texts []string
	for _, e := range r.Events() {
		texts = append(texts, e.Text)
	}
	return strings.Join(texts, ", ")
}

// AwaitTexts waits until Texts is want.
func (r *Recorder) AwaitTexts(want string) {
	r.t.Helper()
	r.Await(want, func() bool { return r.Texts() == want })
}

// AwaitEvents waits for n events and returns them. There must not be more.
func (r *Recorder) AwaitEvents(n int) []chat.Event {
	r.t.Helper()
	r.Await("enough events", func() bool { return len(r.Events()) >= n })
	all := r.Events()
	if len(all) > n {
		r.t.Fatalf("%d events, want %d: %+v", len(all), n, all)
	}
	return all
}

// AwaitEvent waits for the n-th delivery, counted from 1, and returns it.
func (r *Recorder) AwaitEvent(n int) chat.Event {
	r.t.Helper()
	r.Await("an event", func() bool { return len(r.Recorded()) >= n })
	return r.Recorded()[n-1]
}

// AwaitConnected waits until the channel is connected, and returns its platform.
func (r *Recorder) AwaitConnected() chat.Platform {
	r.t.Helper()
	r.AwaitCondition(channel.ConditionConnected)
	return r.Connection()
}

// Connection returns the latest connection to the platform.
func (r *Recorder) Connection() chat.Platform {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.platform
}

// AwaitCondition waits for a condition of the channel and returns its state.
func (r *Recorder) AwaitCondition(want channel.Condition) channel.State {
	r.t.Helper()
	return r.AwaitState(string(want), func(s channel.State) bool { return s.Condition == want })
}

// AwaitState waits until good accepts the channel's state, and returns the state.
func (r *Recorder) AwaitState(what string, good func(channel.State) bool) (s channel.State) {
	r.t.Helper()
	r.Await(what, func() bool { s = r.runner.State(); return good(s) })
	return s
}

// AwaitError waits until the channel has reported an error that contains words. AwaitError searches the log and not
// the state, because the state keeps only the last error, which another error may replace at any time.
func (r *Recorder) AwaitError(words string) {
	r.t.Helper()
	r.Await("the error "+words, func() bool {
		for line := range strings.Lines(r.log.String()) {
			if _, reported, found := strings.Cut(line, " error="); found && strings.Contains(reported, words) {
				return true
			}
		}
		return false
	})
}

// Reconnect makes the channel connect again, and returns its platform.
func (r *Recorder) Reconnect() chat.Platform {
	r.t.Helper()
	before := r.State().Adapter
	r.ConfigChanged()
	r.AwaitState("another adapter", func(s channel.State) bool { return s.Adapter > before })
	return r.AwaitConnected()
}

// Await waits until good returns true.
func (r *Recorder) Await(what string, good func() bool) {
	r.t.Helper()
	await(r.t, what, good, func() string { return fmt.Sprintf("%q in %+v", r.Texts(), r.State()) })
}

// awaitTimeout ends a test that hangs. It is longer than anything takes on a busy machine.
const awaitTimeout = 5 * time.Minute

// await waits until good returns true. After the timeout it fails the test with what there is.
func await(t *testing.T, what string, good func() bool, is func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(awaitTimeout)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("timeout: %s; there is %s", what, is())
		}
	}
}
