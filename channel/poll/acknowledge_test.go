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
		"there is none":             {other, true, false},
		"it waits":                  {delivery(mailroom.StatusQueued, "", 0, 0), false, false},
		"it is sent":                {delivery(mailroom.StatusRunning, "", 0, 0), false, false},
		"it was taken":              {delivery(mailroom.StatusCompleted, "", 0, 0), true, false},
		"it was refused for good":   {delivery(mailroom.StatusFailed, mailroom.ClassPermanent, 0, time.Hour), true, false},
		"it was cancelled":          {delivery(mailroom.StatusCancelled, "", 0, time.Hour), true, false},
		"it just crashed":           {delivery(mailroom.StatusFailed, mailroom.ClassCrashed, 0, time.Second), false, false},
		"it crashed a minute ago":   {delivery(mailroom.StatusFailed, mailroom.ClassCrashed, 0, time.Minute), false, true},
		"an outage of a day":        {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 24*time.Hour, 9*time.Minute), false, false},
		"ten minutes after that":    {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 24*time.Hour, 10*time.Minute), false, true},
		"as long as it took to die": {delivery(mailroom.StatusFailed, mailroom.ClassExhausted, 3*time.Minute, 2*time.Minute), false, false},
	} {
		all, again := deliveriesDone([]*mailroom.Run{c.run, delivery(mailroom.StatusCompleted, "", 0, 0)}, "channel:b", now)
		if all != c.over || slices.Contains(again, c.run.ID) != c.again {
			t.Errorf("%s: over %t, again %v", name, all, again)
		}
	}
}
