package channel

import (
	"fmt"
	"slices"
	"time"
)

// ReconnectPolicy are the numbers by which a channel is kept going. Zero is the default.
type ReconnectPolicy struct {
	// InitialDelay is the pause after a try that failed, doubled after each further one
	// up to Most: 30 s and 5 min. A connection that held for First before it ended
	// was none that failed: it is tried again at once.
	InitialDelay, MaxDelay time.Duration
	// ParkAfter is how many tries in a row may fail before the channel is parked and
	// tried every Probe only: 20, and 15 min. Below 0 it is never parked.
	ParkAfter     int
	ProbeInterval time.Duration
	// GiveUpAfter is after how many failed tries in a row no more are made; 0: they
	// are made for ever.
	GiveUpAfter int

	// Polled says that the platform is asked for messages, and there is no connection
	// to open again: the first pause after any failure is First, and a parked channel is
	// tried every Most at the latest.
	Polled bool
	// FatalGrace is for how long errors that are fatal are retried like others, if the
	// channel was connected before: a platform that is redeployed may refuse good
	// credentials for a while. 0: not at all.
	FatalGrace time.Duration

	// Of the platform.
	IdleTimeout    time.Duration // how long an answer proves that it is connected: 30 s; below 0 for ever
	ConnectTimeout time.Duration // for Connect to return: 30 s
	CloseTimeout   time.Duration // for an adapter to end, its last deliveries included: 10 s
}

func (p *ReconnectPolicy) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&p.InitialDelay, 30 * time.Second}, {&p.MaxDelay, 5 * time.Minute}, {&p.ProbeInterval, 15 * time.Minute},
		{&p.IdleTimeout, 30 * time.Second}, {&p.ConnectTimeout, 30 * time.Second}, {&p.CloseTimeout, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	p.MaxDelay = max(p.MaxDelay, p.InitialDelay)
	if p.Polled {
		p.ProbeInterval = min(p.ProbeInterval, p.MaxDelay)
	}
	if p.ParkAfter == 0 {
		p.ParkAfter = 20
	}
}

// maxRetryAfter bounds what a platform may ask for.
const maxRetryAfter = time.Hour

// backoff is the one after n failed tries in a row. jitter, from 0 to 1, adds up to a
// fifth, so that channels which failed together do not come back together.
func (p ReconnectPolicy) backoff(n int, jitter float64) time.Duration {
	d := p.MaxDelay
	if shift := n - 1; shift < 20 {
		d = min(p.InitialDelay<<shift, p.MaxDelay)
	}
	return d + time.Duration(float64(d)*0.2*jitter)
}

// phase is where the adapter is that was made last.
type phase int

const (
	phaseNone       phase = iota // there is none: another may be made
	phaseConnecting              // Connect was called
	phaseOpen                    // Connect has returned it
	phaseClosing                 // it was told to end
)

// live reports whether the adapter may report and take deliveries, or will.
func (p phase) live() bool { return p == phaseConnecting || p == phaseOpen }

// state is everything that decides what becomes of a channel.
type state struct {
	condition Condition
	since     time.Time // of the condition
	reason    string    // why it is not connected

	adapter  int // number of the one that was made last; 0: none was
	phase    phase
	stranded []int // adapters that were told to end, and have not

	attempts   int       // failed tries in a row
	fatalSince time.Time // first of the fatal failures since it was connected; zero: there was none
	nextTry    time.Time // of the next try; zero: none is to be made
	deadline   time.Time // when the adapter is late with what it is to do in its phase; zero: never

	lastHeartbeat  time.Time // the adapter's last evidence
	connectedSince time.Time // since when; zero: it is not
	reconnects     int       // times it was connected, but for the first
	everConnected  bool      // it was connected
	downtime       time.Duration
	downSince      time.Time // zero: it is connected
}

// eventKind is what happened to a channel.
type eventKind int

const (
	eventStart         eventKind = iota
	eventOpened                  // Connect has returned an adapter
	eventHeartbeat               // evidence
	eventFailed                  // Connect, Receive or Tend failed
	eventExited                  // the adapter has ended
	eventTick                    // time has passed
	eventResume                  // somebody wants it tried now
	eventConfigChanged           // its configuration is another
	eventCrashed                 // the supervisor itself panicked
)

