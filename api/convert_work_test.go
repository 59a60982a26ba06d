package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

// A step of an agent in another process reaches the ledger with the same fields as a step of an agent in the server.
func TestAStepKeepsItsFieldsOverTheWire(t *testing.T) {
	at := time.Date(2030, 1, 31, 18, 0, 0, 123000, time.UTC)
	for name, s := range map[string]mailroom.Step{
		"times": {Sends: []mailroom.Send{{
			Name: "a", Thread: "t", Agent: "b", Parts: mailroom.Text("x"), Answer: mailroom.AnswerWait,
			Mode: mailroom.ModeLatest, Priority: new(0), NotBefore: at, Deadline: at.Add(time.Hour),
			Options: json.RawMessage(`{"a":1}`), Metadata: map[string]string{"k": "v"},
		}}},
		"durations": {Sends: []mailroom.Send{{Name: "a", Parts: mailroom.Text("x"), Delay: time.Minute,
			Timeout: 90 * time.Second}}},
		"all else": {
			Name: "n", Entries: []mailroom.AgentEntry{{Kind: "x.a", Body: json.RawMessage(`{}`)}},
			Checkpoint: json.RawMessage(`{"c":1}`), State: json.RawMessage(`{"s":1}`),
			Tickets:  []mailroom.Ask{{Name: "q", Kind: mailroom.TicketTimer, After: time.Hour}},
			Usage:    mailroom.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: 3},
			Progress: 0.5, NoProgress: true, Internal: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(FormatStep(s))
			if err != nil {
				t.Fatal(err)
			}
			var wire Step
			if err := json.Unmarshal(line, &wire); err != nil {
				t.Fatal(err)
			}
			got, err := wire.Read("body.step")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s, got); d != "" {
				t.Errorf("%s\n%s", line, d)
			}
		})
	}
}

func TestATimeOfASendThatIsNoTimeIsRefused(t *testing.T) {
	zero := "0001-01-01T00:00:00Z"
	for _, s := range []Send{{NotBefore: "soon"}, {NotBefore: "-1h"}, {Deadline: "0s"}, {Deadline: zero}} {
		_, err := Step{Sends: []Send{s}}.Read("body.step")
		if mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A server of the version before requires both.
func TestARenewalOfHeldClaimsAlwaysSaysItsRound(t *testing.T) {
	line, err := json.Marshal(Renewal{Held: []string{}})
	if want := `{"round":0,"held":[]}`; err != nil || string(line) != want {
		t.Errorf("got %s, %v, want %s", line, err, want)
	}
}
