// Package display renders untrusted text for people: an approver sees every character that
// a program would read.
//
// A character that is invisible, or that changes how the text around it looks, becomes a
// visible mark such as "⟦U+202E⟧"; a byte that is not UTF-8 becomes "⟦0xFF⟧". Characters
// that a script or an emoji needs stay where they have that effect and nowhere else: a
// zero-width joiner in an emoji or after a Persian letter, a variation selector after the
// character that it selects, a direction mark beside right-to-left letters.
//
// Letters that look like other letters stay as they are, and right-to-left letters keep
// their direction: both are visible.
//
// clients/js/display.js applies the same rules; testdata/cases.json tests both.
package display

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text renders s for display on several lines. It keeps \n and \t, and turns \r\n into \n.
// Rendering a rendered text again changes nothing.
func Text(s string) string { return render(s, false) }

// Line renders s for display on one line: each run of \n, \r and \t becomes one space.
// Otherwise it is [Text].
func Line(s string) string { return render(s, true) }

// Cut returns s if it has at most n characters, and otherwise its first n characters and
// how many follow: "… (1,234 more characters)". It cuts earlier rather than through a mark
// or a combined character, so rendering can come before or after it. Cut a
// long text before rendering it, because a mark is longer than its character.
func Cut(s string, n int) string {
	at := offset(s, n)
	if at == len(s) {
		return s
	}
	at = boundary(s, at)
	rest := utf8.RuneCountInString(s[at:])
	unit := "characters"
	if rest == 1 {
		unit = "character"
	}
	return s[:at] + "… (" + thousands(rest) + " more " + unit + ")"
}

// offset returns the byte offset of the n-th character of s, or len(s).
func offset(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	count := 0
	for i := range s {
		if count >= n {
			return i
		}
		count++
	}
	return len(s)
}

// boundaryReach bounds how many characters [Cut] goes back for a better place.
const boundaryReach = 12

// boundary returns the last offset at or before at that is neither inside a mark nor between characters that are
// shown as one. If there is none nearby, it returns at.
func boundary(s string, at int) int {
	best := at
	if open := strings.LastIndex(s[:at], markOpen); open >= 0 && at-open <= len("⟦U+10FFFF⟧") {
		if end := strings.Index(s[open:], markClose); end >= 0 && isMark(s[open:open+end+len(markClose)]) && open+end >= at {
			best = open
		}
	}
	for i, steps := best, 0; steps < boundaryReach; steps++ {
		next, _ := utf8.DecodeRuneInString(s[i:])
		last, size := utf8.DecodeLastRuneInString(s[:i])
		if i == 0 || !(extends(next) || last == zwj) {
			return i
		}
		i -= size
	}
	return best
}

// isMark reports whether s has the form of a mark, which stands for a character or a byte that is not
// shown: U+ or 0x and its number, in brackets.
func isMark(s string) bool {
	s = strings.TrimSuffix(strings.TrimPrefix(s, markOpen), markClose)
	return strings.HasPrefix(s, "U+") || strings.HasPrefix(s, "0x")
}

// thousands writes n with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

const (
	markOpen  = "⟦"
	markClose = "⟧"
)

// plain reports whether s has only printable ASCII characters, which are rendered unchanged whatever stands beside
// them.
func plain(s string, line bool) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && (line || c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

func render(s string, line bool) string {
	if plain(s, line) {
		return s
	}
	p := printer{}
	p.Grow(len(s) + len(s)/8)
	p.render(s, len(s), line)
	return p.String()
}

// render prints the first end bytes of s. The bytes after end are not printed; they only decide how the characters
// before them are shown.
func (p *printer) render(s string, end int, line bool) {
	for i := 0; i < end; {
		r, size := utf8.DecodeRuneInString(s[i:])
		rest := s[i+size:]
		switch {
		case line && isBreak(r):
			size += len(rest) - len(strings.TrimLeft(rest, "\n\r\t"))
			p.keep(' ')
		case r == utf8.RuneError && size == 1:
			p.mark("⟦0x%02X⟧", rune(s[i]))
		case r == '\r' && strings.HasPrefix(rest, "\n"):
			// The \n that follows the \r is enough.
		case r == '\n' || r == '\t':
			p.keep(r)
		case r == blackFlag:
			p.keep(r)
			if tags := regionTags(rest); tags != "" {
				size += len(tags)
				p.WriteString(tags)
				p.last = cancelTag
			}
		case p.canShow(r, rest, line):
			p.keep(r)
		default:
			p.mark("⟦U+%04X⟧", r)
		}
		i += size
	}
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }

// printer holds a rendered text, and what the rules need to know about its end. The rules look at the output and not
// at the input, so that rendering a text twice changes nothing.
type printer struct {
	strings.Builder
	last      rune // last character that was written; 0 at the start
	combining int  // how many combining characters end the text
	rightward int  // how many more characters the last right-to-left letter counts as near
}

// Bounds of what counts as ordinary writing.
const (
	maxCombining = 8 // most combining marks on one character
	nearby       = 8 // ASCII punctuation and digits between a direction mark and its letter
)

func (p *printer) keep(r rune) {
	switch {
	case isRightToLeft(r):
		p.rightward = nearby + 1
	case isNeutral(r):
		p.rightward = max(p.rightward-1, 0)
	default:
		p.rightward = 0
	}
	if isCombining(r) {
		p.combining++
	} else {
		p.combining = 0
	}
	p.last = r
	p.WriteRune(r)
}

func (p *printer) mark(format string, r rune) {
	fmt.Fprintf(&p.Builder, format, r)
	p.last, p.combining, p.rightward = '⟧', 0, 0
}

// canShow reports whether r can be printed unchanged between the text printed so far and rest.
func (p *printer) canShow(r rune, rest string, line bool) bool {
	if !isHidden(r) {
		return !isCombining(r) || p.combining < maxCombining && p.last != '⟧'
	}
	next, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == zwj && isPictograph(next):
		return isPictograph(p.last) || p.last == emojiStyle || usesJoiners(p.last)
	case r == zwj || r == zwnj:
		return usesJoiners(p.last)
	case r == zwsp:
		return usesBreaks(p.last) && usesBreaks(next)
	case isDirectionMark(r):
		return p.rightward > 0 || leadsRightToLeft(rest, line)
	case r == emojiStyle && isKeycap(p.last):
		return next == keycap
	}
	return selects(p.last, r)
}

// leadsRightToLeft reports whether the first letter of s is near and right-to-left.
func leadsRightToLeft(s string, line bool) bool {
	for range nearby + 1 {
		r, size := utf8.DecodeRuneInString(s)
		if line && isBreak(r) {
			size += len(s[size:]) - len(strings.TrimLeft(s[size:], "\n\r\t"))
			r = ' '
		}
		if !isNeutral(r) {
			return isRightToLeft(r)
		}
		s = s[size:]
	}
	return false
}

const maxName = 64 // characters of a name

// Name renders the name of a user or a file on one line of at most maxName characters, with invisible
// characters made visible. See [Line].
func Name(name string) string {
	name = strings.Join(strings.Fields(Line(strings.ToValidUTF8(name, "\ufffd"))), " ")
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return name
}
