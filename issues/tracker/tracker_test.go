package tracker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A line of another program: a different order of members, unusual number and string formats, and
// unknown members.
const foreign = `{"id":"x-1","title":"caf\u00e9","description":"<b>","status":"open","priority":0,"issue_type":"spike","custom":{"n":1e400,"deep":[1,2,{"a":"b"}]},"created_at":"2025-01-02T03:04:05.120+01:00","updated_at":"2025-01-02T03:04:05Z","labels":["b","a"],"dependencies":[{"issue_id":"x-1","depends_on_id":"x-2","type":"blocks","created_at":"2025-01-02T03:04:05Z","created_by":"ann","weight":2.50}],"comments":[{"id":7,"issue_id":"x-1","author":"ann","text":"hi","created_at":"2025-01-02T03:04:05Z","mood":"good"}],"metadata":{"big":123456789012345678901234567890}}`

func one(t *testing.T, text string) (*Tracker, *Issue) {
	t.Helper()
	tr, invalid := Parse(text)
	if len(invalid) > 0 {
		t.Fatalf("invalid: %v", invalid)
	}
	return tr, tr.All()[0]
}

func TestAChangeOfOneFieldChangesNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Issue)
		old    string
		new    string
	}{
		"nothing":      {func(*Issue) {}, ``, ``},
		"priority":     {func(it *Issue) { it.Priority = 3 }, `"priority":0`, `"priority":3`},
		"title":        {func(it *Issue) { it.Title = "tea" }, `"caf\u00e9"`, `"tea"`},
		"a new member": {func(it *Issue) { it.Assignee = "bob" }, `"custom"`, `"custom"`},
		"labels":       {func(it *Issue) { it.Labels = append(it.Labels, "c") }, `["b","a"]`, `["b","a","c"]`},
		"no labels":    {func(it *Issue) { it.Labels = nil }, `"labels":["b","a"],`, ``},
		"one more remark": {func(it *Issue) {
			it.Comments = append(it.Comments, Comment{ID: 8})
		}, `"mood":"good"}`,
			`"mood":"good"},{"id":8,"issue_id":"x-1","author":"","text":"","created_at":"0001-01-01T00:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			tr, it := one(t, foreign)
			test.change(tr.edit(it))
			want := strings.Replace(foreign, test.old, test.new, 1)
			if name == "a new member" {
				want = strings.Replace(foreign, `"custom"`, `"custom"`, 1)
				want = strings.Replace(want, `"created_at":"2025-01-02T03:04:05.120`,
					`"assignee":"bob","created_at":"2025-01-02T03:04:05.120`, 1)
			}
			if diff := cmp.Diff(want+"\n", tr.Text()); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidLinesAreReturned(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":"a"`:         "not JSON",
		`["id"]`:            "not a JSON object",
		`{"title":"no id"}`: "no id",
		`{"id":7}`:          "id: 7 is not a text",
	} {
		tr, invalid := Parse(foreign + "\n" + line + "\n")
		if len(tr.All()) != 1 || len(invalid) != 1 || invalid[0].Line != line || invalid[0].Err.Error() != want {
			t.Errorf("%s: %d issues and invalid %v, want 1 and %q", line, len(tr.All()), invalid, want)
		}
	}
}

func TestMalformedMemberIsPreserved(t *testing.T) {
	const odd = `{"id":"a","title":"t","priority":"high","labels":{"a":1},"dependencies":["b",{"depends_on_id":"c","created_at":0}],"created_at":7,"updated_at":"today"}`
	tr, it := one(t, odd)
	if it.Priority != PriorityNormal || len(it.Labels) > 0 || it.Dependencies[1].On != "c" || !it.CreatedAt.IsZero() {
		t.Errorf("read as %+v", it)
	}
	tr.edit(it).Title = "u"
	it.Dependencies = append(it.Dependencies, Dependency{On: "d"})
	want := strings.Replace(odd, `"t"`, `"u"`, 1)
	want = strings.Replace(want, `0}]`,
		`0},{"issue_id":"a","depends_on_id":"d","type":"","created_at":"0001-01-01T00:00:00Z","created_by":""}]`, 1)
	if diff := cmp.Diff(want+"\n", tr.Text()); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if found := tr.Check(); !strings.Contains(strings.Join(found, "\n"), `priority: "high" is not a valid value`) {
		t.Errorf("the check finds %q", found)
	}
}

