package request

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom"
)

func TestBodiesThatAreAccepted(t *testing.T) {
	for _, body := range []string{
		`{"text":"a","metadata":{"Team A":"x"},"options":{"Deep":{"a":1,"A":2}},"parts":[{"type":"data","data":{"X y":null}}]}`,
		`{"text":"\ud83d\ude00 \\ud800 \\\ud83d\ude00"}`,
		`{"text":"\u0041"}`,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		`{"options":1e999}`,
		`null`, `1`, `"\""`,
	} {
		if err := CheckJSON([]byte(body), false); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"options":{"a":1,"a":2}}`, `{"options":[{"a":1,"b":2,"a":3}]}`, `{"a":1,"a":1}`,
		`{"text":"\ud83d"}`, `{"text":"\ud83d\u0041"}`, `{"text":"\ude00\ud83d"}`, `{"text":"\ud83dx"}`, `"\ud83d\\ude00"`,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		`{"Text":1}`, `{"tEXt":1}`, `{"teſt":1}`, `{"":1, "":2}`,
		`{`, `[1,]`, `{"a":}`, `{"a" 1}`, `{1:2}`, `]`, ``, `nul`, `1 2`, "\x00",
	} {
		err := CheckJSON([]byte(body), false)
		if got := mailroom.CodeOf(err); got != mailroom.CodeInvalid {
			t.Errorf("%s: %v, want invalid", body, err)
		}
	}
}

// FuzzBody checks that an accepted body is JSON that the decoder reads unchanged.
func FuzzBody(f *testing.F) {
	for _, body := range []string{`{"text":"a"}`, `{"a":[1,{"b":null}]}`, `"\ud83d\ude00"`, `[[[]]]`, `{"a":1,"a":2}`,
		"{\"\xff\":1}"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := CheckJSON(body, false)
		if err != nil && mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%q: %v, want code invalid", body, err)
		}
		if err == nil && !json.Valid(body) {
			t.Errorf("%q was accepted but is not JSON", body)
		}
		var v any
		if err == nil && json.Unmarshal(body, &v) == nil && !strings.ContainsRune(string(body), '\uFFFD') &&
			!strings.Contains(strings.ToLower(string(body)), `\ufffd`) {
			if raw, err := json.Marshal(v); err != nil || strings.ContainsRune(string(raw), '\uFFFD') {
				t.Errorf("%q was decoded as %q", body, raw)
			}
		}
	})
}
