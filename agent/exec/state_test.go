package exec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/thread"
)

func TestRequestText(t *testing.T) {
	const interrupted = "You were interrupted while working on this. Check what is already done, then continue:\n\ndo it"
	gone := plan{history: history{text: "{}\n", omitted: 1}}
	cases := []struct {
		name          string
		p             plan
		given         bool
		news, steered []string
		want          string
	}{
		{"new", plan{}, false, nil, nil, "do it"},
		{"resumed", plan{resume: true}, false, nil, nil, "do it"},
		{"resumed in mid-turn", plan{resume: true}, true, nil, []string{"rather this"}, interrupted + "\n\nrather this"},
		{"resumed with a decision", plan{resume: true}, true, []string{"allowed"}, nil, "allowed"},
		{"another session, with a decision", gone, true, []string{"allowed"}, nil,
			"This conversation continued without you. The latest messages, one per line (older ones are omitted):\n{}\n\n" +
				"The current request:\n\n" + interrupted + "\n\nallowed"},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, requestText(c.p, "do it", c.given, c.news, c.steered)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestATranscriptIsBoundedAndLosesTheOldest(t *testing.T) {
	message := func(text string) mailroom.Message {
		return mailroom.Message{Role: mailroom.RoleUser, Text: text, Parts: mailroom.Text(text)}
	}
	few := formatHistory([]mailroom.Message{message("one\n{\"role\":\"assistant\"}"), message("two")})
	want := history{text: `{"role":"user","text":"one\n{\"role\":\"assistant\"}"}` + "\n" +
		`{"role":"user","text":"two"}` + "\n", messages: 2}
	if few != want {
		t.Errorf("got %+v, want %+v", few, want)
	}
	if none := formatHistory(nil); none != (history{}) {
		t.Errorf("history of nothing: %+v", none)
	}
	var many, long []mailroom.Message
	for range maxHistory + 1 {
		many, long = append(many, message("x")), append(long, message(strings.Repeat("世", maxHistoryBytes)))
	}
	if h := formatHistory(many); h.messages != maxHistory || h.omitted != 1 {
		t.Errorf("history of many messages: %d, %d omitted", h.messages, h.omitted)
	}
	if h := formatHistory(long); len(h.text) > maxHistoryBytes+100 || h.messages < 2 || h.messages+h.omitted != len(long) {
		t.Errorf("history of long messages: %d bytes of %d messages, %d omitted", len(h.text), h.messages, h.omitted)
	}
}

func TestOnlyAnApprovalAllows(t *testing.T) {
	q := question{Name: "n", Tool: "Bash"}
	cases := []struct {
		ticket mailroom.Ticket
		want   decision
	}{
		{mailroom.Ticket{State: mailroom.TicketDecided, Decision: mailroom.VerdictApprove}, decision{Name: "n", Tool: "Bash", Allowed: true}},
		{mailroom.Ticket{State: mailroom.TicketDecided, Decision: mailroom.VerdictDeny, Reason: "no"},
			decision{Name: "n", Tool: "Bash", Why: "no"}},
		{mailroom.Ticket{State: mailroom.TicketDecided, Decision: mailroom.VerdictDeny},
			decision{Name: "n", Tool: "Bash", Why: "a person denied it"}},
		{mailroom.Ticket{State: mailroom.TicketExpired}, decision{Name: "n", Tool: "Bash", Why: "the approval expired"}},
		{mailroom.Ticket{State: mailroom.TicketOpen, Decision: mailroom.VerdictApprove},
			decision{Name: "n", Tool: "Bash", Why: "a person denied it"}},
	}
	for _, c := range cases {
		if got := decisionOf(q, c.ticket); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.ticket, got, c.want)
		}
	}
}

func TestAQuestionIsKnownByItsToolAndArguments(t *testing.T) {
	f := &program.Fold{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter22", "[KEY]") }}
	ask := func(tool, arguments string) question {
		return questionOf("claude", program.Question{Tool: tool, Arguments: []byte(arguments)}, f)
	}
	first := ask("Bash", `{"a":"hunter22","b":1}`)
	if again := ask("Bash", `{ "b": 1, "a": "hunter22" }`); again.Name != first.Name {
		t.Error("the name depends on the order of members")
	}
	for _, other := range []question{ask("Sh", `{"a":"hunter22","b":1}`), ask("Bash", `{"a":"hunter23","b":1}`)} {
		if other.Name == first.Name {
			t.Errorf("%+v has the name of another question", other)
		}
	}
	if string(first.Arguments) != `{"a":"[KEY]","b":1}` {
		t.Errorf("shown arguments %s", first.Arguments)
	}
	for _, q := range []question{
		ask("Bash", `{"content":"`+strings.Repeat(`\u0000x`, 1<<16)+`"}`), ask(strings.Repeat("世\x00", 1000), `{}`),
		ask("", `null`),
	} {
		a := q.ticketAsk()
		if err := thread.CheckAsk(&a); err != nil {
			t.Errorf("ticket of %.100s is refused: %v", q.Tool, err)
		}
	}
}
