package alert_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
)

func failures(to ...string) api.AlertRule {
	return api.AlertRule{Name: "mine", When: []string{"failed"}, To: to, Text: "full"}
}

func down() error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")}
}

// TestAWaitingAlertEndsWithItsRule has a target that is down while a rule is removed, changed or kept: of a token, of
// the operator, and of the configuration, which this server reads again at its start.
func TestAWaitingAlertEndsWithItsRule(t *testing.T) {
	const removed, moved = "Not sent: rule mine was removed", "Not sent: rule mine does not name target phone any more"
	for name, test := range map[string]struct {
		owner string
		then  []api.AlertRule
		want  string
	}{
		"a token's, kept":       {"ann", []api.AlertRule{failures("phone")}, ""},
		"a token's, removed":    {"ann", nil, removed},
		"a token's, changed":    {"ann", []api.AlertRule{failures("mail")}, moved},
		"the operator's":        {auth.Operator, []api.AlertRule{failures("phone")}, ""},
		"the operator's, ended": {auth.Operator, nil, removed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, []string{"phone", "mail"}, func(h *fixture) {
				h.createToken("ann")
				h.storeRules(test.owner, failures("phone"))
				h.targets["phone"].fail(down)
				h.submitOf("ann", "hers", "boom")
				h.after(time.Minute)
				h.storeRules(test.owner, test.then...)
				h.targets["phone"].fail(nil)
				h.after(time.Hour)
				h.wantEnd(test.owner, test.want)
			})
		})
	}
	for name, rules := range map[string][]alert.Rule{
		"the configuration's":          {rule(alert.KindFailed)},
		"the configuration's, removed": {},
		"not known":                    nil,
	} {
		t.Run(name, func(t *testing.T) {
			phone := &place{}
			inBubbleWith(t, []alert.Rule{rule(alert.KindFailed)}, []string{"phone"},
				func(l *ledger.Ledger) map[string]mailroom.Agent {
					return map[string]mailroom.Agent{alert.AgentName("phone"): alert.New(alert.Options{Name: "phone", Target: phone,
						Ledger: seam{l}, Zone: time.UTC, Rules: rules})}
				}, func(h *fixture) {
					h.targets["phone"] = phone
					h.submitOf(auth.Operator, "t", "boom")
					h.after(time.Minute)
					want := ""
					if rules != nil && len(rules) == 0 {
						want = "Not sent: rule " + rule(alert.KindFailed).Name + " was removed"
					}
					h.wantEnd(auth.Operator, want)
				})
		})
	}
}

// wantEnd checks that the one alert of an owner's rule was sent, or why it was not.
func (h *fixture) wantEnd(owner, why string) {
	h.t.Helper()
	replies := h.replies(owner)
	sent := len(h.targets["phone"].messages())
	switch {
	case len(replies) != 1:
		h.t.Errorf("%d alerts: %q", len(replies), replies)
	case why == "" && (sent != 1 || !strings.HasPrefix(replies[0], "Sent: ")),
		why != "" && (sent != 0 || replies[0] != why):
		h.t.Errorf("%d messages, %q, want %q", sent, replies[0], why)
	}
}

// TestAnAlertInTheQueueOfAChatIsCheckedAgain ends, one by one, what an alert was sent for, with the labels that its
// message has in the queue of a channel.
func TestAnAlertInTheQueueOfAChatIsCheckedAgain(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		questions := failures("phone")
		questions.When = []string{"ticket"}
		h.storeRules("ann", questions)
		h.submitOf("ann", "hers", "ask x")
		h.after(time.Minute)
		sent := h.targets["phone"].messages()
		if len(sent) != 1 {
			t.Fatalf("%d messages", len(sent))
		}
		sender := alert.Sender{Targets: alert.Allowed{"phone": {"ann"}}, Places: map[string]string{"phone": ""}}
		want := func(what string, s alert.Sender, labels map[string]string, want string) {
			t.Helper()
			h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
				got, err := s.Ended(r, labels, time.Now())
				if got != want {
					t.Errorf("%s: got %q, want %q", what, got, want)
				}
				return err
			}))
		}
		labels := sent[0].Labels
		want("as it was sent", sender, labels, "")
		want("labels of an older version", sender, map[string]string{alert.LabelAlert: "phone"}, "")
		want("another place", alert.Sender{Targets: sender.Targets, Places: map[string]string{"phone": "hers"}}, labels,
			"target phone was removed, or is another one than the alert was sent to")
		want("a target that does not name the token", alert.Sender{Targets: alert.Allowed{"phone": nil},
			Places: sender.Places}, labels, "token ann may not deliver to target phone any more")
		h.storeRules("ann")
		want("without the rule", sender, labels, "rule mine was removed")
		h.storeRules("ann", questions)
		want("with the rule again", sender, labels, "")
		_, err := h.ledger.Interrupt(h.t.Context(), "hers", auth.RunToken(auth.Operator))
		h.must(err)
		want("without the question", sender, labels, "the question is void")
	})
}
