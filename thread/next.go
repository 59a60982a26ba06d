//go:build nextversion

package thread

import (
	"time"

	"mailroom"
	"mailroom/internal/nextversion"
)

// note adds the next note of the thread to its log, and counts it in the rows.
func (t *State) note(r *mailroom.Run, now time.Time) {
	t.Newer, r.Newer = nextversion.Add(t.Newer), nextversion.Add(r.Newer)
	t.append(nextversion.Kind, r, now, nextversion.Note{N: nextversion.Noted(t.Newer)})
}
