package tracker

import (
	"maps"
	"slices"
)

// The members that describe the status are merged together, because an issue must not become open with a closing
// time.
const (
	memberStatus  = "status"
	memberUpdated = "updated_at" // always from the newer side
	memberCreated = "created_at" // the older time where only the base shows that it is one issue
)

func statusMembers() []string {
	return []string{memberStatus, "closed_at", "close_reason", "deleted_at", "deleted_by", "delete_reason",
		"original_type"}
}

// version is an issue with its parsed line.
type version struct {
	*Issue
	line string
	raw  map[string]string // members by name, as written
}

func (c *codec) version(it *Issue) version {
	v := version{Issue: it, line: it.line}
	if !it.unchanged {
		v.line = c.write(it)
	}
	parts, _ := fields(v.line) // read or written before
	v.raw = make(map[string]string, len(parts))
	for _, f := range parts {
		v.raw[f.name] = f.raw
	}
	return v
}

// mergeWithBase merges two versions of an issue that were made from base.
func (c *codec) mergeWithBase(base, ours, theirs *Issue) *Issue {
	b, o, t := c.version(base), c.version(ours), c.version(theirs)
	switch {
	case o.line == b.line:
		return theirs
	case t.line == b.line:
		return ours
	case base.Status != StatusTombstone && (ours.Status == StatusTombstone) != (theirs.Status == StatusTombstone):
		if dead := winningTombstone(ours, theirs); dead != nil {
			return dead
		}
		if ours.Status == StatusTombstone {
			return theirs // edited long after the deletion
		}
		return ours
	}
	m := threeWay{codec: c, base: b, ours: o, theirs: t, both: c.version(c.combine(ours, theirs))}
	return m.issue()
}

// threeWay merges one issue that both sides changed since the base.
type threeWay struct {
	codec              *codec
	base, ours, theirs version
	both               version // merged without a base
}

// issue assembles the line of the merged issue from members of both sides, and parses it.
func (m *threeWay) issue() *Issue {
	chosen := map[string]string{} // members as written; "" omits one
	for _, v := range []version{m.base, m.ours, m.theirs, m.both} {
		for name := range v.raw {
			if _, has := chosen[name]; !has {
				chosen[name] = m.choose(name)
			}
		}
	}
	parts, _ := fields(m.both.line) // written before
	at := map[string]bool{}
	for i, f := range parts {
		at[f.name] = true
		parts[i].raw = chosen[f.name]
	}
	parts = slices.DeleteFunc(parts, func(f field) bool { return f.raw == "" })
	for _, name := range slices.Sorted(maps.Keys(chosen)) { // deterministic order
		if raw := chosen[name]; !at[name] && raw != "" {
			parts = append(parts, field{name, encodeText(name), raw})
		}
	}
	out := &Issue{}
	if err := m.codec.read(&scanner{}, encodeObject(parts), out); err != nil {
		return m.both.Issue // cannot happen: the line is an object with an id
	}
	return out
}

// choose returns the merged text of a member.
func (m *threeWay) choose(name string) string {
	i, known := m.codec.byName[name]
	switch {
	case name == memberUpdated, name == memberCreated && !sameOrigin(m.ours.Issue, m.theirs.Issue):
		return m.both.raw[name]
	case slices.Contains(statusMembers(), name):
		return m.pickSide(m.sameStatus).raw[name]
	case !known:
		return m.pickSide(func(a, b version) bool { return a.raw[name] == b.raw[name] }).raw[name]
	}
	side := m.pickSide(func(a, b version) bool { return m.same(i, a, b) })
	if side.Issue != m.both.Issue {
		return side.raw[name]
	}
	out := *m.both.Issue
	switch name {
	case "labels":
		out.Labels = mergeElements(m.base.Labels, m.ours.Labels, m.theirs.Labels, out.Labels, labelKey, labelKey)
	case "dependencies":
		out.Dependencies = mergeElements(m.base.Dependencies, m.ours.Dependencies, m.theirs.Dependencies, out.Dependencies,
			m.codec.dependencyKey, func(d Dependency) string {
				return d.text(out.ID)
			})
	case "comments":
		out.Comments = mergeElements(m.base.Comments, m.ours.Comments, m.theirs.Comments, out.Comments, commentKey,
			func(c Comment) string {
				return c.text(out.ID)
			})
		out.Comments = withoutCopies(out.Comments)
	default:
		return side.raw[name]
	}
	return m.codec.members[i].write(&out)
}

// pickSide returns the side that changed from the base, or the merged version if both did.
func (m *threeWay) pickSide(same func(a, b version) bool) version {
	switch {
	case same(m.ours, m.base):
		return m.theirs
	case same(m.theirs, m.base), same(m.ours, m.theirs):
		return m.ours
	}
	return m.both
}

// same compares a known member. Malformed members are compared as text.
func (m *threeWay) same(i int, a, b version) bool {
	known := m.codec.members[i]
	return known.same(a.Issue, b.Issue) && (!a.malformed && !b.malformed || a.raw[known.name] == b.raw[known.name])
}

func (m *threeWay) sameStatus(a, b version) bool {
	return !slices.ContainsFunc(statusMembers(), func(name string) bool { return !m.same(m.codec.byName[name], a, b) })
}

// mergeElements returns the elements of united that neither side removed from base. An element that
// only one side changed comes from that side.
func mergeElements[T any](base, ours, theirs, united []T, key, text func(T) string) []T {
	byKey := func(list []T) map[string]T {
		found := make(map[string]T, len(list))
		for _, v := range list {
			found[key(v)] = v
		}
		return found
	}
	was, our, their := byKey(base), byKey(ours), byKey(theirs)
	var out []T
	for _, v := range united {
		k := key(v)
		b, old := was[k]
		o, inOurs := our[k]
		t, inTheirs := their[k]
		switch {
		case !old:
		case !inOurs, !inTheirs:
			continue
		case text(o) == text(b):
			v = t
		case text(t) == text(b):
			v = o
		}
		out = append(out, v)
	}
	return out
}
