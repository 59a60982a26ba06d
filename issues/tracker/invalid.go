package tracker

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/internal/jsontext"
)

// InvalidLine is a line that is not an issue. It stays in the file.
type InvalidLine struct {
	Number int // from 1
	Line   string
	Err    error
	// ID is the id of the issue with which the line begins, if that object is whole; see
	// [Tracker.Restore].
	ID string
}

// String names the line for the user.
func (l InvalidLine) String() string {
	if l.ID != "" {
		return fmt.Sprintf("line %d (%s): %v", l.Number, l.ID, l.Err)
	}
	return fmt.Sprintf("line %d: %v", l.Number, l.Err)
}

func invalidLine(c *codec, line rawLine, err error) InvalidLine {
	l := InvalidLine{Number: line.number, Line: line.text, Err: err}
	if whole, rest := splitObjects(line.text); err == errSyntax && len(whole) > 0 {
		var it Issue
		if c.read(&scanner{}, whole[0], &it) == nil {
			l.ID = it.ID
		}
		const most = 40
		shown := strings.ToValidUTF8(rest, "?")
		if r := []rune(shown); len(r) > most {
			shown = string(r[:most]) + "…"
		}
		l.Err = fmt.Errorf("not JSON: text after the object: %q", shown)
		if rest == "" {
			l.Err = fmt.Errorf("not JSON: %d objects on one line", len(whole))
		}
	}
	return l
}

// splitObjects returns the whole objects with which a line begins, and the rest.
func splitObjects(line string) (whole []string, rest string) {
	rest = line
	for {
		s := jsontext.Scan(rest)
		if s.Peek() != '{' {
			break
		}
		begin := s.Offset()
		s.Value(maxDepth)
		text := s.Since(begin)
		if s.Failed() {
			break
		}
		whole, rest = append(whole, text), strings.TrimSpace(rest[s.Offset():])
	}
	return whole, rest
}

// Restored tells what [Tracker.Restore] did with a line.
type Restored struct {
	Number  int
	IDs     []string // issues that are back
	Records int
	Removed string // the text that is not JSON
}

// Restore reads the whole objects with which invalid lines begin, and removes what follows them on
// these lines. Lines without a whole object stay.
func (t *Tracker) Restore() (done []Restored) {
	t.others = slices.DeleteFunc(t.others, func(o otherLine) bool {
		if o.err == errRecord || o.err == errBlank {
			return false
		}
		r, restored := restoreLine(t, o.rawLine)
		if restored {
			done = append(done, r)
		}
		return restored
	})
	return done
}

// restoreLine adds the objects with which a line begins, in its place.
func restoreLine(t *Tracker, line rawLine) (r Restored, restored bool) {
	whole, rest := splitObjects(line.text)
	r = Restored{Number: line.number, Removed: rest}
	var lines []rawLine
	for _, text := range whole {
		lines = append(lines, rawLine{text, line.number, line.cr})
	}
	back, invalid := readLines(lines, false, past{}, noBase)
	if len(whole) == 0 || len(invalid) > 0 {
		return r, false
	}
	t.Merge(back)
	for _, it := range back.issues.all() {
		r.IDs = append(r.IDs, it.ID)
		if there := t.issues.get(it.ID); there.number == 0 {
			there.number, there.cr = it.number, it.cr
		}
	}
	r.Records = len(back.others)
	return r, true
}
