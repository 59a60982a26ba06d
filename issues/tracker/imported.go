package tracker

import (
	"cmp"
	"slices"
	"time"
)

// An import of another program's issues is repeated, with newer states of them. What it read the last time is the
// common base of both sides: with it a label that was removed there is removed here, an edit here stays, and what
// neither side changed is compared with nothing.

// ImportSince merges the issues of other into t, as [Tracker.Import] does. base has the lines that were imported from
// that source before; an issue that is in base is merged three ways. An issue or record that other lacks is not
// removed from t, because an export may leave it out. An issue that is older in other than in base changes nothing.
// ImportSince removes issues from other and base.
func ImportSince(t, other, base *Tracker, keep bool) ImportResult {
	if base == nil {
		return importInto(t, other, nil, keep)
	}
	older := 0
	for _, was := range base.All() {
		now := other.issues.get(was.ID)
		if now != nil && now.UpdatedAt.Before(was.UpdatedAt) && sameOrigin(now, was) {
			older++
			other.issues.drop(was.ID)
			now = nil
		}
		if now == nil || keep && t.issues.has(was.ID) {
			base.issues.drop(was.ID)
		}
	}
	there := indexOthers(other)
	base.others = slices.DeleteFunc(base.others, func(o otherLine) bool {
		_, has := there[o.key()]
		return !has
	})
	result := importInto(t, other, base, keep)
	result.Same += older
	return result
}

// Renewed returns the lines to compare the next import with: of each issue and record the line of other, or else the
// one of t, which has the lines of earlier imports. An issue whose line in t is newer keeps it.
func Renewed(t, other *Tracker) string {
	out := New()
	for _, from := range []*Tracker{t, other} {
		for _, it := range from.All() {
			if was := out.issues.get(it.ID); was == nil || !it.UpdatedAt.Before(was.UpdatedAt) {
				out.issues.put(newLine(it))
			}
		}
	}
	lines := indexOthers(t)
	for key, o := range indexOthers(other) {
		lines[key] = o
	}
	for _, o := range lines {
		o.number, o.cr = 0, false
		out.others = append(out.others, o)
	}
	slices.SortFunc(out.others, func(a, b otherLine) int { return cmp.Compare(a.text, b.text) })
	return out.Text()
}

// ForeignMembers returns the names of the members of issues that this package keeps and does not interpret, sorted.
func ForeignMembers(t *Tracker) []string {
	var names []string
	for _, it := range t.All() {
		if !it.foreign {
			continue
		}
		for _, f := range it.parts() {
			if _, known := t.codec.byName[f.name]; !known && f.name != memberType && !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// withoutCopies leaves out comments without a text id if the list has a copy with one: a program that gives
// comments such ids renumbers those that it reads, and may cut their times.
func withoutCopies(list []Comment) []Comment {
	return slices.DeleteFunc(slices.Clone(list), func(c Comment) bool {
		return c.TextID == "" && slices.ContainsFunc(list, func(other Comment) bool {
			return other.TextID != "" && other.Author == c.Author && other.Text == c.Text &&
				sameTime(other.CreatedAt, c.CreatedAt)
		})
	})
}

// sameTime reports whether two times are equal, or one was cut from the other.
func sameTime(a, b time.Time) bool {
	apart := a.Sub(b).Abs()
	return apart == 0 || apart < max(precision(a), precision(b))
}
