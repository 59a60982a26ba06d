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
)

// platform is one that does what a test says. Its zero value connects and hears
// nothing.
type platform struct {
	connect   func(ctx context.Context, l *channel.Host) error
	receive   func(ctx context.Context, l *channel.Host) error
	tend      func(ctx context.Context, l *channel.Host) error
	deliver   func(ctx context.Context, l *channel.Host) error
	delivered func(d channel.Delivery) // before deliver
	close     func() error
	unkept    error       // what becomes of notes
	bomb      atomic.Bool // the next step of the channel panics, once

	mu    sync.Mutex
	tries []time.Time // of Connect
	live  int         // adapters between Connect and the return of Close
	most  int         // of them at once
	links []*channel.Host
}

func (p *platform) Connect(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
	p.mu.Lock()
	p.tries = append(p.tries, time.Now())
	p.links = append(p.links, l)
	p.mu.Unlock()
	if p.connect != nil {
		if err := p.connect(ctx, l); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live++
	p.most = max(p.most, p.live)
	return &adapter{p, l}, nil
}

func (p *platform) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tries)
}

type adapter struct {
	*platform
	link *channel.Host
}

func (a *adapter) Receive(ctx context.Context) error {
	if a.receive != nil {
		return a.receive(ctx, a.link)
	}
	<-ctx.Done()
	return nil
}

func (a *adapter) Maintain(ctx context.Context) error {
	if a.tend != nil {
		return a.tend(ctx, a.link)
	}
	return nil
}

