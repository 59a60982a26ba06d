package tracker

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Contest reports that two copies gave one member of an issue different values, and that a merge kept one of them.
// The other value is only in git's history, or lost.
type Contest struct {
	ID            string
	Member        string // name of the member in the file
	Kept, Dropped string // the values, as written in the file
	// Guessed is set if no common ancestor is known: the values differ, but one of them may only be old.
	Guessed bool
}

// String describes the contest for the user.
func (c Contest) String() string {
	if c.Kept == encodeText(string(StatusTombstone)) {
		return fmt.Sprintf("%s: one clone deleted the issue, and another one changed it; it stays deleted", c.ID)
	}
	what := "two clones changed"
	if c.Guessed {
		what = "two copies differ in"
	}
	return fmt.Sprintf("%s: %s %s; %s is kept, %s is dropped", c.ID, what, c.Member, shortened(c.Kept),
		shortened(c.Dropped))
}

// shortened returns the beginning of a value, for a message.
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

// contested returns the members whose values people choose, so that a merge that keeps one of two values reports the
// other. Priority and lists are left out, because their rules of merging lose nothing. So are times of changes and
// members of other programs, because programs compute them.
func contested() []string {
	return []string{
		"title", "description", "design", "acceptance_criteria", "notes", "issue_type", memberAssignee, "estimated_minutes",
		"external_ref", "due_at", "defer_until", "close_reason",
	}
}

// contest notes in t the values that the merge of two versions dropped. Without a base it is unknown which side
// changed a value. Then contest notes nothing about a version that was never edited since its creation, or that this
// clone replaced earlier: see [mergeTwo].
func contest(t *Tracker, base, ours, theirs, merged *Issue) {
	if merged.Status == StatusTombstone {
		contestDeletion(t, base, ours, theirs)
		return
	}
	if base == nil && !(ours.wasEdited() && theirs.wasEdited()) {
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

// contestDeletion notes in t that a deletion won over a change by another clone, which may be a comment. Without a
// base, only a change after the deletion shows that the other copy is not just older.
func contestDeletion(t *Tracker, base, ours, theirs *Issue) {
	dead, live := ours, theirs
	if ours.Status != StatusTombstone {
		dead, live = theirs, ours
	}
	if live.Status == StatusTombstone || base != nil && (base.Status == StatusTombstone || t.Line(base) == t.Line(live)) ||
		base == nil && !live.UpdatedAt.After(dead.DeletedAt) {
		return
	}
	t.contests = append(t.contests, Contest{ID: live.ID, Member: memberStatus, Kept: encodeText(string(dead.Status)),
		Dropped: encodeText(string(live.Status)), Guessed: base == nil})
}