// event is an occasion, with what it brings.
type event struct {
	kind    eventKind
	at      time.Time
	adapter int // that it comes from: of opened, heard, broke and ended
	// Of broke.
	reason     string
	fatal      bool
	retryAfter time.Duration // the platform's Retry-After
	// jitter is from 0 to 1.
	jitter float64
}

// action is what is to be done now.
type action int

const (
	actionNone  action = iota
	actionStart        // make the adapter with the number in standing
	actionStop         // tell it to end
)

// next is the whole rule of a channel's life: what becomes of it after an event.
// Whatever comes from an adapter that was replaced, or told to end, changes nothing.
func (p ReconnectPolicy) next(s state, e event) (state, action) {
	own := e.adapter == s.adapter && s.phase.live()
	switch e.kind {
	case eventStart:
		if s.condition == "" {
			s.downSince, s.nextTry = e.at, e.at
			return p.onTick(s.withCondition(ConditionStarting, "", e.at), e)
		}
	case eventOpened:
		if own && s.phase == phaseConnecting {
			s.phase, s.deadline = phaseOpen, p.idleDeadline(e.at)
			if !s.lastHeartbeat.IsZero() || p.IdleTimeout < 0 {
				s = p.onHeartbeat(s, e.at)
			}
		}
	case eventHeartbeat:
		if own && s.phase == phaseConnecting {
			s.lastHeartbeat = e.at // counts once it is open
		} else if own {
			s = p.onHeartbeat(s, e.at)
		}
	case eventFailed:
		if own {
			return p.onFailure(s, e)
		}
	case eventExited:
		return p.onExit(s, e)
	case eventTick:
		return p.onTick(s, e)
	case eventResume, eventConfigChanged:
		return p.onResume(s, e)
	case eventCrashed:
		return p.onCrash(s, e)
	}
	return s, actionNone
}

// onCrash takes a panic of the supervisor. The adapter ends, because what it has reported
// may be lost. Unlike other failed channels, this one is tried again after a pause.
func (p ReconnectPolicy) onCrash(s state, e event) (state, action) {
	s.attempts++
	s.nextTry = e.at.Add(p.backoff(s.attempts, e.jitter))
	if s = s.withCondition(ConditionFailed, e.reason, e.at); s.phase.live() {
		return p.stop(s, e.at), actionStop
	}
	if s.downSince.IsZero() {
		s.downSince = e.at
	}
	return s, actionNone
}

func (s state) withCondition(c Condition, reason string, at time.Time) state {
	if s.condition != c {
		s.condition, s.since = c, at
	}
	s.reason = reason
	return s
}

// nextWake is when it is to be looked at again if nothing happens before; zero: never.
func (s state) nextWake() time.Time {
	if s.phase == phaseNone {
		return s.nextTry
	}
	return s.deadline
}

// idleDeadline is when evidence at a moment is not fresh any more.
func (p ReconnectPolicy) idleDeadline(at time.Time) time.Time {
	if p.IdleTimeout < 0 {
		return time.Time{}
	}
	return at.Add(p.IdleTimeout)
}

// onHeartbeat takes evidence of an open adapter.
func (p ReconnectPolicy) onHeartbeat(s state, at time.Time) state {
	s.lastHeartbeat, s.deadline = at, p.idleDeadline(at)
	if s.condition != ConditionConnected {
		if s.everConnected {
			s.reconnects++
		}
		s.everConnected, s.connectedSince = true, at
		s.downtime += at.Sub(s.downSince)
		s.downSince = time.Time{}
	}
	s.fatalSince = time.Time{}
	if at.Sub(s.connectedSince) >= p.InitialDelay {
		s.attempts = 0
	}
	return s.withCondition(ConditionConnected, "", at)
}

