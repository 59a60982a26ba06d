package tracker

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// tombstoneTTL is how long a tombstone wins over copies that still have the issue: thirty days,
// plus an hour for clock skew.
const tombstoneTTL = 30*24*time.Hour + time.Hour

// Merge merges another copy of the file into t. The result does not depend on the order in which
// copies are merged. Two issues that share an id both stay; see [Tracker.Splits].
func (t *Tracker) Merge(other *Tracker) { t.mergeWith(other, nil) }

// MergeWith performs a three-way merge: other and t were both changed from base. For each value,
// the side that changed wins; [Tracker.Merge] decides if both did. Issues are merged member by
// member; labels, dependencies and comments element by element. An issue that one side removed
// stays removed unless the other side changed it.
func (t *Tracker) MergeWith(other, base *Tracker) { t.mergeWith(other, base) }

// mergeWith implements all merges. base is nil if no common ancestor is known.
func (t *Tracker) mergeWith(other, base *Tracker) {
	t.issues.index()
	other.issues.index()
	if base != nil {
		base.issues.index()
	}
	settle(t, other, base)
	absorb(t, other)
	t.unite(other, base)
}

// absorb takes over into t the findings from reading another copy.
func absorb(t, other *Tracker) {
	t.splits = append(t.splits, other.splits...)
	t.contests = append(t.contests, other.contests...)
	t.met = append(t.met, other.met...)
}

// damaged reports whether a copy has lines that cannot be read. An issue that is missing in a damaged copy may be on
// one of these lines, so it does not count as removed.
func damaged(t *Tracker) bool {
	return slices.ContainsFunc(t.others, isInvalid)
}

// unite merges into t the issues and the other lines of other. Both sides already use the same id for the same issue.
func (t *Tracker) unite(other, base *Tracker) {
	gone := removed(t, other, base)
	dangled := dangling(gone, t, other)
	for _, theirs := range other.inFileOrder() {
		ours, was := t.issues.get(theirs.ID), base.ancestor(theirs)
		if ours != nil && was != nil && !sameOrigin(ours, was) {
			was = nil
		}
		switch {
		case gone[theirs.ID]:
		case ours == nil:
			t.issues.put(newLine(theirs))
		case t.Line(ours) == other.Line(theirs):
		default:
			t.issues.put(mergeTwo(t, was, ours, theirs).in(ours))
		}
	}
	for _, ours := range slices.Clone(t.issues.all()) {
		if gone[ours.ID] {
			lose(t, ours)
		}
	}
	// Unlinking keeps a dependency on the removed issue from becoming a dependency on the next issue that gets its
	// id. A dependency whose side never had the issue stays, so that a merge with an unchanged side changes nothing.
	unlink(t, slices.Collect(maps.Keys(gone)), func(it *Issue, on string) bool { return dangled[[2]string{it.ID, on}] })
	uniteOthers(t, other, base)
}

// removed returns the ids of the issues that one side removed and the other side left unchanged.
func removed(t, other, base *Tracker) map[string]bool {
	gone := map[string]bool{}
	if base == nil {
		return gone
	}
	for _, sides := range [][2]*Tracker{{t, other}, {other, t}} {
		has, lacks := sides[0], sides[1]
		if damaged(lacks) {
			continue
		}
		for _, it := range has.issues.all() {
			was := base.ancestor(it)
			if was != nil && !lacks.issues.has(it.ID) && has.Line(it) == base.Line(was) {
				gone[it.ID] = true
			}
		}
	}
	return gone
}

// dangling returns the dependencies in the sides on an issue that the same side lacks, as pairs of an issue and the
// issue it depends on.
func dangling(gone map[string]bool, sides ...*Tracker) map[[2]string]bool {
	found := map[[2]string]bool{}
	for _, side := range sides {
		for _, it := range issuesMentioning(side, slices.Collect(maps.Keys(gone))) {
			for _, d := range it.Dependencies {
				if gone[d.On] && !side.issues.has(d.On) {
					found[[2]string{it.ID, d.On}] = true
				}
			}
		}
	}
	return found
}

// Line returns the JSON line of an issue.
func (t *Tracker) Line(it *Issue) string {
	if it.unchanged {
		return it.line
	}
	return t.codec.write(it)
}

// merge merges two copies of an issue. A tombstone wins, closed wins over open, the more urgent
// priority wins; labels, dependencies and comments are united. For every other member the newer
// copy wins, but text or unknown members that only one copy has are kept.
func (c *codec) merge(a, b *Issue) *Issue {
	if dead := winningTombstone(a, b); dead != nil {
		return dead
	}
	return c.combine(a, b)
}

