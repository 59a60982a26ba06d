package thread_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/store"
	"mailroom/thread"
)

// situation returns a run that is due in its thread, with a worker that serves its agent, and changes it.
func situation(change func(s *thread.Situation)) thread.Situation {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := thread.Situation{
		Now: now, Run: &mailroom.Run{ID: "r", Thread: "t", Agent: "echo", Status: mailroom.StatusQueued},
		Thread:  &mailroom.Thread{ID: "t", Nodes: map[string]string{"other": "south"}},
		Workers: []*store.Worker{{Agents: []string{"echo"}, LeaseUntil: now.Add(time.Second), Node: "north"}},
	}
	s.First = s.Run
	change(&s)
	return s
}

// waiting makes the run of a situation wait for tickets, each with a kind and the minutes until it expires, 0: never.
func waiting(s *thread.Situation, anyOf bool, tickets ...mailroom.Ticket) {
	s.Run.Status, s.Run.Wait, s.Thread.Current = mailroom.StatusWaiting, &mailroom.Wait{Any: anyOf}, "r"
	for _, k := range tickets {
		k.Run, k.State = "r", mailroom.TicketOpen
		s.Run.Wait.Names, s.Tickets = append(s.Run.Wait.Names, k.Name), append(s.Tickets, &k)
	}
}

// blockedCase is a situation and what is said of it.
type blockedCase struct {
	name   string
	change func(s *thread.Situation)
	cause  thread.Cause
	text   string
	until  *time.Time
}

// limitedCases are situations of a run under a limit.
func limitedCases() []blockedCase {
	limited := func(running int64, used int) func(s *thread.Situation) {
		l := thread.Limit{Running: 3, Rate: thread.Rate{N: 30, Per: time.Minute, Burst: 1}}
		return func(s *thread.Situation) {
			m := store.Meter{Count: running, At: s.Now.Add(time.Duration(used) * time.Second)}
			s.Bounds = []thread.Bound{{Of: "agent echo", Limit: l, Meter: m}}
		}
	}
	twoSeconds := time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC)
	return []blockedCase{
		{"below its limits", limited(2, 0), thread.CauseSlot, "a free slot of agent echo", nil},
		{"at a rate", limited(2, 2), thread.CauseRate, "its turn: agent echo starts 30 a minute", &twoSeconds},
		{"at a limit", limited(3, 2), thread.CauseLimit, "the end of a run: 3 of 3 runs of agent echo are running", nil},
		{"at a limit without a worker", func(s *thread.Situation) { limited(3, 2)(s); s.Workers = nil },
			thread.CauseWorker, "a worker: no live one serves agent echo", nil},
	}
}

