package tracker

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Filter selects issues that match all fields that are set. The zero value selects issues that are
// not closed.
type Filter struct {
	Statuses []Status // empty: all but closed; with All also closed
	All      bool
	Priority *int
	Least    *int // minimum priority value
	Most     *int // maximum priority value
	Type     string
	Assignee string
	Free     bool // unassigned
	Labels   []string
	AnyLabel []string
	IDs      []string // full ids
	Title    string   // substring, case-insensitive
	Text     string   // substring of id, title, description or notes, case-insensitive
	Parent   string   // full id of the parent

	Unlabelled    bool   // without labels
	Undescribed   bool   // without a description
	Orphans       bool   // without a parent
	InDescription string // substring, case-insensitive
	InNotes       string // substring, case-insensitive

	CreatedAfter, CreatedBefore, UpdatedAfter, UpdatedBefore, ClosedAfter, ClosedBefore time.Time
}

// matches reports whether the filter selects an issue. A tombstone is selected only by its status.
func (f *Filter) matches(it *Issue) bool {
	has := func(l string) bool { return slices.Contains(it.Labels, l) }
	switch {
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, it.Status),
		len(f.Statuses) == 0 && (it.Status == StatusTombstone || it.Status == StatusClosed && !f.All),
		f.Priority != nil && it.Priority != *f.Priority,
		f.Least != nil && it.Priority < *f.Least,
		f.Most != nil && it.Priority > *f.Most,
		f.Type != "" && it.Type != f.Type,
		f.Assignee != "" && it.Assignee != f.Assignee,
		f.Free && it.Assignee != "",
		slices.ContainsFunc(f.Labels, func(l string) bool { return !has(l) }),
		len(f.AnyLabel) > 0 && !slices.ContainsFunc(f.AnyLabel, has),
		len(f.IDs) > 0 && !slices.Contains(f.IDs, it.ID),
		f.Title != "" && !containsFold(it.Title, f.Title),
		f.Parent != "" && it.Parent() != f.Parent,
		!f.CreatedAfter.IsZero() && !it.CreatedAt.After(f.CreatedAfter),
		!f.CreatedBefore.IsZero() && !it.CreatedAt.Before(f.CreatedBefore),
		!f.UpdatedAfter.IsZero() && !it.UpdatedAt.After(f.UpdatedAfter),
		!f.UpdatedBefore.IsZero() && !it.UpdatedAt.Before(f.UpdatedBefore),
		!f.ClosedAfter.IsZero() && !it.ClosedAt.After(f.ClosedAfter),
		!f.ClosedBefore.IsZero() && (it.ClosedAt.IsZero() || !it.ClosedAt.Before(f.ClosedBefore)),
		f.Unlabelled && len(it.Labels) > 0,
		f.Undescribed && it.Description != "",
		f.Orphans && it.Parent() != "",
		f.InDescription != "" && !containsFold(it.Description, f.InDescription),
		f.InNotes != "" && !containsFold(it.Notes, f.InNotes):
		return false
	}
	return f.Text == "" || containsFold(it.ID, f.Text) || containsFold(it.Title, f.Text) ||
		containsFold(it.Description, f.Text) || containsFold(it.Notes, f.Text)
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Parent returns the id of the parent, or "".
func (it *Issue) Parent() string {
	for _, d := range it.Dependencies {
		if d.Type == DependencyParentChild {
			return d.On
		}
	}
	return ""
}

// List returns the selected issues sorted by priority, newest first within a priority.
func (t *Tracker) List(f Filter) []*Issue {
	return sortByPriority(t.filter(f.matches))
}

// filter returns the issues for which keep returns true, sorted by id. It calls keep on several
// goroutines.
func (t *Tracker) filter(keep func(*Issue) bool) []*Issue {
	all := t.issues.all()
	kept := make([]bool, len(all))
	InParts(len(all), func(from, to int) {
		for i := from; i < to; i++ {
			kept[i] = keep(all[i])
		}
	})
	found := make([]*Issue, 0, len(all))
	for i, it := range all {
		if kept[i] {
			found = append(found, it)
		}
	}
	return found
}

func sortByPriority(found []*Issue) []*Issue {
	return sortByRank(found, func(it *Issue) rank {
		return rank{group: it.Priority, seconds: -it.CreatedAt.Unix(), nanos: -it.CreatedAt.Nanosecond()}
	})
}

// rank is the sort key of an issue; ties are broken by id. Computing it once per issue is much
// faster than comparing issues directly.
type rank struct {
	group   int
	seconds int64
	nanos   int
	issue   *Issue
}

