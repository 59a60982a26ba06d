package feed

import (
	"errors"
	"fmt"
	"sync"

	"mailroom/channel"
	"mailroom/issues/tracker"
)

// findings remembers what reading the file found, so that each finding is reported once and not at every poll. A
// finding that a later version of the file does not have is forgotten, and is reported again if it returns.
type findings struct {
	mu   sync.Mutex
	told map[string]bool
}

// report reports the findings that are new. The findings of a read replace the remembered ones. The findings of a
// change are added to them, because a change can find something that no read has seen.
func (f *findings) report(l *channel.Host, found []string, read bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.told
	if read || known == nil {
		f.told = map[string]bool{}
	}
	const most = 20 // a merge of long separated clones can find thousands
	fresh := 0
	for _, text := range found {
		if f.told[text] = true; known[text] {
			continue
		}
		if fresh++; fresh <= most {
			l.ReportError(errors.New(text))
		}
	}
	if fresh > most {
		l.ReportError(fmt.Errorf("the tracker has %d more findings; see them with: bd doctor", fresh-most))
	}
}

// findingsOf describes what reading a file found. It names issues and members, but no values, because the text of an
// issue belongs in no log.
func findingsOf(file string, t *tracker.Tracker, invalid []tracker.InvalidLine) (found []string) {
	if len(invalid) > 0 {
		first := invalid[0]
		found = append(found, fmt.Sprintf("%d lines of %s cannot be read: line %d: %v", len(invalid), file, first.Number,
			first.Err))
	}
	for _, s := range t.Splits() {
		text := fmt.Sprintf("the id %s was given to two issues in %s; one of them is now %s", s.ID, file, s.Moved.ID)
		for _, id := range s.Unsure {
			text += fmt.Sprintf("; check which of them %s means", id)
		}
		found = append(found, text)
	}
	for _, c := range t.Contests() {
		found = append(found,
			fmt.Sprintf("two copies of issue %s in %s have another %s; the next change of the file drops one value, "+
				"which git still has: see it with: bd doctor", c.ID, file, c.Member))
	}
	return found
}