func blockedCases() []blockedCase {
	in := func(minutes int) *time.Time {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
		return &at
	}
	approval := mailroom.Ticket{Name: "ok", Kind: mailroom.TicketApproval, Action: "deploy", ExpiresAt: in(9)}
	question := mailroom.Ticket{Name: "which", Kind: mailroom.TicketInput, Prompt: "Which\none?", ExpiresAt: in(5)}
	timer := mailroom.Ticket{Name: "nap", Kind: mailroom.TicketTimer, ExpiresAt: in(3)}
	event := mailroom.Ticket{Name: "built", Kind: mailroom.TicketEvent}
	child := mailroom.Ticket{Name: "help", Kind: mailroom.TicketChildren}
	pause := store.Pause{Agent: "echo", By: "ann", Reason: "no\ncredit", Probe: *in(1)}
	return []blockedCase{
		{"due", func(*thread.Situation) {}, thread.CauseSlot, "a free slot of agent echo", nil},
		{"running", func(s *thread.Situation) { s.Run.Status = mailroom.StatusRunning }, "", "", nil},
		{"ended", func(s *thread.Situation) { s.Run.Status = mailroom.StatusFailed }, "", "", nil},
		{"behind another run", func(s *thread.Situation) { s.First = &mailroom.Run{ID: "before"} }, thread.CauseRun,
			"the run before it in its thread", nil},
		{"in a thread that is changing", func(s *thread.Situation) { s.First = nil }, thread.CauseSlot,
			"a free slot of agent echo", nil},
		{"later", func(s *thread.Situation) { s.Run.Scheduled, s.Run.NotBefore = true, *in(2) }, thread.CauseTime, "its time",
			in(2)},
		{"later, behind another run", func(s *thread.Situation) {
			s.Run.Scheduled, s.Run.NotBefore, s.First = true, *in(2), &mailroom.Run{ID: "before"}
		}, thread.CauseTime, "its time", in(2)},
		{"since its time", func(s *thread.Situation) { s.Run.Scheduled, s.Run.NotBefore = true, *in(0) }, thread.CauseSlot,
			"a free slot of agent echo", nil},
		{"joins", func(s *thread.Situation) { s.Run.Scheduled, s.Run.Joins, s.Run.NotBefore = true, true, *in(2) },
			thread.CauseJoin, "more messages of its sender", in(2)},
		{"retries", func(s *thread.Situation) { s.Run.AvailableAt = *in(2) }, thread.CauseRetry,
			"the time of its next attempt", in(2)},
		{"retries now", func(s *thread.Situation) { s.Run.AvailableAt = *in(0) }, thread.CauseSlot,
			"a free slot of agent echo", nil},
		{"paused", func(s *thread.Situation) { s.Pauses = []store.Pause{{Agent: "other"}, pause} }, thread.CausePause,
			"agent echo, which ann has paused: no credit", in(1)},
		{"a budget is spent", func(s *thread.Situation) { s.Spent = spent("echo", in(2)) }, thread.CauseBudget,
			"the budget of agent echo, 5.00 usd a day: it is spent, and begins again at 03:06 UTC; " +
				"ticket k1 asks whether to raise it", in(2)},
		{"the budget of another agent is spent", func(s *thread.Situation) { s.Spent = spent("other", in(2)) },
			thread.CauseSlot, "a free slot of agent echo", nil},
		{"another agent is paused", func(s *thread.Situation) { s.Pauses = []store.Pause{{Agent: "other"}} }, thread.CauseSlot,
			"a free slot of agent echo", nil},
		{"behind another run, and paused", func(s *thread.Situation) {
			s.First, s.Pauses = &mailroom.Run{ID: "before"}, []store.Pause{pause}
		}, thread.CauseRun, "the run before it in its thread", nil},
		{"no worker", func(s *thread.Situation) { s.Workers[0].Agents = []string{"other"} }, thread.CauseWorker,
			"a worker: no live one serves agent echo", nil},
		{"a worker that has gone", func(s *thread.Situation) { s.Workers[0].Dead = true }, thread.CauseWorker,
			"a worker: no live one serves agent echo", nil},
		{"a worker whose lease has ended", func(s *thread.Situation) { s.Workers[0].LeaseUntil = s.Now }, thread.CauseWorker,
			"a worker: no live one serves agent echo", nil},
		{"a session elsewhere", func(s *thread.Situation) { s.Thread.Nodes["echo"] = "south" }, thread.CauseServer,
			"the server that keeps its session: it has no live worker for agent echo", nil},
		{"a session here", func(s *thread.Situation) { s.Thread.Nodes["echo"] = "north" }, thread.CauseSlot,
			"a free slot of agent echo", nil},
		{"all of three", func(s *thread.Situation) { waiting(s, false, timer, approval, question) }, thread.CauseDecision,
			"2 answers, the first: deploy", in(9)},
		{"any of three", func(s *thread.Situation) { waiting(s, true, timer, approval, question) }, thread.CauseDecision,
			"2 answers, the first: deploy", in(3)},
		{"all of a question and an event", func(s *thread.Situation) { waiting(s, false, event, question) },
			thread.CauseDecision, "an answer: Which one?", nil},
		{"any of a question and an event", func(s *thread.Situation) { waiting(s, true, question, event) },
			thread.CauseDecision, "an answer: Which one?", in(5)},
		{"a child and an event", func(s *thread.Situation) { waiting(s, false, event, child) }, thread.CauseChild,
			"the end of a run that it has sent", nil},
		{"an event", func(s *thread.Situation) { waiting(s, false, timer, event) }, thread.CauseEvent, `the event "built"`, nil},
		{"a timer", func(s *thread.Situation) { waiting(s, false, timer) }, thread.CauseTimer, "its timer", in(3)},
		{"a timer that has fired", func(s *thread.Situation) { waiting(s, false, timer); s.Now = *in(3) }, thread.CauseWorker,
			"a worker: no live one serves agent echo", nil},
		{"an expired question beside an open one", func(s *thread.Situation) {
			waiting(s, false, question, approval)
			s.Now = *in(6)
		}, thread.CauseDecision, "a decision: deploy", in(9)},
		{"tickets of another run", func(s *thread.Situation) {
			waiting(s, false, timer)
			s.Tickets = append(s.Tickets, &mailroom.Ticket{Run: "other", Name: "nap", Kind: mailroom.TicketInput})
		}, thread.CauseTimer, "its timer", in(3)},
	}
}

