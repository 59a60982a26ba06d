package channel

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// policyFixture drives a ReconnectPolicy with events at chosen times.
type policyFixture struct {
	t  *testing.T
	p  ReconnectPolicy
	s  state
	at time.Time
}

func newPolicyFixture(t *testing.T, p ReconnectPolicy) *policyFixture {
	t.Helper()
	p.setDefaults()
	x := &policyFixture{t: t, p: p, at: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	x.expect(eventStart, actionStart)
	return x
}

// expect applies an event of the current adapter and checks the resulting action.
func (x *policyFixture) expect(what eventKind, want action) {
	x.t.Helper()
	x.apply(event{kind: what}, want)
}

func (x *policyFixture) apply(e event, want action) {
	x.t.Helper()
	e.at = x.at
	if e.adapter == 0 {
		e.adapter = x.s.adapter
	}
	var got action
	if x.s, got = x.p.next(x.s, e); got != want {
		x.t.Fatalf("event %d leads to action %d, want %d; state %+v", e.kind, got, want, x.s)
	}
}

func (x *policyFixture) expectState(c Condition, attempts int, next time.Duration) {
	x.t.Helper()
	var got time.Duration
	if !x.s.nextTry.IsZero() {
		got = x.s.nextTry.Sub(x.at)
	}
	if x.s.condition != c || x.s.attempts != attempts || got != next {
		x.t.Fatalf("condition %s after %d attempts, next in %s; want %s, %d, %s", x.s.condition, x.s.attempts, got, c,
			attempts, next)
	}
}

func (x *policyFixture) advance(d time.Duration) *policyFixture {
	x.at = x.at.Add(d)
	return x
}

// fail makes the current adapter fail and exit.
func (x *policyFixture) fail(e event) {
	x.t.Helper()
	e.kind = eventFailed
	x.apply(e, actionStop)
	x.expect(eventExited, actionNone)
}

func TestPausesDoubleUntilTheChannelIsParked(t *testing.T) {
	x := newPolicyFixture(t, ReconnectPolicy{})
	m := time.Minute
	for i, pause := range []time.Duration{30 * time.Second, m, 2 * m, 4 * m, 5 * m, 5 * m} {
		x.fail(event{reason: "no"})
		x.expectState(ConditionQueued, i+1, pause)
		x.advance(pause-1).expect(eventTick, actionNone)
		x.advance(1).expect(eventTick, actionStart)
	}
	for n := 7; n < 20; n++ {
		x.fail(event{})
		x.expectState(ConditionQueued, n, 5*m)
		x.advance(5*m).expect(eventTick, actionStart)
	}
	for n := range 3 {
		x.fail(event{})
		x.expectState(ConditionParked, 20+n, 15*m)
		x.advance(15*m-1).expect(eventTick, actionNone)
		x.advance(1).expect(eventTick, actionStart)
	}
	x.expect(eventOpened, actionNone)
	x.expect(eventHeartbeat, actionNone)
	x.expectState(ConditionConnected, 22, 0)
	x.advance(30*time.Second-1).expect(eventHeartbeat, actionNone)
	x.advance(1).expect(eventHeartbeat, actionNone)
	x.expectState(ConditionConnected, 0, 0)
}

func TestEachFailureHasItsConditionAndNextRetry(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		pace  ReconnectPolicy
		event event
		held  time.Duration // duration of the connection before; 0: never connected
		state Condition
		tries int
		next  time.Duration
	}{
		"at start":             {event: event{}, state: ConditionQueued, tries: 1, next: 30 * second},
		"at start, all jitter": {event: event{jitter: 1}, state: ConditionQueued, tries: 1, next: 36 * second},
		"at start, Retry-After": {event: event{retryAfter: time.Minute}, state: ConditionQueued, tries: 1,
			next: time.Minute},
		"at start, a short Retry-After": {event: event{retryAfter: second}, state: ConditionQueued, tries: 1,
			next: 30 * second},
		"at start, Retry-After of a year": {event: event{retryAfter: 9000 * time.Hour}, state: ConditionQueued, tries: 1,
			next: time.Hour},
		"at start, fatal": {event: event{fatal: true, retryAfter: second}, state: ConditionFailed, tries: 1,
			next: 15 * time.Minute},
		"at start, the last of one": {pace: ReconnectPolicy{GiveUpAfter: 1}, event: event{},
			state: ConditionGaveUp, tries: 1},
		"at start, parked at once": {pace: ReconnectPolicy{ParkAfter: 1}, event: event{}, state: ConditionParked, tries: 1,
			next: 15 * time.Minute},
		"parked, Retry-After": {pace: ReconnectPolicy{ParkAfter: 1}, event: event{retryAfter: time.Hour},
			state: ConditionParked, tries: 1, next: time.Hour},
		"given up rather than parked": {pace: ReconnectPolicy{ParkAfter: 1, GiveUpAfter: 1}, event: event{},
			state: ConditionGaveUp, tries: 1},
		"connected": {held: 30 * second, event: event{jitter: 1}, state: ConditionQueued},
		"connected, Retry-After": {held: 30 * second, event: event{retryAfter: second}, state: ConditionQueued,
			next: second},
		"connected, fatal": {held: 30 * second, event: event{fatal: true}, state: ConditionQueued, tries: 1,
			next: 30 * second},
		"connected, fatal, no grace": {pace: ReconnectPolicy{FatalGrace: -1}, held: 30 * second, event: event{fatal: true},
			state: ConditionFailed, next: 15 * time.Minute},
		"connected, and not held": {held: 30*second - 1, event: event{}, state: ConditionQueued, tries: 1,
			next: 30 * second},
		"connected, not held, the only one": {pace: ReconnectPolicy{GiveUpAfter: 1}, held: second, event: event{},
			state: ConditionGaveUp, tries: 1},
		"polled, connected": {pace: ReconnectPolicy{Polled: true, InitialDelay: second}, held: time.Minute,
			event: event{}, state: ConditionQueued, tries: 1, next: second},
		"polled, connected, Retry-After": {pace: ReconnectPolicy{Polled: true, InitialDelay: second}, held: time.Minute,
			event: event{retryAfter: time.Minute}, state: ConditionQueued, tries: 1, next: time.Minute},
		"polled, parked at once": {pace: ReconnectPolicy{Polled: true, ParkAfter: 1, MaxDelay: time.Minute},
			event: event{}, state: ConditionParked, tries: 1, next: time.Minute},
		"patient, never connected, fatal": {pace: ReconnectPolicy{FatalGrace: time.Hour}, event: event{fatal: true},
			state: ConditionFailed, tries: 1, next: 15 * time.Minute},
		"patient, connected, fatal": {pace: ReconnectPolicy{FatalGrace: time.Hour}, held: time.Minute,
			event: event{fatal: true}, state: ConditionQueued, tries: 1, next: 30 * second},
		"own numbers": {pace: ReconnectPolicy{InitialDelay: second, MaxDelay: second}, event: event{}, state: ConditionQueued,
			tries: 1, next: second},
	} {
		t.Run(name, func(t *testing.T) {
			c.pace.IdleTimeout = time.Hour
			x := newPolicyFixture(t, c.pace)
			if c.held > 0 {
				x.expect(eventOpened, actionNone)
				x.expect(eventHeartbeat, actionNone)
				x.advance(c.held)
			}
			x.t = t
			c.event.kind, c.event.reason = eventFailed, "why"
			x.apply(c.event, actionStop)
			x.expectState(c.state, c.tries, c.next)
			if x.s.reason != "why" && !strings.HasPrefix(x.s.reason, "why (refused since ") {
				t.Errorf("the reason is %q", x.s.reason)
			}
		})
	}
}

