package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/entry"
)

// platform is a fake platform that calls the test's functions. The zero value connects and sends
// no heartbeat.
type platform struct {
	connect     func(ctx context.Context, l *channel.Host) error
	receive     func(ctx context.Context, l *channel.Host) error
	maintain    func(ctx context.Context, l *channel.Host) error
	deliver     func(ctx context.Context, l *channel.Host) error
	delivered   func(d channel.Delivery) // called before deliver
	close       func() error
	appendError error       // of AppendEntry
	panicOnce   atomic.Bool // the next event panics, once

	mu      sync.Mutex
	tries   []time.Time // times of Connect
	live    int         // adapters between Connect and the return of Close
	maxLive int         // its maximum
	hosts   []*channel.Host
}

func (p *platform) Connect(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
	p.mu.Lock()
	p.tries = append(p.tries, time.Now())
	p.hosts = append(p.hosts, l)
	p.mu.Unlock()
	if p.connect != nil {
		if err := p.connect(ctx, l); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live++
	p.maxLive = max(p.maxLive, p.live)
	return &adapter{p, l}, nil
}

func (p *platform) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tries)
}

type adapter struct {
	*platform
	host *channel.Host
}

func (a *adapter) Receive(ctx context.Context) error {
	if a.receive != nil {
		return a.receive(ctx, a.host)
	}
	<-ctx.Done()
	return nil
}

func (a *adapter) Maintain(ctx context.Context) error {
	if a.maintain != nil {
		return a.maintain(ctx, a.host)
	}
	return nil
}

func (a *adapter) Deliver(ctx context.Context, d channel.Delivery, _ mailroom.Session) error {
	if a.delivered != nil {
		a.delivered(d)
	}
	return a.deliver(ctx, a.host)
}

func (a *adapter) Close() error {
	defer func() {
		a.mu.Lock()
		a.live--
		a.mu.Unlock()
	}()
	if a.close != nil {
		return a.close()
	}
	return nil
}

// pollWhile is a Receive that polls each second. It succeeds while up is true.
func pollWhile(up *atomic.Bool) func(ctx context.Context, l *channel.Host) error {
	return func(ctx context.Context, l *channel.Host) error {
		for {
			if !up.Load() {
				return errors.New("it is down")
			}
			l.Received()
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// fakeLedger records state changes and supports nothing else.
type fakeLedger struct {
	channel.Ledger
	mu      sync.Mutex
	changes []channel.Change
	fail    error
	hold    chan struct{} // delays AppendEntry; nil: no delay
	wakes   atomic.Int32
}

func (n *fakeLedger) AppendEntry(_ context.Context, thread, kind string, body json.RawMessage) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c channel.Change
	if err := json.Unmarshal(body, &c); err != nil || kind != entry.KindChannel || thread != "channel:"+c.Channel {
		return 0, fmt.Errorf("%s in %s: %s (%v)", kind, thread, body, err)
	}
	n.changes = append(n.changes, c)
	if hold := n.hold; hold != nil {
		n.mu.Unlock()
		<-hold
		n.mu.Lock()
	}
	return int64(len(n.changes)), n.fail
}

func (n *fakeLedger) AskClaimers() { n.wakes.Add(1) }

// states returns the recorded states in order.
func (n *fakeLedger) states() (states []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.changes {
		states = append(states, string(c.State))
	}
	return states
}

// fixture is a channel in a synctest bubble.
type fixture struct {
	*channel.Runner
	t      *testing.T
	p      *platform
	ledger *fakeLedger
	log    *channeltest.LogBuffer
	stop   func()
}

// withRunner runs a channel in a synctest bubble and calls look.
func withRunner(t *testing.T, pace channel.ReconnectPolicy, look func(b *fixture), prepare func(p *platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, "c", pace, prepare)
		synctest.Wait()
		look(b)
		b.stop()
	})
}

