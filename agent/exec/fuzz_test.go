package exec

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRedact checks that no secret is shown and that the result is valid text, wherever the secret
// is and wherever the limit cuts.
func FuzzRedact(f *testing.F) {
	f.Add("say ", "a-long-secret", " end", uint8(9))
	f.Add("", "hunter22", "hunter22", uint8(3))
	f.Add("h\x00u\x00n\x00t\x00e\x00r\x002\x002", "hunter22", "", uint8(200)) // as in UTF-16
	f.Add("\xff\xe4\xb8", "\x96\xff\xff\xff\xff\xff", "\x80", uint8(4))
	f.Fuzz(func(t *testing.T, before, value, after string, limit uint8) {
		if len(value) < minSecret || strings.ContainsAny(value, "\x00[]KEY") {
			return // no variable can hold it, or the mark contains it
		}
		secrets := []secret{{"KEY", value}}
		raw := before + value + "x" + after
		raw = raw[max(0, len(raw)-int(limit)-len(value)):] // the tail that is kept
		got := redact([]byte(raw), secrets, int(limit))
		if strings.Contains(got, value) {
			t.Errorf("%q limited to %d is redacted as %q", raw, limit, got)
		}
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("%q limited to %d is redacted as invalid text %q", raw, limit, got)
		}
		rest := "x" + after
		if at := strings.Index(raw, value); at < 0 || at != len(raw)-len(rest)-len(value) ||
			strings.Contains(raw[at+1:], value) ||
			int(limit) <= len(rest) || int(limit) >= len(rest)+len(value) {
			return
		}
		if want := redact([]byte(rest), secrets, len(rest)); got != want {
			t.Errorf("%q cut within its secret is shown as %q, want %q", raw, got, want)
		}
	})
}