func TestTheNextAdapterStartsOnceThePreviousHasExitedOrIsAbandoned(t *testing.T) {
	x := newPolicyFixture(t, ReconnectPolicy{IdleTimeout: time.Hour})
	x.expect(eventOpened, actionNone)
	x.expect(eventHeartbeat, actionNone)
	x.advance(time.Minute).apply(event{kind: eventFailed}, actionStop)
	x.expectState(ConditionQueued, 0, 0)
	x.expect(eventTick, actionNone) // due, but the old adapter has not exited
	x.expect(eventExited, actionStart)
	x.expect(eventOpened, actionNone)
	x.expect(eventHeartbeat, actionNone)
	x.advance(time.Minute).apply(event{kind: eventFailed}, actionStop)
	x.advance(10*time.Second-1).expect(eventTick, actionNone)
	x.advance(1).expect(eventTick, actionStart)
	if diff := cmp.Diff([]int{2}, x.s.stranded); diff != "" || x.s.adapter != 3 {
		t.Errorf("abandoned: %s; the adapter is %d", diff, x.s.adapter)
	}
	x.apply(event{kind: eventExited, adapter: 2}, actionNone)
	if len(x.s.stranded) > 0 || x.s.phase != phaseConnecting {
		t.Errorf("state after a late exit: %+v", x.s)
	}
}