func newFixture(t *testing.T, name string, pace channel.ReconnectPolicy, prepare func(p *platform)) *fixture {
	b := &fixture{t: t, p: &platform{}, ledger: &fakeLedger{}, log: &channeltest.LogBuffer{}}
	prepare(b.p)
	b.ledger.fail = b.p.appendError
	b.Runner = channel.New(channel.Options{
		Name: name, Kind: "k", Connect: b.p.Connect, Reconnect: pace, Ledger: b.ledger, Jitter: func() float64 {
			if b.p.panicOnce.CompareAndSwap(true, false) {
				panic("bomb")
			}
			return 0
		},
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		b.Run(ctx)
		close(done)
	}()
	b.stop = func() {
		cancel()
		<-done
	}
	return b
}

// advance lets time pass.
func (b *fixture) advance(d time.Duration) *fixture {
	<-time.After(d)
	synctest.Wait()
	return b
}

func (b *fixture) expect(want channel.Condition, reason string) channel.State {
	b.t.Helper()
	s := b.State()
	if s.Condition != want || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
		b.t.Errorf("the state is %s, %q, want %s, %q", s.Condition, s.Reason, want, reason)
	}
	if b.Connected() != (s.Condition == channel.ConditionConnected) {
		b.t.Errorf("the state is %s, but Connected is %v", s.Condition, b.Connected())
	}
	return s
}

// TestAChannelRecoversFromATwoHourOutage plays a common outage: the channel parks and reconnects
// without an operator.
func TestAChannelRecoversFromATwoHourOutage(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		b.advance(time.Hour).expect(channel.ConditionConnected, "")
		up.Store(false)
		b.advance(2 * time.Hour)
		s := b.expect(channel.ConditionParked, "it is down")
		if left := time.Until(s.NextTry); left <= 0 || left > 15*time.Minute || s.Downtime < 2*time.Hour-time.Second {
			t.Errorf("the next try is in %s, after %s", left, s.Downtime)
		}
		up.Store(true)
		b.advance(15 * time.Minute)
		s = b.expect(channel.ConditionConnected, "")
		if s.Reconnects != 1 || s.Downtime > 2*time.Hour+15*time.Minute+time.Second || b.p.maxLive != 1 {
			t.Errorf("%d reconnects, %s down, %d adapters at once", s.Reconnects, s.Downtime, b.p.maxLive)
		}
		if diff := cmp.Diff([]string{"starting", "connected", "queued", "parked", "connected"},
			b.ledger.states()); diff != "" {
			t.Error(diff)
		}
	}, func(p *platform) { p.receive = pollWhile(&up) })
}

func TestTheEngineIsWokenWheneverAChannelIsConnected(t *testing.T) {
	var up atomic.Bool
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		for n := range int32(3) {
			b.advance(10 * time.Minute)
			if got := b.ledger.wakes.Load(); got != n || b.Connected() {
				t.Errorf("outage %d: the engine was woken %d times", n+1, got)
			}
			up.Store(true)
			b.advance(10*time.Minute).expect(channel.ConditionConnected, "")
			if got := b.ledger.wakes.Load(); got != n+1 {
				t.Errorf("connection %d: the engine was woken %d times", n+1, got)
			}
			up.Store(false)
		}
		up.Store(true)
		b.advance(10*time.Minute).expect(channel.ConditionConnected, "")
		b.stop()
		if b.Connected() {
			t.Error("Connected() = true after the end of Run")
		}
	}, func(p *platform) { p.receive = pollWhile(&up) })
}

func TestAChannelThatGaveUpRetriesOnlyOnceResumed(t *testing.T) {
	var up atomic.Bool
	withRunner(t, channel.ReconnectPolicy{GiveUpAfter: 3}, func(b *fixture) {
		b.advance(24 * time.Hour)
		if s := b.expect(channel.ConditionGaveUp, "it is down"); b.p.count() != 3 || !s.NextTry.IsZero() ||
			s.Condition.Alive() {
			t.Errorf("after %d tries: %+v", b.p.count(), s)
		}
		up.Store(true)
		b.Resume()
		b.advance(0).expect(channel.ConditionConnected, "")
	}, func(p *platform) { p.receive = pollWhile(&up) })
}

