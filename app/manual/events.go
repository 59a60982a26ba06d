package manual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom/entry"
)

// event is a kind of entry with an example of its body.
type event struct{ kind, about, body string }

// eventGroup has the events of one subject.
type eventGroup struct {
	title  string
	events []event
}

// runBody, messageBody and so on are bodies that several events have.
const (
	messageBody = `{"id":"01994d2e-8c00-7000-8000-000000000001.1","thread":"release-notes","seq":1,"role":"user",` +
		`"sender":"ann","text":"Draft the release notes.","parts":[{"type":"text","text":"Draft the release notes."}],` +
		`"visibility":"all","run":"01994d2e-8c00-7000-8000-000000000001","state":"accepted","partial":false,` +
		`"created_at":"2026-03-02T09:00:00Z"}`
	ticketBody = `{"id":"01994d2e-8c00-7000-8000-000000000004","thread":"release-notes",` +
		`"run":"01994d2e-8c00-7000-8000-000000000001","name":"publish","kind":"approval","prompt":"Publish the notes?",` +
		`"action":"publish","arguments":{"version":"1.4"},"digest":"9f86d081884c7d65…","state":"open","expires_at":null,` +
		`"decision":"","answer":null,"reason":"","decided_by":"","decided_at":null}`
	effectBody = `{"effect":"4d967a30111bf29f","name":"publish","key":"01994d2e-8c00-7000-8000-000000000001.publish",` +
		`"input":"44136fa355b3678a1146ad16f7e8649e"}`
	doneBody = `{"effect":"4d967a30111bf29f","name":"publish","key":"01994d2e-8c00-7000-8000-000000000001.publish",` +
		`"input":"44136fa355b3678a1146ad16f7e8649e","result":{"url":"https://example.org/notes/1.4"}}`
	reservedBody = `{"id":"01994d2e-8c00-7000-8000-000000000005","thread":"project:default","name":"src/**",` +
		`"holder":"writer","owner":"ann","shared":false,"advisory":false,"reason":"refactoring","fence":7,` +
		`"taken_at":"2026-03-02T09:00:00Z","expires_at":"2026-03-02T09:30:00Z"}`
	endBody = `{"reservation":"01994d2e-8c00-7000-8000-000000000005","by":"ann"}`
	retryBy = `{"class":"transient","message":"the model answered 529"}`
)