func TestReportsOfAReplacedAdapterChangeNothing(t *testing.T) {
	x := newPolicyFixture(t, ReconnectPolicy{})
	x.fail(event{})
	x.advance(30*time.Second).expect(eventTick, actionStart)
	for _, what := range []eventKind{eventOpened, eventHeartbeat, eventFailed, eventExited} {
		before := x.s
		x.apply(event{kind: what, adapter: 1, fatal: true}, actionNone)
		if diff := cmp.Diff(before, x.s, cmp.AllowUnexported(state{})); diff != "" {
			t.Errorf("event %d: %s", what, diff)
		}
	}
}

func TestAChannelWithoutHeartbeatsReconnects(t *testing.T) {
	t.Run("never connected", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		x.advance(30*time.Second-1).expect(eventTick, actionNone)
		x.advance(1).expect(eventTick, actionStop)
		x.expectState(ConditionQueued, 1, 30*time.Second)
	})
	t.Run("connected without heartbeats", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		x.expect(eventOpened, actionNone)
		x.advance(30*time.Second).expect(eventTick, actionStop)
		x.expectState(ConditionQueued, 1, 30*time.Second)
	})
	t.Run("silent after heartbeats", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		x.expect(eventHeartbeat, actionNone)
		x.expectState(ConditionStarting, 0, 0)
		x.expect(eventOpened, actionNone)
		x.expectState(ConditionConnected, 0, 0)
		x.advance(29*time.Second).expect(eventHeartbeat, actionNone)
		x.advance(30*time.Second-1).expect(eventTick, actionNone)
		x.advance(1).expect(eventTick, actionStop)
		x.expectState(ConditionSilent, 0, 0)
		x.advance(time.Second).expect(eventExited, actionStart)
		x.expectState(ConditionSilent, 0, 0)
		x.expect(eventOpened, actionNone)
		x.expect(eventHeartbeat, actionNone)
		x.expectState(ConditionConnected, 0, 0)
		if x.s.downtime != 31*time.Second || x.s.reconnects != 1 { // since the last heartbeat
			t.Errorf("downtime %s, %d reconnects", x.s.downtime, x.s.reconnects)
		}
	})
	t.Run("silent soon, repeatedly", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{IdleTimeout: time.Second, ParkAfter: 2})
		for _, want := range []Condition{ConditionSilent, ConditionParked} {
			x.expect(eventOpened, actionNone)
			x.expect(eventHeartbeat, actionNone)
			x.advance(time.Second).expect(eventTick, actionStop)
			x.expect(eventExited, actionNone)
			if x.s.condition != want {
				t.Fatalf("condition %s, want %s", x.s.condition, want)
			}
			x.at = x.s.nextTry
			x.expect(eventTick, actionStart)
		}
	})
	t.Run("no heartbeat is needed", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{IdleTimeout: -1})
		x.expect(eventOpened, actionNone)
		x.advance(1000*time.Hour).expect(eventTick, actionNone)
		x.expectState(ConditionConnected, 0, 0)
	})
}