func sortByRank(found []*Issue, of func(*Issue) rank) []*Issue {
	ranks := make([]rank, len(found))
	for i, it := range found {
		ranks[i] = of(it)
		ranks[i].issue = it
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		switch {
		case a.group != b.group:
			return cmp.Compare(a.group, b.group)
		case a.seconds != b.seconds:
			return cmp.Compare(a.seconds, b.seconds)
		case a.nanos != b.nanos:
			return cmp.Compare(a.nanos, b.nanos)
		}
		return cmp.Compare(a.issue.ID, b.issue.ID)
	})
	for i, r := range ranks {
		found[i] = r.issue
	}
	return found
}

// isBlocking reports whether an issue keeps its dependents from being ready. Only a closed issue counts as done; a
// deferred issue, or one with a status of another program, still blocks. A pinned issue is for reference and never
// done, so it blocks nothing.
func isBlocking(it *Issue) bool {
	return it != nil && it.Status != StatusClosed && it.Status != StatusTombstone && it.Status != StatusPinned
}

// maxAncestors bounds the chain of parents that is followed: an untrusted file can have a chain of
// any length.
const maxAncestors = 50

// lineage yields an issue and its ancestors, the nearest first.
func (t *Tracker) lineage(it *Issue) iter.Seq[*Issue] {
	return func(yield func(*Issue) bool) {
		const few = 8
		var buffer [few]*Issue
		seen := buffer[:0] // a merged file can have cycles of parents
		for ; it != nil && len(seen) <= maxAncestors && !slices.Contains(seen, it); it = t.issues.get(it.Parent()) {
			if seen = append(seen, it); !yield(it) {
				return
			}
		}
	}
}

// blockers yields the issues that block it or one of its ancestors.
func (t *Tracker) blockers(it *Issue) iter.Seq[*Issue] {
	return func(yield func(*Issue) bool) {
		for it := range t.lineage(it) {
			for _, d := range it.Dependencies {
				if !d.Blocks() {
					continue
				}
				if on := t.issues.get(d.On); isBlocking(on) && !yield(on) {
					return
				}
			}
		}
	}
}

func (t *Tracker) isBlocked(it *Issue) bool {
	for range t.blockers(it) {
		return true
	}
	return false
}

