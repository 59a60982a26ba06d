package tracker

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Contest reports that two copies gave one member of an issue different values, and that a merge
// kept one of them. The other one is in git's history only, or nowhere.
type Contest struct {
	ID            string
	Member        string // its name in the file
	Kept, Dropped string // the values, as written in the file
	// Guessed means that no common ancestor is known: the copies differ, but one may just be old.
	Guessed bool
}

// String describes the contest for the user.
func (c Contest) String() string {
	what := "two clones changed"
	if c.Guessed {
		what = "two copies differ in"
	}
	return fmt.Sprintf("%s: %s %s; %s is kept, %s is dropped", c.ID, what, c.Member, shortened(c.Kept),
		shortened(c.Dropped))
}

// shortened returns the begin of a value.
func shortened(raw string) string {
	const most = 60 // bytes
	if raw == "" {
		return "no value"
	}
	if len(raw) <= most {
		return raw
	}
	at := most
	for !utf8.RuneStart(raw[at]) {
		at--
	}
	return raw[:at] + "…"
}

// Contests returns the values that were dropped when the file was read or merged.
func (t *Tracker) Contests() []Contest { return t.contests }

const memberAssignee = "assignee"

// contested are the members whose values people choose; a merge keeps one of two. Priority and lists have rules that
// lose nothing. Times of changes and members of other programs are no choices: those programs compute them.
func contested() []string {
	return []string{
		"title", "description", "design", "acceptance_criteria", "notes", "issue_type", memberAssignee, "estimated_minutes",
		"external_ref", "due_at", "defer_until", "close_reason",
	}
}

// contest notes in t what the merge of two versions dropped. Without a base it is unknown who changed what. Then a
// version without an edit since it was made is no contest, and neither is one that this clone replaced: see [mergeTwo].
func contest(t *Tracker, base, ours, theirs, merged *Issue) {
	if merged.Status == StatusTombstone || base == nil && !(ours.wasEdited() && theirs.wasEdited()) {
		return
	}
	o, r, m := t.codec.version(ours), t.codec.version(theirs), t.codec.version(merged)
	names := contested()
	if base != nil && merged.Status != StatusClosed { // closed wins, and loses nothing
		names = append(names, memberStatus)
	}
	for _, name := range names {
		same := t.codec.members[t.codec.byName[name]].same
		if same(ours, theirs) || base != nil && (same(ours, base) || same(theirs, base)) {
			continue
		}
		c := Contest{ID: merged.ID, Member: name, Kept: m.raw[name], Dropped: o.raw[name], Guessed: base == nil}
		if same(merged, ours) {
			c.Dropped = r.raw[name]
		}
		if base == nil && slices.Contains([]string{"", `""`, "null"}, c.Dropped) {
			continue // probably it was not set yet
		}
		t.contests = append(t.contests, c)
	}
}
