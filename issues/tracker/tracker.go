// Package tracker keeps issues in a text file that git can carry: one JSON object per line, sorted
// by id. The file is the only copy. Except for [Folder] the package is pure: operations change a
// Tracker that was parsed from the file and is written back as a whole.
package tracker

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"mailroom"
	"mailroom/internal/recovery"
)

// Tracker holds the issues of one file. It is not safe for concurrent use.
type Tracker struct {
	codec  *codec
	issues issueSet
}

// New returns an empty tracker.
func New() *Tracker { return newTracker(0) }

func newTracker(room int) *Tracker {
	c := newCodec()
	return &Tracker{codec: c, issues: newIssueSet(c, room)}
}

// InvalidLine is a line that is not an issue. Err says why.
type InvalidLine struct {
	Line string
	Err  error
}

// Parse reads a file. Lines with the same id are merged. So are the two sides of a conflict that
// git has marked, using the base that markers in diff3 style contain; see [Tracker.MergeWith].
// Lines that are not issues are returned as invalid.
func Parse(text string) (*Tracker, []InvalidLine) { return parse(text, false, nil) }

// parse implements Parse. With lazy set it reads only the ids, which makes a change to one of
// thousands of issues three times as fast. baseOf, if not nil, returns the common ancestor of a
// conflict whose markers do not contain it.
func parse(text string, lazy bool, baseOf func() (text string, known bool)) (*Tracker, []InvalidLine) {
	c := parseConflicts(text)
	t, invalid := readLines(c.both, lazy)
	if !c.marked {
		return t, invalid
	}
	ours, more := readLines(c.ours, false)
	theirs, others := readLines(c.theirs, false)
	for _, s := range slices.Concat(more, others) { // both sides may have the same line
		if !slices.ContainsFunc(invalid, func(x InvalidLine) bool { return x.Line == s.Line }) {
			invalid = append(invalid, s)
		}
	}
	base, known := c.base, c.hasBase
	if !known && baseOf != nil {
		var file string
		if file, known = baseOf(); known {
			base = parseConflicts(file).both
		}
	}
	if was, _ := readLines(base, false); known {
		ours.MergeWith(theirs, was)
	} else {
		ours.Merge(theirs)
	}
	t.Merge(ours)
	return t, invalid
}

// readLines builds a tracker from lines. It uses all processors, because most commands spend most
// of their time here.
func readLines(lines []string, lazy bool) (t *Tracker, invalid []InvalidLine) {
	t = newTracker(len(lines))
	read := t.codec.read
	if lazy {
		read = t.codec.readID
	}
	issues, errs := makeSlice[Issue](len(lines)), make([]error, len(lines))
	InParts(len(lines), func(from, to int) {
		var s scanner
		for i := from; i < to; i++ {
			errs[i] = read(&s, lines[i], &issues[i])
		}
	})
	for i := range issues {
		it := &issues[i]
		if errs[i] != nil {
			invalid = append(invalid, InvalidLine{lines[i], errs[i]})
		} else if old := t.issues.order[t.issues.add(it)]; old != it {
			t.codec.complete(&scanner{}, old)
			t.codec.complete(&scanner{}, it)
			t.put(t.codec.merge(old, it))
		}
	}
	return t, invalid
}

// InParts runs work on the range 0 to n, split over all processors. A small range runs on the
// caller's goroutine.
func InParts(n int, work func(from, to int)) {
	const least = 256 // lines: below this a goroutine costs more than it saves
	parts := min(runtime.GOMAXPROCS(0), n/least+1)
	var group sync.WaitGroup
	failed := make([]*recovery.Panic, parts)
	for i := 1; i < parts; i++ {
		group.Go(func() {
			defer recovery.Handle(nil, "parallel tracker work", func(p *recovery.Panic) { failed[i] = p })
			work(i*n/parts, (i+1)*n/parts)
		})
	}
	defer func() {
		group.Wait()
		for _, p := range failed {
			if p != nil {
				panic(p) // on the caller's goroutine, which may recover
			}
		}
	}()
	work(0, n/parts)
}

// Text returns the contents of the file: one line per issue, sorted by id.
func (t *Tracker) Text() string {
	return strings.Join(append(t.lines(), ""), "\n")
}

func (t *Tracker) lines() []string {
	lines := make([]string, len(t.issues.order))
	InParts(len(lines), func(from, to int) {
		for i := from; i < to; i++ {
			lines[i] = t.Line(t.issues.order[i])
		}
	})
	return lines
}

// All returns the issues sorted by id, including tombstones. The caller must not change them.
func (t *Tracker) All() []*Issue { return slices.Clone(t.issues.all()) }

// Find returns the issue with this id, or the only issue whose id contains it. A tombstone is found
// by its full id only.
func (t *Tracker) Find(id string) (*Issue, error) {
	if it := t.issues.get(id); it != nil {
		return it, nil
	}
	var found []string
	for _, it := range t.issues.order {
		if id != "" && strings.Contains(it.ID, id) && t.issues.get(it.ID).Status != StatusTombstone {
			found = append(found, it.ID)
		}
	}
	// A match of everything after the prefix takes precedence over a partial match.
	if exact := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return !strings.HasSuffix(name, "-"+id) }); len(exact) == 1 {
		found = exact
	}
	switch len(found) {
	case 1:
		return t.issues.get(found[0]), nil
	case 0:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no issue %q", id)
	}
	const most = 5
	shown := strings.Join(found[:min(len(found), most)], ", ")
	if len(found) > most {
		shown += ", …"
	}
	return nil, mailroom.Errorf(mailroom.CodeInvalid, "%q matches %d issues: %s; give more of the id", id, len(found), shown)
}

// put adds a new or changed issue, or replaces the issue with the same id.
func (t *Tracker) put(it *Issue) {
	it.unchanged = false
	t.issues.put(it)
}

// String returns the id and title, for messages.
func (it *Issue) String() string { return fmt.Sprintf("%s (%s)", it.ID, it.Title) }
