package tracker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is a random history of clones that share a tracker, beside a model of what each clone knows.
// The model does not know ids: it names issues by a word that their creation put into the design.
type world struct {
	*rapid.T
	clones  []*clone
	commits []commit
	unsure  map[string]bool // words of issues with a reference that may be wrong, according to a merge
	made    int             // number of words that the test has made up
	now     time.Time       // advances with each step
}

// clone is a clone with its file and its last commit.
type clone struct {
	name  string
	file  string
	known knowledge
	head  int
	files []string        // all earlier contents of the file
	old   map[string]bool // lines of earlier and merged contents that the file does not have now
	// unlogged are issues that git's merge driver removed. The driver knows no folder, so it logs nothing, and an old
	// file brings these issues back.
	unlogged map[string]bool
}

// parse reads the text as the clone does. The clone knows the lines that it has replaced.
func (c *clone) parse(text string, base func() (string, bool)) *Tracker {
	t, _ := parse(text, false, past{base, func(line string) bool { return c.old[line] }})
	return t
}

// save replaces the file.
func (c *clone) save(t *Tracker, merged string) {
	text := t.Text()
	for line := range strings.Lines(c.file + merged) {
		c.old[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range t.met {
		c.old[line] = true
	}
	for line := range strings.Lines(text) {
		delete(c.old, strings.TrimSuffix(line, "\n"))
	}
	c.files, c.file = append(c.files, c.file), text
}

// commit is a commit with the numbers of its parents.
type commit struct {
	file    string
	parents []int
}

// knowledge is what happened in the history of a clone, by the words of issues.
type knowledge map[string]*fate

// fate is what happened to one issue.
type fate struct {
	actor                              string
	comments, labels, removed, depends map[string]bool
	closed, deleted                    bool
	dropped                            bool // the issue and its tombstone were dropped, so an old copy restores the issue
	title                              written
}

// written is the value of a field, with all values that it has replaced.
type written struct {
	value    string
	replaced map[string]bool
}

func (k knowledge) clone() knowledge {
	out := knowledge{}
	for word, f := range k {
		c := *f
		c.comments, c.labels, c.removed, c.depends = maps.Clone(f.comments), maps.Clone(f.labels), maps.Clone(f.removed),
			maps.Clone(f.depends)
		c.title.replaced = maps.Clone(f.title.replaced)
		out[word] = &c
	}
	return out
}

// learn unites two histories. What replaced a value wins over that value; of two that know nothing
// of each other the implementation may choose, and title reports its choice.
func (k knowledge) learn(other knowledge, title func(word string) string) (wrong string) {
	for word, theirs := range other.clone() {
		ours := k[word]
		if ours == nil {
			k[word] = theirs
			continue
		}
		for _, set := range [][2]map[string]bool{{ours.comments, theirs.comments}, {ours.labels, theirs.labels},
			{ours.removed, theirs.removed}, {ours.depends, theirs.depends}} {
			maps.Copy(set[0], set[1])
		}
		ours.closed, ours.deleted, ours.dropped = ours.closed || theirs.closed, ours.deleted ||
			theirs.deleted, ours.dropped || theirs.dropped
		a, b := ours.title, theirs.title
		switch {
		case a.value == b.value || a.replaced[b.value]:
		case b.replaced[a.value], title(word) == b.value:
			ours.title.value = b.value
		case title(word) != a.value && !ours.deleted && !ours.dropped:
			wrong = fmt.Sprintf("%s has the title %q, want %q or %q", word, title(word), a.value, b.value)
		}
		maps.Copy(ours.title.replaced, b.replaced)
		for _, lost := range []string{a.value, b.value} {
			if lost != ours.title.value {
				ours.title.replaced[lost] = true
			}
		}
	}
	return wrong
}

func (w *world) word() string {
	w.made++
	return fmt.Sprintf("w%d", w.made)
}

func (w *world) signature(c *clone) Signature {
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 3_000_000_000).Draw(w.T, "time passes")))
	return Signature{Actor: c.name, At: w.now}
}

// change runs an operation on the file of a clone.
func (w *world) change(c *clone, do func(t *Tracker, by Signature)) {
	t, invalid := Parse(c.file)
	if len(invalid) > 0 {
		w.Fatalf("invalid lines: %v", invalid)
	}
	do(t, w.signature(c))
	c.save(t, "")
}

