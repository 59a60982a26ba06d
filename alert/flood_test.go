package alert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/thread"
)

// TestATokenGetsABoundedNumberOfMessages has a thread of a token that answers 200 times, while another token's threads
// fail.
func TestATokenGetsABoundedNumberOfMessages(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		h.flood("ann", 200)
		h.after(10 * time.Minute)
		h.wantSent("within the hour", 60)
		h.after(2 * time.Hour)
		h.wantSent("after the hour", 61)
		if got := h.targets["phone"].messages()[60]; got.Title != "140 further messages of ann" {
			t.Errorf("the last message is %q", got.Title)
		}
		h.deliver("ann", "one more")
		h.wantSent("later", 62)
	})
}

// flood submits runs of a thread of an owner that fail at once: each is an alert.
func (h *fixture) flood(owner string, n int) {
	h.t.Helper()
	for i := range n {
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: "of-" + owner, Owner: owner, Agent: "worker",
			Messages:  []thread.NewMessage{{Parts: mailroom.Text(fmt.Sprint("boom ", i))}},
			DeliverTo: h.place(owner, "phone"), DeliverAgent: alert.AgentName("phone"),
		})
		h.must(err)
	}
}

// TestAMessageThatCombinesAlertsCoversNoLaterReminder has a token with a question, whose alert is followed by so many
// that one message combines them. The reminder was made before that message, and is due after it.
func TestAMessageThatCombinesAlertsCoversNoLaterReminder(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		h.storeRules("ann", api.AlertRule{Name: "q", When: []string{"ticket"}, To: []string{"phone"}, Remind: "90m"})
		h.submitOf("ann", "asks", "ask ann")
		h.after(time.Minute)
		h.flood("ann", 100)
		h.after(80 * time.Minute)
		h.wantSent("after the hour, where one combines the last ones", 61)
		h.after(20 * time.Minute)
		h.wantSent("after the time of the reminder", 62)
		if last := h.targets["phone"].messages()[61]; !strings.HasPrefix(last.Title, "Reminder: ") {
			t.Errorf("the last message is %q, want the reminder", last.Title)
		}
	})
}

// TestATokenDoesNotResetItsBound deletes the thread whose rows count what a token was sent.
func TestATokenDoesNotResetItsBound(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		h.deliver("ann", "one")
		h.after(time.Minute)
		h.wantSent("the first", 1)
		who := &auth.Token{Name: "ann", Sum: "x", Scopes: []auth.Permission{auth.PermissionSubmit}}
		if err := h.ledger.DeleteThread(h.t.Context(), h.place("ann", "phone"),
			who); mailroom.CodeOf(err) != mailroom.CodeForbidden {
			t.Errorf("ann deletes the thread of her alerts: %v", err)
		}
	})
}

// failureOf returns a failure of an owner with words of its own.
func failureOf(owner, word string, at time.Time) alert.Event {
	return alert.Event{Kind: alert.KindFailed, At: at, Subject: word, Agent: "worker", Thread: "of-" + owner, Owner: owner,
		Run: owner + word, Words: word}
}

// TestNoOwnerHidesTheAlertsOfAnother floods the operator's rule with failures and questions of many owners. Those of
// one more owner are sent with their words, whatever the others do.
func TestNoOwnerHidesTheAlertsOfAnother(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for owners := range 12 {
		state := alert.State{}
		rules := []alert.Rule{rule(alert.KindFailed, alert.KindTicket)}
		var events []alert.Event
		for o := range owners + 1 {
			owner := fmt.Sprint("loud", o)
			if o == 0 {
				owner = auth.Operator
			}
			for i := range 100 {
				events = append(events, failureOf(owner, fmt.Sprintf("word%d", i), now))
				events = append(events, alert.Event{Kind: alert.KindTicket, At: now, Subject: fmt.Sprint(owner, "-", i),
					Agent: "worker", Thread: "t", Owner: owner, Run: fmt.Sprint(i)})
			}
		}
		events = append(events, failureOf("bob", "PRODUCTION DATABASE IS DOWN", now))
		events = append(events, alert.Event{Kind: alert.KindTicket, At: now, Subject: "bobs", Agent: "worker",
			Thread: "of-bob", Owner: "bob", Run: "r"})
		sent := state.Step(rules, events, now)
		sent = append(sent, state.Step(rules, nil, now.Add(time.Minute))...)
		sent = append(sent, state.Step(rules, nil, now.Add(time.Hour))...)
		var down, asked bool
		counted := 0
		for _, a := range sent {
			down = down || a.Alert.Words == "PRODUCTION DATABASE IS DOWN" && a.Alert.Agent == "worker"
			asked = asked || a.Alert.Ticket == "bobs"
			counted += a.Alert.Count
		}
		if !down || !asked || counted != len(events) {
			t.Errorf("%d loud owners: bob's failure sent %v, his question %v; %d of %d events are sent", owners+1, down, asked,
				counted, len(events))
		}
		if n := len(sent); n > 50+20+(owners+1)*30 {
			t.Errorf("%d loud owners make %d alerts", owners+1, n)
		}
	}
}

// TestAQuestionOfAnOwnerIsCountedByOwner sends the open questions of one owner, of which there are many, together.
func TestAnAlertOfManyQuestionsIsAboutOneOwner(t *testing.T) {
	one := rule(alert.KindTicket)
	one.To = []string{"phone"}
	inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		for i := range 30 {
			h.submitOf("ann", fmt.Sprint("a", i), "ask ann")
			h.submitOf(auth.Operator, fmt.Sprint("o", i), "ask us")
		}
		h.after(15 * time.Minute)
		var titles []string
		for _, m := range h.targets["phone"].messages() {
			if strings.Contains(m.Title, "questions") {
				titles = append(titles, m.Title)
			}
		}
		if len(titles) != 2 || !strings.Contains(strings.Join(titles, "; "), "20 questions of ann wait") {
			t.Errorf("sent together: %q", titles)
		}
	})
}

// TestADeliveredEventWaitsForTheEndOfQuietHours has a question at night, whose thread delivers to the rule's target.
func TestADeliveredEventWaitsForTheEndOfQuietHours(t *testing.T) {
	night := rule(alert.KindTicket)
	night.Quiet = alert.Quiet{From: 22 * 60, To: 7 * 60}
	for _, test := range []struct{ at, want time.Time }{
		{time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC), time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)},
		{time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 12, 0, 10, 0, time.UTC)},
	} {
		event := alert.Event{Kind: alert.KindTicket, At: test.at, Subject: "k", Owner: "ann", Thread: "t", Run: "r",
			DeliverTo: "phone", Delivery: "d"}
		sent := alert.State{}.Step([]alert.Rule{night}, []alert.Event{event}, test.at)
		if len(sent) != 1 || !sent[0].NotBefore.Equal(test.want) || sent[0].Alert.Delivery != "d" {
			t.Errorf("sent at %s: %+v, want one alert at %s", test.at, sent, test.want)
		}
	}
}
