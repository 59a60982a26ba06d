package mailroom

import "time"

// ClockSlack is how far a clock may go back before anything is planned again.
const ClockSlack = time.Second

// replan returns when what was planned for at happens at the latest. last is a time
// that the clock had reached when it was planned, or later. If the clock is behind last
// now, it went back, and what was left until at counts from now: nothing waits longer
// than it was meant to.
func replan(at, last, now time.Time) time.Time {
	if at.IsZero() || !last.After(now.Add(ClockSlack)) || !at.After(now) {
		return at
	}
	return now.Add(max(at.Sub(last), 0))
}

// ReplanAfterClockStep plans the thread's next work again if the clock went back since the row
// was written: a retry, the end of a claim, and the turn of a queue. Its current run
// must be loaded. What was asked for as a time of the clock stays: NotBefore, and when
// a ticket expires.
func (t *ThreadState) ReplanAfterClockStep(now time.Time) {
	last := t.UpdatedAt
	if t.Due.At.IsZero() || !last.After(now.Add(ClockSlack)) {
		return
	}
	switch c := t.current(); {
	case c == nil && t.Due.At.Equal(t.HeldAt):
		return
	case c == nil:
		t.Due.At = replan(t.Due.At, last, now)
		t.head.At = replan(t.head.At, last, now)
	case c.Status == StatusQueued:
		c.AvailableAt = replan(c.AvailableAt, last, now)
		t.Due.At = c.AvailableAt
		t.touchRun(c)
	case c.Status == StatusRunning:
		c.ClaimEnds = replan(c.ClaimEnds, last, now)
		t.Due.At = c.ClaimEnds
		t.touchRun(c)
	default:
		return
	}
	t.UpdatedAt = now
	t.touchRow()
}
