package mailroom

import (
	"strings"
	"unicode/utf8"
)

// Overlap reports whether two globs have a name in common: the same answer
// whichever comes first. In a glob ? is any character but a slash, * any number
// of those, and ** any number of any; "**/" at the beginning of a segment may be
// nothing at all, and so may "/**" at the end. All else is itself.
func Overlap(a, b string) bool {
	if !wild(a) && !wild(b) {
		return a == b
	}
	if !strings.HasPrefix(plainStart(a), plainStart(b)) && !strings.HasPrefix(plainStart(b), plainStart(a)) {
		return false // they part ways before either is wild
	}
	return meet(globOf(a), globOf(b))
}

func wild(glob string) bool { return strings.ContainsAny(glob, "*?") }

// plainStart is what every name of a glob begins with.
func plainStart(glob string) string {
	i := strings.IndexAny(glob, "*?")
	if i < 0 {
		return glob
	}
	return strings.TrimSuffix(glob[:i], "/") // of "/**", also the slash may be absent
}

// glyph is a part of a glob: what it takes of a name, and how often.
type glyph struct {
	char rune // 0: any
	deep bool // any takes slashes too
	many bool // any number of them, also none
	past int  // of a gate, which takes nothing: how far one may go instead of one on; 0: it is none
}

// globOf takes a glob apart.
func globOf(glob string) []glyph {
	var parts []glyph
	for i := 0; i < len(glob); {
		rest := glob[i:]
		i++
		switch {
		case strings.HasPrefix(rest, "**/") && (len(rest) == len(glob) || glob[i-2] == '/'):
			parts = append(parts, glyph{past: 3}, glyph{deep: true, many: true}, glyph{char: '/'})
			i += 2
		case rest == "/**":
			return append(parts, glyph{past: 3}, glyph{char: '/'}, glyph{deep: true, many: true})
		case strings.HasPrefix(rest, "**"):
			parts = append(parts, glyph{deep: true, many: true})
			i++
		case rest[0] == '*':
			parts = append(parts, glyph{many: true})
		case rest[0] == '?':
			parts = append(parts, glyph{})
		default:
			c, n := utf8.DecodeRuneInString(rest)
			parts = append(parts, glyph{char: c})
			i += n - 1
		}
	}
	return parts
}

// free are the numbers of parts that one may go on at this one with nothing taken.
func (g glyph) free() []int {
	switch {
	case g.past > 0:
		return []int{1, g.past}
	case g.many:
		return []int{1}
	}
	return nil
}

// meet walks over both globs at once: there[i][j] says that some text takes a to
// its i-th part and b to its j-th.
func meet(a, b []glyph) bool {
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
func (g glyph) takes(h glyph) bool {
	switch {
	case g.past > 0 || h.past > 0:
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
