package tracker

import "strings"

// conflicts are the lines of a file, separated by git's conflict markers.
type conflicts struct {
	both               []rawLine // outside of conflicts
	ours, theirs, base []rawLine // inside
	marked             bool      // the file has conflict markers
	hasBase            bool      // every conflict contains its base, as in the styles diff3 and zdiff3
	layout             layout
}

// markLength is the length of git's markers. The base of a conflict can contain nested conflicts,
// whose markers are longer.
const markLength = 7

// isMark reports whether a line is a conflict marker that consists of this character.
func isMark(line string, character byte) bool {
	if len(line) < markLength || line[0] != character || len(line) > markLength && line[markLength] != ' ' {
		return false
	}
	return strings.Count(line[:markLength], string(character)) == markLength
}

// parseConflicts splits the text of a file at git's conflict markers.
func parseConflicts(text string) conflicts {
	const outside, first, base, second = 0, 1, 2, 3
	c := conflicts{both: make([]rawLine, 0, strings.Count(text, "\n")+1), hasBase: true}
	at, bases, all := outside, 0, 0
	text, c.layout.utf16 = decodeUTF16(text)
	for number := 1; text != ""; number++ {
		line := rawLine{number: number}
		line.text, text, _ = strings.Cut(text, "\n")
		c.layout.read(&line)
		switch {
		case isMark(line.text, '<'):
			at, c.marked = first, true
			all++
		case at == first && isMark(line.text, '|'):
			at = base
			bases++
		case (at == first || at == base) && isMark(line.text, '='):
			at = second
		case at == second && isMark(line.text, '>'):
			at = outside
		case at != outside && strings.TrimSpace(line.text) == "":
		case at == base:
			if strings.HasPrefix(line.text, "<<<<<<<") { // a nested conflict in the base
				c.hasBase = false
			}
			c.base = append(c.base, line)
		case at == first:
			c.ours = append(c.ours, line)
		case at == second:
			c.theirs = append(c.theirs, line)
		default:
			c.both = append(c.both, line)
		}
	}
	c.hasBase = c.hasBase && bases == all && at == outside
	return c
}