func TestAParkedChannelRetriesOnRequest(t *testing.T) {
	for name, how := range map[string]func(*channel.Runner){"resumed": (*channel.Runner).Resume,
		"changed": (*channel.Runner).ConfigChanged} {
		t.Run(name, func(t *testing.T) {
			var up atomic.Bool
			withRunner(t, channel.ReconnectPolicy{ParkAfter: 2}, func(b *fixture) {
				b.advance(5*time.Minute).expect(channel.ConditionParked, "it is down")
				how(b.Runner) // the platform is still down
				if s := b.advance(0).expect(channel.ConditionQueued, "it is down"); s.Attempts != 1 {
					t.Errorf("%d attempts", s.Attempts)
				}
				b.advance(5*time.Minute).expect(channel.ConditionParked, "it is down")
				up.Store(true)
				how(b.Runner)
				b.advance(0).expect(channel.ConditionConnected, "")
			}, func(p *platform) { p.receive = pollWhile(&up) })
		})
	}
}

// TestAHalfOpenConnectionIsReplaced has a connection without answers. Its reader returns only
// after Close.
func TestAHalfOpenConnectionIsReplaced(t *testing.T) {
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		b.expect(channel.ConditionConnected, "")
		b.advance(30*time.Second-1).expect(channel.ConditionConnected, "")
		b.advance(1) // replaced at once; the next adapter sends heartbeats
		if s := b.expect(channel.ConditionConnected, ""); s.Reconnects != 1 || s.Downtime != 30*time.Second ||
			s.Adapter != 2 || s.Stranded != 0 {
			t.Errorf("the state is %+v", s)
		}
		if diff := cmp.Diff([]string{"starting", "connected", "silent", "connected"}, b.ledger.states()); diff != "" ||
			b.p.maxLive != 1 {
			t.Errorf("%d at once; %s", b.p.maxLive, diff)
		}
		if reason := b.ledger.changes[2].Reason; reason != "no heartbeat for 30s" {
			t.Errorf("silent with reason %q", reason)
		}
	}, func(p *platform) {
		closed := make(chan struct{}, 1)
		p.receive = func(_ context.Context, l *channel.Host) error {
			l.Received()
			<-closed
			return errors.New("the connection is closed")
		}
		p.close = func() error {
			closed <- struct{}{}
			return nil
		}
	})
}

func TestAnAdapterThatDoesNotStopIsAbandoned(t *testing.T) {
	release := make(chan struct{})
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		b.expect(channel.ConditionConnected, "")
		b.advance(30*time.Second).expect(channel.ConditionSilent, "30s")
		if n := b.p.count(); n != 1 {
			t.Errorf("%d adapters within the stop timeout, want 1", n)
		}
		b.advance(10 * time.Second)
		s := b.expect(channel.ConditionConnected, "")
		if s.Stranded != 1 || s.Adapter != 2 || !strings.Contains(b.log.String(), "abandoned") {
			t.Errorf("the state is %+v, the log %s", s, b.log)
		}
		dead := b.p.hosts[0]
		inbound, beat := s.LastInbound, s.LastSuccess
		b.advance(time.Second / 2)
		dead.Received()
		dead.ReportProgress(channel.Progress{Cursor: "old"})
		dead.ReportError(errors.New("old"))
		if _, err := dead.Submit(t.Context(), channel.Inbound{}); !errors.Is(err, channel.ErrReplaced) {
			t.Errorf("submit: %v", err)
		}
		for what, err := range map[string]error{
			"moves": dead.MoveCursor(t.Context(), channel.Cursor{}), "retries": dead.Retry(t.Context(), "r"),
			"changes": func() error { _, err := dead.Edit(t.Context(), channel.Edit{}); return err }(),
		} {
			if !errors.Is(err, channel.ErrReplaced) {
				t.Errorf("a closed host %s: %v", what, err)
			}
		}
		if s := b.State(); s.LastInbound != inbound || s.LastSuccess != beat || s.Cursor != "" ||
			strings.Contains(s.LastError, "old") {
			t.Errorf("reports of a closed host changed the state: %+v", s)
		}
		close(release)
		if s := b.advance(0).State(); s.Stranded != 0 {
			t.Errorf("state after a late exit: %+v", s)
		}
	}, func(p *platform) {
		release = make(chan struct{}) // a channel of the bubble
		p.receive = func(ctx context.Context, l *channel.Host) error {
			l.Received()
			if p.count() == 1 {
				<-release
				return nil
			}
			var up atomic.Bool
			up.Store(true)
			return pollWhile(&up)(ctx, l)
		}
	})
}

