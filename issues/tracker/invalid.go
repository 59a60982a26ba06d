package tracker

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/internal/jsontext"
)

// InvalidLine is a line that cannot be read as an issue. It stays in the file.
type InvalidLine struct {
	Number int // number of the line, from 1
	Line   string
	Err    error
	// ID is the id of the issue with which the line begins, if that object is whole; see
	// [Tracker.Restore].
	ID string
}

// String returns the number of the line, the id if it is known, and the error.
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

// splitObjects returns the whole objects with which a line begins, and the text after them.
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

// Restored reports what [Tracker.Restore] did with a line.
type Restored struct {
	Number  int
	IDs     []string // issues that are back
	Records int
	Removed string // the text that is not JSON
}

// Restore reads the whole objects with which invalid lines begin, and removes what follows them on
// these lines. Lines without a whole object stay.
func (t *Tracker) Restore() (done []Restored) {
	var lines []rawLine
	for _, o := range t.others {
		if isInvalid(o) {
			lines = append(lines, o.rawLine)
		}
	}
	done, restored := restoreLines(t, lines)
	at := -1
	t.others = slices.DeleteFunc(t.others, func(o otherLine) bool {
		if !isInvalid(o) || at+1 == len(lines) || o.rawLine != lines[at+1] {
			return false
		}
		at++
		return restored[at]
	})
	return done
}

// isInvalid reports whether a line is neither a record nor blank.
func isInvalid(o otherLine) bool { return o.err != errRecord && o.err != errBlank }

// restoreLines adds the objects with which lines begin, each in the place of its line, and reports which lines it
// read. It also adds copies that this clone knows to be old, because a person asked to restore the lines.
func restoreLines(t *Tracker, lines []rawLine) (done []Restored, restored []bool) {
	restored = make([]bool, len(lines))
	var all []rawLine
	for i, line := range lines {
		whole, rest := splitObjects(line.text)
		r := Restored{Number: line.number, Removed: rest}
		var objects []rawLine
		for _, text := range whole {
			objects = append(objects, rawLine{text, line.number, line.cr})
		}
		back, invalid := readLines(objects, false, past{}, noBase)
		if len(whole) == 0 || len(invalid) > 0 {
			continue
		}
		for _, it := range back.issues.all() {
			r.IDs = append(r.IDs, it.ID)
		}
		r.Records = len(back.others)
		done, restored[i], all = append(done, r), true, append(all, objects...)
	}
	back, _ := readLines(all, false, past{}, noBase) // each line was read before
	numbers := map[string]rawLine{}
	for _, it := range back.issues.all() {
		numbers[it.ID] = rawLine{number: it.number, cr: it.cr}
	}
	knows := t.past
	t.past = past{}
	t.Merge(back)
	t.past = knows
	for id, line := range numbers {
		if there := t.issues.get(id); there != nil && there.number == 0 {
			there.number, there.cr = line.number, line.cr
		}
	}
	return done, restored
}
