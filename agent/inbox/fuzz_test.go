package inbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzCommand checks that accepted input is exactly one command that survives a round trip, and
// that rejected input has an error for the reader.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{
		`{"say":"hello"}`, `{"call":"c","pop":true}`, `{"open":true}`, `{"delegate":{"thread":"t","task":"x"}}`,
		`{"delegate":{"agent":"echo","task":"x"}}`, `{"say":"a","pop":true}`, `{"say":" "}`, `{"delegate":{"task":"x"}}`,
		`null`, `[]`, `{`, `""`, `"hello"`, `"{\"pop\":true}"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parse(raw)
		if err != nil {
			if err.Error() == "" {
				t.Error("the error has no text")
			}
			return
		}
		given := 0
		for _, is := range []bool{strings.TrimSpace(c.Say) != "", c.Delegate != nil, c.Pop, c.Open} {
			if is {
				given++
			}
		}
		if given != 1 {
			t.Errorf("%s has %d commands", raw, given)
		}
		if d := c.Delegate; d != nil && (d.Thread == "") == (d.Agent == "") {
			t.Errorf("%s has no target or two", raw)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := parse(again); err != nil || string(mustJSON(t, other)) != string(again) {
			t.Errorf("%s is read back as %+v, %v", again, other, err)
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
