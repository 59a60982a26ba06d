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

// A table of all pairs of parts is the definition of Overlap, in plain words.

// free are the numbers of parts that one may go on at this one with nothing taken.
func (g globPart) free() []int {
	switch {
	case g.optional:
		return []int{1, optionalWidth}
	case g.many:
		return []int{1}
	}
	return nil
}

// meet walks over both globs at once: there[i][j] says that some text takes a to
// its i-th part and b to its j-th.
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
			case a[i].many && b[j].many: // one goes on for free
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

// takes reports whether there is a character that both take.
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

// Random globs of one to five words of states each, of few letters so that they meet often.
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
	met := map[bool]int{}
	for i := range 20_000 {
		longest := 10
		if i%20 == 0 {
			longest = 300
		}
		a, b := draw(r.IntN(longest)), draw(r.IntN(longest))
		if r.IntN(2) == 0 { // a name that fits, more or less
			b = strings.NewReplacer("**/", "a/b/", "**", "b/a", "*", "ab", "?", "a").Replace(a)
		}
		got, want := Overlap(a, b), naiveOverlap(a, b)
		if got != want {
			t.Fatalf("%q and %q: got %v, want %v", a, b, got, want)
		}
		met[got]++
	}
	if met[true] < 1000 || met[false] < 1000 {
		t.Errorf("the globs are not of both kinds: %v", met)
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
			t.Fatalf("%q and %q: got %v, which is not what the table says", a, b, got)
		}
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
			if !hasWildcard(b) && s == b && Overlap(a, s) != one.MatchString(s) {
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
