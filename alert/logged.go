package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/thread"
)

// logged has the rows that say what entries of the log mean for rules. They are read in the same snapshot as the
// entries.
type logged struct {
	runs    map[string]*mailroom.Run    // runs of the entries that may be events
	parents map[string]*mailroom.Run    // parents of runs
	threads map[string]*mailroom.Thread // threads of runs
	places  map[string]*mailroom.Thread // existing threads to which other threads deliver
	rights  Rights                      // rights of the owners of places
}

func readLogged(
	r store.Reader, entries []mailroom.Entry, outages bool, targets Allowed, now time.Time,
) (l logged, err error) {
	runs := outageRuns(entries, outages)
	var parents, places, owners []string
	for _, e := range entries {
		if e.Kind == entry.KindTicketOpened || e.Kind == entry.KindFailed || e.Kind == entry.KindBudgetLow {
			runs = append(runs, e.Run)
		}
	}
	if l.runs, err = runsByID(r, runs); err != nil {
		return l, err
	}
	for _, run := range l.runs {
		if run.Parent != "" {
			parents = append(parents, run.Parent)
		}
	}
	if l.parents, err = runsByID(r, parents); err != nil {
		return l, err
	}
	if l.threads, err = threadsOf(r, l.runs); err != nil {
		return l, err
	}
	for _, t := range l.threads {
		if target, owner, _ := reserved.AlertPlace(t.DeliverTo); target != "" {
			places, owners = append(places, t.DeliverTo), append(owners, owner)
		}
	}
	if l.places, err = threadsByID(r, places); err != nil {
		return l, err
	}
	l.rights, err = ReadRights(r, targets, now, owners...)
	return l, err
}

// events returns the events of entries. It skips the runs of alerts and the runs that send alerts to chats.
func (l *logged) events(entries []mailroom.Entry) (events []Event, err error) {
	for _, e := range entries {
		if run := l.runs[e.Run]; run != nil && !IsAgent(run.Agent) && !isChatAlert(run) {
			if found, ok := outageEvent(e, run); ok {
				if t := l.threads[run.Thread]; t != nil {
					found.Owner = t.Owner
				}
				events = append(events, found)
			}
		}
		var found Event
		var ok bool
		switch run := l.runs[e.Run]; {
		case e.Kind == entry.KindChannel:
			found, ok, err = channelEvent(e)
		case e.Kind == budget.KindLow && reserved.Prefix(e.Thread) == reserved.Budget:
			found, ok, err = budgetEvent(e)
		case e.Kind == schedule.KindPaused && reserved.Prefix(e.Thread) == reserved.Schedule:
			found, ok, err = scheduleEvent(e)
		case run == nil || IsAgent(run.Agent) || isChatAlert(run) ||
			l.parents[run.Parent] != nil && IsAgent(l.parents[run.Parent].Agent):
		case e.Kind == entry.KindTicketOpened:
			found, ok, err = ticketEvent(e, run)
		case e.Kind == entry.KindBudgetLow:
			found, ok, err = runBudgetEvent(e, run)
		case e.Kind == entry.KindFailed && run.Status == mailroom.StatusFailed:
			found, ok, err = failedEvent(e, run)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			l.deliver(&found, e)
			events = append(events, found)
		}
	}
	return events, nil
}

// deliver sets the owner of an event, and its delivery if the thread of the event may deliver to a target and does.
func (l *logged) deliver(e *Event, at mailroom.Entry) {
	t := l.threads[at.Thread]
	if t == nil {
		return
	}
	e.Owner = t.Owner
	created := at.At // of a place that was deleted: the next delivery creates it again
	if place := l.places[t.DeliverTo]; place != nil {
		created = place.CreatedAt
	}
	if target, _, _ := reserved.AlertPlace(t.DeliverTo); target != "" && l.rights.Open(t.DeliverTo, created) {
		e.DeliverTo, e.Delivery = target, thread.DeliveryID(at.Run, at.Seq)
	}
}