// TestAPolledPlatformIsRetriedEachMinute plays an outage of two hours, and then
// rejected credentials within and beyond FatalGrace.
func TestAPolledPlatformIsRetriedEachMinute(t *testing.T) {
	x := newPolicyFixture(t, ReconnectPolicy{Polled: true, InitialDelay: time.Second, MaxDelay: time.Minute,
		FatalGrace: 5 * time.Minute, IdleTimeout: time.Hour})
	connect := func() {
		t.Helper()
		x.expect(eventOpened, actionNone)
		x.expect(eventHeartbeat, actionNone)
		x.advance(time.Minute).expect(eventHeartbeat, actionNone)
	}
	connect()
	for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		x.fail(event{})
		x.expectState(ConditionQueued, i+1, pause*time.Second)
		x.advance(pause*time.Second).expect(eventTick, actionStart)
	}
	for n := 9; n <= 120; n++ {
		x.fail(event{})
		if wait := x.s.nextTry.Sub(x.at); wait != time.Minute {
			t.Fatalf("after %d tries the next one is in %s", n, wait)
		}
		x.advance(time.Minute).expect(eventTick, actionStart)
	}
	connect()
	for refused := x.at; ; {
		x.fail(event{fatal: true, reason: "401"})
		if x.s.condition == ConditionFailed {
			if held := x.at.Sub(refused); held < 5*time.Minute || held > 6*time.Minute {
				t.Errorf("final failure after %s", held)
			}
			break
		}
		x.at = x.s.nextTry
		x.expect(eventTick, actionStart)
	}
	x.expect(eventResume, actionStart)
	connect()
	x.fail(event{fatal: true}) // FatalGrace starts again
	x.expectState(ConditionQueued, 1, time.Second)
}

// TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals has a platform that refuses for a moment, and then one
// that refuses for good.
func TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals(t *testing.T) {
	connect := func(x *policyFixture) {
		t.Helper()
		x.expect(eventOpened, actionNone)
		x.expect(eventHeartbeat, actionNone)
		x.advance(29*time.Second).expect(eventHeartbeat, actionNone)
		x.advance(29*time.Second).expect(eventHeartbeat, actionNone)
	}
	x := newPolicyFixture(t, ReconnectPolicy{})
	connect(x)
	x.fail(event{fatal: true, reason: "904"})
	x.expectState(ConditionQueued, 1, 30*time.Second)
	x.advance(30*time.Second).expect(eventTick, actionStart)
	connect(x)
	began, n := x.at, 0
	for x.s.condition != ConditionFailed {
		n++
		x.fail(event{fatal: true, reason: "904"})
		if x.s.condition == ConditionQueued {
			x.at = x.s.nextTry
			x.expect(eventTick, actionStart)
		}
	}
	if held := x.at.Sub(began); n < minRefusals || held < 5*time.Minute || held > 10*time.Minute {
		t.Errorf("given up after %d refusals in %s", n, held)
	}
	x.expect(eventResume, actionStart)
	x.fail(event{fatal: true})
	x.expectState(ConditionFailed, 1, 15*time.Minute) // the resume has proved nothing
	x.advance(15*time.Minute).expect(eventTick, actionStart)
	x.expect(eventResume, actionNone)
	x.expectState(ConditionQueued, 0, 0) // an operator sees that it is tried
	connect(x)
	x.expectState(ConditionConnected, 0, 0)

	t.Run("after a long pause", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{InitialDelay: time.Hour, IdleTimeout: -1})
		x.expect(eventOpened, actionNone)
		x.advance(2 * time.Hour)
		for range minRefusals - 1 {
			x.fail(event{fatal: true})
			x.expectState(ConditionQueued, x.s.attempts, x.s.nextTry.Sub(x.at))
			x.at = x.s.nextTry
			x.expect(eventTick, actionStart)
		}
		x.fail(event{fatal: true})
		x.expectState(ConditionFailed, minRefusals, 15*time.Minute)
	})
	t.Run("other credentials", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		connect(x)
		x.expect(eventConfigChanged, actionStop)
		x.expect(eventExited, actionStart)
		x.fail(event{fatal: true})
		x.expectState(ConditionFailed, 1, 15*time.Minute)
	})
	t.Run("other credentials while it is connected", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		connect(x)
		x.expect(eventSecretChanged, actionNone)
		x.expect(eventHeartbeat, actionNone) // with the former ones
		x.expectState(ConditionConnected, 0, 0)
		x.fail(event{fatal: true})
		x.expectState(ConditionFailed, 0, 15*time.Minute)
		x.expect(eventSecretChanged, actionStart)
		connect(x)
		x.fail(event{fatal: true})
		x.expectState(ConditionQueued, 1, 30*time.Second) // the new ones have worked
	})
}

func TestAResumedChannelRetriesAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		pace  ReconnectPolicy
		event event
		state Condition
	}{
		"queued":  {ReconnectPolicy{}, event{}, ConditionQueued},
		"parked":  {ReconnectPolicy{ParkAfter: 1}, event{}, ConditionParked},
		"gave up": {ReconnectPolicy{GiveUpAfter: 1}, event{}, ConditionGaveUp},
		"failed":  {ReconnectPolicy{}, event{fatal: true}, ConditionFailed},
	} {
		for _, why := range []eventKind{eventResume, eventConfigChanged} {
			t.Run(name, func(t *testing.T) {
				x := newPolicyFixture(t, c.pace)
				x.fail(c.event)
				if x.s.condition != c.state {
					t.Fatalf("condition %s", x.s.condition)
				}
				x.expect(why, actionStart)
				x.expectState(ConditionQueued, 0, 0)
				if x.expect(why, map[eventKind]action{eventResume: actionNone,
					eventConfigChanged: actionStop}[why]); why == eventConfigChanged {
					x.expect(eventExited, actionStart)
				}
				x.expectState(ConditionQueued, 0, 0)
			})
		}
	}
	t.Run("while the last adapter exits", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{ParkAfter: 1})
		x.apply(event{kind: eventFailed}, actionStop)
		x.expect(eventResume, actionNone)
		x.expect(eventExited, actionStart)
	})
	t.Run("connected", func(t *testing.T) {
		x := newPolicyFixture(t, ReconnectPolicy{})
		x.expect(eventOpened, actionNone)
		x.expect(eventHeartbeat, actionNone)
		x.expect(eventResume, actionNone)
		x.expectState(ConditionConnected, 0, 0)
		x.expect(eventConfigChanged, actionStop)
		x.expectState(ConditionQueued, 0, 0)
		x.expect(eventExited, actionStart)
	})
}

// FuzzChannel applies arbitrary events and checks the invariants of the rule. Each pair of bytes
// is an event and a delay on a growing scale.
func FuzzChannel(f *testing.F) {
	f.Add(byte(0), []byte{1, 0, 2, 0, 2, 9, 3, 0, 4, 0, 6, 11, 6, 15})
	f.Add(byte(1), []byte{3, 0, 4, 0, 7, 1, 3, 0, 7, 0, 6, 12})
	f.Add(byte(2), []byte{6, 13, 6, 13, 6, 13, 11, 0, 1, 0, 2, 0, 6, 14, 8, 0, 4, 0})
	f.Add(byte(3), []byte{1, 0, 6, 15, 27, 1, 4, 1})
	f.Add(byte(8), []byte{1, 0, 2, 9, 243, 9, 4, 0, 6, 12, 1, 0, 243, 17, 4, 0, 6, 17, 1, 0, 243, 20})
	f.Fuzz(func(t *testing.T, numbers byte, events []byte) {
		p := ReconnectPolicy{}
		if numbers&1 != 0 {
			p.ParkAfter, p.GiveUpAfter = 2, 4
		}
		if numbers&2 != 0 {
			p.IdleTimeout, p.InitialDelay = -1, time.Second
		}
		if numbers&4 != 0 {
			p.ParkAfter, p.IdleTimeout = -1, 5*time.Second
		}
		if numbers&8 != 0 {
			p.Polled, p.FatalGrace = true, time.Minute
		}
		x := newPolicyFixture(t, p)
		living := map[int]bool{1: true} // adapters that have not exited
		for i := 0; i+1 < len(events); i += 2 {
			b := events[i]
			x.advance(time.Millisecond << (events[i+1] % 24) * time.Duration(1+events[i+1]/24))
			e := event{
				kind: eventKind(b % 8), at: x.at, adapter: x.s.adapter - int(b/8%3), fatal: b >= 240,
				retryAfter: time.Duration(b/32) * 10 * time.Minute, jitter: float64(b) / 256,
			}
			if e.kind == eventExited && !living[e.adapter] ||
				e.kind == eventExited && e.adapter == x.s.adapter && x.s.phase.live() {
				continue // an adapter exits once, after it was told to stop
			}
			if e.kind == eventExited {
				delete(living, e.adapter)
			}
			x.play(e, living)
		}
	})
}

