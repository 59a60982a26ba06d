package poll

import (
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/digest"
)

func TestADeliveryEndsWhenItIsReceivedOrRefused(t *testing.T) {
	now := time.Now()
	delivery := func(status mailroom.Status, class mailroom.Class, lived, ago time.Duration) *mailroom.Run {
		r := &mailroom.Run{
			ID: digest.ID("deliver", "run", "7"), Agent: "channel:b", Parent: "run", SubmitKey: "run/7",
			Status: status, FinishedAt: now.Add(-ago), CreatedAt: now.Add(-ago - lived),
		}
		if status == mailroom.StatusFailed {
			r.Error = &mailroom.RunError{Class: class}
		}
		return r
	}
	other := delivery(mailroom.StatusQueued, "", 0, 0)
	other.Agent = "codex" // a child run of another agent
	for name, c := range map[string]struct {
		run         *mailroom.Run
		over, again bool
	}{
		"no delivery": {other, true, false},
		"queued":      {delivery(mailroom.StatusQueued, "", 0, 0), false, false},
		"running":     {delivery(mailroom.StatusRunning, "", 0, 0), false, false},
		"completed":   {delivery(mailroom.StatusCompleted, "", 0, 0), true, false},
		"permanent failure": {delivery(mailroom.StatusFailed, mailroom.ClassPermanent, 0, time.Hour),
			true, false},
		"cancelled": {delivery(mailroom.StatusCancelled, "", 0, time.Hour), true, false},
		"crashed a second ago": {delivery(mailroom.StatusFailed, mailroom.ClassCrashed, 0, time.Second),
			false, false},
		"crashed a minute ago": {delivery(mailroom.StatusFailed, mailroom.ClassCrashed, 0, time.Minute),
			false, true},
		"nine minutes after an outage of a day": {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 24*time.Hour,
			9*time.Minute), false, false},
		"ten minutes after an outage of a day": {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 24*time.Hour,
			10*time.Minute), false, true},
		"soon after a short outage": {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 3*time.Minute, 2*time.Minute),
			false, false},
	} {
		all, again := deliveriesDone([]*mailroom.Run{c.run, delivery(mailroom.StatusCompleted, "", 0, 0)}, "channel:b", now)
		if all != c.over || slices.Contains(again, c.run.ID) != c.again {
			t.Errorf("%s: done %t, retry %v", name, all, again)
		}
	}
}
