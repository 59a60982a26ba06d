package tracker

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzFields checks that fields accepts the same objects as encoding/json, with the same members.
func FuzzFields(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"a":1}`, ` { "a" : [1, 2.5e-3, {"b": null}] , "é\n": "\ud83d\ude00" } `, `{"a":1,"a":2}`,
		`{"a":01}`, `{"a":-}`,
		`{"a":1,}`, `{,}`, `{"a"}`, `[1]`, `1`, `"x"`, `{"a":"\x"}`, "{\"a\":\"\x01\"}", `{"a":tru}`, `{"a":1e}`, `{"a":.5}`,
		`{}{}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]json.RawMessage
		object := json.Unmarshal(text, &want) == nil && want != nil
		got, err := fields(string(text))
		if (err == nil) != object {
			t.Fatalf("%q: %v, and an object: %v", text, err, object)
		}
		if valid := json.Valid(text); err != nil && valid != (err == errObject) {
			t.Fatalf("%q: %v, and valid: %v", text, err, valid)
		}
		last := map[string]string{}
		for _, f := range got {
			last[f.name] = f.raw
		}
		if len(last) != len(want) {
			t.Fatalf("%q has %d members, want %d", text, len(last), len(want))
		}
		for name, raw := range want {
			if last[name] != string(raw) {
				t.Errorf("%q: member %q is %q, want %q", text, name, last[name], raw)
			}
		}
	})
}

func TestListsAreParsed(t *testing.T) {
	take := func(text string) (found []string, ok bool) {
		s := newScanner(text)
		found, err := readList(s, func(into *string, s *scanner) error { *into = s.value(); return nil })
		return found, err == nil && s.json.AtEnd()
	}
	got, ok := take(` [ 1 , {"a": [2]} , "x" ] `)
	if diff := cmp.Diff([]string{"1", `{"a": [2]}`, `"x"`}, got); diff != "" || !ok {
		t.Errorf("ok %v, elements (-want +got):\n%s", ok, diff)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1,]`, `[1]x`, `[,]`} {
		if got, ok := take(bad); ok {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}
