package tracker

import (
	"fmt"
	"unicode/utf8"
)

// Contest tells that two clones gave one member of an issue different values, and that a merge kept one of them. The
// other one is in git's history only.
type Contest struct {
	ID            string
	Member        string // its name in the file
	Kept, Dropped string // the values, as written in the file
}

// String describes the contest for the user.
func (c Contest) String() string {
	return fmt.Sprintf("%s: two clones changed %s; %s is kept, %s is dropped", c.ID, c.Member, shortened(c.Kept), shortened(c.Dropped))
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

// contested are the members that a person writes as a whole: a merge can keep only one value. Status, priority and lists have
// rules that lose nothing.
func contested() []string {
	return []string{"title", "description", "design", "acceptance_criteria", "notes", memberAssignee, "external_ref"}
}

const memberAssignee = "assignee"

// contest notes in t what the merge of two versions dropped. Without a base it is unknown who changed what, because a copy may
// just be old: then only two claims of one issue are noted. Either may be at work on it.
func contest(t *Tracker, base, ours, theirs, merged *Issue) {
	names, b := contested(), version{}
	if base != nil {
		b = t.codec.version(base)
	} else if names = []string{memberAssignee}; ours.Status != StatusInProgress || theirs.Status != StatusInProgress || ours.Assignee == "" || theirs.Assignee == "" {
		return
	}
	if merged.Status == StatusTombstone {
		return
	}
	o, t2, m := t.codec.version(ours), t.codec.version(theirs), t.codec.version(merged)
	for _, name := range names {
		one, other, kept := o.raw[name], t2.raw[name], m.raw[name]
		if one == other || base != nil && (one == b.raw[name] || other == b.raw[name]) {
			continue
		}
		dropped := one
		if kept == one {
			dropped = other
		}
		t.contests = append(t.contests, Contest{ID: merged.ID, Member: name, Kept: kept, Dropped: dropped})
	}
}