// wordOf returns the word of an issue.
func wordOf(it *Issue) string { return it.Design }

// byWord returns the issue of a word.
func byWord(t *Tracker, word string) *Issue {
	for _, it := range t.All() {
		if wordOf(it) == word {
			return it
		}
	}
	return nil
}

// pick draws an issue that is not deleted.
func (w *world) pick(t *Tracker, what string) *Issue {
	live := t.List(Filter{All: true})
	if len(live) == 0 {
		return nil
	}
	return live[rapid.IntRange(0, len(live)-1).Draw(w.T, what)]
}

// create adds an issue: a child, one with an id that others choose too, or one with an id of its own.
func (w *world) create(c *clone) {
	w.change(c, func(t *Tracker, by Signature) {
		word := w.word()
		n := NewIssue{Prefix: "x", Issue: Issue{Title: rapid.SampledFrom([]string{"same", word}).Draw(w.T, "title"),
			Design: word, Description: word, Priority: PriorityNormal}}
		switch rapid.IntRange(0, 3).Draw(w.T, "kind of id") {
		case 0:
			n.ID = rapid.SampledFrom([]string{"x-one", "x-two"}).Draw(w.T, "chosen id")
		case 1, 2:
			if parent := w.pick(t, "parent"); parent != nil {
				n.Parent = parent.ID
			}
		}
		it, err := t.Create(n, by)
		if err != nil {
			return // the id is taken, or the parent is too deep
		}
		c.known[word] = &fate{
			actor: c.name, comments: map[string]bool{}, labels: map[string]bool{}, removed: map[string]bool{},
			depends: map[string]bool{},
			title:   written{it.Title, map[string]bool{}},
		}
		if n.Parent != "" {
			c.known[word].depends[wordOf(t.issues.get(n.Parent))] = true
		}
	})
}

// edit changes an issue. Without a base, a copy that lacks a label cannot tell that it was removed,
// and a text without a newer one looks like an edit: such operations need bases.
func (w *world) edit(c *clone, bases bool) {
	w.change(c, func(t *Tracker, by Signature) {
		it := w.pick(t, "issue")
		if it == nil {
			return
		}
		known, word := c.known[wordOf(it)], w.word()
		kinds := 4
		if bases {
			kinds = 8
		}
		var err error
		switch rapid.IntRange(0, kinds-1).Draw(w.T, "edit") {
		case 0:
			_, err = t.AddComment(it.ID, word, by)
			known.comments[word] = true
		case 1:
			_, err = t.UpdateLabels(it.ID, []string{word}, nil, by)
			known.labels[word] = true
		case 2:
			on := w.pick(t, "depends on")
			if _, err := t.AddDependency(it.ID, on.ID, "related", by); err == nil {
				known.depends[wordOf(on)] = true
			}
		case 3:
			_, err = t.Close(it.ID, word, by)
			known.closed = true
		case 4:
			_, err = t.Update(it.ID, by, func(it *Issue) error { it.Title = word; return nil })
			known.title.replaced[known.title.value] = true
			known.title.value = word
		case 5:
			if len(it.Labels) > 0 {
				known.removed[it.Labels[0]] = true
				_, err = t.UpdateLabels(it.ID, nil, it.Labels[:1], by)
			}
		case 6:
			_, err = t.Delete([]string{it.ID}, word, false, true, by)
			known.deleted = true
		case 7:
			for _, it := range t.All() {
				if it.Status == StatusTombstone {
					c.known[wordOf(it)].dropped = true
				}
			}
			t.DropTombstones(by.At.Add(time.Second))
		}
		if err != nil {
			w.Fatal(err)
		}
	})
}

// commit adds a commit and returns its number.
func (w *world) commit(file string, parents ...int) int {
	w.commits = append(w.commits, commit{file, parents})
	return len(w.commits) - 1
}

// ancestors returns a commit and all before it.
func (w *world) ancestors(head int) map[int]bool {
	found := map[int]bool{head: true}
	for n := head; n >= 0; n-- { // parents have lower numbers
		if found[n] {
			for _, p := range w.commits[n].parents {
				found[p] = true
			}
		}
	}
	return found
}

