package thread

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/store"
)

// Cause is why an open run does not run.
type Cause string

const (
	// CauseDecision: the run waits for a person, who decides an approval or answers a question.
	CauseDecision Cause = "decision"
	CauseEvent    Cause = "event"  // it waits for a program, which decides a ticket
	CauseChild    Cause = "child"  // it waits for the end of a run that it has sent
	CauseTimer    Cause = "timer"  // it sleeps
	CauseRun      Cause = "run"    // another run of its thread comes first
	CauseTime     Cause = "time"   // its submit wanted no earlier start
	CauseJoin     Cause = "join"   // more messages of its sender may join it
	CauseRetry    Cause = "retry"  // its next attempt is delayed
	CausePause    Cause = "pause"  // its agent is paused
	CauseBudget   Cause = "budget" // the budget of its agent, owner or thread is spent
	CauseWorker   Cause = "worker" // no live worker serves its agent
	// CauseServer: only the server that keeps its session starts it, and that server has no live worker for it.
	CauseServer Cause = "server"
	// CauseRate: its agent, its owner or its key starts so many runs in a time, and the next start is at Until.
	CauseRate Cause = "rate"
	// CauseLimit: as many runs of its agent, its owner or its key are running as may.
	CauseLimit Cause = "limit"
	// CauseSlot: it is due, and workers serve its agent. They start it next, or have no free slot.
	CauseSlot Cause = "slot"
)

// Blocker is what keeps an open run from running: the first thing that must end before the run can start. The fields
// after Until are set for some causes only.
type Blocker struct {
	Cause Cause
	Agent string    // of the run that does not run
	Until time.Time // when it ends by itself; zero: that is unknown

	Run string // of CauseRun and CauseChild: the run that comes first
	// Tickets are of CauseDecision, CauseEvent, CauseChild and CauseTimer: the open ones, at least one; and of
	// CauseBudget: the question whether to raise it, if it is open and the reader sees it.
	Tickets []*mailroom.Ticket
	Budget  SpentBudget // of CauseBudget
	Node    string      // of CauseServer: id of the server
	Pause   store.Pause // of CausePause
	Bound   Bound       // of CauseRate and CauseLimit
	Workers int         // of CauseSlot: number of live workers that may start the run
}

// Bound is a limit that a run is under, with what counts for it now.
type Bound struct {
	Of    string // what it bounds, such as "agent codex"
	Key   string // the concurrency key that it bounds; "": it bounds an agent or an owner
	Kept  bool   // a place of the key is kept for the run's thread
	Limit Limit
	Meter store.Meter
}

// Situation has the rows that decide why a run does not run, all of one moment.
type Situation struct {
	Now    time.Time
	Run    *mailroom.Run
	Thread *mailroom.Thread
	// First is the run whose turn it is in the thread: the current one, or the one that a claim would start. See
	// [FirstOf]. nil: it is unknown, as in a thread that is changing.
	First *mailroom.Run
	// Tickets has the tickets of Run, if it waits. Tickets of other runs are ignored.
	Tickets []*mailroom.Ticket
	Pauses  []store.Pause
	Workers []*store.Worker
	Spent   []SpentBudget
	Bounds  []Bound // of Run
}

// SpentBudget is a budget of a period that is spent.
type SpentBudget struct {
	Pool     budget.Pool
	Zone     string           // of its periods
	Question *mailroom.Ticket // whether to raise it; nil: the question is not open
}

// WaitsFor returns what keeps the run of s from running. It returns nil for a run that is running or has ended.
//
// Several things can keep a run: it may be behind another run, and its agent may be paused as well. WaitsFor names the
// one that the transitions ask for first. So what it names must end, whatever else holds.
func WaitsFor(s Situation) *Blocker {
	b := s.blocker()
	if b != nil {
		b.Agent = s.Run.Agent
	}
	return b
}

func (s *Situation) blocker() *Blocker {
	r := s.Run
	switch {
	case r.Status == mailroom.StatusRunning || r.Status.Finished():
		return nil
	case r.ID != s.Thread.Current && r.Scheduled && r.NotBefore.After(s.Now):
		if r.Joins {
			return &Blocker{Cause: CauseJoin, Until: r.NotBefore}
		}
		return &Blocker{Cause: CauseTime, Until: r.NotBefore}
	case s.First != nil && s.First.ID != r.ID:
		return &Blocker{Cause: CauseRun, Run: s.First.ID}
	case r.Status == mailroom.StatusWaiting:
		if b := openWait(r, s.Tickets, s.Now); b != nil {
			return b
		}
	case r.AvailableAt.After(s.Now):
		return &Blocker{Cause: CauseRetry, Until: r.AvailableAt}
	}
	return s.notClaimed()
}

