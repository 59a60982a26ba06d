package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/thread"
)

func TestAClockThatWentBackMakesNothingWaitLonger(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		name        string
		status      mailroom.Status // of the current run; "": there is none
		last        time.Duration   // of the last change, from now
		due, want   time.Duration
		held, stays bool
	}{
		{"a retry", mailroom.StatusQueued, time.Hour, time.Hour + 5*time.Second, 5 * time.Second, false, false},
		{"a retry that was overdue", mailroom.StatusQueued, time.Hour, time.Hour - time.Second, 0, false, false},
		{"a retry that is due", mailroom.StatusQueued, time.Hour, -time.Second, -time.Second, false, false},
		{"a retry by this clock", mailroom.StatusQueued, -time.Second, 5 * time.Second, 5 * time.Second, false, true},
		{"a small step", mailroom.StatusQueued, time.Second, 5 * time.Second, 5 * time.Second, false, true},
		{"the end of a claim", mailroom.StatusRunning, time.Hour, 2 * time.Hour, time.Hour, false, false},
		{"a ticket", mailroom.StatusWaiting, time.Hour, 2 * time.Hour, 2 * time.Hour, false, true},
		{"a queue", "", time.Hour, time.Hour, 0, false, false},
		{"a run that is put off", "", time.Hour, 2 * time.Hour, 2 * time.Hour, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := &mailroom.Thread{Key: 1, ID: "t", UpdatedAt: in(c.last), Due: mailroom.Due{At: in(c.due), Agent: "echo"}}
			run := &mailroom.Run{Key: 1, ID: "r", Thread: "t", Agent: "echo", Status: c.status, AvailableAt: in(c.due),
				ClaimEnds: in(c.due)}
			if c.status != "" {
				row.Current = "r"
			}
			if c.held {
				row.HeldAt = in(c.due)
			}
			l := thread.NewState(row)
			if c.status != "" {
				l.Runs.Add(run)
			}
			l.ReplanAfterClockStep(now)
			if got := l.Due.At; !got.Equal(in(c.want)) || l.Changed() == c.stays {
				t.Errorf("due at %s, changed %t, want %s, %t", got, l.Changed(), in(c.want), !c.stays)
			}
			if at := run.AvailableAt; c.status == mailroom.StatusQueued && !at.Equal(in(c.want)) {
				t.Errorf("the run may be claimed from %s on, want %s", at, in(c.want))
			}
			if at := run.ClaimEnds; c.status == mailroom.StatusRunning && !at.Equal(in(c.want)) {
				t.Errorf("the claim ends at %s, want %s", at, in(c.want))
			}
		})
	}
}