// onFailure takes the end of what a live adapter was there for, and has it closed.
func (p ReconnectPolicy) onFailure(s state, e event) (state, action) {
	held := s.condition == ConditionConnected && e.at.Sub(s.connectedSince) >= p.InitialDelay
	after := min(max(e.retryAfter, 0), maxRetryAfter)
	if e.fatal && s.fatalSince.IsZero() {
		s.fatalSince = e.at
	}
	forGood := e.fatal && !(s.everConnected && e.at.Sub(s.fatalSince) < p.FatalGrace)
	if held {
		s.attempts = 0
	}
	if atOnce := !p.Polled && (!e.fatal || forGood); held && atOnce {
		s.nextTry = e.at.Add(after)
	} else {
		s.attempts++
		s.nextTry = e.at.Add(max(p.backoff(s.attempts, e.jitter), after))
	}
	to := ConditionQueued
	switch {
	case forGood:
		to, s.nextTry = ConditionFailed, time.Time{}
	case p.GiveUpAfter > 0 && s.attempts >= p.GiveUpAfter:
		to, s.nextTry = ConditionGaveUp, time.Time{}
	case p.ParkAfter > 0 && s.attempts >= p.ParkAfter:
		to, s.nextTry = ConditionParked, e.at.Add(max(p.ProbeInterval, after))
	case e.kind == eventTick && s.condition == ConditionConnected:
		to = ConditionSilent
	}
	return p.stop(s.withCondition(to, e.reason, e.at), e.at), actionStop
}

// stop has the live adapter end.
func (p ReconnectPolicy) stop(s state, at time.Time) state {
	if s.downSince.IsZero() {
		s.downSince = at
		if p.IdleTimeout > 0 {
			s.downSince = s.lastHeartbeat // the last that is known
		}
	}
	s.connectedSince = time.Time{}
	s.phase, s.deadline = phaseClosing, at.Add(p.CloseTimeout)
	return s
}

// onExit takes note that an adapter has ended.
func (p ReconnectPolicy) onExit(s state, e event) (state, action) {
	if e.adapter == s.adapter && s.phase == phaseClosing {
		s.phase, s.deadline = phaseNone, time.Time{}
		return p.onTick(s, e)
	}
	if i := slices.Index(s.stranded, e.adapter); i >= 0 {
		s.stranded = slices.Delete(slices.Clone(s.stranded), i, i+1)
	}
	return s, actionNone
}

// onTick does what time has brought.
func (p ReconnectPolicy) onTick(s state, e event) (state, action) {
	late := !s.deadline.IsZero() && !e.at.Before(s.deadline)
	e.fatal, e.retryAfter = false, 0
	switch {
	case s.phase == phaseConnecting && late:
		e.reason = fmt.Sprintf("it did not connect within %s", p.ConnectTimeout)
		return p.onFailure(s, e)
	case s.phase == phaseOpen && late && s.condition == ConditionConnected:
		e.reason = "nothing was heard for " + e.at.Sub(s.lastHeartbeat).Round(time.Millisecond).String()
		return p.onFailure(s, e)
	case s.phase == phaseOpen && late:
		e.reason = fmt.Sprintf("it connected, and nothing was heard within %s", p.IdleTimeout)
		return p.onFailure(s, e)
	case s.phase == phaseClosing && late:
		s.stranded = append(slices.Clone(s.stranded), s.adapter)
		s.phase, s.deadline = phaseNone, time.Time{}
	}
	if s.phase != phaseNone || s.nextTry.IsZero() || e.at.Before(s.nextTry) {
		return s, actionNone
	}
	s.adapter++
	s.phase, s.deadline = phaseConnecting, e.at.Add(p.ConnectTimeout)
	s.nextTry, s.lastHeartbeat = time.Time{}, time.Time{}
	return s, actionStart
}

// onResume has it tried now, as if nothing had failed. A configuration that is
// another wants an adapter that is another.
func (p ReconnectPolicy) onResume(s state, e event) (state, action) {
	switch {
	case s.condition == "":
		return s, actionNone
	case s.phase.live() && e.kind == eventResume:
		if s.condition == ConditionParked {
			s = s.withCondition(ConditionQueued, s.reason, e.at)
		}
		if s.condition != ConditionConnected {
			s.attempts, s.fatalSince = 0, time.Time{}
		}
		return s, actionNone
	case s.phase.live():
		to, reason := s.condition, s.reason
		if to == ConditionConnected || to == ConditionParked {
			to = ConditionQueued
		}
		if to == ConditionQueued {
			reason = "its configuration has changed"
		}
		s.attempts, s.fatalSince, s.nextTry = 0, time.Time{}, e.at
		return p.stop(s.withCondition(to, reason, e.at), e.at), actionStop
	}
	switch s.condition {
	case ConditionParked, ConditionGaveUp, ConditionFailed:
		s = s.withCondition(ConditionQueued, s.reason, e.at)
	}
	s.attempts, s.fatalSince, s.nextTry = 0, time.Time{}, e.at
	return p.onTick(s, e)
}
