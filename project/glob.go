package project

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Overlap reports whether two globs match a common name; it is symmetric. In a glob, ? matches any
// character but a slash, * any number of such characters, and ** any number of any characters. A
// "**/" at the start of a segment and a "/**" at the end also match nothing. Other characters match
// themselves.
func Overlap(a, b string) bool {
	switch {
	case !hasWildcard(a) && !hasWildcard(b):
		return a == b
	case !strings.HasPrefix(literalPrefix(a), literalPrefix(b)) && !strings.HasPrefix(literalPrefix(b), literalPrefix(a)):
		return false // the literal prefixes differ
	}
	return newGlobs(b).overlap(a)
}

func hasWildcard(glob string) bool { return strings.ContainsAny(glob, "*?") }

// literalPrefix returns the prefix that every name matching the glob has.
func literalPrefix(glob string) string {
	i := strings.IndexAny(glob, "*?")
	if i < 0 {
		return glob
	}
	return strings.TrimSuffix(glob[:i], "/") // a final "/**" also matches without the slash
}

// globPart is one element of a parsed glob: what it matches, and how often.
type globPart struct {
	char     rune // character to match; 0: any
	deep     bool // any character, slashes included
	many     bool // any number of times, including none
	optional bool // matches nothing; the two parts after it may be skipped
}

// optionalWidth is the number of parts of an optional part and the two it may skip.
const optionalWidth = 3

// parseGlob parses a glob into parts.
func parseGlob(glob string) []globPart {
	list := make([]globPart, 0, len(glob)+1)
	for i := 0; i < len(glob); {
		rest := glob[i:]
		segment := i == 0 || glob[i-1] == '/'
		i++
		switch {
		case strings.HasPrefix(rest, "**/") && segment:
			i += 2
			if strings.HasPrefix(glob[i:], "**/") {
				continue // a repeated "**/" adds nothing
			}
			list = append(list, globPart{optional: true}, globPart{deep: true, many: true}, globPart{char: '/'})
		case rest == "/**":
			return append(list, globPart{optional: true}, globPart{char: '/'}, globPart{deep: true, many: true})
		case strings.HasPrefix(rest, "**"):
			list = append(list, globPart{deep: true, many: true})
			i++
		case rest[0] == '*':
			list = append(list, globPart{many: true})
		case rest[0] == '?':
			list = append(list, globPart{})
		default:
			c, n := utf8.DecodeRuneInString(rest)
			list = append(list, globPart{char: c})
			i += n - 1
		}
	}
	return list
}

// globs is a set of globs compiled into one automaton. Its states are the positions between the
// parts, kept as bit sets. One step moves all states at once, so a comparison with another glob
// costs the parts of that glob times the words of a set. It is not safe for concurrent use.
//
// Comparing globs takes time, and a client chooses them: the names of a request become one
// automaton with bounded cost. A comparison that takes more than some milliseconds happens before
// the transaction, which then compares only later reservations, so that no other operation waits
// for it.
type globs struct {
	words         int // words of a set
	starts, lasts set // the states before and after each glob

	// Sets of states, by the part that follows.
	optionals, many, deep set // deep is a subset of many
	letter, single        set // a literal other than a slash; ?
	slash                 set
	letters               map[rune]set

	rows [optionalWidth + 1]set // scratch space of overlap
}

// set is a bit set of states.
type set []uint64

func (s set) add(i int) { s[i/64] |= 1 << (i % 64) }

func newGlobs(names ...string) *globs {
	var lists [][]globPart
	states := 0
	for _, name := range names {
		list := parseGlob(name)
		lists, states = append(lists, list), states+len(list)+1
	}
	g := &globs{words: (states + 63) / 64, letters: map[rune]set{}}
	for _, s := range []*set{&g.starts, &g.lasts, &g.optionals, &g.many, &g.deep, &g.letter, &g.single, &g.slash,
		&g.rows[0], &g.rows[1], &g.rows[2], &g.rows[3]} {
		*s = make(set, g.words)
	}
	at := 0
	for _, list := range lists {
		g.starts.add(at)
		for _, p := range list {
			g.addPart(at, p)
			at++
		}
		g.lasts.add(at)
		at++
	}
	return g
}

// addPart records the part that follows a state.
func (g *globs) addPart(at int, p globPart) {
	switch {
	case p.optional:
		g.optionals.add(at)
	case p.many:
		if g.many.add(at); p.deep {
			g.deep.add(at)
		}
	case p.char == 0:
		g.single.add(at)
	case p.char == '/':
		g.slash.add(at)
	default:
		if g.letters[p.char] == nil {
			g.letters[p.char] = make(set, g.words)
		}
		g.letters[p.char].add(at)
		g.letter.add(at)
	}
}

// overlap reports whether a name matches both the other glob and one of g. A row is the set of
// states reachable by some text that takes the other glob up to one of its parts. An optional part
// also leads to later rows, so optionalWidth rows are kept ahead of the current one.
func (g *globs) overlap(other string) bool {
	rows := &g.rows
	for i := range rows {
		clear(rows[i])
	}
	rows[0].join(g.starts)
	for _, p := range parseGlob(other) {
		g.closure(rows[0], p)
		switch {
		case p.optional:
			rows[1].join(rows[0])
			rows[optionalWidth].join(rows[0])
		case p.many:
			rows[1].join(rows[0])
		default:
			g.step(rows[1], rows[0], p)
		}
		if !rows[1].any() && !rows[2].any() && !rows[optionalWidth].any() {
			return false
		}
		clear(rows[0])
		rows[0], rows[1], rows[2], rows[3] = rows[1], rows[2], rows[3], rows[0]
	}
	g.closure(rows[0], globPart{optional: true})
	for i, w := range rows[0] {
		if w&g.lasts[i] != 0 {
			return true
		}
	}
	return false
}

// closure adds the states that are reachable while the other glob stays at its part p: without
// consuming a character, and by characters that p matches if it repeats. At most one optional part
// follows another without consuming text, because each begins a segment or ends the glob.
func (g *globs) closure(row set, p globPart) {
	for again := true; again; {
		var carry, jumped uint64
		again = false
		for i, s := range row {
			free := g.optionals[i] | g.many[i]
			if p.many {
				free |= g.letter[i] | g.single[i]
				if p.deep {
					free |= g.slash[i]
				}
			}
			var sum uint64
			sum, carry = bits.Add64(s&free, free, carry) // the carry propagates through consecutive states
			s |= sum ^ free
			jump := s & g.optionals[i]
			more := jump<<optionalWidth | jumped>>(64-optionalWidth)
			jumped = jump
			row[i] = s | more
			again = again || more&^s != 0
		}
	}
}

// step adds to next the states reached by one character that p also matches.
func (g *globs) step(next, row set, p globPart) {
	one := g.letters[p.char]
	var before uint64
	for i, s := range row {
		singles, many := g.single[i], g.many[i]
		switch {
		case p.char == '/':
			singles, many = g.slash[i], g.deep[i]
		case p.char == 0:
			singles |= g.letter[i]
		case one != nil:
			singles |= one[i]
		}
		taken := s & singles
		next[i] |= taken<<1 | before>>63 | s&many
		before = taken
	}
}

func (s set) any() bool {
	for _, w := range s {
		if w != 0 {
			return true
		}
	}
	return false
}

func (s set) join(other set) {
	for i, w := range other {
		s[i] |= w
	}
}
