package tracker

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fileGen draws a file of at most two issues, as the base or a copy of it has them.
func fileGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		tr := New()
		for _, id := range []string{"x-1", "x-2"} {
			if rapid.IntRange(0, 4).Draw(t, id) > 0 {
				it := issueGen().Draw(t, "issue")
				it.ID = id
				tr.put(it)
			}
		}
		text := tr.Text()
		own := rapid.SampledFrom([]string{"", `,"own":1`, `,"own":2`, `,"other":{}`}).Draw(t, "unknown")
		return strings.Replace(text, "}\n", own+"}\n", 1)
	})
}

func parsed(text string) *Tracker {
	t, _ := Parse(text)
	return t
}

// inOrder sorts the members of each line by name, because a merge may move them.
func inOrder(text string) string {
	t := parsed(text)
	var lines []string
	for _, it := range t.All() {
		parts, _ := fields(t.Line(it))
		slices.SortFunc(parts, func(a, b field) int { return strings.Compare(a.name, b.name) })
		lines = append(lines, encodeObject(parts))
	}
	return strings.Join(lines, "\n")
}

// mergedOf returns the merge of two copies of a file.
func mergedOf(base, ours, theirs string) string {
	t := parsed(ours)
	t.MergeWith(parsed(theirs), parsed(base))
	return t.Text()
}

func TestAThreeWayMergeIsSymmetricAndIdempotent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, x, y := fileGen().Draw(rt, "base"), fileGen().Draw(rt, "x"), fileGen().Draw(rt, "y")
		both := mergedOf(base, x, y)
		for _, law := range []struct{ what, want, got string }{
			{"an unchanged side loses", x, mergedOf(base, x, base)},
			{"an unchanged side loses, also ours", y, mergedOf(base, base, y)},
			{"equal changes of both sides are kept", x, mergedOf(base, x, x)},
			{"the order of the sides does not matter", mergedOf(base, y, x), both},
			{"a repeated merge changes nothing", inOrder(both), inOrder(mergedOf(base, both, y))},
			{"... from either side", inOrder(both), inOrder(mergedOf(base, both, x))},
			{"a copy from before the merge becomes the merge", both, mergedOf(y, both, y)},
		} {
			if diff := cmp.Diff(law.want, law.got); diff != "" {
				rt.Fatalf("%s (-want +got):\n%s", law.what, diff)
			}
		}
	})
}

func TestEachElementOfAListIsMergedWithItsBase(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var issues [3]*Issue // base, ours, theirs
		for i := range issues {
			issues[i] = issueGen().Draw(rt, "issue")
			if issues[i].Status == StatusTombstone {
				issues[i].Status = StatusOpen
			}
			issues[i].CreatedAt = ann().At // of one issue
		}
		merged, err := parsed(mergedOf(copyOfFile(issues[0]).Text(), copyOfFile(issues[1]).Text(),
			copyOfFile(issues[2]).Text())).Find("x-1")
		if err != nil {
			rt.Fatal(err)
		}
		labels := func(it *Issue) []string { return it.Labels }
		ties := func(it *Issue) (keys []string) {
			for _, d := range it.Dependencies {
				keys = append(keys, dependencyKey(d))
			}
			return keys
		}
		said := func(it *Issue) (keys []string) {
			for _, c := range it.Comments {
				keys = append(keys, commentKey(c))
			}
			return keys
		}
		for what, keys := range map[string]func(*Issue) []string{"labels": labels, "dependencies": ties, "comments": said} {
			base, ours, theirs := keys(issues[0]), keys(issues[1]), keys(issues[2])
			var want []string
			for _, k := range slices.Concat(ours, theirs) {
				stays := !slices.Contains(base, k) || slices.Contains(ours, k) && slices.Contains(theirs, k)
				if stays && !slices.Contains(want, k) {
					want = append(want, k)
				}
			}
			got := slices.Sorted(slices.Values(keys(merged)))
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s of base %q, ours %q, theirs %q (-want +got):\n%s", what, base, ours, theirs, diff)
			}
		}
	})
}

func TestConflictsAreParsed(t *testing.T) {
	type sides struct {
		both, ours, theirs, base []string
		marked, hasBase          bool
	}
	texts := func(lines []rawLine) (found []string) {
		for _, l := range lines {
			found = append(found, l.text)
		}
		return found
	}
	for _, c := range []struct {
		what, text string
		want       sides
	}{
		{"none", "a\nb\n", sides{both: []string{"a", "b"}, hasBase: true}},
		{"without a base", "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> x\nd\n",
			sides{both: []string{"a", "d"}, ours: []string{"b"}, theirs: []string{"c"}, marked: true}},
		{"with a base", "<<<<<<< HEAD\r\nb\r\n||||||| 123\r\no\r\n=======\r\nc\r\n>>>>>>> x\r\n",
			sides{ours: []string{"b"}, theirs: []string{"c"}, base: []string{"o"}, marked: true, hasBase: true}},
		{"one of two with a base", "<<<<<<<\nb\n|||||||\n=======\n>>>>>>>\n<<<<<<<\n=======\nc\n>>>>>>>\n",
			sides{ours: []string{"b"}, theirs: []string{"c"}, marked: true}},
		{"a base with conflict markers",
			"<<<<<<< a\nb\n||||||| m\n<<<<<<<<< Temporary merge branch 1\no\n=========\np\n>>>>>>>>> Temporary merge branch 2\n=======\nc\n>>>>>>> x\n", sides{ours: []string{"b"}, theirs: []string{"c"}, base: []string{"<<<<<<<<< Temporary merge branch 1", "o",
				"=========", "p", ">>>>>>>>> Temporary merge branch 2"}, marked: true}},
		{"cut off", "<<<<<<< a\nb\n||||||| m\no\n", sides{ours: []string{"b"}, base: []string{"o"}, marked: true}},
	} {
		read := parseConflicts(c.text)
		got := sides{texts(read.both), texts(read.ours), texts(read.theirs), texts(read.base), read.marked, read.hasBase}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(sides{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}
