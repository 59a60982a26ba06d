package program

import (
	"encoding/json"
	"strings"
	"testing"
)

// acpTalk begins a dialogue, plays the lines of an agent, and returns its events and the lines that it was sent.
func acpTalk(t *testing.T, turn Turn, prompt Prompt, lines ...string) (events []Event, sent []acpMessage) {
	t.Helper()
	d := NewACP([]string{"stub"}, "").Dialogue(turn, prompt)
	send := func(text string) {
		for line := range strings.Lines(text) {
			var m acpMessage
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
				t.Fatalf("sent %q, want a message of JSON-RPC: %v", line, err)
			}
			sent = append(sent, m)
		}
	}
	send(d.Begin)
	for _, line := range lines {
		got, err := d.Decode([]byte(line))
		if err != nil {
			continue
		}
		events = append(events, got...)
		for _, e := range got {
			switch e := e.(type) {
			case Send:
				send(e.Text)
			case Question:
				send(d.Stdin.Deny(e, ""))
			}
		}
	}
	return events, sent
}

// acpStart are the lines of an agent up to the prompt.
func acpStart() []string {
	return []string{
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}`,
	}
}

// FuzzACP plays any line of an agent during a turn. Each request of the agent gets one answer, whatever it is.
func FuzzACP(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{}}`,
		`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s",` +
			`"toolCall":{"toolCallId":"c"},"options":[{"optionId":"o","kind":"allow_once","name":"O"}]}}`,
		`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"options":3}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",` +
			`"toolCallId":"c","status":"completed","content":[{"type":"diff","path":"p"}]}}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"m","data":{"a":1}}}`,
		`{"id":null}`, `[]`, `{`, ``,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return
		}
		before, _ := acpTalk(t, Turn{Mode: ModeAsk, Dir: "/"}, Prompt{Text: "go", Mark: "r.1.1", Run: "r."}, acpStart()...)
		events, sent := acpTalk(t, Turn{Mode: ModeAsk, Dir: "/"}, Prompt{Text: "go", Mark: "r.1.1", Run: "r."},
			append(acpStart(), line)...)
		var m acpMessage
		if decodeLine([]byte(line), &m) != nil {
			if len(events) != len(before) {
				t.Errorf("a line that is no message has events %v", events[len(before):])
			}
			return
		}
		answers := 0
		for _, s := range sent[3:] {
			if s.Method == "" && string(s.ID) == string(m.ID) {
				answers++
			}
		}
		if want := m.Method != "" && !null(m.ID); want != (answers == 1) {
			t.Errorf("%d answers to %s, want one for each request: %v", answers, line, sent)
		}
		ends := 0
		for _, e := range events {
			if _, ok := e.(End); ok {
				ends++
			}
		}
		if ends > 1 {
			t.Errorf("%d ends of one turn", ends)
		}
	})
}

// FuzzLines cuts output at any place: the lines are the same, and none is longer than the limit.
func FuzzLines(f *testing.F) {
	f.Add("a\n\nbc", 1, 4)
	f.Add("a long line\nb\n", 3, 2)
	f.Fuzz(func(t *testing.T, text string, cut, most int) {
		if cut < 0 || cut > len(text) || most < 1 || most > 1<<10 {
			return
		}
		all := func(pieces ...string) (lines []string, skipped int) {
			l := Lines{Max: most}
			for _, p := range pieces {
				for _, line := range l.Add([]byte(p)) {
					if len(line) > most {
						t.Errorf("a line has %d bytes, the limit is %d", len(line), most)
					}
					lines = append(lines, string(line))
				}
			}
			return append(lines, string(l.Rest())), l.Skipped
		}
		whole, skipped := all(text)
		parts, skippedInParts := all(text[:cut], text[cut:])
		if strings.Join(whole, "\n") != strings.Join(parts, "\n") || skipped != skippedInParts {
			t.Errorf("lines %q and %d skipped, cut at %d %q and %d", whole, skipped, cut, parts, skippedInParts)
		}
	})
}
