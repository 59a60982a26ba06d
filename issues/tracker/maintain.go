package tracker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ImportResult counts what an import did.
type ImportResult struct{ New, Changed, Same, Skipped, Records int }

// Import merges the issues of other into t. If keep is set, issues that t already has stay unchanged.
func (t *Tracker) Import(other *Tracker, keep bool) ImportResult {
	return importInto(t, other, nil, keep)
}

// importInto implements the imports. base is nil if nothing is known of earlier ones.
func importInto(t, other, base *Tracker, keep bool) (result ImportResult) {
	t.issues.index()
	other.issues.index()
	if base != nil {
		base.issues.index()
	}
	result.Same, result.Skipped = settle(t, other, base) // the same or older; and deleted here
	was := map[string]string{}                           // lines by id
	for _, theirs := range other.All() {
		switch ours := t.issues.get(theirs.ID); {
		case ours == nil && base.ancestor(theirs) != nil && base.Line(base.ancestor(theirs)) == other.Line(theirs):
			result.Skipped++ // removed here, and not changed there since
		case ours == nil:
			result.New++
		case keep:
			result.Skipped++
			other.issues.drop(theirs.ID)
		default:
			was[theirs.ID] = t.Line(ours)
		}
	}
	before := len(t.Records())
	absorb(t, other)
	t.unite(other, base)
	for id, line := range was {
		if now := t.issues.get(id); now != nil && t.Line(now) == line {
			result.Same++
		} else {
			result.Changed++
		}
	}
	result.Records = len(t.Records()) - before
	return result
}

// DropTombstones removes the tombstones of issues that were deleted before since, and returns how
// many. It removes the dependencies on them too, which a merge may have kept: one that stays would be a dependency on
// the next issue that gets the id.
func (t *Tracker) DropTombstones(since time.Time) int {
	var ids []string
	for _, it := range t.All() {
		if it.Status == StatusTombstone && it.DeletedAt.Before(since) {
			t.met = append(t.met, t.Line(it))
			lose(t, it)
			ids = append(ids, it.ID)
		}
	}
	unlinkIssues(t, ids)
	return len(ids)
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

// Notes returns what is unusual in the file but no contradiction: ids that belonged to two issues,
// and records of types that this package does not interpret.
func (t *Tracker) Notes() (found []string) {
	for _, s := range t.splits {
		found = append(found, s.String())
	}
	for _, c := range t.contests {
		found = append(found, c.String())
	}
	told := map[string]bool{}
	for _, s := range t.splits {
		told[s.Moved.ID] = true
	}
	for _, it := range t.issues.all() {
		found = append(found, unreadMembers(it)...)
		if from := it.MovedFrom(); from != "" && !told[it.ID] {
			found = append(found, fmt.Sprintf("%s (%s) was %s in the clone that created it; that id belongs to another issue",
				it.ID, it.Title, from))
		}
	}
	found = append(found, renamedCopies(t)...)
	counts := map[string]int{}
	for _, r := range t.Records() {
		key, _ := recordKey(r.Line)
		kind, _, _ := strings.Cut(key, "\x00")
		counts[kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		plural := "s"
		if counts[kind] == 1 {
			plural = ""
		}
		found = append(found, fmt.Sprintf("%d record%s of type %s, kept without change", counts[kind], plural, kind))
	}
	return found
}

// unreadMembers describes members of an issue that a person or a program wrote by hand under another name: they are
// kept, but have no effect.
func unreadMembers(it *Issue) (found []string) {
	if !it.foreign {
		return nil
	}
	parts, err := fields(it.line)
	if err != nil {
		return nil // the line is reported as invalid elsewhere
	}
	for _, f := range parts {
		name := map[string]string{"type": "issue_type", "deps": "dependencies", "depends_on": "dependencies",
			"blocked_by": "dependencies"}[f.name]
		if name == "" || name == "issue_type" && it.Type != "" {
			continue
		}
		found = append(found, fmt.Sprintf("%s: the member %q has no effect; its name is %q", it.ID, f.name, name))
	}
	return found
}

// renamedCopies describes issues that the file has twice, with ids that differ only in their prefix: either a change
// of the prefix was merged with a branch or a clone that had the old ids, or a file with the old ids was imported.
// Check cannot know which of the two issues is the right one.
func renamedCopies(t *Tracker) (found []string) {
	type origin struct{ at, by, rest string }
	first := map[origin]*Issue{}
	for _, it := range t.issues.all() {
		at := strings.LastIndexByte(it.ID, '-')
		if at < 0 || it.CreatedAt.IsZero() || precision(it.CreatedAt) >= time.Second || it.Status == StatusTombstone {
			continue
		}
		key := origin{it.CreatedAt.UTC().Format(time.RFC3339Nano), it.CreatedBy, it.ID[at:]}
		if other := first[key]; other != nil {
			found = append(found,
				fmt.Sprintf("%s and %s are one issue, %q: its prefix was changed in one copy; delete the one that you do not use",
					other.ID, it.ID, it.Title))
			continue
		}
		first[key] = it
	}
	return found
}
