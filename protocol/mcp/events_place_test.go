package mcp

import "testing"

// FuzzPlace checks that a cursor is refused, or is the text of the place that was read from it.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{
		place{made: 1, seq: 2}.String(), place{made: 1 << 60, seq: 1 << 60, run: "a.b"}.String(),
		"", "12", "1...", "1.z.-1.", "2.z.1.",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text)
		if err != nil {
			return
		}
		if again, err := parsePlace(p.String()); err != nil || again != p || p.isNow() || p.seq < 0 {
			t.Errorf("%q is %+v, and %+v again: %v", text, p, again, err)
		}
	})
}
