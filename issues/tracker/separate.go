package tracker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Split reports that two issues had one id, and that one of them got a new id.
type Split struct {
	ID    string
	Kept  *Issue // keeps the id
	Moved *Issue // has the new id
	// Unsure are the issues that refer to ID, where it is unknown which of the two they mean.
	Unsure []string
}

// String describes the split for the user.
func (s Split) String() string {
	text := fmt.Sprintf("%s was given to two issues: %s keeps it, %s is now %s", s.ID, s.Kept.described(),
		s.Moved.described(), s.Moved.ID)
	if len(s.Unsure) > 0 {
		text += fmt.Sprintf("; check which of the two is meant in %s", strings.Join(s.Unsure, ", "))
	}
	return text
}

func (it *Issue) described() string {
	by := it.CreatedBy
	if by != "" {
		by = " of " + by
	}
	return fmt.Sprintf("%q%s", it.Title, by)
}

// Splits returns the ids that belonged to two issues when the file was read or merged.
func (t *Tracker) Splits() []Split { return t.splits }

// separate gives one issue of each pair that shares an id but not its origin a new id, in its side of the merge and
// in the base. A reference means the issue of its own side, so it follows that issue to the new id. base may be nil.
// Together with [addCopies], which does this for the lines of one file, this is the only place that decides who keeps
// an id.
//
// Children keep the ids .1, .2, … and get no hashes, although clones often choose the same number: people read and
// type these ids and other programs create them, and hashes would make collisions rarer but not impossible, so this
// rule would be needed anyway. The older issue keeps the id, and the new id is a hash of the origin: a choice by
// anything else (who merges, what was edited, what was published) would differ between clones, and the next merge of
// these clones would duplicate the issue. The file has no list of renamed ids, because other programs drop fields
// they do not know: a renamed id is recognized by its hash, which is that of the issue's origin.
func separate(t *Tracker, theirs, base *Tracker) {
	sides := []*Tracker{t, theirs}
	if base != nil {
		sides = append(sides, base)
	}
	followMoves(sides)
	dropReused(sides)
	moves := noMoves(sides)
	var kept []*Issue
	for _, their := range slices.Clone(theirs.issues.all()) {
		our := t.issues.get(their.ID)
		if our == nil || oneIssue(our, their, base) {
			continue
		}
		if compareOrigins(our, their) <= 0 {
			moves[1][our.ID] = freeID(their, sides)
			kept = append(kept, our)
		} else {
			moves[0][our.ID] = freeID(our, sides)
			kept = append(kept, their)
		}
	}
	if base != nil {
		for i, side := range sides[:2] {
			for old, name := range moves[i] {
				if was := base.issues.get(old); was != nil && sameOrigin(was, side.issues.get(old)) {
					moves[2][old] = name
				}
			}
		}
	}
	moveAll(sides, moves)
	for _, it := range kept {
		for i, side := range sides[:2] {
			if name, moved := moves[i][it.ID]; moved {
				t.splits = append(t.splits, Split{ID: it.ID, Kept: it, Moved: side.issues.get(name)})
			}
		}
	}
}

// noMoves returns an empty map from old to new ids for each side.
func noMoves(sides []*Tracker) []map[string]string {
	moves := make([]map[string]string, len(sides))
	for i := range moves {
		moves[i] = map[string]string{}
	}
	return moves
}

func moveAll(sides []*Tracker, moves []map[string]string) {
	for i, side := range sides {
		moveIssues(side, moves[i])
	}
}

// maxRounds bounds the work of [dropReused]. A chain of issues that is longer is split, and loses nothing.
const maxRounds = 50

// dropReused drops, from the other side and from the base, the issues whose ids one side has used again, and the
// dependencies on them; see [usedAgain]. An issue whose only change was such a dependency is unchanged then, so
// dropReused looks again: otherwise the merge would keep the id for an issue that it is about to remove.
func dropReused(sides []*Tracker) {
	if len(sides) < 3 {
		return // without a base, nothing shows what a side removed
	}
	t, theirs, base := sides[0], sides[1], sides[2]
	for range maxRounds {
		again := make([][]string, len(sides)) // by side: ids of the issues that usedAgain dropped
		for _, their := range slices.Clone(theirs.issues.all()) {
			our := t.issues.get(their.ID)
			if our == nil || oneIssue(our, their, base) {
				continue
			}
			if side := usedAgain(sides[:2], base, their.ID); side >= 0 {
				again[side] = append(again[side], their.ID)
				again[2] = append(again[2], their.ID) // so that the removal of dependencies is no change
			}
		}
		if len(again[2]) == 0 {
			return
		}
		for i, side := range sides {
			unlinkIssues(side, again[i])
		}
	}
}