func TestAConnectThatHangsFailsAndItsLateAdapterIsClosed(t *testing.T) {
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		b.advance(30*time.Second).expect(channel.ConditionQueued, "no connection within 30s")
		b.advance(10 * time.Second)
		if s := b.State(); s.Stranded != 1 || s.Attempts != 1 {
			t.Errorf("the state is %+v", s)
		}
		b.advance(time.Hour)
		if s := b.expect(channel.ConditionConnected, ""); s.Stranded != 0 || b.p.live != 1 {
			t.Errorf("%d live adapters: %+v", b.p.live, s)
		}
	}, func(p *platform) {
		var up atomic.Bool
		up.Store(true)
		p.receive = pollWhile(&up)
		p.connect = func(context.Context, *channel.Host) error {
			if p.count() == 1 {
				<-time.After(30 * time.Minute)
			}
			return nil
		}
	})
}

func TestTwoFailingChannelsDelayNoThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		hold := make(chan struct{})
		hangs := newFixture(t, "hangs", channel.ReconnectPolicy{}, func(p *platform) {
			p.connect = func(context.Context, *channel.Host) error { <-hold; return errors.New("late") }
		})
		panics := newFixture(t, "panics", channel.ReconnectPolicy{}, func(p *platform) {
			p.maintain = func(context.Context, *channel.Host) error { panic("bug") }
		})
		works := newFixture(t, "works", channel.ReconnectPolicy{}, func(p *platform) { p.receive = pollWhile(&up) })
		works.advance(time.Hour)
		hangs.expect(channel.ConditionQueued, "no connection")
		panics.expect(channel.ConditionQueued, "bug")
		if s := works.expect(channel.ConditionConnected, ""); s.Adapter != 1 || time.Since(s.LastSuccess) > time.Second {
			t.Errorf("third state %+v", s)
		}
		began := time.Now()
		for _, b := range []*fixture{hangs, panics, works} {
			b.stop()
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the shutdown took %s", took)
		}
		close(hold)
	})
}

func TestAFailureShowsItsConsequence(t *testing.T) {
	later := &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: 90 * time.Second, Err: errors.New("later")}
	for name, c := range map[string]struct {
		connect, receive, tend error
		want                   channel.Condition
		reason                 string
		next                   time.Duration
	}{
		"connect": {connect: errors.New("no"), want: channel.ConditionQueued, reason: "no",
			next: 30 * time.Second},
		"connect, Retry-After": {connect: fmt.Errorf("look: %w", later), want: channel.ConditionQueued, reason: "later",
			next: 90 * time.Second},
		"connect, for good": {connect: fmt.Errorf("look: %w", channel.Fatal(errors.New("bad token"))),
			want: channel.ConditionFailed, reason: "bad token", next: 15 * time.Minute},
		"receive": {receive: errors.New("no"), want: channel.ConditionQueued, reason: "no",
			next: 30 * time.Second},
		"receive, for good": {receive: channel.Fatal(errors.New("bad token")), want: channel.ConditionFailed,
			reason: "bad token", next: 15 * time.Minute},
		"tend": {tend: errors.New("no heartbeat"), want: channel.ConditionQueued, reason: "no heartbeat",
			next: 30 * time.Second},
		"receive returns nil": {receive: errReturnNil, want: channel.ConditionQueued, reason: "stopped receiving",
			next: 30 * time.Second},
		"receive, a long error": {receive: errors.New(strings.Repeat("é", 1000)), want: channel.ConditionQueued, reason: "…",
			next: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
				s := b.expect(c.want, c.reason)
				var next time.Duration
				if !s.NextTry.IsZero() {
					next = time.Until(s.NextTry)
				}
				if next != c.next || s.LastError != s.Reason || s.LastErrorAt.IsZero() || len(s.Reason) > 600 ||
					!utf8.ValidString(s.Reason) {
					t.Errorf("next try in %s: %+v", next, s)
				}
			}, func(p *platform) {
				p.connect = func(context.Context, *channel.Host) error { return c.connect }
				p.maintain = func(context.Context, *channel.Host) error { return c.tend }
				if c.receive != nil {
					p.receive = func(context.Context, *channel.Host) error {
						if errors.Is(c.receive, errReturnNil) {
							return nil
						}
						return c.receive
					}
				}
			})
		})
	}
}

