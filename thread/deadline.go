package thread

import (
	"fmt"
	"time"

	"mailroom"
	"mailroom/internal/check"
)

// deadline returns the deadline of the run that the submit creates, zero if the submit sets none. It refuses a
// deadline that leaves the run no time.
func (s *submission) deadline() (time.Time, error) {
	in, at := s.in, s.in.Deadline
	if in.Timeout > 0 {
		at = s.now.Add(in.Timeout.Truncate(time.Microsecond))
	}
	switch {
	case at.IsZero():
	case !at.After(s.now):
		return at, check.Invalid("deadline", "has passed; give a later time, or a duration such as 30m",
			at.Format(time.RFC3339Nano))
	case !at.After(in.NotBefore):
		return at, check.Invalid("deadline", fmt.Sprintf("is not after not_before, %s", in.NotBefore.Format(time.RFC3339)),
			at.Format(time.RFC3339Nano))
	}
	return at, nil
}

// EndOverdue ends a run whose deadline has passed, or asks it to stop if a worker holds it.
func EndOverdue(t *State, run string, now time.Time) {
	r := t.Run(run)
	if r == nil {
		return
	}
	t.promote(now)
	switch {
	case r.HasPassed(now):
		endOverdue(t, r, now)
	case !r.AwaitsDeadline():
		t.touchRun(r) // an older version ended the run, and left its deadline in the index of the store
	}
	t.schedule(now)
}

func endOverdue(t *State, r *mailroom.Run, now time.Time) {
	if r.ID == t.Current {
		t.stopCurrent(mailroom.ReasonDeadline, "", now)
	} else {
		t.finish(r, cancelled(mailroom.ReasonDeadline, ""), now)
	}
}
