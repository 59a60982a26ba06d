package tracker

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// rawLine is a line of a file, without its end and without a byte order mark.
type rawLine struct {
	text   string
	number int  // from 1
	cr     bool // the line ends with a carriage return
}

// layout describes how the lines of a file are written, such as their ends. A change keeps the layout, so that it
// changes no other line.
type layout struct {
	bom   bool // the file begins with a byte order mark
	crlf  bool // new lines end with a carriage return
	utf16 bool // the file is UTF-16 text; it is written as UTF-8
	known bool // a line was read
}

const byteOrderMark = "\ufeff"

// read removes from a line the parts that belong to the layout. Some programs write a byte order mark, and git's
// conflict markers can stand before it.
func (l *layout) read(line *rawLine) {
	var bom bool
	if line.text, bom = strings.CutPrefix(line.text, byteOrderMark); bom && (!l.known || line.number == 1) {
		l.bom = true
	}
	for strings.HasSuffix(line.text, "\r") {
		line.text, line.cr = line.text[:len(line.text)-1], true
	}
	if !l.known && !isMark(line.text, '<') {
		l.known, l.crlf = true, line.cr
	}
}

// otherLine is a line that is not an issue. It keeps its place in the file.
type otherLine struct {
	rawLine
	err error // why it is not an issue
}

var (
	// errRecord marks an object of a type that this package does not interpret.
	errRecord = errors.New("a record of another type")
	// errBlank marks an empty line.
	errBlank = errors.New("a blank line")
)

// Text returns the contents of the file.
func (t *Tracker) Text() string { return strings.Join(t.lines(), "") }

// lines returns the lines of the file with their ends: issues in the order of the file, new ones by
// id, and all other lines where they are. A new issue goes before records that follow, because other
// programs write those behind the issues.
func (t *Tracker) lines() []string {
	issues := t.inFileOrder()
	lines := make([]string, 0, len(issues)+len(t.others))
	end := func(cr bool) string {
		if cr {
			return "\r\n"
		}
		return "\n"
	}
	texts := make([]string, len(issues))
	InParts(len(issues), func(from, to int) {
		for i := from; i < to; i++ {
			texts[i] = t.Line(issues[i]) + end(issues[i].cr || issues[i].number == 0 && t.layout.crlf)
		}
	})
	rest, last := t.others, 0 // last is the number of the last line of the file so far
	for i, it := range issues {
		for len(rest) > 0 && rest[0].number > 0 {
			follows := rest[0].number == last+1 && rest[0].err != errRecord
			if it.number > 0 && rest[0].number > it.number || it.number == 0 && !follows {
				break
			}
			lines, last = append(lines, rest[0].text+end(rest[0].cr)), rest[0].number
			rest = rest[1:]
		}
		lines, last = append(lines, texts[i]), max(last, it.number)
	}
	for _, o := range rest {
		lines = append(lines, o.text+end(o.cr || o.number == 0 && t.layout.crlf))
	}
	if len(lines) > 0 && t.layout.bom && !t.layout.utf16 {
		lines[0] = byteOrderMark + lines[0]
	}
	return lines
}

// inFileOrder returns the issues in the order of the file. In a file that is sorted by id, new ones
// are inserted by id; in any other they follow its issues, because sorting it would change lines that
// other branches change too.
func (t *Tracker) inFileOrder() []*Issue {
	last := 0
	for _, it := range t.issues.order {
		if it.number > 0 && it.number < last {
			return sortedByLine(t.issues.order)
		}
		last = max(last, it.number)
	}
	return t.issues.order
}

func sortedByLine(issues []*Issue) []*Issue {
	order := slices.Clone(issues)
	slices.SortStableFunc(order, func(a, b *Issue) int {
		if isNew := a.number == 0; isNew != (b.number == 0) {
			if isNew {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.number, b.number)
	})
	return order
}

// newLine returns an issue of another file as a new line of this one.
func newLine(it *Issue) *Issue {
	out := *it
	out.number, out.cr = 0, false
	return &out
}