// combine implements merge for issues that are not deleted.
func (c *codec) combine(a, b *Issue) *Issue {
	older, newer := a, b
	// the line decides the order of members
	if at := a.UpdatedAt.Compare(b.UpdatedAt); at > 0 || at == 0 && a.line > b.line {
		older, newer = b, a
	}
	out := *newer
	if older.UpdatedAt.Equal(newer.UpdatedAt) {
		out = *c.mergeTied(a, b)
	}
	out.unchanged = false
	out.line, out.foreign = c.mergeUnknown(newer, older), newer.foreign || older.foreign
	// Empty text in the newer copy does not erase text of the older one.
	for _, text := range []struct{ newer, older *string }{
		{&out.Description, &older.Description}, {&out.Design, &older.Design}, {&out.Acceptance, &older.Acceptance},
		{&out.Notes, &older.Notes}, {&out.ExternalRef, &older.ExternalRef},
	} {
		if *text.newer == "" {
			*text.newer = *text.older
		}
	}
	for _, one := range []*Issue{older, newer} {
		if one.Status == StatusClosed && (older.Status != StatusClosed || newer.Status != StatusClosed) {
			out.Status, out.ClosedAt, out.CloseReason = StatusClosed, one.ClosedAt, one.CloseReason
		}
	}
	out.Priority = min(older.Priority, newer.Priority)
	for _, at := range []time.Time{older.CreatedAt, newer.CreatedAt} {
		if !at.IsZero() && at.Before(out.CreatedAt) {
			out.CreatedAt = at
		}
	}
	out.Labels = union(newer.Labels, older.Labels, labelKey, labelKey)
	out.Dependencies = union(newer.Dependencies, older.Dependencies, c.dependencyKey, func(d Dependency) string {
		return d.rank(out.ID)
	})
	out.Comments = withoutCopies(union(newer.Comments, older.Comments, commentKey, func(c Comment) string {
		return c.text(out.ID)
	}))
	return &out
}

// labelKey and the functions below identify equal elements in two copies.
func labelKey(l string) string          { return l }
func dependencyKey(d Dependency) string { return d.On + "\x00" + d.Type }
func commentKey(c Comment) string {
	return c.CreatedAt.UTC().Format(time.RFC3339Nano) + "\x00" + c.Author + "\x00" + c.Text + "\x00" + c.TextID
}

// dependencyKey is the function of this name, but keeps references to an id of c.shared apart that were made apart.
func (c *codec) dependencyKey(d Dependency) string {
	key := dependencyKey(d)
	if c.shared[d.On] {
		key += "\x00" + d.CreatedAt.UTC().Format(time.RFC3339Nano) + "\x00" + d.CreatedBy
	}
	return key
}

// mergeTied merges copies with the same update time. It takes the greater text of each member, so
// that every clone gets the same result.
func (c *codec) mergeTied(a, b *Issue) *Issue {
	out := *a
	for _, m := range c.members {
		if raw := m.write(b); raw > m.write(a) {
			_ = m.read(&out, newScanner(raw)) // written by the same codec
		}
	}
	return &out
}

// winningTombstone returns the tombstone if exactly one copy is deleted and the other was not
// changed after the tombstone expired. Otherwise it returns nil.
func winningTombstone(a, b *Issue) *Issue {
	wins := func(dead, other *Issue) bool {
		return dead.Status == StatusTombstone && other.Status != StatusTombstone &&
			other.UpdatedAt.Before(dead.DeletedAt.Add(tombstoneTTL))
	}
	switch {
	case wins(a, b):
		return a
	case wins(b, a):
		return b
	}
	return nil
}

// mergeUnknown returns the newer line with the unknown members that only the older line has.
func (c *codec) mergeUnknown(newer, older *Issue) string {
	out := newer.parts()
	at := map[string]int{}
	for i, f := range out {
		at[f.name] = i
	}
	for _, f := range older.parts() {
		if _, known := c.byName[f.name]; known {
			continue
		}
		if i, has := at[f.name]; !has {
			out = append(out, f)
		} else if older.UpdatedAt.Equal(newer.UpdatedAt) && f.raw > out[i].raw {
			out[i] = f
		}
	}
	if newer.line == "" && len(out) == 0 {
		return ""
	}
	return encodeObject(out)
}

// encodeObject returns the JSON object with these members.
func encodeObject(parts []field) string {
	size := len("{}")
	for _, f := range parts {
		size += len(f.key) + len(f.raw) + len(",:")
	}
	var text strings.Builder
	text.Grow(size)
	text.WriteByte('{')
	for i, f := range parts {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(f.key)
		text.WriteByte(':')
		text.WriteString(f.raw)
	}
	text.WriteByte('}')
	return text.String()
}

// union returns the elements of both lists, unique by key. If both lists have the same keys in the
// same order, that order is kept; otherwise elements are sorted by key. Of two elements with one
// key, the one with the smaller text wins.
func union[T any](first, second []T, key, text func(T) string) []T {
	best := map[string]T{}
	var keys []string
	for _, v := range slices.Concat(first, second) {
		k := key(v)
		old, has := best[k]
		if !has {
			keys = append(keys, k)
		}
		if !has || text(v) < text(old) {
			best[k] = v
		}
	}
	if !slices.EqualFunc(first, second, func(a, b T) bool { return key(a) == key(b) }) {
		slices.Sort(keys)
	}
	var out []T
	for _, k := range keys {
		out = append(out, best[k])
	}
	return out
}