// usedAgain handles an id that one side has used again after it removed the issue of the base: the removed issue is
// dropped from the other side, unless it was changed there. It returns the index of the side that lost the removed
// issue, so that the caller removes the dependencies of that side on it, or -1.
func usedAgain(sides []*Tracker, base *Tracker, id string) int {
	was := base.issues.get(id)
	if was == nil {
		return -1
	}
	for i, side := range sides {
		if it := side.issues.get(id); sameOrigin(was, it) && side.Line(it) == base.Line(was) {
			lose(side, it) // absorb takes what the other side has lost
			return i
		}
	}
	return -1
}

// followMoves renames copies that still have the id which their issue lost in an earlier merge. It renames them even
// if no issue has that id now.
func followMoves(sides []*Tracker) {
	moves := noMoves(sides)
	for j, other := range sides[:2] {
		for _, moved := range slices.Clone(other.issues.all()) {
			old := moved.MovedFrom()
			if old == "" {
				continue
			}
			for i, side := range sides {
				it, kept := side.issues.get(old), other.issues.get(old)
				if i != j && it != nil && !side.issues.has(moved.ID) && sameOrigin(it, moved) && (kept == nil ||
					!sameOrigin(it, kept)) {
					moves[i][old] = moved.ID
				}
			}
		}
	}
	moveAll(sides, moves)
}

// freeID returns the new id of an issue: the id that an earlier merge gave to a copy of the issue, even if another
// program has cut the copy's times since, or else an unused id.
func freeID(it *Issue, in []*Tracker) string {
	for _, t := range in {
		if at := movedCopy(t, it); at != nil {
			return at.ID
		}
	}
	id := movedID(it.ID, it)
	for slices.ContainsFunc(in, func(t *Tracker) bool { return t.issues.has(id) }) {
		id = movedID(id, it)
	}
	return id
}

// movedCopy returns the copy of an issue that got a new id because another issue has the old one, or nil.
func movedCopy(t *Tracker, it *Issue) *Issue {
	first, _ := t.issues.search(it.ID + movedMark)
	for _, at := range t.issues.order[first:] {
		if !strings.HasPrefix(at.ID, it.ID+movedMark) {
			break
		}
		if len(at.ID) == len(it.ID)+len(movedMark)+movedLength && sameOrigin(t.issues.get(at.ID), it) {
			return at
		}
	}
	return nil
}

// moveIssues gives issues new ids, and changes the references to them. The keys of ids are the old ids.
func moveIssues(t *Tracker, ids map[string]string) {
	to := func(on string, _ reference) string {
		if name, moved := ids[on]; moved {
			return name
		}
		return on
	}
	for _, it := range issuesMentioning(t, slices.Collect(maps.Keys(ids))) {
		if it = t.issues.get(it.ID); it != nil { // an earlier replacement may have united the issue
			replaceIssue(t, it, t.codec.redirect(it, to(it.ID, reference{}), to))
		}
	}
}

// unlinkIssues removes the dependencies on issues.
func unlinkIssues(t *Tracker, ids []string) {
	unlink(t, ids, func(*Issue, string) bool { return false })
}

// unlink removes the dependencies on the issues with these ids, except those for which keep returns true.
func unlink(t *Tracker, ids []string, keep func(it *Issue, on string) bool) {
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	for _, it := range issuesMentioning(t, ids) {
		removed := func(on string) bool { return gone[on] && !keep(it, on) }
		if slices.ContainsFunc(it.Dependencies, func(d Dependency) bool { return removed(d.On) }) {
			replaceIssue(t, it, t.codec.redirect(it, it.ID, func(on string, _ reference) string {
				if removed(on) {
					return ""
				}
				return on
			}))
		}
	}
}

// replaceIssue puts the issue it in the place of old. If t already has an issue with the new id, which is a copy, it
// merges both.
func replaceIssue(t *Tracker, old, it *Issue) {
	if it.ID != old.ID {
		t.issues.drop(old.ID)
		if there := t.issues.get(it.ID); there != nil {
			it = mergeTwo(t, nil, there, it)
		}
	}
	t.issues.put(it)
}

