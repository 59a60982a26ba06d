package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/app/command"
	"mailroom/channel"
	"mailroom/client"
	"mailroom/entry"
)

func TestEachActionOfARunIsPrintedOnALine(t *testing.T) {
	until := time.Unix(2000, 0).UTC()
	ticket := func(id string, kind mailroom.TicketKind) mailroom.Ticket {
		return mailroom.Ticket{ID: id, Name: "name-" + id, Kind: kind, Prompt: "may\nI?", ExpiresAt: &until}
	}
	decided := func(id string, v mailroom.Verdict, answer, reason, by string) entry.TicketDecision {
		return entry.TicketDecision{Ticket: id, Decision: v, Answer: json.RawMessage(answer), Reason: reason, DecidedBy: by}
	}
	var talked bytes.Buffer
	p := newReplyPrinter(&command.Console{Stdout: io.Discard, Stderr: &talked}, command.FormatText)
	// The order matters: later entries refer to the calls of earlier ones.
	for _, test := range []struct {
		kind string
		body any
		want string
	}{
		{entry.KindStep, entry.StepNamed{Name: "think"}, "step think\n"},
		{entry.KindToolStarted, json.RawMessage(`{"call":"c1","name":"pay","arguments":{"eur":5}}`), "tool pay {\"eur\":5}\n"},
		{entry.KindToolDone, json.RawMessage(`{"call":"c1","ok":true,"summary":"paid"}`), "tool pay: paid\n"},
		{entry.KindToolDone, json.RawMessage(`{"call":"c2","ok":false,"summary":"no luck"}`), "tool c2 failed: no luck\n"},
		{entry.KindSend, entry.Sent{Thread: "u", Run: "s", Answer: true}, "child run s in thread u\n"},
		{entry.KindSend, entry.Sent{Thread: "u", Run: "s"}, "message to thread u, for run s\n"},
		{entry.KindEffectIntended, entry.EffectEntry{Name: "e"}, ""},
		{entry.KindEffectSettled, entry.EffectEntry{Name: "e"}, "effect e completed\n"},
		{entry.KindEffectSettled, entry.EffectEntry{Name: "e", Error: "no luck"}, "effect e failed: no luck\n"},
		{entry.KindEffectUnknown, entry.EffectEntry{Name: "e"}, "effect e: outcome unknown\n"},
		{entry.KindTicketOpened, ticket("1", mailroom.TicketApproval), "approval name-1: may I?\n"},
		{entry.KindTicketOpened, ticket("2", mailroom.TicketChildren), ""},
		{entry.KindTicketOpened, ticket("3", mailroom.TicketTimer), "timer until 1970-01-01T00:33:20Z\n"},
		{entry.KindWaiting, entry.RunWaiting{}, "waiting\n"},
		{entry.KindWaiting, entry.RunWaiting{Until: &until}, "waiting until 1970-01-01T00:33:20Z at the latest\n"},
		{entry.KindTicketDecided, decided("1", mailroom.VerdictApprove, `null`, "", "anna"), "name-1: approved by anna\n"},
		{entry.KindTicketDecided, decided("1", mailroom.VerdictDeny, `null`, "too wet", "anna"), "name-1: denied by anna (too wet)\n"},
		{entry.KindTicketDecided, decided("9", mailroom.VerdictAnswer, `"yes"`, "", "anna"), "9: answered by anna: \"yes\"\n"},
		{entry.KindTicketDecided, decided("2", mailroom.VerdictAnswer, `{"run":"s","status":"completed","reply":"done"}`, "",
			"run:s"), "child run s completed: done\n"},
		{entry.KindTicketDecided, decided("2", mailroom.VerdictAnswer, `{"run":"s","status":"failed","reply":null}`, "",
			"run:s"), "child run s failed: \n"},
		{entry.KindTicketExpired, entry.TicketRef{Ticket: "3"}, "name-3 expired\n"},
		{entry.KindResumed, entry.RunStarted{}, "resumed, attempt 2\n"},
		{entry.KindToolStarted,
			json.RawMessage(`{"call":"c3","name":"sh","arguments":{"run":"a \u0026\u0026 b","n":10000000000000000000001}}`),
			"tool sh {\"n\":10000000000000000000001,\"run\":\"a && b\"}\n"},
		{program.KindWarning, json.RawMessage(`{"text":"waiting for the network"}`), "warning: waiting for the network\n"},
		{program.KindWarning, json.RawMessage(`{}`), ""},
		{exec.KindSession, exec.Session{Program: "codex", Session: "b"}, ""},
		{exec.KindSession, exec.Session{Program: "codex", Session: "b", Lost: "a", Why: "it is gone", Messages: 2},
			"codex started a new session with 2 messages of this thread: it is gone\n"},
		{entry.KindChannel, json.RawMessage(`{"channel":"mol","state":"connected","at":"2026-11-22T01:02:03Z"}`), "channel mol: connected\n"},
		{entry.KindChannel, channel.Change{Channel: "mol", State: channel.ConditionGaveUp, Reason: "it is down", Attempts: 3},
			"channel mol: gave_up after 3 failed attempts: it is down\n"},
		{"x.note", json.RawMessage(`{}`), ""},
	} {
		talked.Reset()
		if err := p.printEvent(event(t, 1, test.kind, 2, test.body)); err != nil {
			t.Fatal(err)
		}
		if got := talked.String(); got != test.want {
			t.Errorf("%s %v: printed %q, want %q", test.kind, test.body, got, test.want)
		}
	}
}

func TestAStepIsPrintedAfterItsMessage(t *testing.T) {
	var screen bytes.Buffer // stdout and stderr of a terminal
	p := newReplyPrinter(&command.Console{Stdout: &screen, Stderr: &screen}, command.FormatText)
	for _, ev := range []client.Event{
		delta(1, "m", 0, "hel"),
		event(t, 1, entry.KindStep, 1, entry.StepNamed{Name: "greet"}),
		reply(t, 2, 1, "m", "hello", false),
		event(t, 3, entry.KindStep, 1, entry.StepNamed{Name: "look"}),
		delta(1, "n", 0, "by"),
		event(t, 4, entry.KindStep, 1, entry.StepNamed{Name: "leave"}),
	} {
		if err := p.printEvent(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello\nstep greet\nstep look\nby\nstep leave\n", screen.String()); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}
