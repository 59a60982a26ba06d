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

func (p *ReconnectPolicy) fill() {
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

// longestPause bounds what a platform may ask for.
const longestPause = time.Hour

// pause is the one after n failed tries in a row. jitter, from 0 to 1, adds up to a
// fifth, so that channels which failed together do not come back together.
func (p ReconnectPolicy) pause(n int, jitter float64) time.Duration {
	d := p.MaxDelay
	if shift := n - 1; shift < 20 {
		d = min(p.InitialDelay<<shift, p.MaxDelay)
	}
	return d + time.Duration(float64(d)*0.2*jitter)
}

// phase is where the adapter is that was made last.
type phase int

const (
	absent  phase = iota // there is none: another may be made
	opening              // Connect was called
	open                 // Connect has returned it
	closing              // it was told to end
)

// live reports whether the adapter may report and take deliveries, or will.
func (p phase) live() bool { return p == opening || p == open }

// standing is everything that decides what becomes of a channel.
type standing struct {
	condition Condition
	since     time.Time // of the condition
	reason    string    // why it is not connected

	adapter  int // number of the one that was made last; 0: none was
	phase    phase
	stranded []int // adapters that were told to end, and have not

	attempts int       // failed tries in a row
	refused  time.Time // first of the fatal failures since it was connected; zero: there was none
	due      time.Time // of the next try; zero: none is to be made
	by       time.Time // when the adapter is late with what it is to do in its phase; zero: never

	heard      time.Time // the adapter's last evidence
	connected  time.Time // since when; zero: it is not
	reconnects int       // times it was connected, but for the first
	ever       bool      // it was connected
	down       time.Duration
	downSince  time.Time // zero: it is connected
}

// occasion is what happened to a channel.
type occasion int

const (
	begun   occasion = iota
	opened           // Connect has returned an adapter
	heard            // evidence
	broke            // Connect, Receive or Tend failed
	ended            // the adapter has ended
	ticked           // time has passed
	resumed          // somebody wants it tried now
	changed          // its configuration is another
	crashed          // the supervisor itself panicked
)

// event is an occasion, with what it brings.
type event struct {
	what    occasion
	at      time.Time
	adapter int // that it comes from: of opened, heard, broke and ended
	// Of broke.
	reason string
	fatal  bool
	after  time.Duration // the platform's Retry-After
	// jitter is from 0 to 1.
	jitter float64
}

// action is what is to be done now.
type action int

const (
	nothing action = iota
	makeOne        // make the adapter with the number in standing
	closeIt        // tell it to end
)

// next is the whole rule of a channel's life: what becomes of it after an event.
// Whatever comes from an adapter that was replaced, or told to end, changes nothing.
func (p ReconnectPolicy) next(s standing, e event) (standing, action) {
	own := e.adapter == s.adapter && s.phase.live()
	switch e.what {
	case begun:
		if s.condition == "" {
			s.downSince, s.due = e.at, e.at
			return p.tick(s.to(ConditionStarting, "", e.at), e)
		}
	case opened:
		if own && s.phase == opening {
			s.phase, s.by = open, p.late(e.at)
			if !s.heard.IsZero() || p.IdleTimeout < 0 {
				s = p.hear(s, e.at)
			}
		}
	case heard:
		if own && s.phase == opening {
			s.heard = e.at // counts once it is open
		} else if own {
			s = p.hear(s, e.at)
		}
	case broke:
		if own {
			return p.fall(s, e)
		}
	case ended:
		return p.bury(s, e)
	case ticked:
		return p.tick(s, e)
	case resumed, changed:
		return p.resume(s, e)
	case crashed:
		return p.crash(s, e)
	}
	return s, nothing
}

// crash takes a panic of the supervisor. The adapter ends, because what it has reported
// may be lost. Unlike other failed channels, this one is tried again after a pause.
func (p ReconnectPolicy) crash(s standing, e event) (standing, action) {
	s.attempts++
	s.due = e.at.Add(p.pause(s.attempts, e.jitter))
	if s = s.to(ConditionFailed, e.reason, e.at); s.phase.live() {
		return p.retire(s, e.at), closeIt
	}
	if s.downSince.IsZero() {
		s.downSince = e.at
	}
	return s, nothing
}

func (s standing) to(c Condition, reason string, at time.Time) standing {
	if s.condition != c {
		s.condition, s.since = c, at
	}
	s.reason = reason
	return s
}

// wake is when it is to be looked at again if nothing happens before; zero: never.
func (s standing) wake() time.Time {
	if s.phase == absent {
		return s.due
	}
	return s.by
}

// late is when evidence at a moment is not fresh any more.
func (p ReconnectPolicy) late(at time.Time) time.Time {
	if p.IdleTimeout < 0 {
		return time.Time{}
	}
	return at.Add(p.IdleTimeout)
}

// hear takes evidence of an open adapter.
func (p ReconnectPolicy) hear(s standing, at time.Time) standing {
	s.heard, s.by = at, p.late(at)
	if s.condition != ConditionConnected {
		if s.ever {
			s.reconnects++
		}
		s.ever, s.connected = true, at
		s.down += at.Sub(s.downSince)
		s.downSince = time.Time{}
	}
	s.refused = time.Time{}
	if at.Sub(s.connected) >= p.InitialDelay {
		s.attempts = 0
	}
	return s.to(ConditionConnected, "", at)
}

// fall takes the end of what a live adapter was there for, and has it closed.
func (p ReconnectPolicy) fall(s standing, e event) (standing, action) {
	held := s.condition == ConditionConnected && e.at.Sub(s.connected) >= p.InitialDelay
	after := min(max(e.after, 0), longestPause)
	if e.fatal && s.refused.IsZero() {
		s.refused = e.at
	}
	forGood := e.fatal && !(s.ever && e.at.Sub(s.refused) < p.FatalGrace)
	if held {
		s.attempts = 0
	}
	if atOnce := !p.Polled && (!e.fatal || forGood); held && atOnce {
		s.due = e.at.Add(after)
	} else {
		s.attempts++
		s.due = e.at.Add(max(p.pause(s.attempts, e.jitter), after))
	}
	to := ConditionQueued
	switch {
	case forGood:
		to, s.due = ConditionFailed, time.Time{}
	case p.GiveUpAfter > 0 && s.attempts >= p.GiveUpAfter:
		to, s.due = ConditionGaveUp, time.Time{}
	case p.ParkAfter > 0 && s.attempts >= p.ParkAfter:
		to, s.due = ConditionParked, e.at.Add(max(p.ProbeInterval, after))
	case e.what == ticked && s.condition == ConditionConnected:
		to = ConditionSilent
	}
	return p.retire(s.to(to, e.reason, e.at), e.at), closeIt
}

// retire has the live adapter end.
func (p ReconnectPolicy) retire(s standing, at time.Time) standing {
	if s.downSince.IsZero() {
		s.downSince = at
		if p.IdleTimeout > 0 {
			s.downSince = s.heard // the last that is known
		}
	}
	s.connected = time.Time{}
	s.phase, s.by = closing, at.Add(p.CloseTimeout)
	return s
}

// bury takes note that an adapter has ended.
func (p ReconnectPolicy) bury(s standing, e event) (standing, action) {
	if e.adapter == s.adapter && s.phase == closing {
		s.phase, s.by = absent, time.Time{}
		return p.tick(s, e)
	}
	if i := slices.Index(s.stranded, e.adapter); i >= 0 {
		s.stranded = slices.Delete(slices.Clone(s.stranded), i, i+1)
	}
	return s, nothing
}

// tick does what time has brought.
func (p ReconnectPolicy) tick(s standing, e event) (standing, action) {
	late := !s.by.IsZero() && !e.at.Before(s.by)
	e.fatal, e.after = false, 0
	switch {
	case s.phase == opening && late:
		e.reason = fmt.Sprintf("it did not connect within %s", p.ConnectTimeout)
		return p.fall(s, e)
	case s.phase == open && late && s.condition == ConditionConnected:
		e.reason = "nothing was heard for " + e.at.Sub(s.heard).Round(time.Millisecond).String()
		return p.fall(s, e)
	case s.phase == open && late:
		e.reason = fmt.Sprintf("it connected, and nothing was heard within %s", p.IdleTimeout)
		return p.fall(s, e)
	case s.phase == closing && late:
		s.stranded = append(slices.Clone(s.stranded), s.adapter)
		s.phase, s.by = absent, time.Time{}
	}
	if s.phase != absent || s.due.IsZero() || e.at.Before(s.due) {
		return s, nothing
	}
	s.adapter++
	s.phase, s.by = opening, e.at.Add(p.ConnectTimeout)
	s.due, s.heard = time.Time{}, time.Time{}
	return s, makeOne
}

// resume has it tried now, as if nothing had failed. A configuration that is
// another wants an adapter that is another.
func (p ReconnectPolicy) resume(s standing, e event) (standing, action) {
	switch {
	case s.condition == "":
		return s, nothing
	case s.phase.live() && e.what == resumed:
		if s.condition == ConditionParked {
			s = s.to(ConditionQueued, s.reason, e.at)
		}
		if s.condition != ConditionConnected {
			s.attempts, s.refused = 0, time.Time{}
		}
		return s, nothing
	case s.phase.live():
		to, reason := s.condition, s.reason
		if to == ConditionConnected || to == ConditionParked {
			to = ConditionQueued
		}
		if to == ConditionQueued {
			reason = "its configuration has changed"
		}
		s.attempts, s.refused, s.due = 0, time.Time{}, e.at
		return p.retire(s.to(to, reason, e.at), e.at), closeIt
	}
	switch s.condition {
	case ConditionParked, ConditionGaveUp, ConditionFailed:
		s = s.to(ConditionQueued, s.reason, e.at)
	}
	s.attempts, s.refused, s.due = 0, time.Time{}, e.at
	return p.tick(s, e)
}
