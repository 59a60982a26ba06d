package client

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
)

func TestTextThatIsNotUTF8IsRefusedAndNotReplaced(t *testing.T) {
	c, asked := script(t) // the client must make no request
	_, err := c.Submit(t.Context(), api.Submit{Text: "caf\xe9"})
	const want = "body.text: is not valid UTF-8 at byte 3 (0xe9)"
	if mailroom.CodeOf(err) != mailroom.CodeInvalid || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for where, in := range map[string]any{
		"body.parts[1].text":       api.Edit{Parts: []mailroom.Part{{Text: "good"}, {Text: "\xff"}}},
		"body.messages[0].text":    api.Submit{Messages: []api.NewMessage{{Text: "\xc3"}}},
		"body.metadata.color":      api.Submit{Metadata: map[string]string{"color": "\xed\xa0\x80"}},
		"body.metadata":            &api.Submit{Metadata: map[string]string{"\x80": "red"}},
		"body.options":             api.Submit{Options: json.RawMessage("\"\xff\"")},
		"body.decisions[0].answer": api.Submit{Decisions: []api.SubmitDecision{{Answer: json.RawMessage("\"\xff\"")}}},
		"body.agent":               api.ThreadPatch{Agent: new("\xff")},
	} {
		e, ok := errors.AsType[*mailroom.Error](checkText(in))
		if !ok || e.Code != mailroom.CodeInvalid || len(e.Fields) != 1 || e.Fields[0].Location != where {
			t.Errorf("%+v: got %+v, want invalid at %s", in, e, where)
		}
	}
	for _, in := range []any{
		nil, api.Cancel{}, api.Submit{Text: "a\uFFFDb", NotBefore: new(time.Now())},
		api.Decision{Answer: json.RawMessage(`"\ufffd"`)}, api.ThreadPatch{},
	} {
		if err := checkText(in); err != nil {
			t.Errorf("%+v: %v", in, err)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d requests, want none", asked.Load())
	}
}
