package main

import (
	"context"
	"fmt"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/reserved"
)

// Entries of a schedule, as package schedule writes them.
const (
	scheduleSent    = "x.schedule.sent"
	scheduleSkipped = "x.schedule.skipped"
)

// schedule makes a schedule that sends one message soon. Its text must be in the logs once.
func (h *user) schedule() {
	name := fmt.Sprintf("s%d-%d", h.torture.journal.next(), h.dice.IntN(1<<30))
	text := fmt.Sprintf("m%d.%d %s", h.torture.journal.next(), h.dice.IntN(1<<30), h.text())
	spec := api.ScheduleSpec{Thread: pick(h, h.torture.threads.echo), Agent: "echo", Text: text,
		At: fmt.Sprintf("%dms", 1+h.dice.IntN(1500))}
	h.do(&operation{Kind: "schedule", Thread: reserved.ScheduleID(auth.Operator, name), Text: text},
		func(ctx context.Context) error {
			_, err := h.client.Schedules.Put(ctx, name, spec)
			return err
		})
}

// judgeSchedules checks, after all runs have ended, that each schedule has sent its message once or says why not. One
// whose answer was lost may not exist.
func (t *torture) judgeSchedules() {
	for _, o := range t.journal.since(1) {
		l := t.log(o.Thread)
		if o.Kind != "schedule" || o.Outcome == refused || l.isIncomplete() {
			continue
		}
		sent, skipped := 0, 0
		entries, _ := l.entriesFrom(1)
		for _, e := range entries {
			switch e.Kind {
			case scheduleSent:
				sent++
			case scheduleSkipped:
				skipped++
			}
		}
		switch {
		case len(entries) == 0 && o.Outcome == unknown:
		case sent+skipped != 1:
			t.violation(o.Thread, "operation %d: the only time of the schedule was sent %d times and skipped %d times", o.N,
				sent, skipped)
		case t.texts[o.Text] != sent && !t.anyIncomplete():
			t.violation(o.Thread, "operation %d: the schedule sent %d messages, but %d are in the logs", o.N, sent,
				t.texts[o.Text])
		}
		t.counts.scheduled.Add(int64(sent))
	}
}
