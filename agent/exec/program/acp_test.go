package program

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mailroom"
)

func TestACancelledTurnOfACPIsAborted(t *testing.T) {
	for _, reason := range []string{"cancelled", "end_turn"} { // some agents report a cancelled turn as one that ended
		d := &acpDialogue{open: acpPrompt, id: 3, session: "s", working: true}
		if got, want := d.stop(), `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`+"\n"; got != want {
			t.Fatalf("stop() = %s, want %s", got, want)
		}
		if got := d.stop(); got != "" {
			t.Errorf("a second stop sends %s", got)
		}
		ask := `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":` +
			`{"toolCallId":"c"},"options":[{"optionId":"y","kind":"allow_once","name":"Y"}]}}`
		events, err := d.decode([]byte(ask))
		if i := slices.IndexFunc(events, func(e Event) bool {
			s, ok := e.(Send)
			return ok && strings.Contains(s.Text, `"outcome":{"outcome":"cancelled"}`)
		}); err != nil || i < 0 {
			t.Errorf("a question in a cancelled turn has %v, %v; want the outcome cancelled", events, err)
		}
		events, err = d.decode([]byte(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"` + reason + `"}}`))
		if end, ok := events[len(events)-1].(End); err != nil || !ok || end.OK || !end.Aborted {
			t.Errorf("%s: %v, %v; want an aborted turn", reason, events, err)
		}
	}
}

func TestAReplayOfACPIsJudged(t *testing.T) {
	const ours, before = "[Mailroom r.2.1]\n\ngo", "[Mailroom r.1.1]\n\ngo"
	for _, c := range []struct {
		what   string
		replay []string // kind, id and text of each update
		want   acpFate
	}{
		{"nothing", nil, acpAbsent},
		{"another run", []string{"user 1 [Mailroom x.1.1]", "agent 2 done"}, acpAbsent},
		{"a message of a person that looks alike", []string{"user 1 see [Mailroom r.2.1]"}, acpAbsent},
		{"only the prompt", []string{"user 1 " + ours}, acpInterrupted},
		{"the prompt in two pieces", []string{"user 1 [Mail", "user 1 room r.2.1] go", "agent 2 done"}, acpAnswered},
		{"a warning of the agent", []string{"user 1 " + ours, "agent  Config warning"}, acpInterrupted},
		{"a message", []string{"user 1 " + ours, "agent 2 done"}, acpAnswered},
		{"a message of an agent without ids", []string{"user  " + ours, "agent  done"}, acpAnswered},
		{"a context of an agent without ids", []string{"user  <context>", "user  " + ours}, acpInterrupted},
		{"prompts of an agent without ids", []string{"user  [Mailroom x.1.1] a", "user  " + ours}, acpInterrupted},
		{"a message before a call", []string{"user 1 " + ours, "agent 2 I look", "call 3 completed"}, acpInterrupted},
		{"a message after a call", []string{"user 1 " + ours, "call 3 completed", "agent 2 done"}, acpAnswered},
		{"a message beside an open call", []string{"user 1 " + ours, "call 3 pending", "agent 2 hm"}, acpInterrupted},
		{"the answer to an earlier prompt", []string{"user 1 " + before, "agent 2 done"}, acpInterrupted},
		{"a later message of the user", []string{"user 1 " + ours, "agent 2 half", "user 3 [Interrupted]"}, acpInterrupted},
	} {
		r := acpReplay{run: acpMark("r."), last: acpMark("r.2.1") + "]"}
		for _, step := range c.replay {
			part := strings.SplitN(step, " ", 3)
			u := acpChange{MessageID: part[1], Content: acpJSON(acpContent{Type: "text", Text: part[2]})}
			switch part[0] {
			case "user":
				u.Kind = "user_message_chunk"
			case "agent":
				u.Kind = "agent_message_chunk"
			case "call":
				u = acpChange{Kind: "tool_call", acpToolCall: acpToolCall{CallID: part[1], Status: part[2]}}
			}
			r.add(u)
		}
		if got := r.judge(); got != c.want {
			t.Errorf("%s: judged %d, want %d", c.what, got, c.want)
		}
	}
}

func TestErrorsOfACPAgents(t *testing.T) {
	for _, c := range []struct {
		open, err string
		want      Verdict
	}{
		{acpPrompt, `{"code":-32603,"message":"Internal error","data":{"message":"exceeded your current quota"}}`,
			Verdict{Class: mailroom.ClassPermanent, Fault: FaultQuota}},
		{acpNew, `{"code":-32000,"message":"Authentication required"}`,
			Verdict{Class: mailroom.ClassPermanent, Fault: FaultLogin}},
		{acpLoad, `{"code":-32002,"message":"Resource not found"}`, Verdict{Gone: true}},
		{acpResume, `{"code":-32603,"message":"Internal error","data":{"details":"no rollout found for thread"}}`,
			Verdict{Gone: true}},
		{acpLoad, `{"code":-32603,"message":"Internal error","data":{"details":"Invalid session identifier \"x\"."}}`,
			Verdict{Gone: true}},
		{acpLoad, `{"code":-32603,"message":"Internal error"}`, Verdict{Class: mailroom.ClassTransient, Doubtful: true}},
		{acpSetMode, `{"code":-32602,"message":"Invalid params"}`, Verdict{Class: mailroom.ClassPermanent}},
		{acpPrompt, `{"code":-32603,"message":"Overloaded"}`, Verdict{Class: mailroom.ClassUnavailable}},
	} {
		d := &acpDialogue{open: c.open, id: 2, session: "s"}
		events, err := d.decode([]byte(`{"jsonrpc":"2.0","id":2,"error":` + c.err + `}`))
		if err != nil {
			t.Fatal(err)
		}
		end, ok := events[len(events)-1].(End)
		if !ok {
			t.Fatalf("%s: events %v", c.err, events)
		}
		got := NewACP([]string{"stub"}, "").Judge(Ending{End: &end, Resumed: c.open == acpLoad || c.open == acpResume})
		got.Message = ""
		if got != c.want {
			t.Errorf("%s after %s: %+v, want %+v", c.err, c.open, got, c.want)
		}
	}
}

func TestACallOfACPIsReportedWithItsInput(t *testing.T) {
	var calls acpCalls
	first := acpToolCall{CallID: "1", Title: "Terminal", ToolKind: "execute", RawInput: json.RawMessage(`{}`)}
	if got := calls.update(first, nil); got != nil {
		t.Errorf("a call without its input is reported: %v", got)
	}
	got := calls.update(acpToolCall{CallID: "1", RawInput: json.RawMessage(`{"command":"ls"}`)}, nil)
	if s, ok := got[0].(ToolStarted); !ok || s.Name != "execute" || string(s.Arguments) != `{"command":"ls"}` {
		t.Errorf("the call is reported as %+v", got)
	}
	got = calls.update(acpToolCall{CallID: "1", Status: "completed"},
		json.RawMessage(`[{"type":"content","content":{"type":"text","text":"a.go"}},`+
			`{"type":"diff","path":"p","newText":"n"}]`))
	if f, ok := got[0].(ToolFinished); !ok || !f.OK || f.Summary != "a.go\np\nn" {
		t.Errorf("the end of the call is %+v", got)
	}
}
