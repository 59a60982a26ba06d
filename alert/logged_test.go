package alert

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/schedule"
	"mailroom/schedule/plan"
)

// TestOnlyTheServerWarnsAboutABudget has the entry of the server, and the same one by an agent in a thread of its own.
func TestOnlyTheServerWarnsAboutABudget(t *testing.T) {
	n := budget.Notice{State: budget.Low, Kind: budget.Agent, Name: "coder", Period: budget.Day, Zone: "UTC",
		Limit: mailroom.Dollars(5), Used: mailroom.Dollars(4)}
	body, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var l logged
	events, err := l.events([]mailroom.Entry{
		{Kind: budget.KindLow, Thread: "budget:agent:coder:day", Run: "r", Body: body},
		{Kind: budget.KindLow, Thread: "work", Run: "s", Body: body},
	})
	if err != nil || len(events) != 1 {
		t.Fatalf("got %+v, %v", events, err)
	}
	e := events[0]
	const words = "Agent coder has used 4.00 usd of its budget of 5.00 usd a day."
	if e.Kind != KindBudget || e.Agent != "coder" || e.Words != words {
		t.Errorf("got %+v", e)
	}
	c := clock{t: t, rule: Rule{Name: "money", When: []Kind{KindBudget}, To: []string{"phone"}, Zone: berlin(t),
		Text: TextFull}}
	sent := c.step(e)
	if len(sent) != 1 {
		t.Fatalf("sent %+v", sent)
	}
	m := (&composer{target: "phone", body: MaxBody}).compose(&sent[0].Alert, subject{})
	if m.Title != "The budget of agent coder is low" || m.Body != e.Words {
		t.Errorf("got %q, %q", m.Title, m.Body)
	}
}

func TestALowBudgetOfARunIsAnAlertAboutTheRun(t *testing.T) {
	state := entry.BudgetState{Bound: "usd", Budget: mailroom.Budget{Amounts: mailroom.Dollars(2)},
		Spent: mailroom.Amounts{MicroUSD: 1_700_000, Tokens: 9}}
	body, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	l := logged{runs: map[string]*mailroom.Run{"r": {ID: "r", Agent: "claude"}}}
	events, err := l.events([]mailroom.Entry{{Kind: entry.KindBudgetLow, Thread: "work", Run: "r", Body: body}})
	if err != nil || len(events) != 1 {
		t.Fatalf("got %+v, %v", events, err)
	}
	c := clock{t: t, rule: Rule{Name: "money", When: []Kind{KindBudget}, To: []string{"phone"}, Zone: berlin(t),
		Text: TextFull}}
	sent := c.step(events[0])
	if len(sent) != 1 {
		t.Fatalf("sent %+v", sent)
	}
	m := (&composer{target: "phone", body: MaxBody, url: "http://here"}).compose(&sent[0].Alert, subject{})
	if m.Title != "The budget of a run of agent claude is low" || m.URL != "http://here/#/run/r" ||
		m.Body != "A run of agent claude has used 1.70 usd of its budget of 2.00 usd." {
		t.Errorf("got %+v", m)
	}
}

// TestASchedulesPauseIsToldToItsOwner has the entry of the server, the same one by an agent in its own thread, and
// the pause of a schedule that the configuration lost.
func TestASchedulesPauseIsToldToItsOwner(t *testing.T) {
	body := func(p plan.Pause) json.RawMessage {
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	now := time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)
	left := body(plan.Pause{Cause: plan.CauseRemoved})
	failed := body(plan.Pause{By: plan.Server, Note: "5 failures in a row, the last one: no key"})
	var l logged
	events, err := l.events([]mailroom.Entry{
		{At: now, Kind: schedule.KindPaused, Thread: "schedule:ann:report", Run: "r", Body: failed},
		{At: now, Kind: schedule.KindPaused, Thread: "work", Run: "s", Body: failed},
		{At: now, Kind: schedule.KindPaused, Thread: "schedule:ann:other", Run: "r", Body: failed},
		{At: now, Kind: schedule.KindPaused, Thread: "schedule:ann:gone", Run: "r", Body: left},
	})
	if err != nil || len(events) != 2 {
		t.Fatalf("got %+v, %v", events, err)
	}
	for owner, want := range map[string]int{"": 1, "ann": 1, "bob": 0} {
		c := &clock{t: t, at: now, rule: Rule{Name: "r", Owner: owner, When: []Kind{KindSchedule}, To: []string{"phone"},
			Zone: berlin(t), Text: TextFull}}
		c.step(events[0])
		c.until(now.Add(2 * time.Minute))
		sent := c.sent
		if len(sent) != want {
			t.Errorf("a rule of %q sent %+v", owner, sent)
		}
		for _, n := range sent {
			m := (&composer{target: "phone", url: "https://m", body: MaxBody}).compose(&n.Alert, subject{})
			if m.Title != "Schedule report is paused" || m.Body != events[0].Words ||
				m.URL != "https://m/#/schedule/ann:report" {
				t.Errorf("got %+v", m)
			}
		}
	}
	c := &clock{t: t, at: now, rule: Rule{Name: "r", When: []Kind{KindSchedule}, To: []string{"phone"},
		Zone: berlin(t)}}
	c.step(events...)
	c.until(now.Add(2 * time.Minute))
	sent := c.sent
	if len(sent) != 1 || sent[0].Alert.Count != 2 {
		t.Fatalf("two pauses of one owner sent %+v", sent)
	}
	m := (&composer{target: "phone", url: "https://m", body: MaxBody}).compose(&sent[0].Alert, subject{})
	if m.Title != "2 schedules of ann are paused, the first one is report" ||
		m.URL != "https://m/#/schedules?show=paused" {
		t.Errorf("got %+v", m)
	}
}
