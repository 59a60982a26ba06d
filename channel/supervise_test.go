package channel

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tale is a channel in the hands of a test: events with their times, and what was
// done after each.
type tale struct {
	t  *testing.T
	p  ReconnectPolicy
	s  standing
	at time.Time
}

func newTale(t *testing.T, p ReconnectPolicy) *tale {
	t.Helper()
	p.fill()
	x := &tale{t: t, p: p, at: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	x.does(begun, makeOne)
	return x
}

// does has an event of the present adapter happen, and wants it to lead to an action.
func (x *tale) does(what occasion, want action) {
	x.t.Helper()
	x.event(event{what: what}, want)
}

func (x *tale) event(e event, want action) {
	x.t.Helper()
	e.at = x.at
	if e.adapter == 0 {
		e.adapter = x.s.adapter
	}
	var got action
	if x.s, got = x.p.next(x.s, e); got != want {
		x.t.Fatalf("event %d leads to action %d, want %d; it stands at %+v", e.what, got, want, x.s)
	}
}

func (x *tale) is(c Condition, attempts int, next time.Duration) {
	x.t.Helper()
	var got time.Duration
	if !x.s.due.IsZero() {
		got = x.s.due.Sub(x.at)
	}
	if x.s.condition != c || x.s.attempts != attempts || got != next {
		x.t.Fatalf("it is %s after %d attempts, next try in %s; want %s, %d, %s", x.s.condition, x.s.attempts, got, c, attempts, next)
	}
}

func (x *tale) after(d time.Duration) *tale {
	x.at = x.at.Add(d)
	return x
}

// fails has the present adapter fail and end.
func (x *tale) fails(e event) {
	x.t.Helper()
	e.what = broke
	x.event(e, closeIt)
	x.does(ended, nothing)
}

func TestPausesDoubleToTheMostAndThenItIsParked(t *testing.T) {
	x := newTale(t, ReconnectPolicy{})
	m := time.Minute
	for i, pause := range []time.Duration{30 * time.Second, m, 2 * m, 4 * m, 5 * m, 5 * m} {
		x.fails(event{reason: "no"})
		x.is(ConditionQueued, i+1, pause)
		x.after(pause-1).does(ticked, nothing)
		x.after(1).does(ticked, makeOne)
	}
	for n := 7; n < 20; n++ {
		x.fails(event{})
		x.is(ConditionQueued, n, 5*m)
		x.after(5*m).does(ticked, makeOne)
	}
	for n := range 3 {
		x.fails(event{})
		x.is(ConditionParked, 20+n, 15*m)
		x.after(15*m-1).does(ticked, nothing)
		x.after(1).does(ticked, makeOne)
	}
	x.does(opened, nothing)
	x.does(heard, nothing)
	x.is(ConditionConnected, 22, 0)
	x.after(30*time.Second-1).does(heard, nothing)
	x.after(1).does(heard, nothing)
	x.is(ConditionConnected, 0, 0)
}

func TestAFailureComesAgain(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		pace  ReconnectPolicy
		event event
		held  time.Duration // it was connected so long before; 0: not
		state Condition
		tries int
		next  time.Duration
	}{
		"at start":                          {event: event{}, state: ConditionQueued, tries: 1, next: 30 * second},
		"at start, all jitter":              {event: event{jitter: 1}, state: ConditionQueued, tries: 1, next: 36 * second},
		"at start, Retry-After":             {event: event{after: time.Minute}, state: ConditionQueued, tries: 1, next: time.Minute},
		"at start, a short Retry-After":     {event: event{after: second}, state: ConditionQueued, tries: 1, next: 30 * second},
		"at start, Retry-After of a year":   {event: event{after: 9000 * time.Hour}, state: ConditionQueued, tries: 1, next: time.Hour},
		"at start, fatal":                   {event: event{fatal: true, after: second}, state: ConditionFailed, tries: 1},
		"at start, the last of one":         {pace: ReconnectPolicy{GiveUpAfter: 1}, event: event{}, state: ConditionGaveUp, tries: 1},
		"at start, parked at once":          {pace: ReconnectPolicy{ParkAfter: 1}, event: event{}, state: ConditionParked, tries: 1, next: 15 * time.Minute},
		"parked, Retry-After":               {pace: ReconnectPolicy{ParkAfter: 1}, event: event{after: time.Hour}, state: ConditionParked, tries: 1, next: time.Hour},
		"given up rather than parked":       {pace: ReconnectPolicy{ParkAfter: 1, GiveUpAfter: 1}, event: event{}, state: ConditionGaveUp, tries: 1},
		"connected":                         {held: 30 * second, event: event{jitter: 1}, state: ConditionQueued},
		"connected, Retry-After":            {held: 30 * second, event: event{after: second}, state: ConditionQueued, next: second},
		"connected, fatal":                  {held: 30 * second, event: event{fatal: true}, state: ConditionFailed},
		"connected, and not held":           {held: 30*second - 1, event: event{}, state: ConditionQueued, tries: 1, next: 30 * second},
		"connected, not held, the only one": {pace: ReconnectPolicy{GiveUpAfter: 1}, held: second, event: event{}, state: ConditionGaveUp, tries: 1},
		"polled, connected":                 {pace: ReconnectPolicy{Polled: true, InitialDelay: second}, held: time.Minute, event: event{}, state: ConditionQueued, tries: 1, next: second},
		"polled, connected, Retry-After":    {pace: ReconnectPolicy{Polled: true, InitialDelay: second}, held: time.Minute, event: event{after: time.Minute}, state: ConditionQueued, tries: 1, next: time.Minute},
		"polled, parked at once":            {pace: ReconnectPolicy{Polled: true, ParkAfter: 1, MaxDelay: time.Minute}, event: event{}, state: ConditionParked, tries: 1, next: time.Minute},
		"patient, never connected, fatal":   {pace: ReconnectPolicy{FatalGrace: time.Hour}, event: event{fatal: true}, state: ConditionFailed, tries: 1},
		"patient, connected, fatal":         {pace: ReconnectPolicy{FatalGrace: time.Hour}, held: time.Minute, event: event{fatal: true}, state: ConditionQueued, tries: 1, next: 30 * second},
		"own numbers":                       {pace: ReconnectPolicy{InitialDelay: second, MaxDelay: second}, event: event{}, state: ConditionQueued, tries: 1, next: second},
	} {
		t.Run(name, func(t *testing.T) {
			c.pace.IdleTimeout = time.Hour
			x := newTale(t, c.pace)
			if c.held > 0 {
				x.does(opened, nothing)
				x.does(heard, nothing)
				x.after(c.held)
			}
			x.t = t
			c.event.what, c.event.reason = broke, "why"
			x.event(c.event, closeIt)
			x.is(c.state, c.tries, c.next)
			if x.s.reason != "why" {
				t.Errorf("the reason is %q", x.s.reason)
			}
		})
	}
}

