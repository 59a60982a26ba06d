// Package tracker keeps issues in a text file that git can carry: one JSON
// object a line, sorted by id. The file is the only truth. Everything here is
// pure but for [Folder]: operations change a Tracker, which was read from the
// file and is written back as a whole.
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

// Tracker is the set of issues of a file. Its methods are for one goroutine.
type Tracker struct {
	codec  *codec
	issues issueSet
}

// New returns a tracker without issues.
func New() *Tracker { return newTracker(0) }

func newTracker(room int) *Tracker {
	c := newCodec()
	return &Tracker{codec: c, issues: newIssueSet(c, room)}
}

// InvalidLine is a line that is no issue, and why.
type InvalidLine struct {
	Line string
	Err  error
}

// Parse reads a file. Lines of the same id are merged, and so are the two sides
// of a conflict that git has marked, with the base that the marks hold in the style
// diff3; see [Tracker.MergeWith]. What is no issue comes back as strays.
func Parse(text string) (*Tracker, []InvalidLine) { return parse(text, false, nil) }

// parse is Parse, or with late reads no more than the ids: to change one issue of
// thousands takes a third of the time then. baseOf, if not nil, returns the file that
// both sides of a conflict were made from, for marks that do not hold it.
func parse(text string, late bool, baseOf func() (text string, known bool)) (*Tracker, []InvalidLine) {
	c := parseConflicts(text)
	t, strays := readLines(c.both, late)
	if !c.marked {
		return t, strays
	}
	ours, more := readLines(c.ours, false)
	theirs, others := readLines(c.theirs, false)
	for _, s := range slices.Concat(more, others) { // both sides may have it
		if !slices.ContainsFunc(strays, func(x InvalidLine) bool { return x.Line == s.Line }) {
			strays = append(strays, s)
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
	return t, strays
}

// readLines makes a tracker of lines. They are read on all processors, as most of the
// time of most commands goes there.
func readLines(lines []string, late bool) (t *Tracker, strays []InvalidLine) {
	t = newTracker(len(lines))
	read := t.codec.read
	if late {
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
			strays = append(strays, InvalidLine{lines[i], errs[i]})
		} else if old := t.issues.order[t.issues.add(it)]; old != it {
			t.codec.complete(&scanner{}, old)
			t.codec.complete(&scanner{}, it)
			t.put(t.codec.merge(old, it))
		}
	}
	return t, strays
}

// InParts does the work from 0 to n on all processors, or at once if it is little.
func InParts(n int, work func(from, to int)) {
	const least = 256 // lines: a goroutine costs more than so few
	parts := min(runtime.GOMAXPROCS(0), n/least+1)
	var group sync.WaitGroup
	failed := make([]*recovery.Panic, parts)
	for i := 1; i < parts; i++ {
		group.Go(func() {
			defer recovery.Handle(nil, "a part of a tracker's work", func(p *recovery.Panic) { failed[i] = p })
			work(i*n/parts, (i+1)*n/parts)
		})
	}
	defer func() {
		group.Wait()
		for _, p := range failed {
			if p != nil {
				panic(p) // on the goroutine of who asked, which may recover
			}
		}
	}()
	work(0, n/parts)
}

// Text is the file: a line for each issue, by id.
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

// All returns the issues by id, tombstones too. The caller must not change them.
func (t *Tracker) All() []*Issue { return slices.Clone(t.issues.all()) }

// Find returns the issue with this id, or the only one of whose id it is a part.
// A tombstone is found by its whole id only.
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
	// The whole of what follows the prefix says more than a part of it.
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
	return nil, mailroom.Errorf(mailroom.CodeInvalid, "%q may be any of %d issues: %s", id, len(found), shown)
}

// put adds an issue that is no longer as it was read, or that is new, or puts it
// in the place of the one with its id.
func (t *Tracker) put(it *Issue) {
	it.unchanged = false
	t.issues.put(it)
}

// String names an issue in messages.
func (it *Issue) String() string { return fmt.Sprintf("%s (%s)", it.ID, it.Title) }
