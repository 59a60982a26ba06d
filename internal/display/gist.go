package display

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Gist returns the beginning of a Markdown text as one line of plain text: at most n characters, then "…" if more
// follow. It reads 4 bytes for each character at most, in linear time. Marks without a partner are text, and so is
// HTML. Render the result with [Line], because it can have any characters.
func Gist(markdown string, n int) string {
	begin, cut := markdown, false
	if most := 4 * n; len(begin) > most {
		begin, cut = begin[:most], true
	}
	var words []string
	fence := ""
	for line := range strings.SplitSeq(strings.ToValidUTF8(begin, ""), "\n") {
		trimmed := strings.TrimSpace(line)
		mark := fenceMark(trimmed)
		switch {
		case fence != "" && strings.HasPrefix(mark, fence) && mark == trimmed:
			fence = ""
		case fence != "":
			words = append(words, strings.Fields(line)...)
		case mark != "":
			fence = mark
		case strings.Trim(trimmed, "-=*_|: \t") != "":
			words = append(words, strings.Fields(withoutMarks(withoutBlockMarks(trimmed)))...)
		}
	}
	gist := strings.Join(words, " ")
	if at := offset(gist, n); at < len(gist) {
		gist, cut = strings.TrimSpace(gist[:boundary(gist, at)]), true
	}
	if cut && gist != "" {
		gist += "…"
	}
	return gist
}

// fenceMark returns the backticks or tildes with which a line begins or ends a block of code, or "".
func fenceMark(line string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if mark := line[:len(line)-len(rest)]; len(mark) >= 3 && !strings.Contains(rest, c) {
			return mark
		}
	}
	return ""
}

// withoutBlockMarks returns a line without the marks of headings, quotes, items of lists, tasks and tables.
func withoutBlockMarks(line string) string {
	for range 8 { // levels of quotes and lists
		mark, rest, found := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, ">"):
			line = strings.TrimSpace(line[1:])
			continue
		case !found:
		case mark == "-", mark == "*", mark == "+", isItemNumber(mark), mark == strings.Repeat("#", min(len(mark), 6)):
			line = strings.TrimSpace(rest)
			continue
		case mark == "[x]", strings.HasPrefix(line, "[ ] "):
			line = strings.TrimSpace(line[len("[x]"):])
		case strings.HasPrefix(line, "|") && strings.HasSuffix(line, "|"):
			line = strings.ReplaceAll(line, "|", " ")
		}
		break
	}
	return line
}

// isItemNumber reports whether s is the number of an item: 1. or 1).
func isItemNumber(s string) bool {
	digits := strings.TrimRight(s, ".)")
	return len(digits) == len(s)-1 && digits != "" && len(digits) < 10 && strings.Trim(digits, "0123456789") == ""
}

// withoutMarks returns a line without the marks of code, emphasis, links and escapes.
func withoutMarks(line string) string {
	if !strings.ContainsAny(line, "\\`*_~[") {
		return line
	}
	u := unmarking{line: line, dead: make([]bool, len(line)), partner: partners(line)}
	for i := 0; i < len(line); {
		i = u.next(i)
	}
	var out strings.Builder
	for i := range len(line) {
		if !u.dead[i] {
			out.WriteByte(line[i])
		}
	}
	return out.String()
}

// unmarking is the state of withoutMarks.
type unmarking struct {
	line    string
	dead    []bool      // bytes that are marks
	partner map[int]int // see partners
	// open has the places of marks of emphasis that may begin a span, by the mark.
	open map[string][]int
}

// next handles the character at i and returns the place of the next one.
func (u *unmarking) next(i int) int {
	if u.dead[i] {
		return i + 1 // the address of a link
	}
	switch c := u.line[i]; c {
	case '\\':
		if i+1 < len(u.line) && strings.IndexByte("\\`*_{}[]()#+-.!|~>", u.line[i+1]) >= 0 {
			u.dead[i] = true
			return i + 2
		}
	case '`':
		n := runOf(u.line, i)
		end := u.partner[i]
		if end > 0 {
			u.drop(i, n)
			u.drop(end, n)
			return end + n
		}
		return i + n
	case '[':
		u.link(i)
	case '*', '_', '~':
		return u.emphasis(i)
	}
	return i + 1
}

func (u *unmarking) drop(at, n int) {
	for i := at; i < at+n; i++ {
		u.dead[i] = true
	}
}

// link drops what surrounds the words of [words](address).
func (u *unmarking) link(i int) {
	end := u.partner[i]
	last := u.partner[end+1]
	if end <= i+1 || last == 0 || u.line[end+1] != '(' {
		return
	}
	u.drop(i, 1)
	u.drop(end, last+1-end)
	if i > 0 && u.line[i-1] == '!' {
		u.drop(i-1, 1)
	}
}

// emphasis handles the mark at i, and returns the place behind it. A mark that ends a span is dropped with the one that
// began it; what began between them is text.
func (u *unmarking) emphasis(i int) int {
	n := runOf(u.line, i)
	mark := u.line[i : i+n]
	if n > 3 || mark == "~" {
		return i + n
	}
	before, _ := utf8.DecodeLastRuneInString(u.line[:i])
	after, _ := utf8.DecodeRuneInString(u.line[i+n:])
	begins, ends := i+n < len(u.line) && !unicode.IsSpace(after), i > 0 && !unicode.IsSpace(before)
	if mark[0] == '_' {
		begins, ends = begins && !isLetter(before), ends && !isLetter(after)
	}
	if places := u.open[mark]; ends && len(places) > 0 {
		from := places[len(places)-1]
		u.drop(from, n)
		u.drop(i, n)
		for other, places := range u.open {
			for len(places) > 0 && places[len(places)-1] >= from {
				places = places[:len(places)-1]
			}
			u.open[other] = places
		}
		return i + n
	}
	if begins {
		if u.open == nil {
			u.open = map[string][]int{}
		}
		u.open[mark] = append(u.open[mark], i)
	}
	return i + n
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// runOf returns how often the byte at i repeats.
func runOf(s string, i int) (n int) {
	for i+n < len(s) && s[i+n] == s[i] {
		n++
	}
	return n
}

// partners returns, by the place of an opening bracket or run of backticks, the place of the one that closes it.
func partners(s string) map[int]int {
	found := map[int]int{}
	ticks := map[int]int{} // the last run of backticks, by length
	var square, round []int
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '`':
			n := runOf(s, i)
			if from, ok := ticks[n]; ok {
				found[from] = i
				clear(ticks) // a run inside the span opens none
			} else {
				ticks[n] = i
			}
			i += n - 1
		case '[':
			square = append(square, i)
		case '(':
			round = append(round, i)
		case ']':
			if last := len(square) - 1; last >= 0 {
				found[square[last]], square = i, square[:last]
			}
		case ')':
			if last := len(round) - 1; last >= 0 {
				found[round[last]], round = i, round[:last]
			}
		}
	}
	return found
}