func TestTheNextAdapterIsMadeOnceTheLastHasEndedOrWasLeftBehind(t *testing.T) {
	x := newTale(t, ReconnectPolicy{IdleTimeout: time.Hour})
	x.does(opened, nothing)
	x.does(heard, nothing)
	x.after(time.Minute).event(event{what: broke}, closeIt)
	x.is(ConditionQueued, 0, 0)
	x.does(ticked, nothing) // it is due, and the old one is there
	x.does(ended, makeOne)
	x.does(opened, nothing)
	x.does(heard, nothing)
	x.after(time.Minute).event(event{what: broke}, closeIt)
	x.after(10*time.Second-1).does(ticked, nothing)
	x.after(1).does(ticked, makeOne)
	if diff := cmp.Diff([]int{2}, x.s.stranded); diff != "" || x.s.adapter != 3 {
		t.Errorf("left behind: %s; the adapter is %d", diff, x.s.adapter)
	}
	x.event(event{what: ended, adapter: 2}, nothing)
	if len(x.s.stranded) > 0 || x.s.phase != opening {
		t.Errorf("it has ended after all: %+v", x.s)
	}
}

func TestReportsOfAReplacedAdapterChangeNothing(t *testing.T) {
	x := newTale(t, ReconnectPolicy{})
	x.fails(event{})
	x.after(30*time.Second).does(ticked, makeOne)
	for _, what := range []occasion{opened, heard, broke, ended} {
		before := x.s
		x.event(event{what: what, adapter: 1, fatal: true}, nothing)
		if diff := cmp.Diff(before, x.s, cmp.AllowUnexported(standing{})); diff != "" {
			t.Errorf("event %d: %s", what, diff)
		}
	}
}