// events are all kinds of entries, by subject.
func events() []eventGroup {
	return []eventGroup{
		{"Messages", []event{
			{entry.KindMessage, "A message was accepted, or an agent has written one.", messageBody},
			{entry.KindMessageRead, "A run has read a message that was steered into it.",
				`{"message":"01994d2e-8c00-7000-8000-000000000001.1","seq":1}`},
			{entry.KindEdited, "The sender changed a message that no run has read.",
				`{"message":"01994d2e-8c00-7000-8000-000000000001.1","text":"Shorter.",` +
					`"parts":[{"type":"text","text":"Shorter."}]}`},
			{entry.KindRetracted, "The sender took a message back.",
				`{"message":"01994d2e-8c00-7000-8000-000000000001.1"}`},
		}},
		{"Runs", []event{
			{entry.KindQueued, "A run waits for its start.", `{"agent":"coder","agent_version":"0123456789ab",` +
				`"mode":"queue","priority":128,"available_at":"2026-03-02T09:00:00Z",` +
				`"messages":["01994d2e-8c00-7000-8000-000000000001.1"],"origin":{"via":"user","sender":"ann"}}`},
			{entry.KindStarted, "A worker has claimed the run and reads the messages with these numbers.",
				`{"worker":"01994d2e-8c00-7000-8000-000000000003","messages":[1]}`},
			{entry.KindStep, "The agent has finished a durable step.",
				`{"name":"outline","usage":{"input_tokens":1200,"output_tokens":90,"cost_usd":0.004}}`},
			{entry.KindToolStarted, "The agent calls a tool. Agents write it.",
				`{"call":"c1","name":"shell","arguments":{"command":"git log"}}`},
			{entry.KindToolDone, "The call has ended. Agents write it.",
				`{"call":"c1","ok":true,"summary":"12 commits","output":"a1b2c3 Fix the build…"}`},
			{entry.KindSend, "The run has sent a message to another thread.",
				`{"thread":"translations","message":"01994d2e-8c00-7000-8000-000000000006.1",` +
					`"run":"01994d2e-8c00-7000-8000-000000000006","answer":true}`},
			{entry.KindWaiting, "The run waits for tickets, and holds no process.",
				`{"tickets":["01994d2e-8c00-7000-8000-000000000004"],"until":null}`},
			{entry.KindResumed, "The run goes on after a wait.", `{"worker":"01994d2e-8c00-7000-8000-000000000003",` +
				`"tickets":["01994d2e-8c00-7000-8000-000000000004"],"messages":[]}`},
			{entry.KindRescheduled, "The attempt has ended, and the run will be tried again.",
				`{"reason":"retry","attempt":1,"available_at":"2026-03-02T09:00:02Z","error":` + retryBy + `}`},
			{entry.KindStop, "Someone asked the run to stop.", `{"reason":"cancelled","by":"ann"}`},
			{entry.KindCompleted, "The run has ended with a reply.",
				`{"reply":"01994d2e-8c00-7000-8000-000000000001.1-1","steps":1,"usage":{"cost_usd":0.012}}`},
			{entry.KindFailed, "The run has failed for good.",
				`{"error":{"class":"exhausted","message":"the model answered 529"},"failures":5,"crashes":0}`},
			{entry.KindCancelled, "The run was stopped.", `{"reason":"interrupted","by":"ann"}`},
			{entry.KindRetried, "Someone runs an ended run again.", `{"by":"ann"}`},
		}},
		{"Tickets", []event{
			{entry.KindTicketOpened, "The run asks, or waits for something.", ticketBody},
			{entry.KindTicketDecided, "Someone has decided.", `{"ticket":"01994d2e-8c00-7000-8000-000000000004",` +
				`"decision":"approve","answer":null,"reason":"","decided_by":"ann"}`},
			{entry.KindTicketExpired, "The time of the question has passed without a decision.",
				`{"ticket":"01994d2e-8c00-7000-8000-000000000004"}`},
		}},
		{"Budgets", []event{
			{entry.KindBudgetLow, "80 % of the budget of the run are spent.",
				`{"bound":"usd","budget":{"usd":2},"spent":{"usd":1.7,"tokens":90000,"turns":12},"lent":{}}`},
			{entry.KindBudgetSpent, "The budget is spent: the attempt is asked to stop.",
				`{"bound":"usd","budget":{"usd":2},"spent":{"usd":2.1,"tokens":110000,"turns":15},"lent":{}}`},
			{entry.KindBudgetRaised, "Someone has approved a raise.", `{"by":"ann","raise":{"usd":2},"budget":{"usd":4}}`},
		}},
		{"Effects", []event{
			{entry.KindEffectIntended, "The agent is about to call the effect.", effectBody},
			{entry.KindEffectSettled, "The call has a result, or an error.", doneBody},
			{entry.KindEffectUnknown, "The worker died during the call: a person decides.", effectBody},
		}},
		{"Projects, channels and the audit log", []event{
			{entry.KindNotification, "An agent has told others something.",
				`{"from":"writer","by":"ann","to":["reviewer"],"event":"draft.ready","data":{"file":"notes.md"}}`},
			{entry.KindReserved, "An agent has reserved a name.", reservedBody},
			{entry.KindReleased, "The holder gave the reservation back.", endBody},
			{entry.KindLapsed, "The reservation has ended by itself.", endBody},
			{entry.KindChannel, "The state of a channel has changed.", `{"channel":"telegram","state":"reconnecting",` +
				`"was":"connected","reason":"connection reset by peer","attempts":1,"at":"2026-03-02T09:00:00Z"}`},
			{entry.KindAudit, "An operator has done something.", `{"action":"token.create","actor":"operator",` +
				`"actor_kind":"operator","token":"","from":"127.0.0.1","object_kind":"token","object":"ann","thread":"",` +
				`"detail":{"scopes":"read,submit"}}`},
		}},
	}
}

// eventList shows each kind of entry with an example of its body.
func eventList() (string, error) {
	var b strings.Builder
	for _, g := range events() {
		b.WriteString("\n## " + g.title + "\n")
		for _, e := range g.events {
			var body bytes.Buffer
			if err := json.Indent(&body, []byte(e.body), "", "  "); err != nil {
				return "", fmt.Errorf("the example of %s: %w", e.kind, err)
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s", e.kind, e.about, fenced("json", body.String()))
		}
	}
	return b.String(), nil
}
