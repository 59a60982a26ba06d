package thread

import (
	"time"

	"mailroom"
	"mailroom/internal/nextversion"
)

// note is what the next version does at the start of a run (internal/nextversion): it adds the next note of the thread
// to its log, and counts it in the rows. This version does nothing.
func (t *State) note(r *mailroom.Run, now time.Time) {
	kind := nextversion.Kind()
	if kind == "" {
		return
	}
	t.Newer, r.Newer = nextversion.Add(t.Newer), nextversion.Add(r.Newer)
	t.append(kind, r, now, nextversion.Note{N: nextversion.Noted(t.Newer)})
}