func TestAChannelThatIsNotHeardIsConnectedAnew(t *testing.T) {
	t.Run("it does not connect", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{})
		x.after(30*time.Second-1).does(ticked, nothing)
		x.after(1).does(ticked, closeIt)
		x.is(ConditionQueued, 1, 30*time.Second)
	})
	t.Run("it connects, and no more", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{})
		x.does(opened, nothing)
		x.after(30*time.Second).does(ticked, closeIt)
		x.is(ConditionQueued, 1, 30*time.Second)
	})
	t.Run("it falls silent", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{})
		x.does(heard, nothing)
		x.is(ConditionStarting, 0, 0)
		x.does(opened, nothing)
		x.is(ConditionConnected, 0, 0)
		x.after(29*time.Second).does(heard, nothing)
		x.after(30*time.Second-1).does(ticked, nothing)
		x.after(1).does(ticked, closeIt)
		x.is(ConditionSilent, 0, 0)
		x.after(time.Second).does(ended, makeOne)
		x.is(ConditionSilent, 0, 0)
		x.does(opened, nothing)
		x.does(heard, nothing)
		x.is(ConditionConnected, 0, 0)
		if x.s.down != 31*time.Second || x.s.reconnects != 1 { // since it was heard
			t.Errorf("it was down for %s, and connected again %d times", x.s.down, x.s.reconnects)
		}
	})
	t.Run("it falls silent soon, again and again", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{IdleTimeout: time.Second, ParkAfter: 2})
		for _, want := range []Condition{ConditionSilent, ConditionParked} {
			x.does(opened, nothing)
			x.does(heard, nothing)
			x.after(time.Second).does(ticked, closeIt)
			x.does(ended, nothing)
			if x.s.condition != want {
				t.Fatalf("it is %s, want %s", x.s.condition, want)
			}
			x.at = x.s.due
			x.does(ticked, makeOne)
		}
	})
	t.Run("nothing need be heard", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{IdleTimeout: -1})
		x.does(opened, nothing)
		x.after(1000*time.Hour).does(ticked, nothing)
		x.is(ConditionConnected, 0, 0)
	})
}

// TestAPolledPlatformIsAskedEachMinuteHoweverLongItIsAway plays an outage of two hours,
// and then says what a refusal of the token means before and after its patience.
func TestAPolledPlatformIsAskedEachMinuteHoweverLongItIsAway(t *testing.T) {
	x := newTale(t, ReconnectPolicy{Polled: true, InitialDelay: time.Second, MaxDelay: time.Minute, FatalGrace: 5 * time.Minute, IdleTimeout: time.Hour})
	connect := func() {
		t.Helper()
		x.does(opened, nothing)
		x.does(heard, nothing)
		x.after(time.Minute).does(heard, nothing)
	}
	connect()
	for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		x.fails(event{})
		x.is(ConditionQueued, i+1, pause*time.Second)
		x.after(pause*time.Second).does(ticked, makeOne)
	}
	for n := 9; n <= 120; n++ {
		x.fails(event{})
		if wait := x.s.due.Sub(x.at); wait != time.Minute {
			t.Fatalf("after %d tries the next one is in %s", n, wait)
		}
		x.after(time.Minute).does(ticked, makeOne)
	}
	connect()
	for refused := x.at; ; {
		x.fails(event{fatal: true, reason: "401"})
		if x.s.condition == ConditionFailed {
			if held := x.at.Sub(refused); held < 5*time.Minute || held > 6*time.Minute {
				t.Errorf("it failed for good after %s", held)
			}
			break
		}
		x.at = x.s.due
		x.does(ticked, makeOne)
	}
	x.does(resumed, makeOne)
	connect()
	x.fails(event{fatal: true}) // the patience begins again
	x.is(ConditionQueued, 1, time.Second)
}

func TestAResumedChannelIsTriedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		pace  ReconnectPolicy
		event event
		state Condition
	}{
		"queued": {ReconnectPolicy{}, event{}, ConditionQueued}, "parked": {ReconnectPolicy{ParkAfter: 1}, event{}, ConditionParked},
		"gave up": {ReconnectPolicy{GiveUpAfter: 1}, event{}, ConditionGaveUp}, "failed": {ReconnectPolicy{}, event{fatal: true}, ConditionFailed},
	} {
		for _, why := range []occasion{resumed, changed} {
			t.Run(name, func(t *testing.T) {
				x := newTale(t, c.pace)
				x.fails(c.event)
				if x.s.condition != c.state {
					t.Fatalf("it is %s", x.s.condition)
				}
				x.does(why, makeOne)
				x.is(ConditionQueued, 0, 0)
				if x.does(why, map[occasion]action{resumed: nothing, changed: closeIt}[why]); why == changed {
					x.does(ended, makeOne)
				}
				x.is(ConditionQueued, 0, 0)
			})
		}
	}
	t.Run("while the last one ends", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{ParkAfter: 1})
		x.event(event{what: broke}, closeIt)
		x.does(resumed, nothing)
		x.does(ended, makeOne)
	})
	t.Run("connected", func(t *testing.T) {
		x := newTale(t, ReconnectPolicy{})
		x.does(opened, nothing)
		x.does(heard, nothing)
		x.does(resumed, nothing)
		x.is(ConditionConnected, 0, 0)
		x.does(changed, closeIt)
		x.is(ConditionQueued, 0, 0)
		x.does(ended, makeOne)
	})
}