// play applies an event and then a tick, as the runner does, and checks the results.
func (x *policyFixture) play(e event, living map[int]bool) {
	for range 2 {
		before := x.s
		after, act := x.p.next(before, e)
		x.s = after
		own := e.adapter == before.adapter && before.phase.live()
		if report := e.kind == eventOpened || e.kind == eventHeartbeat ||
			e.kind == eventFailed; report && !own && !reflect.DeepEqual(before, after) {
			x.t.Fatalf("a report of adapter %d changes %+v to %+v", e.adapter, before, after)
		}
		switch act {
		case actionStart:
			if living[after.adapter] || after.adapter != before.adapter+1 || after.phase != phaseConnecting ||
				before.phase.live() {
				x.t.Fatalf("adapter %d was created while %+v", after.adapter, before)
			}
			if before.condition == ConditionGaveUp && e.kind != eventResume && e.kind != eventConfigChanged {
				x.t.Fatalf("a channel in state %s is retried", before.condition)
			}
			living[after.adapter] = true
			for n := range living {
				if n != after.adapter && !slices.Contains(after.stranded, n) {
					x.t.Fatalf("adapters %d and %d run concurrently", n, after.adapter)
				}
			}
		case actionStop:
			if !before.phase.live() || after.phase != phaseClosing {
				x.t.Fatalf("an adapter was closed twice: %+v, then %+v", before, after)
			}
		}
		if after.downtime < before.downtime || after.attempts < 0 || after.adapter < before.adapter {
			x.t.Fatalf("a counter decreases: %+v, then %+v", before, after)
		}
		e = event{kind: eventTick, at: x.at, jitter: e.jitter}
	}
	x.checkInvariants()
}

// checkInvariants checks what must hold after every tick.
func (x *policyFixture) checkInvariants() {
	s, p := x.s, x.p
	if (s.condition == ConditionConnected) != s.downSince.IsZero() ||
		(s.condition == ConditionConnected) != !s.connectedSince.IsZero() {
		x.t.Fatalf("inconsistent connection times: %+v", s)
	}
	if s.condition == ConditionConnected && (s.phase != phaseOpen ||
		p.IdleTimeout > 0 && x.at.Sub(s.lastHeartbeat) >= p.IdleTimeout) {
		x.t.Fatalf("connected at %s without a fresh success: %+v", x.at, s)
	}
	if w := s.nextWake(); !w.IsZero() && !w.After(x.at) {
		x.t.Fatalf("at %s the next wake is at %s: %+v", x.at, w, s)
	}
	if idle := s.nextWake().IsZero(); idle && s.condition != ConditionGaveUp &&
		!(p.IdleTimeout < 0 && s.phase == phaseOpen) {
		x.t.Fatalf("the channel has no next step: %+v", s)
	}
	if s.condition == ConditionGaveUp && (s.phase.live() || !s.nextTry.IsZero()) {
		x.t.Fatalf("a channel in state %s has a next step: %+v", s.condition, s)
	}
	if s.phase.live() && !s.nextTry.IsZero() || s.nextTry.Sub(x.at) > max(p.ProbeInterval, maxRetryAfter, p.MaxDelay*6/5) {
		x.t.Fatalf("at %s the next try is at %s: %+v", x.at, s.nextTry, s)
	}
	if p.Polled && s.condition == ConditionParked && s.nextTry.Sub(x.at) > max(p.MaxDelay, maxRetryAfter) {
		x.t.Fatalf("a polled platform waits until %s at %s: %+v", s.nextTry, x.at, s)
	}
	if s.condition == ConditionFailed && s.proven {
		x.t.Fatalf("refusals are final although the configuration worked: %+v", s)
	}
	if s.condition == ConditionParked && (p.ParkAfter < 0 || s.attempts < p.ParkAfter) {
		x.t.Fatalf("parked too early: %+v", s)
	}
}
