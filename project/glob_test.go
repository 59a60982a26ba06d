package project

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom/internal/check"
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

// pattern translates a glob to a regular expression.
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

// names returns all texts of up to longest of the characters.
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

// The naive table of all pairs of parts is the specification of Overlap.

// free returns how many parts can be skipped at this one without a character.
func (g globPart) free() []int {
	switch {
	case g.optional:
		return []int{1, optionalWidth}
	case g.many:
		return []int{1}
	}
	return nil
}

// naive walks over both globs: there[i][j] is true if some text leads a to its i-th part and b to its
// j-th one.
func naive(a, b []globPart) bool {
	there := make([][]bool, len(a)+1)
	for i := range there {
		there[i] = make([]bool, len(b)+1)
	}
	there[0][0] = true
	for i := range there {
		for j, here := range there[i] {
			if !here {
				continue
			}
			if i < len(a) {
				for _, n := range a[i].free() {
					there[i+n][j] = true
				}
			}
			if j < len(b) {
				for _, n := range b[j].free() {
					there[i][j+n] = true
				}
			}
			if i == len(a) || j == len(b) || !a[i].takes(b[j]) {
				continue
			}
			switch {
			case a[i].many && b[j].many: // free covers this case
			case a[i].many:
				there[i][j+1] = true
			case b[j].many:
				there[i+1][j] = true
			default:
				there[i+1][j+1] = true
			}
		}
	}
	return there[len(a)][len(b)]
}

// takes reports whether some character matches both parts.
func (g globPart) takes(h globPart) bool {
	switch {
	case g.optional || h.optional:
		return false
	case g.char != 0 && h.char != 0:
		return g.char == h.char
	case g.char == 0 && h.char == 0:
		return true
	case g.char == 0:
		return g.deep || h.char != '/'
	}
	return h.deep || g.char != '/'
}

func naiveOverlap(a, b string) bool { return naive(parseGlob(a), parseGlob(b)) }

// TestOverlapAgreesWithATableOfAllPairs draws globs of one to five words of states, of few letters, so
// that many overlap.
func TestOverlapAgreesWithATableOfAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "/", "?", "*", "**", "**/", "/**/", "/**", "aab", "a/"}
	draw := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	count := map[bool]int{}
	for i := range 20_000 {
		longest := 10
		if i%20 == 0 {
			longest = 300
		}
		a, b := draw(r.IntN(longest)), draw(r.IntN(longest))
		if r.IntN(2) == 0 { // often a name that matches a
			b = strings.NewReplacer("**/", "a/b/", "**", "b/a", "*", "ab", "?", "a").Replace(a)
		}
		got, want := Overlap(a, b), naiveOverlap(a, b)
		if got != want {
			t.Fatalf("%q and %q: got %v, want %v", a, b, got, want)
		}
		count[got]++
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("results %v, want at least 1000 of each", count)
	}
}

func FuzzOverlap(f *testing.F) {
	f.Add("a/**/b", "*/b")
	f.Add("**/a", "a/**")
	f.Add("/**", "**/")
	f.Add("*?*", "?")
	all := names("ab/", 6)
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Overlap(a, b)
		if check.IsClean(a) && check.IsClean(b) && len(a)+len(b) < 1000 && got != naiveOverlap(a, b) {
			t.Fatalf("Overlap(%q, %q) = %v, want %v", a, b, got, !got)
		}
		if Overlap(b, a) != got {
			t.Fatalf("Overlap(%q, %q) = %v, but %v with swapped arguments", a, b, got, !got)
		}
		for _, s := range []string{a, b} {
			if len(s) > 6 || strings.Trim(s, "ab/*?") != "" {
				return
			}
			if !Overlap(s, s) {
				t.Fatalf("Overlap(%q, %[1]q) = false", s)
			}
		}
		one, other, want := pattern(a), pattern(b), false
		for _, s := range all {
			if one.MatchString(s) && other.MatchString(s) {
				want = true
			}
			if !hasWildcard(b) && s == b && Overlap(a, s) != one.MatchString(s) {
				t.Fatalf("Overlap(%q, %q) = %v, want %v", a, s, !one.MatchString(s), one.MatchString(s))
			}
		}
		if want && !got {
			t.Fatalf("Overlap(%q, %q) = false, but a name matches both", a, b)
		}
		if got && !want && len(a)+len(b) <= 6 { // a common name is at most as long as both globs
			t.Fatalf("Overlap(%q, %q) = true, but no name matches both", a, b)
		}
	})
}
