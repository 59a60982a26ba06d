package thread

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
)

// GiveWay is the error with which an agent of this process ends its attempt so that a queued run of the same thread
// starts first. The run that gives way returns to its place in the queue, so every other run stays behind it. The
// attempt does not count. This lets the answer to a chat command pass between the messages of a long reply.
//
// A second queue for urgent runs was rejected: two runs of a thread would work at the same time on the state that
// they share.
type GiveWay struct {
	To string // the run that starts first; if it is not queued any more, the attempt is released
}

func (g *GiveWay) Error() string { return "gives way to run " + g.To }

// mayPass reports whether the current run r can give way to the queued run to. A run with open tickets or steered
// messages cannot, because these belong to the current run of a thread.
func mayPass(t *State, r *mailroom.Run, to string) bool {
	other := t.Run(to)
	if other == nil || !isReady(other) || r.Priority == 0 || len(r.Steers) > 0 || r.MaxCrashes() == 0 {
		return false
	}
	return !slices.ContainsFunc(t.Tickets.of(r.ID),
		func(k *mailroom.Ticket) bool { return k.State == mailroom.TicketOpen })
}

// giveWay returns the current run r to its place in the queue, and gives the run to a priority with which it starts
// before r. A run of the queue that is more urgent than both still starts first.
func giveWay(t *State, r *mailroom.Run, to string, now time.Time) {
	other := t.Run(to)
	other.Priority = min(other.Priority, r.Priority-1)
	t.touchRun(other)
	r.Status, r.AvailableAt, r.LastError = mailroom.StatusQueued, now, nil
	r.StartedAt, r.StartDelay = time.Time{}, 0
	t.Current = ""
	t.release(r)
	t.touchRun(r)
	t.append(entry.KindRescheduled, r, now,
		entry.RunRescheduled{Reason: entry.RescheduledGaveWay, Attempt: r.Attempt, AvailableAt: now, Behind: to})
}