// issuesMentioning returns the issues whose lines may contain one of the ids.
func issuesMentioning(t *Tracker, ids []string) (found []*Issue) {
	if len(ids) == 0 {
		return nil
	}
	const few = 16 // a search for more costs more than it saves
	quoted := make([]string, 0, few)
	for _, id := range ids[:min(len(ids), few)] {
		quoted = append(quoted, encodeText(id))
	}
	for _, it := range t.issues.order {
		has := func(q string) bool { return strings.Contains(it.line, q) }
		if len(ids) > few || !it.lazy && !it.unchanged || slices.ContainsFunc(quoted, has) {
			found = append(found, t.issues.get(it.ID))
		}
	}
	return found
}

// reference is what is known about a reference to another issue: when it was made and by which actor, if the line
// says so.
type reference struct {
	at time.Time
	by string
}

// redirect returns an issue with a new id. The function to gives the new id for each reference of the issue; if to
// returns "" for a dependency, redirect removes it. The time of the last change stays, because another clone that
// renames the issue must write the same line.
func (c *codec) redirect(it *Issue, id string, to func(on string, ref reference) string) *Issue {
	out := *it
	out.ID = id
	out.Dependencies, out.Comments = nil, slices.Clone(it.Comments)
	for _, d := range it.Dependencies {
		if on := to(d.On, reference{d.CreatedAt, d.CreatedBy}); on != d.On {
			if on == "" {
				continue
			}
			if on == id && d.On != it.ID {
				continue // this issue unites two, and one of them depended on the other
			}
			d.On = on
			was := d.raw
			if d.raw = replaceText(was, "depends_on_id", on); d.raw == was {
				d.raw = replaceText(was, "id", on) // the older name of depends_on_id; see [Dependency.read]
			}
		}
		if id != it.ID {
			d.raw = replaceText(d.raw, "issue_id", id)
		}
		if !slices.ContainsFunc(out.Dependencies, func(x Dependency) bool {
			return c.dependencyKey(x) == c.dependencyKey(d)
		}) || d.On == "" {
			out.Dependencies = append(out.Dependencies, d)
		}
	}
	for i := range out.Comments {
		if id != it.ID {
			out.Comments[i].raw = replaceText(out.Comments[i].raw, "issue_id", id)
		}
	}
	if it.foreign {
		out.line = c.redirectForeign(it.line, to)
	}
	moved := &Issue{}
	if err := c.read(&scanner{}, c.write(&out), moved); err != nil {
		return it // cannot happen: the line is an object with an id
	}
	if moved.cr, moved.number = it.cr, it.number; id != it.ID {
		moved.number = 0 // a new line
	}
	return moved
}

// references are the members beside dependencies that name issues, one or a list. This package does not interpret them,
// but they follow their issue when its id changes.
func references() []string {
	return []string{
		"replies_to", "relates_to", "duplicate_of", "superseded_by", "parent", "parent_id", "epic_id", "thread_id",
		"hook_bead", "role_bead",
		"depends_on", "blocked_by", "blocks", "related", "children", "deps", "discovered_from",
	}
}

// redirectMember returns a member that names issues, as [references] lists them, with its ids changed by to.
func redirectMember(raw string, to func(on string) string) string {
	var one string
	var list []string
	switch {
	case readJSON(raw, &one) == nil && one != "":
		if on := to(one); on != one && on != "" {
			return encodeText(on)
		}
	case readJSON(raw, &list) == nil:
		was := slices.Clone(list)
		for k, on := range list {
			list[k] = cmp.Or(to(on), on)
		}
		if !slices.Equal(was, list) {
			return encode(list)
		}
	}
	return raw
}

// redirectForeign changes the references in members that this package does not interpret.
func (c *codec) redirectForeign(line string, to func(on string, ref reference) string) string {
	parts, err := fields(line)
	if err != nil {
		return line
	}
	changed := false
	for i, f := range parts {
		if !slices.Contains(references(), f.name) {
			continue
		}
		parts[i].raw = redirectMember(f.raw, func(on string) string { return to(on, reference{}) })
		changed = changed || parts[i].raw != f.raw
	}
	if !changed {
		return line
	}
	return encodeObject(parts)
}

// replaceText changes a text member that an object has.
func replaceText(object, name, text string) string {
	parts, err := fields(object)
	if object == "" || err != nil {
		return object
	}
	for i, f := range parts {
		if f.name == name && strings.HasPrefix(f.raw, `"`) {
			parts[i].raw = encodeText(text)
			return encodeObject(parts)
		}
	}
	return object
}
