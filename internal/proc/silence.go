package proc

import (
	"cmp"
	"time"
)

// silence measures how long a child has written nothing, and decides when Run stops it for that. A child that waits
// for a tool is as silent as a child that hangs. So a longer limit applies while the child has a call open or its
// processes use the processor. It belongs to the goroutine of Run.
type silence struct {
	limits Limits
	used   func() time.Duration // processor time of the child's tree

	timer   *time.Timer
	late    error     // error of the next expiry: ErrStart or ErrIdle
	expired bool      // the timer has fired, and what the child wrote before has to be judged first
	since   time.Time // time of the last output
	looked  bool      // sample is set: the next expiry judges it
	sample  time.Duration
}

func newSilence(limits Limits, used func() time.Duration) *silence {
	s := &silence{limits: limits, used: used, late: ErrStart, since: time.Now()}
	first := limits.Start
	if first == 0 {
		first, s.late = s.wait(), ErrIdle
	}
	s.timer = newTimer(first)
	return s
}

// wait returns the time after which a silent child is judged, or 0 if it never is.
func (s *silence) wait() time.Duration {
	idle, busy := s.limits.Idle, s.limits.Busy
	if s.limits.Working == nil || idle > 0 && (busy == 0 || busy > idle) {
		return idle
	}
	return busy
}

// end records that the child has written something. Run calls it for each output that counts as activity.
func (s *silence) end() {
	s.late, s.expired, s.looked, s.since = ErrIdle, false, false, time.Now()
	s.timer.Stop()
	if d := s.wait(); d > 0 {
		s.timer.Reset(d)
	}
}

// judge is called when the timer has fired and the child has written nothing. It returns why the child has to be
// stopped, or nil if it may go on; then it sets the timer again.
func (s *silence) judge() error {
	s.expired = false
	quiet := time.Since(s.since)
	switch {
	case s.late != ErrIdle, s.limits.Working == nil:
		return s.late
	case s.limits.Working():
		s.looked = false
	case s.limits.Idle == 0 || quiet < s.limits.Idle: // it may call something yet
		s.timer.Reset(cmp.Or(max(s.limits.Idle-quiet, 0), s.limits.Busy))
		return nil
	case !s.looked:
		s.looked, s.sample = true, s.used()
		s.timer.Reset(s.window())
		return nil
	case s.used()-s.sample < s.window()/workingShare:
		return ErrIdle
	default:
		s.looked = false
	}
	next := s.wait()
	if s.limits.Busy > 0 {
		if quiet >= s.limits.Busy {
			return ErrBusy
		}
		next = min(next, s.limits.Busy-quiet)
	}
	s.timer.Reset(next)
	return nil
}

// The processes of a child work if they use at least 1/workingShare of one processor while they are observed. A
// program that waits for its model, or for a helper that waits, uses far less; a build or a test uses far more.
const workingShare = 10

// window returns how long the processes are observed.
func (s *silence) window() time.Duration {
	return min(max(s.limits.Idle/10, 500*time.Millisecond), 30*time.Second)
}