// FuzzChannel plays any events against the promises of the rule. A byte is what
// happens, the next one when, in steps that grow.
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
		x := newTale(t, p)
		living := map[int]bool{1: true} // adapters that were made and have not ended
		for i := 0; i+1 < len(events); i += 2 {
			b := events[i]
			x.after(time.Millisecond << (events[i+1] % 24) * time.Duration(1+events[i+1]/24))
			e := event{
				what: occasion(b % 8), at: x.at, adapter: x.s.adapter - int(b/8%3), fatal: b >= 240,
				after: time.Duration(b/32) * 10 * time.Minute, jitter: float64(b) / 256,
			}
			if e.what == ended && !living[e.adapter] || e.what == ended && e.adapter == x.s.adapter && x.s.phase.live() {
				continue // an adapter ends once, after it was told to
			}
			if e.what == ended {
				delete(living, e.adapter)
			}
			x.play(e, living)
		}
	})
}

// play takes an event, and then the time, as the runner does, and holds what comes
// of it against the promises.
func (x *tale) play(e event, living map[int]bool) {
	for range 2 {
		before := x.s
		after, act := x.p.next(before, e)
		x.s = after
		own := e.adapter == before.adapter && before.phase.live()
		if report := e.what == opened || e.what == heard || e.what == broke; report && !own && !reflect.DeepEqual(before, after) {
			x.t.Fatalf("a report of adapter %d changes %+v to %+v", e.adapter, before, after)
		}
		switch act {
		case makeOne:
			if living[after.adapter] || after.adapter != before.adapter+1 || after.phase != opening || before.phase.live() {
				x.t.Fatalf("adapter %d is made while %+v", after.adapter, before)
			}
			if !before.condition.Alive() && e.what != resumed && e.what != changed {
				x.t.Fatalf("one that is %s is tried again", before.condition)
			}
			living[after.adapter] = true
			for n := range living {
				if n != after.adapter && !slices.Contains(after.stranded, n) {
					x.t.Fatalf("adapters %d and %d live at once", n, after.adapter)
				}
			}
		case closeIt:
			if !before.phase.live() || after.phase != closing {
				x.t.Fatalf("an adapter is closed twice: %+v, then %+v", before, after)
			}
		}
		if after.down < before.down || after.attempts < 0 || after.adapter < before.adapter {
			x.t.Fatalf("it goes back: %+v, then %+v", before, after)
		}
		e = event{what: ticked, at: x.at, jitter: e.jitter}
	}
	x.holds()
}

// holds checks what is so at any time once the time was told.
func (x *tale) holds() {
	s, p := x.s, x.p
	if (s.condition == ConditionConnected) != s.downSince.IsZero() || (s.condition == ConditionConnected) != !s.connected.IsZero() {
		x.t.Fatalf("what is told of being connected differs: %+v", s)
	}
	if s.condition == ConditionConnected && (s.phase != open || p.IdleTimeout > 0 && x.at.Sub(s.heard) >= p.IdleTimeout) {
		x.t.Fatalf("connected is claimed at %s by %+v", x.at, s)
	}
	if w := s.wake(); !w.IsZero() && !w.After(x.at) {
		x.t.Fatalf("at %s it is to be looked at again at %s: %+v", x.at, w, s)
	}
	if idle := s.wake().IsZero(); idle && s.condition.Alive() && !(p.IdleTimeout < 0 && s.phase == open) {
		x.t.Fatalf("nothing will happen to it any more: %+v", s)
	}
	if !s.condition.Alive() && (s.phase.live() || !s.due.IsZero()) {
		x.t.Fatalf("one that is %s goes on: %+v", s.condition, s)
	}
	if s.phase.live() && !s.due.IsZero() || s.due.Sub(x.at) > max(p.ProbeInterval, longestPause, p.MaxDelay*6/5) {
		x.t.Fatalf("at %s the next try is at %s: %+v", x.at, s.due, s)
	}
	if p.Polled && s.condition == ConditionParked && s.due.Sub(x.at) > max(p.MaxDelay, longestPause) {
		x.t.Fatalf("a polled platform waits until %s at %s: %+v", s.due, x.at, s)
	}
	if s.condition == ConditionFailed && !s.refused.IsZero() && s.ever && x.at.Sub(s.refused) < p.FatalGrace {
		x.t.Fatalf("a refusal counts before its patience has passed: %+v", s)
	}
	if s.condition == ConditionParked && (p.ParkAfter < 0 || s.attempts < p.ParkAfter) {
		x.t.Fatalf("parked without need: %+v", s)
	}
}