// LabelAlert labels the run of a channel that sends an alert to a chat. Its value is the target.
const LabelAlert = "alert"

// isChatAlert reports whether a run sends an alert to a chat. A user cannot set the origin of a run.
func isChatAlert(run *mailroom.Run) bool {
	return run.Metadata[LabelAlert] != "" && strings.HasPrefix(run.Origin.Via, channel.Via(""))
}

// threadsOf returns the threads of runs, by id.
func threadsOf(r store.Reader, rows map[string]*mailroom.Run) (map[string]*mailroom.Thread, error) {
	var ids []string
	for _, run := range rows {
		ids = append(ids, run.Thread)
	}
	return threadsByID(r, ids)
}

func threadsByID(r store.Reader, ids []string) (map[string]*mailroom.Thread, error) {
	out := map[string]*mailroom.Thread{}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	threads, err := r.Threads(store.ThreadQuery{IDs: slices.Compact(ids)})
	for _, t := range threads {
		out[t.ID] = t
	}
	return out, err
}

func runsByID(r store.Reader, ids []string) (map[string]*mailroom.Run, error) {
	out := map[string]*mailroom.Run{}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	rows, err := r.Runs(store.RunQuery{IDs: slices.Compact(ids)})
	for _, run := range rows {
		out[run.ID] = run
	}
	return out, err
}

func ticketEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool, error) {
	var k mailroom.Ticket
	err := e.Decode(&k)
	asked := k.Kind == mailroom.TicketApproval || k.Kind == mailroom.TicketInput
	return Event{Kind: KindTicket, At: e.At, Subject: k.ID, Agent: run.Agent, Thread: e.Thread, Run: e.Run}, asked, err
}

// scheduleEvent returns the event of a schedule that paused itself. Only the server writes to its thread. That the
// configuration has it no more is the operator's doing, and no event.
func scheduleEvent(e mailroom.Entry) (Event, bool, error) {
	var p plan.Pause
	err := e.Decode(&p)
	owner, _ := reserved.SchedulePlace(e.Thread)
	return Event{Kind: KindSchedule, At: e.At, Subject: e.Thread, Thread: e.Thread, Run: e.Run, Owner: owner,
		Words: p.Note}, p.Cause != plan.CauseRemoved, err
}

// budgetEvent returns the event of a budget that is low. Only the server writes to its thread.
func budgetEvent(e mailroom.Entry) (Event, bool, error) {
	var n budget.Notice
	err := e.Decode(&n)
	found := Event{Kind: KindBudget, At: e.At, Subject: n.Name, Thread: e.Thread, Run: e.Run, Words: n.Warning()}
	if n.Kind == budget.Agent {
		found.Agent = n.Name
	} else {
		found.Owner = n.Name
	}
	return found, true, err
}

// runBudgetEvent returns the event of a run whose budget is low.
func runBudgetEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool, error) {
	var n entry.BudgetState
	err := e.Decode(&n)
	return Event{
		Kind: KindBudget, At: e.At, Subject: "run:" + e.Run, Agent: run.Agent, Thread: e.Thread, Run: e.Run,
		Words: fmt.Sprintf("A run of agent %s has used %s of its budget of %s.", run.Agent, n.Budget.Of(n.Spent), n.Budget),
	}, true, err
}

func failedEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool, error) {
	var body entry.RunFailed
	err := e.Decode(&body)
	return Event{
		Kind: KindFailed, At: e.At, Subject: run.ErrorGroup, Agent: run.Agent, Thread: e.Thread, Run: e.Run,
		Words: body.Error.Message,
	}, true, err
}

func channelEvent(e mailroom.Entry) (Event, bool, error) {
	var c channel.Change
	err := e.Decode(&c)
	up := c.State == channel.ConditionConnected || c.State == channel.ConditionStandby
	return Event{Kind: KindChannel, At: e.At, Subject: c.Channel, Ended: up, Words: c.Reason},
		c.State != channel.ConditionStarting, err
}