// issueGen generates an issue with a fixed id, as one of several copies.
func issueGen() *rapid.Generator[*Issue] {
	moment := func(t *rapid.T, name string) time.Time {
		return time.Unix(1_700_000_000+int64(rapid.IntRange(0, 3).Draw(t, name))*20*86400, 0).UTC()
	}
	return rapid.Custom(func(t *rapid.T) *Issue {
		it := &Issue{
			ID: "x-1", Title: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "title"),
			Notes: rapid.SampledFrom([]string{"", "c", "d"}).Draw(t, "notes"),
			Status: rapid.SampledFrom([]Status{StatusOpen, StatusInProgress, StatusClosed, StatusTombstone}).Draw(t,
				"status"),
			Priority:  rapid.IntRange(0, 4).Draw(t, "priority"),
			CreatedAt: moment(t, "created").Add(time.Nanosecond), UpdatedAt: moment(t, "updated"),
			Labels: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"l1", "l2", "l3"}), 0, 3, rapid.ID[string]).Draw(t,
				"labels"),
		}
		it.Description = "created " + it.CreatedAt.String() // copies of one issue have one origin
		switch it.Status {
		case StatusClosed:
			it.ClosedAt = it.UpdatedAt
		case StatusTombstone:
			it.UpdatedAt = it.UpdatedAt.AddDate(1, 0, 0)
			it.DeletedAt = it.UpdatedAt
		}
		for _, on := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x-2", "x-3"}), 0, 2, rapid.ID[string]).Draw(t,
			"deps") {
			it.Dependencies = append(it.Dependencies, Dependency{On: on, Type: DependencyBlocks, CreatedAt: it.CreatedAt})
		}
		for _, said := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"hi", "ho"}), 0, 2, rapid.ID[string]).Draw(t,
			"comments") {
			it.Comments = append(it.Comments, Comment{Author: "ann", Text: said, CreatedAt: it.CreatedAt})
		}
		return it
	})
}

func copyOfFile(it *Issue) *Tracker {
	t := New()
	t.put(it)
	again, _ := Parse(t.Text())
	return again
}

func TestMergingCopiesDoesNotDependOnTheirOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := issueGen().Draw(rt, "a"), issueGen().Draw(rt, "b")
		ab, ba := copyOfFile(a), copyOfFile(b)
		ab.Merge(copyOfFile(b))
		ba.Merge(copyOfFile(a))
		if diff := cmp.Diff(ab.Text(), ba.Text()); diff != "" {
			rt.Fatalf("merge(a, b) and merge(b, a) differ:\n%s", diff)
		}
		once := ab.Text()
		ab.Merge(copyOfFile(b))
		if diff := cmp.Diff(once, ab.Text()); diff != "" {
			rt.Fatalf("a repeated merge of b changed the result:\n%s", diff)
		}
	})
}

func TestAConflictIsMerged(t *testing.T) {
	line := func(id, title, at string) string {
		return fmt.Sprintf(
			`{"id":%q,"title":%q,"description":"","status":"open","priority":2,"issue_type":"task","created_at":"2025-01-01T00:00:00Z","updated_at":%q}`, id, title, at)
	}
	for _, base := range []string{"", "||||||| base\n" + line("x-1", "old", "2025-01-01T00:00:00Z") + "\n"} {
		text := line("x-0", "untouched", "2025-01-01T00:00:00Z") + "\n<<<<<<< HEAD\n" +
			line("x-1", "ours", "2025-01-02T00:00:00Z") + "\n" + line("x-2", "only ours", "2025-01-02T00:00:00Z") + "\n" + base +
			"=======\n" +
			line("x-1", "theirs", "2025-01-03T00:00:00Z") + "\n" + line("x-3", "only theirs", "2025-01-02T00:00:00Z") +
			"\n>>>>>>> branch\n"
		tr, invalid := Parse(text)
		var got []string
		for _, it := range tr.All() {
			got = append(got, it.ID+" "+it.Title)
		}
		want := []string{"x-0 untouched", "x-1 theirs", "x-2 only ours", "x-3 only theirs"}
		if diff := cmp.Diff(want, got); diff != "" || len(invalid) > 0 {
			t.Errorf("invalid %v, issues (-want +got):\n%s", invalid, diff)
		}
	}
}

// FuzzParse checks that every line of any file is an issue or invalid, and that the written file
// parses to the same issues.
func FuzzParse(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add([]byte(foreign + "\n<<<<<<< a\n" + foreign + "\n=======\n{}\n>>>>>>> b\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tr, aside := Parse(string(text))
		first := tr.Text()
		lazy, others := parse(string(text), true, past{}) // reads only the ids
		if diff := cmp.Diff(first, lazy.Text()); diff != "" || len(others) != len(aside) {
			t.Fatalf("%d invalid lines, want %d; lazy parse (-want +got):\n%s", len(others), len(aside), diff)
		}
		lazy.issues.all()
		if diff := cmp.Diff(tr.List(Filter{All: true}), lazy.List(Filter{All: true}),
			cmp.AllowUnexported(Issue{}, Dependency{}, Comment{})); diff != "" {
			t.Fatalf("read lazily, issues (-want +got):\n%s", diff)
		}
		for _, it := range tr.All() {
			if !json.Valid([]byte(tr.Line(it))) {
				t.Fatalf("%q is not JSON", tr.Line(it))
			}
		}
		again, invalid := Parse(first)
		if len(invalid) != len(aside) || len(again.All()) != len(tr.All()) {
			t.Fatalf("written and read: invalid %v, %d issues of %d", invalid, len(again.All()), len(tr.All()))
		}
		for _, it := range again.All() {
			again.edit(it)
		}
		if diff := cmp.Diff(first, again.Text()); diff != "" {
			t.Errorf("written again:\n%s", diff)
		}
	})
}

// edit returns an issue to be changed in its place.
func (t *Tracker) edit(it *Issue) *Issue {
	it.unchanged = false
	return it
}
