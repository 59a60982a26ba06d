// Package tracker keeps issues in a text file that git can carry: one JSON object per line. The file
// is the only copy. Except for [Folder] the package is pure: operations change a Tracker that was
// parsed from the file and is written back as a whole.
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

	// The other lines of the file.
	layout layout
	others []otherLine

	// Results of reading and merging files.
	splits   []Split
	contests []Contest
	copied   map[string]bool // ids that several lines of one file had
	past     past
	met      []string // lines of copies that were merged into one issue
}

// New returns an empty tracker.
func New() *Tracker { return newTracker(0) }

func newTracker(room int) *Tracker {
	c := newCodec()
	return &Tracker{codec: c, issues: newIssueSet(c, room), copied: map[string]bool{}}
}

// Parse reads a file. Lines with the same id are merged, or kept as two issues if they are not copies of one; see
// [Tracker.Splits]. The two sides of a conflict that git has marked are merged too, with the base if the markers are
// in diff3 style; see [Tracker.MergeWith]. Lines that cannot be read are returned, and stay in the file.
func Parse(text string) (*Tracker, []InvalidLine) { return parse(text, false, past{}) }

// parse implements Parse. With lazy set it reads only the ids, which makes a change to one of
// thousands of issues three times as fast.
func parse(text string, lazy bool, p past) (*Tracker, []InvalidLine) {
	c := parseConflicts(text)
	asked := sync.OnceValue(func() *Tracker {
		base, known := c.base, c.hasBase && c.marked
		if !known && p.base != nil {
			var file string
			if file, known = p.base(); known {
				base = parseConflicts(file).both
			}
		}
		if !known {
			return nil
		}
		t, _ := readLines(base, false, past{}, noBase)
		return t
	})
	t, invalid := readLines(c.both, lazy, p, asked)
	t.layout = c.layout
	if !c.marked {
		return t, invalid
	}
	ours, _ := readLines(c.ours, false, p, asked)
	theirs, _ := readLines(c.theirs, false, p, asked)
	ours.mergeWith(theirs, asked())
	t.issues.index()
	redirectByTime(t, ours.splits)
	absorb(t, ours)
	t.unite(ours, nil)
	return t, invalidLines(t) // the lines of t, because both sides may have the same invalid line
}

// readLines builds a tracker from lines. It uses all processors, because most commands spend most
// of their time here.
func readLines(lines []rawLine, lazy bool, p past, baseOf func() *Tracker) (t *Tracker, invalid []InvalidLine) {
	t = newTracker(len(lines))
	t.past = p
	read := t.codec.read
	if lazy {
		read = t.codec.readID
	}
	issues, errs := makeSlice[Issue](len(lines)), make([]error, len(lines))
	InParts(len(lines), func(from, to int) {
		var s scanner
		for i := from; i < to; i++ {
			if errs[i] = otherRecord(lines[i].text); errs[i] == nil {
				if errs[i] = read(&s, lines[i].text, &issues[i]); errs[i] == errNoID && isHeader(lines[i].text) {
					errs[i] = errRecord
				}
			}
			issues[i].number, issues[i].cr = lines[i].number, lines[i].cr
		}
	})
	var copies []*Issue
	for i := range issues {
		it := &issues[i]
		if errs[i] != nil {
			t.others = append(t.others, otherLine{lines[i], errs[i]})
		} else if t.issues.order[t.issues.add(it)] != it {
			copies = append(copies, it)
			t.copied[it.ID] = true
		}
	}
	addCopies(t, copies, baseOf)
	return t, invalidLines(t)
}

// noBase is for lines without a known base.
func noBase() *Tracker { return nil }

// InParts calls work for parts that together make up the range from 0 to n, one part for each processor at the same
// time. A small range runs on the caller's goroutine.
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
				panic(p) // panics on the caller's goroutine, which may recover
			}
		}
	}()
	work(0, n/parts)
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
	if exact := slices.DeleteFunc(slices.Clone(found), func(name string) bool {
		return !strings.HasSuffix(name, "-"+id)
	}); len(exact) == 1 {
		found = exact
	}
	switch len(found) {
	case 1:
		return t.issues.get(found[0]), nil
	case 0:
		if now := presentID(t, id); now != "" {
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "no issue %q; with today's prefix it would be %s", id,
				now)
		}
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no issue %q", id)
	}
	const most = 5
	shown := strings.Join(found[:min(len(found), most)], ", ")
	if len(found) > most {
		shown += ", …"
	}
	return nil, mailroom.Errorf(mailroom.CodeInvalid, "%q matches %d issues: %s; give more of the id", id,
		len(found), shown)
}

// presentID returns the id of the issue that an id of before a change of the prefix names, or "". Find only mentions
// it: the id may as well be one of another repository, and a command must not change the wrong issue.
func presentID(t *Tracker, id string) string {
	prefix := t.Prefix()
	for i := range len(id) {
		if id[i] != '-' {
			continue
		}
		now := prefix + id[i:]
		if it := t.issues.get(now); it != nil && it.Status != StatusTombstone {
			return now
		}
	}
	return ""
}

// put adds a new or changed issue, or replaces the issue with the same id.
func (t *Tracker) put(it *Issue) {
	it.unchanged = false
	t.issues.put(it)
}

// String returns the id and title, for messages.
func (it *Issue) String() string { return fmt.Sprintf("%s (%s)", it.ID, it.Title) }