// notClaimed returns why no worker has started the run of s, which is due.
func (s *Situation) notClaimed() *Blocker {
	agent := s.Run.Agent
	if p, paused := s.pauseOf(agent); paused {
		return &Blocker{Cause: CausePause, Until: p.Probe, Pause: p}
	}
	of := [3]budget.Scope{{Kind: budget.Agent, Name: agent}, {Kind: budget.Owner, Name: s.Thread.Owner},
		{Kind: budget.Thread, Name: s.Thread.ID}}
	if i := slices.IndexFunc(s.Spent, func(b SpentBudget) bool { return slices.Contains(of[:], b.Pool.Scope) }); i >= 0 {
		b := &Blocker{Cause: CauseBudget, Until: s.Spent[i].Pool.End, Budget: s.Spent[i]}
		if s.Spent[i].Pool.Period == budget.Life {
			b.Until = time.Time{}
		}
		if q := s.Spent[i].Question; q != nil {
			b.Tickets = []*mailroom.Ticket{q}
		}
		return b
	}
	serving, first := s.workersOf(agent)
	_, node := ParseDueAgent(dueAgent(s.Thread, agent))
	switch {
	case serving > 0:
		if b := s.bounded(); b != nil {
			return b
		}
		return &Blocker{Cause: CauseSlot, Workers: serving}
	case first != nil:
		return &Blocker{Cause: CausePause, Until: first.Probe, Pause: *first}
	case node != "":
		return &Blocker{Cause: CauseServer, Node: node}
	}
	return &Blocker{Cause: CauseWorker}
}

// pauseOf returns the pause of an agent on all workers.
func (s *Situation) pauseOf(agent string) (store.Pause, bool) {
	if i := slices.IndexFunc(s.Pauses, func(p store.Pause) bool { return p.Agent == agent }); i >= 0 {
		return s.Pauses[i], true
	}
	return store.Pause{}, false
}

// workersOf returns how many live workers may start the run of s, and of the others, which are paused for its agent,
// the pause that is probed first.
func (s *Situation) workersOf(agent string) (serving int, first *store.Pause) {
	_, node := ParseDueAgent(dueAgent(s.Thread, agent))
	for _, w := range s.Workers {
		if !w.Live(s.Now) || !slices.Contains(w.Agents, agent) || node != "" && w.Node != node {
			continue
		}
		p, paused := s.pauseOf(store.PauseOn(agent, w.ID))
		switch {
		case !paused:
			serving++
		case first == nil || p.Probe.Before(first.Probe):
			first = &p
		}
	}
	return serving, first
}

// bounded returns the first limit that lets the run of s not start, or nil.
func (s *Situation) bounded() *Blocker {
	for _, b := range s.Bounds {
		if cause, next := Admit(b.Limit, b.Meter, b.Kept, s.Now); cause != "" {
			return &Blocker{Cause: cause, Until: next, Bound: b}
		}
	}
	return nil
}

// openWait returns what a parked run waits for, or nil if its wait has ended.
func openWait(r *mailroom.Run, tickets []*mailroom.Ticket, now time.Time) *Blocker {
	var of Tickets
	for _, k := range tickets {
		if k.Run == r.ID {
			of.set(k)
		}
	}
	if r.Wait == nil || of.waitExpired(r, now) {
		return nil
	}
	b := &Blocker{Cause: CauseTimer}
	endless := false
	for _, name := range r.Wait.Names {
		k := of.named(r.ID, name)
		if !isOpen(k, now) || slices.Contains(b.Tickets, k) {
			continue // a wait may name a ticket twice
		}
		b.Tickets = append(b.Tickets, k)
		b.Cause = nearest(b.Cause, causeOf(k))
		if b.Cause == CauseChild && b.Run == "" {
			_, b.Run, _ = SendIDs(mailroom.Send{Name: name}, r.ID)
		}
		switch at := k.ExpiresAt; {
		case at == nil:
			endless = true
		case b.Until.IsZero() || r.Wait.Any == at.Before(b.Until):
			b.Until = *at
		}
	}
	if b.Cause != CauseChild {
		b.Run = ""
	}
	if endless && !r.Wait.Any {
		b.Until = time.Time{}
	}
	return b
}

