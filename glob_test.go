package mailroom

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlobsOverlapWhenTheyHaveANameInCommon(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"src/*.go", "src/main.go", true},
		{"src/*.go", "src/cmd/main.go", false},
		{"src/**", "src/cmd/main.go", true},
		{"src/**", "src", true},
		{"src/**", "srcs", false},
		{"**/main.go", "main.go", true},
		{"**/main.go", "a/b/main.go", true},
		{"**/main.go", "xmain.go", false},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**/z", "a/b/c/y", false},
		{"*.go", "main.*", true},
		{"*.go", "*.md", false},
		{"a*b", "b*a", false},
		{"a*", "*a", true},
		{"?", "/", false},
		{"**", "/", true},
		{"**", "anything/at/all", true},
		{"src/*/x", "src/**", true},
		{"src/?.go", "src/*.g?", true},
		{"", "*", true},
		{"", "?", false},
		{".beads/issues/p-1", ".beads/issues/p-1", true},
		{".beads/issues/*", ".beads/issues/p-1", true},
		{"é*", "?x", true},
	} {
		if got := Overlap(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %v, want %v", c.a, c.b, got, c.want)
		}
		if got := Overlap(c.b, c.a); got != c.want {
			t.Errorf("%q and %q: got %v, want %v", c.b, c.a, got, c.want)
		}
	}
}

// pattern is a glob in the words of another matcher.
func pattern(glob string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i, start := 0, true; i < len(glob); {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && start:
			b.WriteString(`(?:.*/)?`)
			i += 3
			continue
		case rest == "/**":
			b.WriteString(`(?:/.*)?`)
			i = len(glob)
			continue
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			i += 2
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
			i++
		case rest[0] == '?':
			b.WriteString(`[^/]`)
			i++
		default:
			c, n := utf8.DecodeRuneInString(rest)
			b.WriteString(regexp.QuoteMeta(string(c)))
			i += n
		}
		start = rest[0] == '/'
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

// names are all texts of few characters.
func names(chars string, longest int) []string {
	all, last := []string{""}, []string{""}
	for range longest {
		var longer []string
		for _, s := range last {
			for _, c := range chars {
				longer = append(longer, s+string(c))
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

func FuzzOverlap(f *testing.F) {
	f.Add("a/**/b", "*/b")
	f.Add("**/a", "a/**")
	f.Add("/**", "**/")
	f.Add("*?*", "?")
	all := names("ab/", 6)
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Overlap(a, b)
		if Overlap(b, a) != got {
			t.Fatalf("%q and %q overlap one way only", a, b)
		}
		for _, s := range []string{a, b} {
			if len(s) > 6 || strings.Trim(s, "ab/*?") != "" {
				return
			}
			if !Overlap(s, s) {
				t.Fatalf("%q does not overlap itself", s)
			}
		}
		one, other, want := pattern(a), pattern(b), false
		for _, s := range all {
			if one.MatchString(s) && other.MatchString(s) {
				want = true
			}
			if !wild(b) && s == b && Overlap(a, s) != one.MatchString(s) {
				t.Fatalf("%q and the name %q: got %v", a, s, !one.MatchString(s))
			}
		}
		if want && !got {
			t.Fatalf("%q and %q have a name in common, and do not overlap", a, b)
		}
		if got && !want && len(a)+len(b) <= 6 { // a name in common is no longer than both
			t.Fatalf("%q and %q overlap, and have no name in common", a, b)
		}
	})
}
