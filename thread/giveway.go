package thread

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
)

// GiveWay is the error with which an agent of this process ends an attempt so that a queued run of the same thread
// starts before its next one. The run gets its own place in the queue back, so every other run stays behind it. The
// attempt does not count. It lets the answer to a command pass between the messages of a long reply.
//
// The alternative, a queue of its own for what is urgent, would make two runs of a room current, which share its state.
type GiveWay struct {
	To string // the run that starts first; if it is not queued any more, the attempt is released
}

func (g *GiveWay) Error() string { return "gives way to run " + g.To }

// mayPass reports whether the current run r can give way to another one. A run with open tickets or steered messages
// cannot: they belong to the current run.
func mayPass(t *State, r *mailroom.Run, to string) bool {
	other := t.Run(to)
	if other == nil || !isReady(other) || r.Priority == 0 || len(r.Steers) > 0 || r.MaxCrashes() == 0 {
		return false
	}
	return !slices.ContainsFunc(t.Tickets.of(r.ID),
		func(k *mailroom.Ticket) bool { return k.State == mailroom.TicketOpen })
}

// giveWay returns the current run to its place in the queue, and gives the run to a priority with which it starts
// before it. A run of the queue that is more urgent than both still starts first.
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
		entry.RunRescheduled{Reason: "gave_way", Attempt: r.Attempt, AvailableAt: now, Behind: to})
}
