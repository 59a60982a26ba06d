// Package tracker keeps issues in a text file that git can carry: one JSON
// object a line, sorted by id. The file is the only truth. Everything here is
// pure but for [Folder]: operations change a Tracker, which was read from the
// file and is written back as a whole.
package tracker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mailroom"
)

// Tracker is the set of issues of a file. Its methods are for one goroutine.
type Tracker struct {
	codec  *codec
	issues map[string]*Issue
	lines  map[string]string // of issues that were read and not changed since
}

// New returns a tracker without issues.
func New() *Tracker {
	return &Tracker{codec: newCodec(), issues: map[string]*Issue{}, lines: map[string]string{}}
}

// Stray is a line that is no issue, and why.
type Stray struct {
	Line string
	Err  error
}

// Parse reads a file. Lines of the same id are merged, and so are the two sides
// of a conflict that git has marked; see [Tracker.Merge]. What is no issue comes
// back as strays.
func Parse(text string) (*Tracker, []Stray) {
	t := New()
	ours, theirs, marked := sides(text)
	strays := t.take(ours)
	if marked {
		other := New()
		more := other.take(theirs)
		for _, s := range more { // what stands outside of the conflicts is on both sides
			if !slices.ContainsFunc(strays, func(x Stray) bool { return x.Line == s.Line }) {
				strays = append(strays, s)
			}
		}
		t.Merge(other)
	}
	return t, strays
}

func (t *Tracker) take(lines []string) (strays []Stray) {
	for _, line := range lines {
		it, err := t.codec.read(line)
		if err != nil {
			strays = append(strays, Stray{line, err})
			continue
		}
		if old := t.issues[it.ID]; old != nil {
			t.put(t.codec.merge(old, it))
			continue
		}
		t.issues[it.ID], t.lines[it.ID] = it, line
	}
	return strays
}

// sides takes the text apart into the lines of both sides of its conflicts, as
// git marks them. marked is false when there are none, and both are the same.
func sides(text string) (ours, theirs []string, marked bool) {
	const both, first, base, second = 0, 1, 2, 3
	at := both
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "<<<<<<<"):
			at, marked = first, true
		case strings.HasPrefix(line, "|||||||") && at == first:
			at = base
		case line == "=======" && (at == first || at == base):
			at = second
		case strings.HasPrefix(line, ">>>>>>>") && at == second:
			at = both
		case strings.TrimSpace(line) == "":
		default:
			if at == both || at == first {
				ours = append(ours, line)
			}
			if at == both || at == second {
				theirs = append(theirs, line)
			}
		}
	}
	return ours, theirs, marked
}

// Text is the file: a line for each issue, by id.
func (t *Tracker) Text() string {
	var out strings.Builder
	for _, it := range t.All() {
		out.WriteString(t.Line(it))
		out.WriteByte('\n')
	}
	return out.String()
}

// All returns the issues by id, tombstones too. The caller must not change them.
func (t *Tracker) All() []*Issue {
	list := make([]*Issue, 0, len(t.issues))
	for _, it := range t.issues {
		list = append(list, it)
	}
	slices.SortFunc(list, func(a, b *Issue) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Find returns the issue with this id, or the only one of whose id it is a part.
// A tombstone is found by its whole id only.
func (t *Tracker) Find(id string) (*Issue, error) {
	if it := t.issues[id]; it != nil {
		return it, nil
	}
	var found []string
	for name, it := range t.issues {
		if it.Status != Tombstone && id != "" && strings.Contains(name, id) {
			found = append(found, name)
		}
	}
	// The whole of what follows the prefix says more than a part of it.
	if exact := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return !strings.HasSuffix(name, "-"+id) }); len(exact) == 1 {
		found = exact
	}
	slices.Sort(found)
	switch len(found) {
	case 1:
		return t.issues[found[0]], nil
	case 0:
		return nil, mailroom.Errorf(mailroom.NotFound, "no issue %q", id)
	}
	const most = 5
	shown := strings.Join(found[:min(len(found), most)], ", ")
	if len(found) > most {
		shown += ", …"
	}
	return nil, mailroom.Errorf(mailroom.Invalid, "%q may be any of %d issues: %s", id, len(found), shown)
}

// edit returns an issue to be changed.
func (t *Tracker) edit(it *Issue) *Issue {
	delete(t.lines, it.ID)
	return it
}

// put adds an issue, or puts it in the place of the one with its id.
func (t *Tracker) put(it *Issue) {
	t.issues[it.ID] = it
	delete(t.lines, it.ID)
}

// String names an issue in messages.
func (it *Issue) String() string { return fmt.Sprintf("%s (%s)", it.ID, it.Title) }