// meetOld imports an earlier file of a clone, which must change nothing.
func (w *world) meetOld(c *clone) {
	if len(c.files) == 0 {
		return
	}
	t, earlier := c.parse(c.file, nil), parsed(rapid.SampledFrom(c.files).Draw(w.T, "earlier file"))
	if slices.ContainsFunc(earlier.All(), func(it *Issue) bool { return c.unlogged[wordOf(it)] }) {
		return
	}
	t.Import(earlier, false)
	if diff := cmp.Diff(c.file, t.Text()); diff != "" {
		w.Fatalf("%s: an earlier file of its own is an edit (-before +after):\n%s", c.name, diff)
	}
}

// base returns the common ancestor of two commits. Several ones are merged, as git does it.
func (w *world) base(a, b int) int {
	ours, theirs, base := w.ancestors(a), w.ancestors(b), -1
	covered := map[int]bool{}
	for n := a; n >= 0; n-- {
		if ours[n] && theirs[n] && !covered[n] {
			maps.Copy(covered, w.ancestors(n))
			if base < 0 {
				base = n
			} else {
				base = w.commit(merged3(w.commits[w.base(base, n)].file, w.commits[base].file, w.commits[n].file), base, n)
			}
		}
	}
	return base
}

func merged3(base, ours, theirs string) string {
	t, _ := Parse(ours)
	other, _ := Parse(theirs)
	was, _ := Parse(base)
	t.MergeWith(other, was)
	return t.Text()
}

// join merges another clone's file in one of the ways in which copies meet.
func (w *world) join(c, from *clone, ways []string) {
	c.head, from.head = w.commit(c.file, c.head), w.commit(from.file, from.head)
	base := w.commits[w.base(c.head, from.head)].file
	marks := "<<<<<<< ours\n" + c.file + "=======\n" + from.file + ">>>>>>> theirs\n"
	var t *Tracker
	switch way := rapid.SampledFrom(ways).Draw(w.T, "way"); way {
	case "driver":
		t = c.parse(merged3(base, c.file, from.file), nil)
		for _, it := range parsed(c.file).All() {
			if byWord(t, wordOf(it)) == nil {
				c.unlogged[wordOf(it)] = true
			}
		}
	case "marks with a base":
		t = c.parse(strings.Replace(marks, "=======\n", "||||||| base\n"+base+"=======\n", 1), nil)
	case "marks":
		t = c.parse(marks, nil)
	case "index":
		t = c.parse(marks, func() (string, bool) { return base, true })
	case "union":
		t = c.parse(union3(c.file, from.file), nil)
	case "import":
		t = c.parse(c.file, nil)
		t.Import(parsed(from.file), false)
	}
	c.save(t, from.file)
	for _, s := range t.Splits() {
		for _, said := range []*Issue{s.Kept, s.Moved} {
			if it := t.issues.get(said.ID); it == nil || wordOf(it) != wordOf(said) {
				w.Fatalf("%s: %s, but the file has %v", c.name, s, it)
			}
		}
		for _, id := range s.Unsure {
			w.unsure[wordOf(t.issues.get(id))] = true
		}
	}
	if wrong := c.known.learn(from.known, func(word string) string {
		if it := byWord(t, word); it != nil {
			return it.Title
		}
		return ""
	}); wrong != "" {
		w.Fatal(wrong)
	}
	c.head = w.commit(c.file, c.head, from.head)
}

// union3 is what git's union merge makes of two files.
func union3(ours, theirs string) string {
	have := strings.Split(strings.TrimSuffix(ours, "\n"), "\n")
	out := ours
	for line := range strings.Lines(theirs) {
		if !slices.Contains(have, strings.TrimSuffix(line, "\n")) {
			out += line
		}
	}
	return out
}

