package tracker

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// An id is chosen in one clone, which cannot know what another clone chooses: two clones number the children of one
// parent alike. An issue is therefore identified by its id and its origin: the time of its creation, the actor who
// created it, and its original title or text.

// sameOrigin reports whether two issues with one id are copies of one issue. It takes them as copies unless something
// shows that they are two issues, because other programs change the origin of a copy: they cut times to seconds or
// set them to the time of an import, leave authors out, and replace deleted issues by placeholders.
func sameOrigin(a, b *Issue) bool {
	if a.CreatedAt.IsZero() || b.CreatedAt.IsZero() || a.isPlaceholder() || b.isPlaceholder() {
		return true
	}
	sameActor := a.CreatedBy == "" || b.CreatedBy == "" || a.CreatedBy == b.CreatedBy
	unit := max(precision(a.CreatedAt), precision(b.CreatedAt))
	switch apart := a.CreatedAt.Sub(b.CreatedAt).Abs(); {
	case apart == 0 && unit < time.Second:
		return true
	case apart == 0 || apart < unit:
		return sameActor && (a.Title == b.Title || a.wasEdited() || b.wasEdited())
	}
	return sameActor && a.Title == b.Title && a.Description == b.Description // a program that imported it set the time
}

// oneIssue reports whether two issues with one id are versions of one issue. They are if both are versions of the issue
// of the base, which may be nil. If an import by another program sets the time of one version, and an edit changes the
// text of the other, [sameOrigin] alone takes them for two issues.
func oneIssue(a, b *Issue, base *Tracker) bool {
	if sameOrigin(a, b) {
		return true
	}
	if base == nil || base.copied[a.ID] {
		return false
	}
	was := base.issues.get(a.ID)
	return was != nil && !was.CreatedAt.IsZero() && !was.isPlaceholder() && sameOrigin(was, a) && sameOrigin(was, b)
}

// precision returns the unit to which a time was probably cut.
func precision(at time.Time) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if at.Nanosecond()%int(unit) == 0 {
			return unit
		}
	}
	return time.Nanosecond
}

// wasEdited reports whether an issue may differ from what was created.
func (it *Issue) wasEdited() bool { return !it.UpdatedAt.Equal(it.CreatedAt) }

// isPlaceholder reports whether a tombstone has lost the content of the deleted issue, including who created it and
// when.
func (it *Issue) isPlaceholder() bool {
	return it.Status == StatusTombstone && !it.DeletedAt.IsZero() && !it.CreatedAt.Before(it.DeletedAt)
}

// compareOrigins orders issues with one id: the first keeps the id. The order uses nothing that an
// edit changes, so that all clones decide alike, whatever they merge first.
func compareOrigins(a, b *Issue) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.CreatedBy, b.CreatedBy), cmp.Compare(a.Title, b.Title),
		cmp.Compare(a.Description, b.Description))
}

const (
	movedMark   = "x" // between an id and the hash
	movedLength = 4   // characters of the hash
)

// movedID returns the new id of an issue whose id belongs to another issue: the old id and a hash of the issue's
// origin, so that all clones choose the same id. The new id of a child still has the form of a child's id.
func movedID(id string, it *Issue) string {
	return id + movedMark + hashID(movedLength, id, strconv.FormatInt(it.CreatedAt.UnixNano(), 10), it.CreatedBy)
}

// MovedFrom returns the id that an issue had in the clone that created it, if it had to give the
// id up, or "".
func (it *Issue) MovedFrom() string {
	at := len(it.ID) - movedLength - len(movedMark)
	if at <= 0 || it.ID[at:at+len(movedMark)] != movedMark || it.ID[:at] == "" || strings.HasSuffix(it.ID[:at], "-") {
		return ""
	}
	if id := it.ID[:at]; movedID(id, it) == it.ID {
		return id
	}
	return ""
}
