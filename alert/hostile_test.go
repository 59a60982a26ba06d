package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// storeRules stores the rules of an owner, as the API does.
func (h *fixture) storeRules(owner string, rules ...api.AlertRule) {
	h.t.Helper()
	at := alert.RulesCursor(owner)
	h.must(h.ledger.ChangeCursor(h.t.Context(), at.Channel, at.Identity,
		func(json.RawMessage, time.Time) (json.RawMessage, error) {
			return json.Marshal(rules)
		}))
}

func (h *fixture) createToken(name string) {
	h.t.Helper()
	_, err := h.ledger.Accounts().CreateToken(h.t.Context(),
		auth.Token{Name: name, Sum: "x", Scopes: []auth.Permission{auth.PermissionSubmit}})
	h.must(err)
}

// TestSubmitAllSkipsASubmitWhoseKeyIsUsed: a user who submits in the thread of a target first under the key of an
// alert stops no other alert.
func TestSubmitAllSkipsASubmitWhoseKeyIsUsed(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		submit := func(thread_, key, text string) thread.Submit {
			return thread.Submit{Thread: thread_, Run: thread_ + key, Key: key, Agent: "worker",
				Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}}
		}
		c := store.Cursor{Channel: "test", Identity: "x", Position: json.RawMessage(`{}`)}
		h.must(h.ledger.Duties().SubmitAll(h.t.Context(), []thread.Submit{submit("b", "k", "one")}, c))
		c.Position = json.RawMessage(`{"at":1}`)
		h.must(h.ledger.Duties().SubmitAll(h.t.Context(),
			[]thread.Submit{submit("b", "k", "other words"), submit("a", "k", "new")}, c))
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			threads, err := r.Threads(store.ThreadQuery{IDs: []string{"a", "b"}})
			cursors, err2 := r.Cursors(store.CursorQuery{Channel: "test"})
			runs, err3 := r.Runs(store.RunQuery{Thread: "b"})
			if len(threads) != 2 || len(runs) != 1 || string(cursors[0].Position) != `{"at":1}` {
				t.Errorf("%d threads, %d runs, cursor %s", len(threads), len(runs), cursors[0].Position)
			}
			return errors.Join(err, err2, err3)
		}))
	})
}

// TestATokenCannotStopTheAlertsOfOthers has a token with the maximum number of rules. Its agents fail 60 times, each
// time with another error text.
func TestATokenCannotStopTheAlertsOfOthers(t *testing.T) {
	inBubble(t, []alert.Rule{rule(alert.KindTicket, alert.KindFailed)}, []string{"phone", "mail"}, func(h *fixture) {
		h.createToken("ann")
		var rules []api.AlertRule
		for i := range alert.MaxRules {
			rules = append(rules, api.AlertRule{Name: fmt.Sprint("r", i), When: []string{"failed"}, To: []string{"phone"},
				Text: "full"})
		}
		h.storeRules("ann", rules...)
		h.after(5 * time.Second)
		for i := range 60 {
			words := strings.Repeat(string(rune('a'+i%26))+string(rune('A'+i/26)), 20) + strings.Repeat("<", 300)
			_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
				Thread: fmt.Sprint("hostile", i), Owner: "ann", Agent: "worker",
				Messages: []thread.NewMessage{{Parts: mailroom.Text(words)}},
			})
			h.must(err)
		}
		h.submit("t", "ask the operator")
		h.after(time.Minute)
		sent := 0
		for _, m := range h.targets["phone"].messages() {
			if m.Kind == alert.KindTicket {
				sent++
			}
		}
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			at, err := r.Cursors(store.CursorQuery{Channel: "alert", Identities: []string{"log"}})
			if sent != 1 || len(at[0].Position) > mailroom.MaxPosition/4 {
				t.Errorf("sent %d questions; the state has %d bytes", sent, len(at[0].Position))
			}
			return err
		}))
	})
}

// chat is a target of alerts. A channel delivers its messages.
type chat struct{ ledger *ledger.Ledger }

func (c chat) Send(ctx context.Context, m alert.Message) (string, error) {
	return "", channel.SendAnswer(ctx, c.ledger, "tg", channel.Answer{
		Room: []string{"bot", "1"}, Key: m.Key, Text: m.Title, Later: true,
		Metadata: map[string]string{alert.LabelAlert: "team"},
	})
}

// TestAnAlertThatAChatRefusesCausesNoFurtherAlert has a chat that refuses each message.
func TestAnAlertThatAChatRefusesCausesNoFurtherAlert(t *testing.T) {
	one := rule(alert.KindFailed)
	one.To = []string{"team"}
	sent := 0
	inBubbleWith(t, []alert.Rule{one}, []string{"team"}, func(l *ledger.Ledger) map[string]mailroom.Agent {
		return map[string]mailroom.Agent{
			alert.AgentName("team"): alert.New(alert.Options{Name: "team", Target: chat{l}, Ledger: seam{l}, Zone: time.UTC}),
			channel.AgentName("tg"): mailroom.AgentFunc(func(context.Context, mailroom.Session) error {
				sent++
				return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("bot was kicked from the group")}
			}),
		}
	}, func(h *fixture) {
		h.submit("t", "boom")
		h.after(6 * time.Hour)
	})
	if sent != 1 {
		t.Errorf("%d messages to the chat about one failure", sent)
	}
}

func TestEachPauseOfAnAgentIsAnAlert(t *testing.T) {
	inBubble(t, []alert.Rule{rule(alert.KindPaused)}, []string{"phone", "mail"}, func(h *fixture) {
		for range 3 {
			_, err := h.ledger.PauseAgent(h.t.Context(), store.Pause{Agent: "codex", By: "ann"})
			h.must(err)
			h.after(5 * time.Second)
			h.must(h.ledger.ResumeAgent(h.t.Context(), "codex"))
			h.after(5 * time.Second)
		}
		if n := len(h.targets["phone"].messages()); n != 3 {
			t.Errorf("%d alerts about three pauses", n)
		}
	})
}