var errReturnNil = errors.New("")

func TestAChannelThatPanicsReconnectsAndAffectsNoOther(t *testing.T) {
	withRunner(t, channel.ReconnectPolicy{InitialDelay: time.Second}, func(b *fixture) {
		b.advance(time.Second) // two attempts: at once, and after a second
		if s := b.expect(channel.ConditionQueued, "bug"); s.Attempts != 2 || s.Reason != "panic: bug" ||
			!strings.Contains(b.log.String(), "runner_test.go") {
			t.Errorf("the state is %+v, the log %s", s, b.log)
		}
	}, func(p *platform) {
		p.receive = func(context.Context, *channel.Host) error { panic("bug") }
		p.close = func() error { panic("another bug") }
	})
}

func TestABrokenChannelSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := channel.New(channel.Options{
			Name: "c", Kind: "k", Connect: channel.Broken(errors.New("there is no token")), Ledger: &fakeLedger{},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if s := r.State(); s.Condition != channel.ConditionStarting {
			t.Errorf("condition before Run: %s", s.Condition)
		}
		ctx, stop := context.WithTimeout(t.Context(), 14*time.Minute)
		defer stop()
		r.Run(ctx)
		if s := r.State(); s.Condition != channel.ConditionFailed || s.Reason != "there is no token" ||
			strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the state is %+v; logged %s", s, log.String())
		}
	})
}

func TestAnUnwritableStateChangeBlocksNothing(t *testing.T) {
	withRunner(t, channel.ReconnectPolicy{}, func(b *fixture) {
		b.expect(channel.ConditionConnected, "")
		hold := make(chan struct{})
		if want := []string{"starting", "connected"}; !slices.Equal(b.ledger.states(), want) ||
			!strings.Contains(b.log.String(), "missing from the channel's log") {
			t.Errorf("states %q, logged %s", b.ledger.states(), b.log)
		}
		b.ledger.mu.Lock()
		b.ledger.hold = hold // later changes wait
		b.ledger.mu.Unlock()
		if s := b.advance(31 * time.Second).State(); s.Adapter != 2 {
			t.Errorf("the state is %+v", s)
		}
		close(hold)
	}, func(p *platform) {
		p.appendError = errors.New("the disk is full")
		p.receive = func(ctx context.Context, l *channel.Host) error {
			l.Received()
			<-ctx.Done()
			return nil
		}
	})
}

// TestASupervisorThatPanicsIsRestarted panics while a tick is handled. Run continues, the channel
// shows as failed, and the next adapter connects after a pause.
func TestASupervisorThatPanicsIsRestarted(t *testing.T) {
	pace := channel.ReconnectPolicy{InitialDelay: time.Minute, IdleTimeout: 30 * time.Second}
	withRunner(t, pace, func(b *fixture) {
		b.expect(channel.ConditionConnected, "")
		b.p.panicOnce.Store(true)
		b.advance(31 * time.Second)
		s := b.expect(channel.ConditionQueued, "the channel's supervisor failed: panic: bomb")
		if s.NextTry.IsZero() || s.Attempts != 1 {
			t.Errorf("next try %v after %d attempts, want one after 1", s.NextTry, s.Attempts)
		}
		if log := b.log.String(); !strings.Contains(log, "panic recovered") ||
			!strings.Contains(log, "channel.(*Runner).supervise") {
			t.Errorf("the log has no stack: %s", log)
		}
		b.advance(time.Minute)
		b.expect(channel.ConditionConnected, "")
	}, func(p *platform) {
		p.connect = func(_ context.Context, l *channel.Host) error {
			l.Received()
			return nil
		}
	})
}