// nearest returns the one of two causes of a wait that is named: a person is asked before a program is.
func nearest(a, b Cause) Cause {
	for _, c := range []Cause{CauseDecision, CauseChild, CauseEvent} {
		if a == c || b == c {
			return c
		}
	}
	return CauseTimer
}

// causeOf returns the cause for a run that waits for this ticket only.
func causeOf(k *mailroom.Ticket) Cause {
	switch k.Kind {
	case mailroom.TicketApproval, mailroom.TicketInput:
		return CauseDecision
	case mailroom.TicketChildren:
		return CauseChild
	case mailroom.TicketTimer:
		return CauseTimer
	}
	return CauseEvent
}

// Text says what the run waits for, as one line that continues "waits for". It names no run, because its reader may
// know the run by a shorter name, or not at all.
func (b *Blocker) Text() string {
	switch b.Cause {
	case CauseDecision:
		return b.decision()
	case CauseEvent:
		return "the event " + strconv.Quote(WaitsOn(b.of(CauseEvent)[0].Name))
	case CauseChild:
		return "the end of a run that it has sent"
	case CauseTimer:
		return "its timer"
	case CauseRun:
		return "the run before it in its thread"
	case CauseTime:
		return "its time"
	case CauseJoin:
		return "more messages of its sender"
	case CauseRetry:
		return "the time of its next attempt"
	case CausePause:
		text := fmt.Sprintf("agent %s, which %s has paused", b.Agent, b.Pause.Pauser())
		if b.Pause.Reason != "" {
			text += ": " + WaitsOn(b.Pause.Reason)
		}
		if b.Pause.By == "" {
			text += "; mend it and run mailroom agent resume " + b.Agent + ", or wait for the run that tries it"
		}
		return text
	case CauseBudget:
		return b.budget()
	case CauseWorker:
		return fmt.Sprintf("a worker: no live one serves agent %s", b.Agent)
	case CauseServer:
		return fmt.Sprintf("the server that keeps its session: it has no live worker for agent %s", b.Agent)
	case CauseRate:
		return fmt.Sprintf("its turn: %s starts %s", b.Bound.Of, b.Bound.Limit.Rate.Text())
	case CauseLimit:
		return fmt.Sprintf("the end of a run: %d of %d runs of %s are running", b.Bound.Meter.Count,
			b.Bound.Limit.Running, b.Bound.Of)
	case CauseSlot:
		return fmt.Sprintf("a free slot of agent %s", b.Agent)
	}
	return string(b.Cause)
}

// budget says which budget is spent, and when it goes on.
func (b *Blocker) budget() string {
	p := &b.Budget.Pool
	text := "the budget of " + p.Text() + ": it is spent"
	if p.Period != budget.Life {
		text += ", and begins again at " + p.Again(b.Budget.Zone)
	}
	if q := b.Budget.Question; q != nil {
		text += "; ticket " + q.ID + " asks whether to raise it"
	}
	return text
}

// of returns the tickets for which a run would wait with this cause.
func (b *Blocker) of(c Cause) []*mailroom.Ticket {
	return slices.DeleteFunc(slices.Clone(b.Tickets), func(k *mailroom.Ticket) bool { return causeOf(k) != c })
}

// decision says which decision or answer of a person a run waits for.
func (b *Blocker) decision() string {
	asked := b.of(CauseDecision)
	first := asked[0]
	text := "a decision"
	if first.Kind == mailroom.TicketInput {
		text = "an answer"
	}
	if len(asked) > 1 {
		text = fmt.Sprintf("%d answers, the first", len(asked))
	}
	return text + ": " + WaitsOn(cmp.Or(first.Prompt, first.Action, first.Name))
}

// FirstOf returns the run of a thread without a current run that a claim at now would start, or nil. next is the first
// of the runs that wait for their turn, or nil, and scheduled are the first runs of [store.RunsScheduled]. The next
// transition of the thread moves scheduled runs whose time has come into the queue, so FirstOf counts them as queued.
func FirstOf(next *mailroom.Run, scheduled []*mailroom.Run, now time.Time) *mailroom.Run {
	const end = math.MaxInt64
	place := int64(end)
	if next != nil {
		place = next.Place
	}
	for _, r := range scheduled {
		if r.NotBefore.After(now) {
			continue
		}
		at := int64(end) // among the runs with its priority, whatever place it had, see promote
		if r.Joins {
			at = r.Place
		}
		if next == nil || r.Priority < next.Priority || r.Priority == next.Priority && at < place {
			next, place = r, at
		}
	}
	return next
}
