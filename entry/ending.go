package entry

import "mailroom"

// Reasons of a RunRescheduled: why another attempt of the run follows, or another run comes first.
const (
	RescheduledRetry    = "retry"      // the attempt failed
	RescheduledLost     = "lease_lost" // the worker of the run lost the claim
	RescheduledReleased = "released"   // the worker of the run gave the claim back
	RescheduledGaveWay  = "gave_way"   // the run behind which it waits comes first
)

// EndStatus returns the status with which e ends its run; ok is false for other entries. A failed or cancelled run can
// be retried later.
func EndStatus(e *mailroom.Entry) (status mailroom.Status, ok bool) {
	switch e.Kind {
	case KindCompleted:
		return mailroom.StatusCompleted, true
	case KindFailed:
		return mailroom.StatusFailed, true
	case KindCancelled:
		return mailroom.StatusCancelled, true
	}
	return "", false
}
