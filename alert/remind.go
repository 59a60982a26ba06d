package alert

import (
	"context"
	"fmt"
	"time"

	"mailroom"
)

// A reminder is an alert about questions that are still open some time after their alert. It is a run with a later
// start in the thread of the target, like an alert that waits for the end of quiet hours, so nothing polls. The
// follower submits the first one with the alert, in one transaction. The run of a reminder that finds its questions
// open sends the next one, before it sends its message; the run of one whose questions have ended sends nothing. So an
// alert has at most one reminder on its way, and none once its questions have ended and that one was due.

// Bounds of the Remind of a rule.
const (
	MinRemind = time.Second
	MaxRemind = 24 * time.Hour
)

// maxReminders is how many reminders follow an alert at most. Each waits twice as long as the one before.
const maxReminders = 5

// reminderOf returns the reminder that follows an alert which is sent at the time at, and when it is due. ok is false
// if people are not reminded again.
func reminderOf(a Alert, at time.Time, zone *time.Location) (next Alert, due time.Time, ok bool) {
	if a.Kind != KindTicket || a.Again <= 0 || a.Reminder >= maxReminders {
		return next, due, false
	}
	quiet, _ := ParseQuiet(a.Quiet) // the rule was checked
	due = at.Add(a.Again).In(zone)
	if end := quiet.End(due); !end.IsZero() {
		due = end
	}
	next = a
	next.Reminder, next.Again = a.Reminder+1, 2*a.Again
	next.Delivery, next.Repeated = "", false // the question is open, also if its thread delivered it
	return next, due.UTC().Truncate(time.Microsecond), true
}

// remind adds the first reminder of an alert of the rule that is sent at the time at.
func (s *ruleStep) remind(a Alert, at time.Time, key string) {
	a.Again, a.Quiet = s.rule.Remind, s.rule.Quiet.String()
	if next, due, ok := reminderOf(a, at, s.rule.Zone); ok {
		s.add(next, due, key, "reminder")
	}
}

// remindAgain sends the reminder that follows a reminder, once for a run.
func (a *Agent) remindAgain(ctx context.Context, s mailroom.Session, what *Alert) error {
	run := s.Run()
	// An attempt that ended with an outage has sent it: a target may be down for a day.
	if what.Reminder == 0 || !run.OutageSince.IsZero() {
		return nil
	}
	zone, err := time.LoadLocation(what.Zone)
	if err != nil {
		zone = time.UTC // the zone was checked when the rule was read; another machine may lack it
	}
	at := run.NotBefore
	if run.StartedAt.After(at) { // the server was off
		at = run.StartedAt
	}
	next, due, ok := reminderOf(*what, at, zone)
	if !ok {
		return nil
	}
	err = s.Append(ctx, mailroom.Step{Name: "remind", NoProgress: true, Sends: []mailroom.Send{{
		Name: fmt.Sprint("reminder ", next.Reminder), Thread: run.Thread, Agent: run.Agent, NotBefore: due,
		Parts: next.Parts(),
	}}})
	if mailroom.CodeOf(err) == mailroom.CodeConflict { // an earlier attempt has sent it, when more questions were open
		return nil
	}
	return err
}