func (a *adapter) Deliver(ctx context.Context, d channel.Delivery, _ mailroom.Session) error {
	if a.delivered != nil {
		a.delivered(d)
	}
	return a.deliver(ctx, a.link)
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

// polled is a Receive that asks up, each second, and hears while that is true.
func polled(up *atomic.Bool) func(ctx context.Context, l *channel.Host) error {
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

// notes is a ledger that keeps what is noted, and nothing else.
type notes struct {
	channel.Ledger
	mu      sync.Mutex
	changes []channel.Change
	fail    error
	hold    chan struct{} // nil: it answers at once
	wakes   atomic.Int32
}

func (n *notes) AppendEntry(_ context.Context, thread, kind string, body json.RawMessage) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c channel.Change
	if err := json.Unmarshal(body, &c); err != nil || kind != mailroom.KindChannel || thread != "channel:"+c.Channel {
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

func (n *notes) Wake() { n.wakes.Add(1) }

// told are the states that were noted, in order.
func (n *notes) told() (states []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.changes {
		states = append(states, string(c.State))
	}
	return states
}

// bubble is a channel in a bubble.
type bubble struct {
	*channel.Runner
	t     *testing.T
	p     *platform
	notes *notes
	log   *logs
	stop  func()
}

// running runs a channel in a bubble until the test has looked at it.
func running(t *testing.T, pace channel.ReconnectPolicy, look func(b *bubble), prepare func(p *platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := begin(t, "c", pace, prepare)
		synctest.Wait()
		look(b)
		b.stop()
	})
}

func begin(t *testing.T, name string, pace channel.ReconnectPolicy, prepare func(p *platform)) *bubble {
	b := &bubble{t: t, p: &platform{}, notes: &notes{}, log: &logs{}}
	prepare(b.p)
	b.notes.fail = b.p.unkept
	b.Runner = channel.New(channel.Options{
		Name: name, Kind: "k", Connect: b.p.Connect, Reconnect: pace, Ledger: b.notes, Jitter: func() float64 {
			if b.p.bomb.CompareAndSwap(true, false) {
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

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// after lets time pass.
func (b *bubble) after(d time.Duration) *bubble {
	<-time.After(d)
	synctest.Wait()
	return b
}

func (b *bubble) is(want channel.Condition, reason string) channel.State {
	b.t.Helper()
	s := b.State()
	if s.Condition != want || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
		b.t.Errorf("it is %s, %q, want %s, %q", s.Condition, s.Reason, want, reason)
	}
	if b.Connected() != (s.Condition == channel.ConditionConnected) {
		b.t.Errorf("it is %s, and whether deliveries may be started is %v", s.Condition, b.Connected())
	}
	return s
}

// TestATwoHourOutageEndsWithoutAnybody is what users asked for most.
func TestATwoHourOutageEndsWithoutAnybody(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		b.after(time.Hour).is(channel.ConditionConnected, "")
		up.Store(false)
		b.after(2 * time.Hour)
		s := b.is(channel.ConditionParked, "it is down")
		if left := time.Until(s.NextTry); left <= 0 || left > 15*time.Minute || s.Downtime < 2*time.Hour-time.Second {
			t.Errorf("the next try is in %s, after %s", left, s.Downtime)
		}
		up.Store(true)
		b.after(15 * time.Minute)
		s = b.is(channel.ConditionConnected, "")
		if s.Reconnects != 1 || s.Downtime > 2*time.Hour+15*time.Minute+time.Second || b.p.most != 1 {
			t.Errorf("%d reconnects, %s down, %d adapters at once", s.Reconnects, s.Downtime, b.p.most)
		}
		if diff := cmp.Diff([]string{"starting", "connected", "queued", "parked", "connected"}, b.notes.told()); diff != "" {
			t.Error(diff)
		}
	}, func(p *platform) { p.receive = polled(&up) })
}

func TestTheEngineIsWokenWheneverAChannelIsConnected(t *testing.T) {
	var up atomic.Bool
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		for n := range int32(3) {
			b.after(10 * time.Minute)
			if got := b.notes.wakes.Load(); got != n || b.Connected() {
				t.Errorf("while it is away for the %d. time, the engine was woken %d times", n+1, got)
			}
			up.Store(true)
			b.after(10*time.Minute).is(channel.ConditionConnected, "")
			if got := b.notes.wakes.Load(); got != n+1 {
				t.Errorf("connected for the %d. time, the engine was woken %d times", n+1, got)
			}
			up.Store(false)
		}
		up.Store(true)
		b.after(10*time.Minute).is(channel.ConditionConnected, "")
		b.stop()
		if b.Connected() {
			t.Error("deliveries may be started when it has ended")
		}
	}, func(p *platform) { p.receive = polled(&up) })
}

func TestAChannelThatGaveUpMakesNoAdapterUntilItIsResumed(t *testing.T) {
	var up atomic.Bool
	running(t, channel.ReconnectPolicy{GiveUpAfter: 3}, func(b *bubble) {
		b.after(24 * time.Hour)
		if s := b.is(channel.ConditionGaveUp, "it is down"); b.p.count() != 3 || !s.NextTry.IsZero() || s.Condition.Alive() {
			t.Errorf("after %d tries: %+v", b.p.count(), s)
		}
		up.Store(true)
		b.Resume()
		b.after(0).is(channel.ConditionConnected, "")
	}, func(p *platform) { p.receive = polled(&up) })
}

func TestAParkedChannelIsTriedAtOnceWhenSomebodyWantsItTo(t *testing.T) {
	for name, how := range map[string]func(*channel.Runner){"resumed": (*channel.Runner).Resume, "changed": (*channel.Runner).ConfigChanged} {
		t.Run(name, func(t *testing.T) {
			var up atomic.Bool
			running(t, channel.ReconnectPolicy{ParkAfter: 2}, func(b *bubble) {
				b.after(5*time.Minute).is(channel.ConditionParked, "it is down")
				how(b.Runner) // too early
				if s := b.after(0).is(channel.ConditionQueued, "it is down"); s.Attempts != 1 {
					t.Errorf("it is tried %d times", s.Attempts)
				}
				b.after(5*time.Minute).is(channel.ConditionParked, "it is down")
				up.Store(true)
				how(b.Runner)
				b.after(0).is(channel.ConditionConnected, "")
			}, func(p *platform) { p.receive = polled(&up) })
		})
	}
}

// TestAHalfOpenConnectionIsReplaced has one that answers nothing any more, whose
// reader does not notice and is made to return by Close alone.
func TestAHalfOpenConnectionIsReplaced(t *testing.T) {
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		b.is(channel.ConditionConnected, "")
		b.after(30*time.Second-1).is(channel.ConditionConnected, "")
		b.after(1) // it is replaced at once, and the next one speaks
		if s := b.is(channel.ConditionConnected, ""); s.Reconnects != 1 || s.Downtime != 30*time.Second || s.Adapter != 2 || s.Stranded != 0 {
			t.Errorf("the state is %+v", s)
		}
		if diff := cmp.Diff([]string{"starting", "connected", "silent", "connected"}, b.notes.told()); diff != "" || b.p.most != 1 {
			t.Errorf("%d at once; %s", b.p.most, diff)
		}
		if reason := b.notes.changes[2].Reason; reason != "nothing was heard for 30s" {
			t.Errorf("it was silent because %q", reason)
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

func TestAnAdapterThatDoesNotEndIsLeftBehindAndItsLinkIsDead(t *testing.T) {
	release := make(chan struct{})
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		b.is(channel.ConditionConnected, "")
		b.after(30*time.Second).is(channel.ConditionSilent, "30s")
		if n := b.p.count(); n != 1 {
			t.Errorf("%d adapters while the first may end", n)
		}
		b.after(10 * time.Second)
		s := b.is(channel.ConditionConnected, "")
		if s.Stranded != 1 || s.Adapter != 2 || !strings.Contains(b.log.String(), "left behind") {
			t.Errorf("the state is %+v, the log %s", s, b.log)
		}
		dead := b.p.links[0]
		inbound, beat := s.LastInbound, s.LastSuccess
		b.after(time.Second / 2)
		dead.Received()
		dead.ReportProgress(channel.Progress{Cursor: "old"})
		dead.ReportError(errors.New("old"))
		if _, err := dead.Submit(t.Context(), channel.Inbound{}); !errors.Is(err, channel.ErrReplaced) {
			t.Errorf("it takes: %v", err)
		}
		for what, err := range map[string]error{
			"moves": dead.MoveCursor(t.Context(), channel.Cursor{}), "retries": dead.Retry(t.Context(), "r"),
			"changes": func() error { _, err := dead.Edit(t.Context(), channel.Edit{}); return err }(),
		} {
			if !errors.Is(err, channel.ErrReplaced) {
				t.Errorf("it %s: %v", what, err)
			}
		}
		if s := b.State(); s.LastInbound != inbound || s.LastSuccess != beat || s.Cursor != "" || strings.Contains(s.LastError, "old") {
			t.Errorf("what it reports is shown: %+v", s)
		}
		close(release)
		if s := b.after(0).State(); s.Stranded != 0 {
			t.Errorf("it has ended, and the state is %+v", s)
		}
	}, func(p *platform) {
		release = make(chan struct{}) // of the bubble
		p.receive = func(ctx context.Context, l *channel.Host) error {
			l.Received()
			if p.count() == 1 {
				<-release
				return nil
			}
			var up atomic.Bool
			up.Store(true)
			return polled(&up)(ctx, l)
		}
	})
}

func TestAConnectThatHangsFailsAndWhatItMakesLateIsClosed(t *testing.T) {
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		b.after(30*time.Second).is(channel.ConditionQueued, "it did not connect within 30s")
		b.after(10 * time.Second)
		if s := b.State(); s.Stranded != 1 || s.Attempts != 1 {
			t.Errorf("the state is %+v", s)
		}
		b.after(time.Hour)
		if s := b.is(channel.ConditionConnected, ""); s.Stranded != 0 || b.p.live != 1 {
			t.Errorf("%d adapters live: %+v", b.p.live, s)
		}
	}, func(p *platform) {
		var up atomic.Bool
		up.Store(true)
		p.receive = polled(&up)
		p.connect = func(context.Context, *channel.Host) error {
			if p.count() == 1 {
				<-time.After(30 * time.Minute)
			}
			return nil
		}
	})
}

func TestTwoChannelsThatFailHoldUpNoThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		hold := make(chan struct{})
		hangs := begin(t, "hangs", channel.ReconnectPolicy{}, func(p *platform) {
			p.connect = func(context.Context, *channel.Host) error { <-hold; return errors.New("late") }
		})
		panics := begin(t, "panics", channel.ReconnectPolicy{}, func(p *platform) {
			p.tend = func(context.Context, *channel.Host) error { panic("bug") }
		})
		works := begin(t, "works", channel.ReconnectPolicy{}, func(p *platform) { p.receive = polled(&up) })
		works.after(time.Hour)
		hangs.is(channel.ConditionQueued, "it did not connect")
		panics.is(channel.ConditionQueued, "bug")
		if s := works.is(channel.ConditionConnected, ""); s.Adapter != 1 || time.Since(s.LastSuccess) > time.Second {
			t.Errorf("the third: %+v", s)
		}
		began := time.Now()
		for _, b := range []*bubble{hangs, panics, works} {
			b.stop()
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s to end them", took)
		}
		close(hold)
	})
}

func TestAFailureSaysWhatComesOfIt(t *testing.T) {
	later := &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: 90 * time.Second, Err: errors.New("later")}
	for name, c := range map[string]struct {
		connect, receive, tend error
		want                   channel.Condition
		reason                 string
		next                   time.Duration
	}{
		"connect":                {connect: errors.New("no"), want: channel.ConditionQueued, reason: "no", next: 30 * time.Second},
		"connect, Retry-After":   {connect: fmt.Errorf("look: %w", later), want: channel.ConditionQueued, reason: "later", next: 90 * time.Second},
		"connect, for good":      {connect: fmt.Errorf("look: %w", channel.Fatal(errors.New("bad token"))), want: channel.ConditionFailed, reason: "bad token"},
		"receive":                {receive: errors.New("no"), want: channel.ConditionQueued, reason: "no", next: 30 * time.Second},
		"receive, for good":      {receive: channel.Fatal(errors.New("bad token")), want: channel.ConditionFailed, reason: "bad token"},
		"tend":                   {tend: errors.New("no heartbeat"), want: channel.ConditionQueued, reason: "no heartbeat", next: 30 * time.Second},
		"receive without a word": {receive: errWordless, want: channel.ConditionQueued, reason: "stopped receiving", next: 30 * time.Second},
		"receive, a long story":  {receive: errors.New(strings.Repeat("é", 1000)), want: channel.ConditionQueued, reason: "…", next: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, channel.ReconnectPolicy{}, func(b *bubble) {
				s := b.is(c.want, c.reason)
				var next time.Duration
				if !s.NextTry.IsZero() {
					next = time.Until(s.NextTry)
				}
				if next != c.next || s.LastError != s.Reason || s.LastErrorAt.IsZero() || len(s.Reason) > 600 || !utf8.ValidString(s.Reason) {
					t.Errorf("next try in %s: %+v", next, s)
				}
			}, func(p *platform) {
				p.connect = func(context.Context, *channel.Host) error { return c.connect }
				p.tend = func(context.Context, *channel.Host) error { return c.tend }
				if c.receive != nil {
					p.receive = func(context.Context, *channel.Host) error {
						if errors.Is(c.receive, errWordless) {
							return nil
						}
						return c.receive
					}
				}
			})
		})
	}
}

