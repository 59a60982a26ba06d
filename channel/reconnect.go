package channel

import (
	"fmt"
	"slices"
	"time"
)

// ReconnectPolicy holds the timings of a channel's connection. Zero fields mean their defaults.
type ReconnectPolicy struct {
	// InitialDelay is the pause after a failed attempt. It doubles with each further failure up
	// to MaxDelay. The defaults are 30 s and 5 min. A connection that lasted InitialDelay resets
	// the count and reconnects at once.
	InitialDelay, MaxDelay time.Duration
	// ParkAfter is the number of failures in a row that park the channel: 20 by default, never if
	// negative. A parked channel retries every ProbeInterval, 15 min by default, and so does a failed
	// one: a refusal that lasted for minutes can still end without the operator.
	ParkAfter     int
	ProbeInterval time.Duration
	// GiveUpAfter is the number of failures in a row after which the channel stops retrying. 0
	// means never.
	GiveUpAfter int

	// Polled marks a platform that is polled and has no connection to reopen: the pause after any
	// failure is at least InitialDelay, and a parked channel retries every MaxDelay at the
	// latest.
	Polled bool
	// FatalGrace is how long fatal errors are retried like others once this configuration was
	// connected, because platforms refuse good credentials for moments: while they are redeployed, or
	// while the services of an IRC network are away. The default is 5 min; never if negative. One
	// rule for all platforms is here, because an adapter cannot know what worked before it.
	FatalGrace time.Duration

	// Timeouts of the platform.
	IdleTimeout    time.Duration // how long a success proves a connection: 30 s by default; no limit if negative
	ConnectTimeout time.Duration // timeout of Connect: 30 s by default
	CloseTimeout   time.Duration // timeout of an adapter's stop with its last deliveries: 10 s by default
}

func (p *ReconnectPolicy) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&p.InitialDelay, 30 * time.Second}, {&p.MaxDelay, 5 * time.Minute}, {&p.ProbeInterval, 15 * time.Minute},
		{&p.FatalGrace, 5 * time.Minute}, {&p.IdleTimeout, 30 * time.Second}, {&p.ConnectTimeout, 30 * time.Second},
		{&p.CloseTimeout, 10 * time.Second},
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

// minRefusals is the number of fatal failures in a row that end FatalGrace, so that a long pause
// between two attempts does not make one answer final.
const minRefusals = 3

// maxRetryAfter bounds the delay that a platform can ask for.
const maxRetryAfter = time.Hour

// backoff returns the pause after n failures in a row. jitter, from 0 to 1, adds up to a fifth,
// so that channels that failed together do not retry together.
func (p ReconnectPolicy) backoff(n int, jitter float64) time.Duration {
	d := p.MaxDelay
	if shift := n - 1; shift < 20 {
		d = min(p.InitialDelay<<shift, p.MaxDelay)
	}
	return d + time.Duration(float64(d)*0.2*jitter)
}

// phase is the phase of the latest adapter.
type phase int

const (
	phaseNone       phase = iota // no adapter exists: another one may start
	phaseConnecting              // Connect was called
	phaseOpen                    // Connect has returned the adapter
	phaseClosing                 // asked to stop
)

// live reports whether the adapter may report and accept deliveries, now or once connected.
func (p phase) live() bool { return p == phaseConnecting || p == phaseOpen }

// state is the complete input of the reconnect rule for one channel.
type state struct {
	condition Condition
	since     time.Time // start of the condition
	reason    string    // why it is not connected

	adapter  int // number of the latest adapter; 0: none yet
	phase    phase
	stranded []int // numbers of abandoned adapters that still run

	attempts   int       // failed attempts in a row
	fatalSince time.Time // first fatal failure since the last connection; zero: none
	refusals   int       // fatal failures since then
	proven     bool      // these credentials have connected once, and no refusal since has outlasted FatalGrace
	stale      int       // number of a connected adapter whose credentials have been replaced since; 0: none
	nextTry    time.Time // time of the next attempt; zero: none planned
	deadline   time.Time // deadline of the adapter's phase; zero: no deadline

	lastHeartbeat  time.Time // the adapter's last success
	connectedSince time.Time // zero: not connected
	reconnects     int       // connections after the first one
	everConnected  bool      // connected at least once
	downtime       time.Duration
	downSince      time.Time // zero: connected
}

