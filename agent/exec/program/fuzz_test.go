package program

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom"
	"mailroom/thread"
)

// FuzzDecode checks that the result of any output can be stored: text without NUL, entries that are
// objects within their limit, and no secrets.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"type":"thread.started","thread_id":"x"}`,
		`{"item":{"id":"item_1","type":"command_execution","command":"a","aggregated_output":"o","exit_code":1,"status":"failed"},"type":"item.completed"}`,
		`{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests, try again in 3 m 5s"}}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\u0000"}},"parent_tool_use_id":null}`,
		`{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"c","name":"Bash","input":{"k":["hunter22"]}}]}}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image"}],"is_error":true}]}}`,
		`{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":null}}`,
		`{"subtype":"success","is_error":true,"api_error_status":529,"result":"r","usage":{"input_tokens":1e3},"type":"result"}`,
		`{"type":"system","subtype":"init","session_id":7,"usage":"none"}`,
		`[]`, `{"type":`, "\xff\x00",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const key = "hunter22"
		for _, p := range All() {
			fold := Fold{Redact: func(s string) string { return strings.ReplaceAll(s, key, "[KEY]") }}
			events, err := p.Decode([]byte(text))
			if err != nil && events != nil {
				t.Errorf("%s: Decode(%q) returned events and an error", p.Name, text)
			}
			for _, event := range events {
				for _, w := range fold.Apply(event) {
					checkWrite(t, w, key)
				}
				if q, ok := event.(Question); ok && !json.Valid([]byte(strings.TrimSpace(p.Stdin.Allow(q)))) {
					t.Errorf("the response to %q is not JSON: %s", text, p.Stdin.Allow(q))
				}
			}
			for _, n := range fold.Close("over") {
				checkWrite(t, Write{Step: &mailroom.Step{Entries: []mailroom.AgentEntry{n}}}, key)
			}
		}
	})
}

func checkWrite(t *testing.T, w Write, key string) {
	t.Helper()
	if !utf8.ValidString(w.Text) || strings.ContainsRune(w.Text, 0) {
		t.Errorf("streamed text %q is not valid in a message", w.Text)
	}
	if w.Step == nil {
		return
	}
	in := thread.StepCommit{Claim: mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}, Step: *w.Step}
	if err := in.Check(); err != nil {
		t.Errorf("step %+v is refused: %v", w.Step, err)
	}
	for _, n := range w.Step.Entries {
		if strings.Contains(string(n.Body), key) {
			t.Errorf("the entry contains a secret: %s", n.Body)
		}
	}
}