var errWordless = errors.New("")

func TestAChannelThatPanicsIsTriedAgainAndTakesNobodyWithIt(t *testing.T) {
	running(t, channel.ReconnectPolicy{InitialDelay: time.Second}, func(b *bubble) {
		b.after(time.Second) // at once, and after one second
		if s := b.is(channel.ConditionQueued, "bug"); s.Attempts != 2 || s.Reason != "panic: bug" || !strings.Contains(b.log.String(), "runner_test.go") {
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
			Name: "c", Kind: "k", Connect: channel.Broken(errors.New("there is no token")), Ledger: &notes{}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if s := r.State(); s.Condition != channel.ConditionStarting {
			t.Errorf("before it begins it is %s", s.Condition)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		r.Run(ctx)
		if s := r.State(); s.Condition != channel.ConditionFailed || s.Reason != "there is no token" || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the state is %+v; logged %s", s, log.String())
		}
	})
}

func TestAChangeThatCannotBeKeptHoldsNothingUp(t *testing.T) {
	running(t, channel.ReconnectPolicy{}, func(b *bubble) {
		b.is(channel.ConditionConnected, "")
		hold := make(chan struct{})
		if want := []string{"starting", "connected"}; !slices.Equal(b.notes.told(), want) || !strings.Contains(b.log.String(), "not in its log") {
			t.Errorf("told %q, logged %s", b.notes.told(), b.log)
		}
		b.notes.mu.Lock()
		b.notes.hold = hold // what is told from now on waits
		b.notes.mu.Unlock()
		if s := b.after(31 * time.Second).State(); s.Adapter != 2 {
			t.Errorf("the state is %+v", s)
		}
		close(hold)
	}, func(p *platform) {
		p.unkept = errors.New("the disk is full")
		p.receive = func(ctx context.Context, l *channel.Host) error {
			l.Received()
			<-ctx.Done()
			return nil
		}
	})
}

// TestAPanicOfASupervisorRestartsIt has the supervisor of a channel panic while it notices that nothing was heard: Run goes
// on, the channel shows as failed, and the next adapter connects after a pause.
func TestAPanicOfASupervisorRestartsIt(t *testing.T) {
	pace := channel.ReconnectPolicy{InitialDelay: time.Minute, IdleTimeout: 30 * time.Second}
	running(t, pace, func(b *bubble) {
		b.is(channel.ConditionConnected, "")
		b.p.bomb.Store(true)
		b.after(31 * time.Second)
		s := b.is(channel.ConditionFailed, "the channel's supervisor failed: panic: bomb")
		if s.NextTry.IsZero() || s.Attempts != 1 {
			t.Errorf("next try %v after %d attempts, want one after 1", s.NextTry, s.Attempts)
		}
		if log := b.log.String(); !strings.Contains(log, "panic recovered") || !strings.Contains(log, "channel.(*Runner).supervise") {
			t.Errorf("the log has no stack: %s", log)
		}
		b.after(time.Minute)
		b.is(channel.ConditionConnected, "")
	}, func(p *platform) {
		p.connect = func(_ context.Context, l *channel.Host) error {
			l.Received()
			return nil
		}
	})
}