// eventKind is the kind of an event.
type eventKind int

const (
	eventStart         eventKind = iota
	eventOpened                  // Connect has returned an adapter
	eventHeartbeat               // the adapter proved that it receives
	eventFailed                  // Connect, Receive or Maintain failed
	eventExited                  // the adapter has exited
	eventTick                    // time has passed
	eventResume                  // an operator asks for a retry now
	eventConfigChanged           // the channel's configuration changed
	eventSecretChanged           // a file with its credentials changed
	eventCrashed                 // the supervisor panicked
)

// event is an input of the state machine.
type event struct {
	kind    eventKind
	at      time.Time
	adapter int // sender of opened, heartbeat, failed and exited events
	// Set for eventFailed.
	reason     string
	fatal      bool
	retryAfter time.Duration // delay that the platform asked for
	// jitter is from 0 to 1.
	jitter float64
}

// action says what the runner does after an event.
type action int

const (
	actionNone  action = iota
	actionStart        // create the adapter with the number in state
	actionStop         // ask the adapter to stop
)

// next is the reconnect rule: it returns the state after an event and the action to take. Reports
// of an adapter that was replaced or asked to stop change nothing.
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
			s.lastHeartbeat = e.at // counts once connected
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
	case eventSecretChanged:
		if s.condition == ConditionConnected { // the open connection stays, and proves the former credentials only
			s.proven, s.stale = false, s.adapter
			return s, actionNone
		}
		e.kind = eventConfigChanged
		return p.onResume(s, e)
	case eventResume, eventConfigChanged:
		return p.onResume(s, e)
	case eventCrashed:
		return p.onCrash(s, e)
	}
	return s, actionNone
}

// onCrash handles a panic of the supervisor. It stops the adapter, whose reports may be lost, and
// the channel retries after a pause.
func (p ReconnectPolicy) onCrash(s state, e event) (state, action) {
	s.attempts++
	s.nextTry = e.at.Add(p.backoff(s.attempts, e.jitter))
	if s = s.withCondition(ConditionQueued, e.reason, e.at); s.phase.live() {
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

// nextWake returns the time at which the state next changes without an event, zero for never.
func (s state) nextWake() time.Time {
	if s.phase == phaseNone {
		return s.nextTry
	}
	return s.deadline
}

// idleDeadline returns when a success at the given time expires.
func (p ReconnectPolicy) idleDeadline(at time.Time) time.Time {
	if p.IdleTimeout < 0 {
		return time.Time{}
	}
	return at.Add(p.IdleTimeout)
}

// onHeartbeat records a success of a connected adapter.
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
	s.proven = s.stale != s.adapter
	s = s.withoutRefusals()
	if at.Sub(s.connectedSince) >= p.InitialDelay {
		s.attempts = 0
	}
	return s.withCondition(ConditionConnected, "", at)
}

// onFailure handles the failure of a live adapter, stops it and plans the next attempt.
func (p ReconnectPolicy) onFailure(s state, e event) (state, action) {
	held := s.condition == ConditionConnected && e.at.Sub(s.connectedSince) >= p.InitialDelay
	after := min(max(e.retryAfter, 0), maxRetryAfter)
	forGood := false
	if e.fatal {
		s, forGood = p.onRefusal(s, e.at)
	}
	if e.fatal && !forGood {
		e.reason += fmt.Sprintf(" (refused since %s; it worked before, so it is retried)",
			s.fatalSince.UTC().Format("15:04:05 UTC"))
	}
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
		to, s.nextTry = ConditionFailed, e.at.Add(max(p.ProbeInterval, after))
	case p.GiveUpAfter > 0 && s.attempts >= p.GiveUpAfter:
		to, s.nextTry = ConditionGaveUp, time.Time{}
	case p.ParkAfter > 0 && s.attempts >= p.ParkAfter:
		to, s.nextTry = ConditionParked, e.at.Add(max(p.ProbeInterval, after))
	case e.kind == eventTick && s.condition == ConditionConnected:
		to = ConditionSilent
	}
	return p.stop(s.withCondition(to, e.reason, e.at), e.at), actionStop
}

