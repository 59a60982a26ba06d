package tracker

import "strings"

// conflicts are the lines of a file in which git may have marked conflicts.
type conflicts struct {
	both               []string // outside of the conflicts
	ours, theirs, base []string // inside
	marked             bool     // there are conflicts
	hasBase            bool     // each of them holds its base, as in the styles diff3 and zdiff3
}

// markLength is how many characters git's marks have. The base of a conflict can hold
// conflicts of its own, whose marks are longer.
const markLength = 7

// isMark reports whether a line is a mark made of this character.
func isMark(line string, character byte) bool {
	if len(line) < markLength || line[0] != character || len(line) > markLength && line[markLength] != ' ' {
		return false
	}
	return strings.Count(line[:markLength], string(character)) == markLength
}

// parseConflicts takes the text of a file apart.
func parseConflicts(text string) conflicts {
	const outside, first, base, second = 0, 1, 2, 3
	c := conflicts{both: make([]string, 0, strings.Count(text, "\n")+1), hasBase: true}
	at, bases, all := outside, 0, 0
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimRight(line, "\r")
		switch {
		case isMark(line, '<'):
			at, c.marked = first, true
			all++
		case at == first && isMark(line, '|'):
			at = base
			bases++
		case (at == first || at == base) && isMark(line, '='):
			at = second
		case at == second && isMark(line, '>'):
			at = outside
		case strings.TrimSpace(line) == "":
		case at == base:
			if strings.HasPrefix(line, "<<<<<<<") { // the base is a merge with conflicts itself
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