// BlockedBy returns the issues that block it or one of its ancestors, sorted by id.
func (t *Tracker) BlockedBy(it *Issue) []*Issue {
	var found []*Issue
	for on := range t.blockers(it) {
		if !slices.Contains(found, on) {
			found = append(found, on)
		}
	}
	slices.SortFunc(found, func(a, b *Issue) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// Order is the sort order of ready issues.
type Order string

// The orders of ready issues.
const (
	OrderPriority Order = "priority" // by priority, then oldest first; the default of all commands that offer an issue
	OrderAge      Order = "oldest"
	OrderHybrid   Order = "hybrid" // issues of the last two days by priority, then the others by age
)

// recent is the age up to which OrderHybrid sorts an issue by priority.
const recent = 48 * time.Hour

// isDeferred reports whether an unfinished issue is deferred at now: until later, or without an end.
func (it *Issue) isDeferred(now time.Time) bool {
	if it.Status == StatusClosed || it.Status == StatusTombstone {
		return false
	}
	return it.DeferUntil.After(now) || it.Status == StatusDeferred && it.DeferUntil.IsZero()
}

// Ready returns the open issues that nothing blocks and that are not deferred, nor one of their ancestors. An issue
// that was deferred until a time counts as open once that time has passed.
func (t *Tracker) Ready(f Filter, order Order, now time.Time) []*Issue {
	t.issues.index()
	f.Statuses = []Status{StatusOpen, StatusDeferred}
	found := t.filter(func(it *Issue) bool {
		return f.matches(it) && !t.isPutOff(it, now) && !t.isBlocked(it)
	})
	since := now.Add(-recent)
	return sortByRank(found, func(it *Issue) rank {
		r := rank{group: it.Priority, seconds: it.CreatedAt.Unix(), nanos: it.CreatedAt.Nanosecond()}
		switch {
		case order == OrderAge:
			r.group = 0
		case order == OrderHybrid && it.CreatedAt.Before(since):
			r.group = math.MaxInt
		}
		return r
	})
}

// isPutOff reports whether the issue or one of its ancestors is deferred at now.
func (t *Tracker) isPutOff(it *Issue, now time.Time) bool {
	for of := range t.lineage(it) {
		if of.isDeferred(now) {
			return true
		}
	}
	return false
}

// CountDependents counts the dependencies on each issue. The returned function is safe for
// concurrent use.
func (t *Tracker) CountDependents() func(*Issue) int {
	all := t.issues.all()
	t.issues.index()
	for i, it := range all {
		it.index = i
	}
	counts := make([]atomic.Int32, len(all))
	InParts(len(all), func(from, to int) {
		for _, it := range all[from:to] {
			for _, d := range it.Dependencies {
				if on := t.issues.lookup(d.On); on != nil {
					counts[on.index].Add(1)
				}
			}
		}
	})
	return func(it *Issue) int { return int(counts[it.index].Load()) }
}

// BlockedIssues returns the unfinished issues that other issues block.
func (t *Tracker) BlockedIssues() []*Issue {
	t.issues.index()
	return sortByPriority(t.filter(func(it *Issue) bool { return isBlocking(it) && t.isBlocked(it) }))
}

// Stale returns the issues that are not closed and were last updated before since, least recently
// updated first.
func (t *Tracker) Stale(since time.Time) []*Issue {
	found := t.List(Filter{UpdatedBefore: since})
	slices.SortStableFunc(found, func(a, b *Issue) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	return found
}

// Node is an issue in a tree of dependencies.
type Node struct {
	Issue *Issue
	Depth int
	Under string // id of the parent node, "" at the top
	Cut   bool   // the children of this node were shown before, or are too deep
}

// maxTree is the default maximum depth of a tree.
const maxTree = 50

// Tree returns the dependencies of an issue in depth-first order, or its dependents if up is set. depth bounds the
// levels; 0 stands for maxTree.
func (t *Tracker) Tree(id string, depth int, up bool) ([]Node, error) {
	top, err := t.findLive(id)
	if err != nil {
		return nil, err
	}
	if depth <= 0 {
		depth = maxTree
	}
	next := t.dependencies
	if up {
		above := t.dependentsByID()
		next = func(it *Issue) []*Issue { return above[it.ID] }
	}
	var nodes []Node
	shown := map[string]bool{}
	var walk func(it *Issue, level int, under string)
	walk = func(it *Issue, level int, under string) {
		others := next(it)
		cut := len(others) > 0 && (shown[it.ID] || level >= depth)
		nodes = append(nodes, Node{it, level, under, cut})
		if shown[it.ID] || cut {
			return
		}
		shown[it.ID] = true
		for _, on := range others {
			walk(on, level+1, it.ID)
		}
	}
	walk(top, 0, "")
	return nodes, nil
}

// dependencies returns the existing issues that it depends on.
func (t *Tracker) dependencies(it *Issue) (found []*Issue) {
	for _, d := range it.Dependencies {
		if on := t.issues.get(d.On); on != nil && on.Status != StatusTombstone {
			found = append(found, on)
		}
	}
	return found
}

// Cycles returns the cycles of issues that block each other, each starting from its smallest id. A
// merge of files can create them.
func (t *Tracker) Cycles() [][]*Issue {
	t.issues.index()
	var found [][]*Issue
	state := map[string]int{} // 0 is unseen, 1 on the path, 2 done
	var path []*Issue
	known := map[string]bool{}
	var visit func(it *Issue)
	visit = func(it *Issue) {
		state[it.ID] = 1
		path = append(path, it)
		for _, d := range it.Dependencies {
			on := t.issues.get(d.On)
			if !d.Blocks() || on == nil {
				continue
			}
			switch state[on.ID] {
			case 0:
				visit(on)
			case 1:
				at := slices.Index(path, on)
				ring := slices.Clone(path[at:])
				first := slices.Index(ring, slices.MinFunc(ring, func(a, b *Issue) int { return cmp.Compare(a.ID, b.ID) }))
				ring = slices.Concat(ring[first:], ring[:first])
				name := ""
				for _, one := range ring {
					name += one.ID + " "
				}
				if !known[name] {
					known[name] = true
					found = append(found, ring)
				}
			}
		}
		path = path[:len(path)-1]
		state[it.ID] = 2
	}
	for _, it := range t.All() {
		if state[it.ID] == 0 {
			visit(it)
		}
	}
	return found
}

// Epic is an issue that has children.
type Epic struct {
	Issue            *Issue
	Children, Closed int
}

// Done reports whether the epic has children and all are closed.
func (e Epic) Done() bool { return e.Children > 0 && e.Closed == e.Children }

// Epics returns the epics that are not closed, sorted by id.
func (t *Tracker) Epics() []Epic {
	var epics []Epic
	at := map[string]int{}
	for _, it := range t.issues.all() {
		if it.Type == "epic" && it.Status != StatusClosed && it.Status != StatusTombstone {
			at[it.ID] = len(epics)
			epics = append(epics, Epic{Issue: it})
		}
	}
	for _, child := range t.issues.all() {
		i, has := at[child.Parent()]
		if !has || child.Status == StatusTombstone {
			continue
		}
		epics[i].Children++
		if child.Status == StatusClosed {
			epics[i].Closed++
		}
	}
	return epics
}