// pausedCases are pauses of the server, on all workers and on some.
func pausedCases() []blockedCase {
	probe := time.Date(2026, 1, 2, 3, 6, 5, 0, time.UTC)
	const mend = "agent echo, which the server has paused: no login; mend it and run mailroom agent resume echo, " +
		"or wait for the run that tries it"
	on := func(worker string) []store.Pause {
		return []store.Pause{{Agent: store.PauseOn("echo", worker), Reason: "no login", Probe: probe}}
	}
	return []blockedCase{
		{"paused by the server", func(s *thread.Situation) {
			s.Pauses = []store.Pause{{Agent: "echo", Reason: "no login", Probe: probe}}
		}, thread.CausePause, mend, &probe},
		{"paused on its only worker", func(s *thread.Situation) { s.Pauses = on(s.Workers[0].ID) }, thread.CausePause, mend,
			&probe},
		{"paused on a worker beside another", func(s *thread.Situation) {
			s.Pauses = on("w9")
			w := *s.Workers[0]
			w.ID, s.Workers = "w9", append(s.Workers, &w)
		}, thread.CauseSlot, "a free slot of agent echo", nil},
		{"a pause on a worker that has gone", func(s *thread.Situation) {
			s.Workers[0].Dead, s.Pauses = true, on(s.Workers[0].ID)
		}, thread.CauseWorker, "a worker: no live one serves agent echo", nil},
	}
}

// spent returns a spent budget of an agent, and its question.
func spent(agent string, end *time.Time) []thread.SpentBudget {
	p := budget.Pool{Scope: budget.Scope{Kind: budget.Agent, Name: agent}, Period: budget.Day, End: *end,
		Budget: mailroom.Budget{Amounts: mailroom.Dollars(5)}}
	return []thread.SpentBudget{{Pool: p, Zone: "UTC", Question: &mailroom.Ticket{ID: "k1"}}}
}

func TestARunWaitsForWhatComesFirst(t *testing.T) {
	for _, c := range slices.Concat(blockedCases(), pausedCases(), limitedCases()) {
		t.Run(c.name, func(t *testing.T) {
			b := thread.WaitsFor(situation(c.change))
			if b == nil {
				b = &thread.Blocker{}
			} else if got := b.Text(); got != c.text || b.Agent != "echo" {
				t.Errorf("got %q of agent %q, want %q", got, b.Agent, c.text)
			}
			until := time.Time{}
			if c.until != nil {
				until = *c.until
			}
			if b.Cause != c.cause || !b.Until.Equal(until) {
				t.Errorf("got %+v, want %s until %v", b, c.cause, until)
			}
		})
	}
}

func TestTheRunWhoseTurnItIs(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := func(id string, priority, seconds int) *mailroom.Run {
		return &mailroom.Run{ID: id, Priority: priority, NotBefore: now.Add(time.Duration(seconds) * time.Second)}
	}
	joined := run("joined", 5, -1)
	joined.Joins, joined.Place = true, 3
	placed := func(id string, place int64) *mailroom.Run {
		r := run(id, 5, 0)
		r.Place = place
		return r
	}
	for _, c := range []struct {
		next      *mailroom.Run
		scheduled []*mailroom.Run
		want      string
	}{
		{nil, nil, ""},
		{run("next", 5, 0), nil, "next"},
		{nil, []*mailroom.Run{run("later", 5, 1)}, ""},
		{nil, []*mailroom.Run{run("first", 5, -1), run("second", 5, 0)}, "first"},
		{nil, []*mailroom.Run{run("first", 5, -1), run("urgent", 4, 0), run("later", 1, 1)}, "urgent"},
		{run("next", 5, 0), []*mailroom.Run{run("equal", 5, -1)}, "next"},
		{run("next", 5, 0), []*mailroom.Run{run("urgent", 4, 0)}, "urgent"},
		{placed("next", 4), []*mailroom.Run{joined}, "joined"},
		{placed("next", 2), []*mailroom.Run{joined}, "next"},
		{nil, []*mailroom.Run{placed("moved", 1), joined}, "joined"},
		{nil, []*mailroom.Run{joined, placed("moved", 1)}, "joined"},
	} {
		got := ""
		if r := thread.FirstOf(c.next, c.scheduled, now); r != nil {
			got = r.ID
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}
