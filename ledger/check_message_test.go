package ledger_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestALaterMessageIsCheckedForTheAgentThatItWouldReach refuses options and models by the agent that the message names,
// that of its thread, or the default.
func TestALaterMessageIsCheckedForTheAgentThatItWouldReach(t *testing.T) {
	refuses := func(want string) func(string, json.RawMessage) error {
		return func(agent string, options json.RawMessage) error {
			if agent == want && strings.Contains(string(options), "loud") {
				return errors.New("agent " + agent + " takes no loud")
			}
			return nil
		}
	}
	for _, c := range []struct{ refusing, named, thread, options, want string }{
		{"coder", "coder", "", `{"loud":1}`, "options: agent coder takes no loud"},
		{"coder", "", "of-coder", `{"loud":1}`, "options: agent coder takes no loud"},
		{"usual", "", "", `{"loud":1}`, "options: agent usual takes no loud"},
		{"usual", "", "new", `{"loud":1}`, "options: agent usual takes no loud"},
		{"usual", "coder", "of-coder", `{"loud":1}`, ""},
		{"coder", "coder", "", `{"model":"m"}`, ""},
		{"coder", "coder", "", "", ""},
		{"", "coder", "", `{"model":"unpriced"}`, "options: the model unpriced has no price"},
		{"", "usual", "", `{"model":"unpriced"}`, ""}, // no budget bounds its runs
	} {
		f := open(t, memory.New(), ledger.Options{DefaultAgent: "usual", CheckOptions: refuses(c.refusing),
			CheckBudget: func(_ string, options json.RawMessage, _ mailroom.Budget) error {
				if strings.Contains(string(options), "unpriced") {
					return errors.New("the model unpriced has no price")
				}
				return nil
			},
			Budgets: ledger.Budgets{Agent: map[string]budget.Limits{"coder": {
				Run: mailroom.Budget{Amounts: mailroom.Dollars(1)}}}},
		})
		_, err := f.Ledger.Submit(t.Context(), thread.Submit{Thread: "of-coder", Agent: "coder",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Ledger.View(t.Context(), func(r store.Reader) error {
			return ledger.CheckMessage(r, &thread.Submit{Thread: c.thread, Agent: c.named, Options: json.RawMessage(c.options)})
		})
		if got := ""; err != nil {
			if got = err.Error(); !strings.Contains(got, c.want) || c.want == "" ||
				mailroom.CodeOf(err) != mailroom.CodeInvalid {
				t.Errorf("%+v: %s", c, got)
			}
		} else if c.want != "" {
			t.Errorf("%+v: accepted", c)
		}
	}
}