// check compares the file of a clone with the model.
func (w *world) check(c *clone) {
	t, _ := Parse(c.file)
	seen := map[string]bool{}
	for _, it := range t.All() {
		word := wordOf(it)
		known := c.known[word]
		if known == nil || seen[word] {
			w.Fatalf("%s: %s is unknown or there twice:\n%s", c.name, it, c.file)
		}
		seen[word] = true
		if known.dropped {
			continue
		}
		if dead := it.Status == StatusTombstone; dead != known.deleted {
			w.Fatalf("%s: %s is deleted: %v, want %v", c.name, it, dead, known.deleted)
		} else if dead {
			continue
		}
		want := fmt.Sprintf("by %s, comments %v, labels %v, closed %v", known.actor, sorted(known.comments),
			sorted(without(known.labels, known.removed)), known.closed)
		comments, labels := map[string]bool{}, map[string]bool{}
		for _, said := range it.Comments {
			comments[said.Text] = true
		}
		for _, l := range it.Labels {
			labels[l] = true
		}
		got := fmt.Sprintf("by %s, comments %v, labels %v, closed %v", it.CreatedBy, sorted(comments), sorted(labels),
			it.Status == StatusClosed)
		if diff := cmp.Diff(want, got); diff != "" {
			w.Fatalf("%s: %s (-want +got):\n%s\n%s", c.name, it, diff, c.file)
		}
		if known.title.value != it.Title {
			w.Fatalf("%s: %s has the title %q, want %q", c.name, it.ID, it.Title, known.title.value)
		}
		w.checkReferences(c, t, it, known)
	}
	for word, known := range c.known {
		if !seen[word] && !known.dropped {
			w.Fatalf("%s lost %s:\n%s", c.name, word, c.file)
		}
	}
}

// checkReferences checks that an issue depends on the issues that were meant.
func (w *world) checkReferences(c *clone, t *Tracker, it *Issue, known *fate) {
	got := map[string]bool{}
	for _, d := range it.Dependencies {
		on := t.issues.get(d.On)
		if on == nil { // dropped, or one that is wanted is missing below
			continue
		}
		got[wordOf(on)] = true
	}
	if w.unsure[wordOf(it)] {
		return
	}
	for word := range maps.Keys(known.depends) {
		if !got[word] && !c.known[word].deleted {
			w.Fatalf("%s: %s (%s) depends on %v, want %v:\n%s", c.name, it, wordOf(it), sorted(got),
				sorted(known.depends), c.file)
		}
	}
	for word := range got {
		if !known.depends[word] && !c.known[word].dropped {
			w.Fatalf("%s: %s (%s) depends on %v, want %v:\n%s", c.name, it, wordOf(it), sorted(got),
				sorted(known.depends), c.file)
		}
	}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func without(set, removed map[string]bool) map[string]bool {
	out := maps.Clone(set)
	for v := range removed {
		delete(out, v)
	}
	return out
}

// converge lets all clones learn everything, in any order, and compares them.
func (w *world) converge(ways []string) {
	for range 2 {
		for _, c := range w.clones {
			for _, from := range w.clones {
				if c != from {
					w.join(c, from, ways)
					w.check(c)
				}
			}
		}
	}
	ids := func(c *clone) map[string]string {
		t, _ := Parse(c.file)
		found := map[string]string{}
		for _, it := range t.All() {
			found[wordOf(it)] = it.ID
		}
		return found
	}
	for _, c := range w.clones[1:] {
		if diff := cmp.Diff(ids(w.clones[0]), ids(c)); diff != "" {
			w.Fatalf("ids in %s and %s differ:\n%s", w.clones[0].name, c.name, diff)
		}
	}
}

func randomClones(t *testing.T, ways []string, bases bool) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: rt, unsure: map[string]bool{}, now: time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC)}
		w.commit("")
		for _, name := range []string{"ann", "bob", "cleo"} {
			w.clones = append(w.clones, &clone{name: name, known: knowledge{}, old: map[string]bool{},
				unlogged: map[string]bool{}})
		}
		steps := rapid.IntRange(5, 40).Draw(rt, "steps")
		for range steps {
			c := rapid.SampledFrom(w.clones).Draw(rt, "clone")
			switch step := rapid.IntRange(0, 9).Draw(rt, "step"); {
			case step < 4:
				w.create(c)
			case step < 7:
				w.edit(c, bases)
			case step < 8:
				w.meetOld(c)
			default:
				if from := rapid.SampledFrom(w.clones).Draw(rt, "from"); from != c {
					w.join(c, from, ways)
				}
			}
			w.check(c)
		}
		w.converge(ways)
	})
}

// TestRandomClonesLoseNothing lets clones create, edit and delete issues, and merge each other's
// files with a common base, as git's merge driver, markers in diff3 style and git's index have it.
func TestRandomClonesLoseNothing(t *testing.T) {
	randomClones(t, []string{"driver", "marks with a base", "index"}, true)
}

// TestRandomClonesLoseNothingWithoutABase merges copies without knowing anything else.
func TestRandomClonesLoseNothingWithoutABase(t *testing.T) {
	randomClones(t, []string{"import", "union", "marks"}, false)
}