// onRefusal counts a fatal failure and reports whether it is final. For credentials that never worked it is final at
// once, for others only after minRefusals fatal failures over at least FatalGrace.
func (p ReconnectPolicy) onRefusal(s state, at time.Time) (_ state, forGood bool) {
	if s.fatalSince.IsZero() {
		s.fatalSince = at
	}
	s.refusals++
	patient := s.proven && p.FatalGrace > 0 && (s.refusals < minRefusals || at.Sub(s.fatalSince) < p.FatalGrace)
	if !patient {
		s.proven = false // so that the refusal after a resume is final at once
	}
	return s, !patient
}

func (s state) withoutRefusals() state {
	s.fatalSince, s.refusals = time.Time{}, 0
	return s
}

// stop moves a live adapter to phaseClosing.
func (p ReconnectPolicy) stop(s state, at time.Time) state {
	if s.downSince.IsZero() {
		s.downSince = at
		if p.IdleTimeout > 0 {
			s.downSince = s.lastHeartbeat // the channel was last known to work then
		}
	}
	s.connectedSince = time.Time{}
	s.phase, s.deadline = phaseClosing, at.Add(p.CloseTimeout)
	return s
}

// onExit handles the exit of an adapter.
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

// onTick handles expired deadlines and starts a due attempt.
func (p ReconnectPolicy) onTick(s state, e event) (state, action) {
	late := !s.deadline.IsZero() && !e.at.Before(s.deadline)
	e.fatal, e.retryAfter = false, 0
	switch {
	case s.phase == phaseConnecting && late:
		e.reason = fmt.Sprintf("no connection within %s", p.ConnectTimeout)
		return p.onFailure(s, e)
	case s.phase == phaseOpen && late && s.condition == ConditionConnected:
		e.reason = "no heartbeat for " + e.at.Sub(s.lastHeartbeat).Round(time.Millisecond).String()
		return p.onFailure(s, e)
	case s.phase == phaseOpen && late:
		e.reason = fmt.Sprintf("connected, but no heartbeat within %s", p.IdleTimeout)
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

// onResume retries now and resets the failure count. After a configuration change it also
// replaces a live adapter.
func (p ReconnectPolicy) onResume(s state, e event) (state, action) {
	if e.kind == eventConfigChanged {
		s.proven = false // other credentials may be in it
	}
	switch {
	case s.condition == "":
		return s, actionNone
	case s.phase.live() && e.kind == eventResume:
		if s.condition == ConditionParked || s.condition == ConditionFailed { // a probe
			s = s.withCondition(ConditionQueued, s.reason, e.at)
		}
		if s.condition != ConditionConnected {
			s = s.withoutRefusals()
			s.attempts = 0
		}
		return s, actionNone
	case s.phase.live():
		to, reason := s.condition, s.reason
		if to == ConditionConnected || to == ConditionParked || to == ConditionFailed {
			to = ConditionQueued
		}
		if to == ConditionQueued {
			reason = "configuration changed"
		}
		s = s.withoutRefusals()
		s.attempts, s.nextTry = 0, e.at
		return p.stop(s.withCondition(to, reason, e.at), e.at), actionStop
	}
	switch s.condition {
	case ConditionParked, ConditionGaveUp, ConditionFailed:
		s = s.withCondition(ConditionQueued, s.reason, e.at)
	}
	s = s.withoutRefusals()
	s.attempts, s.nextTry = 0, e.at
	return p.onTick(s, e)
}
