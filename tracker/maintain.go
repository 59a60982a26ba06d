package tracker

import (
	"fmt"
	"strings"
	"time"
)

// ImportResult says what an import did.
type ImportResult struct{ New, Changed, Same, Skipped int }

// Import takes in the issues of another file. Those that are there are merged, or
// with keep left as they are.
func (t *Tracker) Import(other *Tracker, keep bool) (came ImportResult) {
	t.issues.index()
	for _, theirs := range other.All() {
		ours := t.issues.get(theirs.ID)
		switch {
		case ours == nil:
			came.New++
		case keep:
			came.Skipped++
			other.issues.drop(theirs.ID)
		case t.Line(ours) == other.Line(theirs):
			came.Same++
		default:
			came.Changed++
		}
	}
	t.Merge(other)
	return came
}

// DropTombstones drops the tombstones that are older than since and than a tombstone
// lasts, and returns how many.
func (t *Tracker) DropTombstones(since time.Time) (n int) {
	for _, it := range t.All() {
		if it.Status == StatusTombstone && it.DeletedAt.Before(since) {
			t.issues.drop(it.ID)
			n++
		}
	}
	return n
}

// Stats are counts of issues. Ready and Blocked say what can be worked on.
type Stats struct {
	Total, Open, InProgress, Closed, Deferred, Pinned, Tombstones int
	Ready, Blocked, EpicsDone                                     int
	LeadTime                                                      time.Duration // from creation to close, on average
}

// Stats counts. A tombstone is in no total.
func (t *Tracker) Stats(now time.Time) (s Stats) {
	var lead time.Duration
	for _, it := range t.issues.all() {
		switch it.Status {
		case StatusOpen:
			s.Open++
		case StatusInProgress:
			s.InProgress++
		case StatusClosed:
			s.Closed++
			lead += it.ClosedAt.Sub(it.CreatedAt)
		case StatusDeferred:
			s.Deferred++
		case StatusPinned:
			s.Pinned++
		case StatusTombstone:
			s.Tombstones++
			continue
		}
		s.Total++
	}
	if s.Closed > 0 {
		s.LeadTime = lead / time.Duration(s.Closed)
	}
	s.Ready, s.Blocked = len(t.Ready(Filter{}, OrderPriority, now)), len(t.BlockedIssues())
	for _, e := range t.Epics() {
		if e.Done() {
			s.EpicsDone++
		}
	}
	return s
}

// Check finds what contradicts itself in what others wrote.
func (t *Tracker) Check() (found []string) {
	bad := func(it *Issue, format string, args ...any) {
		found = append(found, it.ID+": "+fmt.Sprintf(format, args...))
	}
	t.issues.index()
	for _, it := range t.All() {
		if it.Status == StatusTombstone {
			continue
		}
		if err := it.validate(); err != nil {
			bad(it, "%v", err)
		}
		if err := t.codec.malformedMember(it); err != nil {
			bad(it, "%v", err)
		}
		if (it.Status == StatusClosed) == it.ClosedAt.IsZero() {
			bad(it, "it is %s, and closed_at is set: %v", it.Status, !it.ClosedAt.IsZero())
		}
		for _, d := range it.Dependencies {
			if on := t.issues.get(d.On); on == nil || on.Status == StatusTombstone {
				bad(it, "it depends on %s, which is not there", d.On)
			}
		}
	}
	for _, ring := range t.Cycles() {
		var ids []string
		for _, it := range ring {
			ids = append(ids, it.ID)
		}
		found = append(found, "these wait for each other: "+strings.Join(ids, ", "))
	}
	return found
}
