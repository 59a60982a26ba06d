package tracker

import (
	"fmt"
	"strings"
	"time"
)

// ImportResult counts what an import did.
type ImportResult struct{ New, Changed, Same, Skipped int }

// Import merges the issues of other into t. With keep, existing issues are left unchanged.
func (t *Tracker) Import(other *Tracker, keep bool) (result ImportResult) {
	t.issues.index()
	for _, theirs := range other.All() {
		ours := t.issues.get(theirs.ID)
		switch {
		case ours == nil:
			result.New++
		case keep:
			result.Skipped++
			other.issues.drop(theirs.ID)
		case t.Line(ours) == other.Line(theirs):
			result.Same++
		default:
			result.Changed++
		}
	}
	t.Merge(other)
	return result
}

// DropTombstones removes the tombstones of issues that were deleted before since, and returns how
// many.
func (t *Tracker) DropTombstones(since time.Time) (n int) {
	for _, it := range t.All() {
		if it.Status == StatusTombstone && it.DeletedAt.Before(since) {
			t.issues.drop(it.ID)
			n++
		}
	}
	return n
}

// Stats counts issues by status. Ready issues can be worked on, blocked ones cannot.
type Stats struct {
	Total, Open, InProgress, Closed, Deferred, Pinned, Tombstones int
	Ready, Blocked, EpicsDone                                     int
	LeadTime                                                      time.Duration // average time from creation to close
}

// Stats counts the issues. Total excludes tombstones.
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

// Check returns descriptions of contradictions in the file, which other programs can write.
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
			bad(it, "status is %s, but closed_at is set: %v", it.Status, !it.ClosedAt.IsZero())
		}
		for _, d := range it.Dependencies {
			if on := t.issues.get(d.On); on == nil || on.Status == StatusTombstone {
				bad(it, "depends on %s, which does not exist", d.On)
			}
		}
	}
	for _, ring := range t.Cycles() {
		var ids []string
		for _, it := range ring {
			ids = append(ids, it.ID)
		}
		found = append(found, "dependency cycle: "+strings.Join(ids, ", "))
	}
	return found
}
