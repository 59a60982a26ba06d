package jsontext

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzAppend checks that strings are written as encoding/json writes them, with and without
// escaped HTML.
func FuzzAppend(f *testing.F) {
	for _, s := range []string{
		"", "plain", "<a href=\"x\">&\\", "\x00\x1f\b\f\n\r\t\x7f", "é€😀", "\u2027\u2028\u2029\u202a", "\xff", "a\xc3",
		"\xed\xa0\x80", "\ufffd", "\ufffd\xfd",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString([]byte("x"), s); string(got[1:]) != string(want) {
			t.Errorf("%q is written as %s, want %s", s, got[1:], want)
		}
		var plain bytes.Buffer
		e := json.NewEncoder(&plain)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got := AppendText(nil, s); string(got)+"\n" != plain.String() {
			t.Errorf("%q is written without escaped HTML as %s, want %s", s, got, plain.String())
		}
	})
}
