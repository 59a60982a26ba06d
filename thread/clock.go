package thread

import (
	"time"

	"mailroom"
)

// ClockSlack is how far the clock may step back before due times are computed again.
const ClockSlack = time.Second

// replan returns the new due time of work whose due time is at. last is a time that the clock showed when the work
// was scheduled, or later. If the clock is now behind last, it has stepped back. The delay from last to at then
// counts from now, so that no delay gets longer.
func replan(at, last, now time.Time) time.Time {
	if at.IsZero() || !last.After(now.Add(ClockSlack)) || !at.After(now) {
		return at
	}
	return now.Add(max(at.Sub(last), 0))
}

// ReplanAfterClockStep reschedules the thread's next work if the clock stepped back since the row was written. That
// work is a retry, the end of a claim, or the next run of the queue. The current run must be loaded. Times that a
// caller gave, NotBefore and the expiry of a ticket, stay. If a loaded run waits for more messages, its wait may
// end, see endFutureJoin.
func (t *State) ReplanAfterClockStep(now time.Time) {
	endFutureJoin(t, now)
	restartBudgets(t, now)
	last := t.UpdatedAt
	if t.Due.At.IsZero() || !last.After(now.Add(ClockSlack)) {
		return
	}
	switch c := t.current(); {
	case c == nil && t.Due.At.Equal(t.HeldAt):
		return
	case c == nil:
		t.Due.At = replan(t.Due.At, last, now)
		t.Runs.queue.head.At = replan(t.Runs.queue.head.At, last, now)
		t.Due = asleep(t, t.Due)
	case c.Status == mailroom.StatusQueued:
		c.AvailableAt = replan(c.AvailableAt, last, now)
		t.Due.At = c.AvailableAt
		t.Due = asleep(t, t.Due)
		t.touchRun(c)
	case c.Status == mailroom.StatusRunning:
		c.ClaimEnds = replan(c.ClaimEnds, last, now)
		t.Due.At = c.ClaimEnds
		t.touchRun(c)
	default:
		return
	}
	t.UpdatedAt = now
	t.Touch()
}
