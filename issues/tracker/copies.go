package tracker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// maxOrigins bounds the issues that one id is split into. Two or three clones can choose one id; a file
// that has many more issues with one id is damaged, or hostile.
const maxOrigins = 50

// errCrowded marks a line whose id more than maxOrigins other issues have. The line stays in the file unread.
var errCrowded = fmt.Errorf("more than %d issues have its id; give it another one", maxOrigins)

// addCopies adds lines whose ids the file already has, as a union merge leaves them. Copies of the same issue are
// merged, using the base that baseOf returns if git knows it. An issue of another origin gets an id of its own.
func addCopies(t *Tracker, copies []*Issue, baseOf func() *Tracker) {
	if len(copies) == 0 {
		return
	}
	t.issues.index()
	base := sync.OnceValue(baseOf)  // costs a run of git
	others := map[string][]*Issue{} // issues of other origin, by id
	codec := t.codec
	t.codec = codec.forShared(sharedIDs(t, copies, base))
	for _, it := range copies {
		group := append([]*Issue{t.issues.get(it.ID)}, others[it.ID]...)
		i := slices.IndexFunc(group, func(other *Issue) bool {
			return sameOrigin(other, it) || oneIssue(other, it, base())
		})
		if i >= 0 && t.Line(group[i]) == t.Line(it) || i < 0 && t.isOld(t.Line(it)) && wasRemoved(t, it) &&
			movedCopy(t, it) == nil {
			continue
		}
		switch {
		case i < 0 && len(group) > maxOrigins:
			t.others = append(t.others, otherLine{rawLine{it.line, it.number, it.cr}, errCrowded})
		case i < 0:
			others[it.ID] = append(others[it.ID], it)
		case i == 0:
			t.issues.put(mergeCopies(t, base(), group[i], it))
		default:
			others[it.ID][i-1] = mergeCopies(t, base(), group[i], it)
		}
	}
	splits := splitCopies(t, others)
	t.codec = codec
	redirectByTime(t, splits)
	t.splits = append(t.splits, splits...)
	slices.SortStableFunc(t.others, func(a, b otherLine) int { return cmp.Compare(a.number, b.number) })
}

// sharedIDs returns the ids that issues of different origin have. It completes the copies.
func sharedIDs(t *Tracker, copies []*Issue, base func() *Tracker) map[string]bool {
	shared := map[string]bool{}
	for _, it := range copies {
		t.codec.complete(&scanner{}, it)
		if first := t.issues.get(it.ID); !sameOrigin(first, it) && !oneIssue(first, it, base()) {
			shared[it.ID] = true
		}
	}
	return shared
}

// mergeCopies merges two lines of the same issue. It uses the issue of the base only if the base has one line of it:
// if the base has several, any of them may be old.
func mergeCopies(t *Tracker, base *Tracker, first, second *Issue) *Issue {
	was := base.ancestor(first)
	if was != nil && base.copied[first.ID] {
		was = nil
	}
	return mergeTwo(t, was, first, second).in(first)
}

// ancestor returns the issue of the base t that it was made from, or nil. t may be nil.
func (t *Tracker) ancestor(it *Issue) *Issue {
	if t == nil {
		return nil
	}
	if was := t.issues.get(it.ID); was != nil && sameOrigin(was, it) {
		return was
	}
	return nil
}

// in returns the issue it as a new version of the given line: with the line's position and line end.
func (it *Issue) in(line *Issue) *Issue {
	out := *it
	out.number, out.cr = line.number, line.cr
	return &out
}

// splitCopies lets the first of several issues with one id keep it, and gives the others new ids.
func splitCopies(t *Tracker, others map[string][]*Issue) (splits []Split) {
	for _, id := range slices.Sorted(maps.Keys(others)) {
		group := append([]*Issue{t.issues.get(id)}, others[id]...)
		slices.SortStableFunc(group, compareOrigins)
		t.issues.put(group[0])
		for _, it := range group[1:] {
			name := freeID(it, []*Tracker{t})
			moved := t.codec.redirect(it, name, func(on string, _ reference) string { return on })
			if there := t.issues.get(name); there != nil {
				moved = mergeTwo(t, nil, there, moved).in(there)
			}
			t.issues.put(moved)
			splits = append(splits, Split{ID: id, Kept: group[0], Moved: moved})
		}
	}
	return splits
}

// redirectByTime changes references in lines whose side of the merge is unknown. If only one of the issues existed
// when the reference was made, the reference means that issue. Otherwise the reference probably means the issue that
// its author created, or else the issue that keeps the id. The issue with such an unsure reference is noted in the
// split.
func redirectByTime(t *Tracker, splits []Split) {
	byID := map[string][]int{}
	for i, s := range splits {
		byID[s.ID] = append(byID[s.ID], i)
	}
	for _, it := range issuesMentioning(t, slices.Collect(maps.Keys(byID))) {
		unsure := map[string]bool{}
		changed := t.codec.redirect(it, it.ID, func(on string, ref reference) string {
			found := byID[on]
			if len(found) == 0 {
				return on
			}
			candidates := []*Issue{splits[found[0]].Kept}
			for _, i := range found {
				candidates = append(candidates, splits[i].Moved)
			}
			one, sure := meant(candidates, ref)
			if !sure {
				unsure[on] = true
			}
			return one.ID
		})
		for _, id := range slices.Sorted(maps.Keys(unsure)) {
			s := &splits[byID[id][0]]
			s.Unsure = append(s.Unsure, it.ID)
		}
		if t.Line(changed) != t.Line(it) {
			changed.unchanged = false
			t.issues.put(changed)
		}
	}
}

// meant returns the one of the candidates that a reference means, and whether that is sure.
func meant(candidates []*Issue, ref reference) (one *Issue, sure bool) {
	only := func(of func(*Issue) bool) *Issue {
		i := slices.IndexFunc(candidates, of)
		if i < 0 || slices.ContainsFunc(candidates[i+1:], of) {
			return nil
		}
		return candidates[i]
	}
	existed := func(it *Issue) bool { return it.CreatedAt.Truncate(precision(ref.at)).Compare(ref.at) <= 0 }
	if one = only(existed); one != nil && !ref.at.IsZero() {
		return one, true
	}
	if one = only(func(it *Issue) bool { return it.CreatedBy == ref.by && ref.by != "" }); one != nil {
		return one, false
	}
	return candidates[0], false
}
