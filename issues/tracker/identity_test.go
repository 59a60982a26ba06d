package tracker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCopiesOfOneIssueHaveOneOrigin(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_700_800, time.UTC)
	issue := func(change func(*Issue)) *Issue {
		it := &Issue{ID: "x-1", Title: "a", Description: "text", CreatedAt: at, UpdatedAt: at, CreatedBy: "ann"}
		change(it)
		return it
	}
	created := func(at time.Time, by, title string) func(*Issue) {
		return func(it *Issue) { it.CreatedAt, it.UpdatedAt, it.CreatedBy, it.Title = at, at, by, title }
	}
	second := at.Truncate(time.Second)
	for _, c := range []struct {
		what string
		a, b func(*Issue)
		same bool
	}{
		{"edited", created(at, "ann", "a"), func(it *Issue) { it.Title, it.UpdatedAt = "b", at.Add(time.Hour) }, true},
		{"another zone", created(at, "ann", "a"), created(at.In(time.FixedZone("", 3600)), "ann", "b"), true},
		{"cut to seconds, and edited", created(at, "ann", "a"), func(it *Issue) { it.CreatedAt, it.Title = second, "b" }, true},
		{"rounded to seconds", created(at, "ann", "a"), created(second.Add(time.Second), "ann", "a"), true},
		{"cut to microseconds", created(at, "ann", "a"), created(at.Truncate(time.Microsecond), "ann", "a"), true},
		{"the actor is not known", created(second, "ann", "a"), created(second, "", "a"), true},
		{"the time is not known", created(at, "ann", "a"), created(time.Time{}, "ann", "b"), true},
		{"the time was set by an import", created(at, "ann", "a"), created(at.Add(time.Hour), "ann", "a"), true},
		{"a tombstone without its issue", created(at, "ann", "a"), func(it *Issue) {
			it.CreatedAt = at.Add(time.Hour)
			it.Title, it.Status, it.DeletedAt = "(deleted)", StatusTombstone, it.CreatedAt
		}, true},
		{"another time, actor and title", created(at, "ann", "a"), created(at.Add(time.Hour), "bob", "b"), false},
		{"the same second, two actors", created(at, "ann", "a"), created(at.Add(time.Nanosecond), "bob", "b"), false},
		{"the same second of a program without fractions, two actors", created(second, "ann", "a"), created(second, "bob", "a"), false},
		{"the same second, none edited, two titles", created(second, "ann", "a"), created(second, "ann", "b"), false},
		{"the same title of two actors", created(at, "ann", "a"), created(at.Add(time.Hour), "bob", "a"), false},
		{"the same title and another text", created(at, "ann", "a"), func(it *Issue) {
			it.CreatedAt, it.Description = at.Add(time.Hour), "b"
		}, false},
		{"one actor, another time and title", created(at, "ann", "a"), created(at.Add(time.Hour), "ann", "b"), false},
		{"a tombstone of another issue", created(at, "ann", "a"), func(it *Issue) {
			created(at.Add(time.Hour), "bob", "b")(it)
			it.Status, it.DeletedAt = StatusTombstone, at.Add(2*time.Hour)
		}, false},
	} {
		a, b := issue(c.a), issue(c.b)
		if sameOrigin(a, b) != c.same || sameOrigin(b, a) != c.same {
			t.Errorf("%s: one issue: %v and %v, want %v", c.what, sameOrigin(a, b), sameOrigin(b, a), c.same)
		}
	}
}

// TestAnIDThatIsUsedAgainIsAnotherIssue covers a child whose tombstone was dropped in one clone, which
// then gave its number again.
func TestAnIDThatIsUsedAgainIsAnotherIssue(t *testing.T) {
	const base = `{"id":"x-1.1","title":"old","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00.1Z","updated_at":"2026-01-01T00:00:00.1Z"}` + "\n"
	const again = `{"id":"x-1.1","title":"new","status":"open","priority":2,"issue_type":"task","created_at":"2026-02-01T00:00:00.1Z","updated_at":"2026-02-01T00:00:00.1Z"}` + "\n"
	const edited = `{"id":"x-1.1","title":"old","status":"open","priority":0,"issue_type":"task","created_at":"2026-01-01T00:00:00.1Z","updated_at":"2026-03-01T00:00:00.1Z"}` + "\n"
	const child = `{"id":"x-2","title":"child of old","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-02T00:00:00Z","updated_at":"2026-01-02T00:00:00Z","dependencies":[{"issue_id":"x-2","depends_on_id":"x-1.1","type":"parent-child","created_at":"2026-01-02T00:00:00Z","created_by":"ann"}]}` + "\n"
	for what, c := range map[string]struct{ ours, theirs, want string }{
		"unchanged in the other clone": {base, again, again},
		"changed in the other clone":   {edited, again, ""},
		"with a new child there":       {base + child, again, again},
	} {
		for _, swapped := range []bool{false, true} {
			ours, theirs := c.ours, c.theirs
			if swapped {
				ours, theirs = theirs, ours
			}
			tr := parsed(ours)
			tr.MergeWith(parsed(theirs), parsed(base))
			kept := must(tr.Find("x-1.1"))(t)
			if c.want != "" && tr.Line(kept)+"\n" != c.want || c.want == "" && (kept.Title != "old" || len(tr.All()) != 2) {
				t.Errorf("%s (swapped %v):\n%s", what, swapped, tr.Text())
			}
			if made := tr.issues.get("x-2"); made != nil && len(made.Dependencies) > 0 {
				t.Errorf("%s (swapped %v): the child of the old issue has the new one as parent", what, swapped)
			}
		}
	}
}

// TestWhatDependsOnAnIDThatIsUsedAgainIsUnchanged has a side that used two ids again, and one whose only change is a
// dependency between the two old issues. The merge removes the old ones, so it must not say that one keeps its id.
func TestWhatDependsOnAnIDThatIsUsedAgainIsUnchanged(t *testing.T) {
	line := func(id, title, month, depends string) string {
		at := `"2026-` + month + `-01T00:00:00.1Z"`
		return `{"id":"` + id + `","title":"` + title + `","status":"open","priority":2,"issue_type":"task",` +
			`"created_at":` + at + `,"updated_at":` + at + depends + "}\n"
	}
	on := `,"dependencies":[{"issue_id":"x-2","depends_on_id":"x-1","type":"blocks"}]`
	base := line("x-1", "one", "01", "") + line("x-2", "two", "01", "")
	again := line("x-1", "other", "02", "") + line("x-2", "another", "02", "")
	edited := line("x-1", "one", "01", "") + line("x-2", "two", "01", on)
	for _, sides := range [][2]string{{edited, again}, {again, edited}} {
		tr := parsed(sides[0])
		tr.MergeWith(parsed(sides[1]), parsed(base))
		if diff := cmp.Diff(again, tr.Text()); diff != "" || len(tr.Splits()) > 0 {
			t.Errorf("merged, with the splits %v (-want +got):\n%s", tr.Splits(), diff)
		}
	}
}

// TestVersionsOfTheIssueOfTheBaseAreOneIssue merges an issue whose time an import by another program has set with an
// issue whose text was edited. Neither side shows that they are one issue; the base does.
func TestVersionsOfTheIssueOfTheBaseAreOneIssue(t *testing.T) {
	line := func(created, updated, text string) string {
		return `{"id":"x-1","title":"a","description":"` + text + `","status":"open","priority":2,"issue_type":"task",` +
			`"created_at":"2026-` + created + `T00:00:00.1Z","updated_at":"2026-` + updated + `T00:00:00.1Z"}` + "\n"
	}
	base, imported, edited := line("01-01", "01-01", "b"), line("02-01", "02-01", "b"), line("01-01", "03-01", "c")
	for _, sides := range [][2]string{{imported, edited}, {edited, imported}} {
		union, _ := parse(sides[0]+sides[1], false, past{base: func() (string, bool) { return base, true }})
		for way, got := range map[string]string{
			"driver": mergedOf(base, sides[0], sides[1]),
			"marks": parsed("<<<<<<< a\n" + sides[0] + "||||||| b\n" + base + "=======\n" + sides[1] +
				">>>>>>> c\n").Text(),
			"union": union.Text(),
		} {
			if diff := cmp.Diff(edited, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", way, diff)
			}
		}
	}
}

func TestANewChildDoesNotGetTheNumberOfARemovedOne(t *testing.T) {
	tr := made(t, "epic")
	for range 3 {
		must(tr.Create(NewIssue{Parent: "x-a", Issue: Issue{Title: "child"}}, ann()))(t)
	}
	tr.issues.drop("x-a.1")
	if it := must(tr.Create(NewIssue{Parent: "x-a", Issue: Issue{Title: "child"}}, ann()))(t); it.ID != "x-a.4" {
		t.Errorf("the next child is %s", it.ID)
	}
}

func TestAnIDIsSplitIntoABoundedNumberOfIssues(t *testing.T) {
	text := ""
	for i := range 200 {
		at := time.Date(2026, 1, 1, 0, 0, 0, i+1, time.UTC)
		text += (&Tracker{codec: newCodec()}).Line(&Issue{ID: "x-1", Title: at.String(), Status: StatusOpen, CreatedAt: at,
			UpdatedAt: at}) + "\n"
	}
	tr, invalid := Parse(text)
	if got := len(tr.All()); got != maxOrigins+1 || got+len(invalid) != 200 {
		t.Errorf("%d issues and %d lines left, want %d and the rest", got, len(invalid), maxOrigins+1)
	}
	if again, rest := Parse(tr.Text()); len(again.All())+len(rest) != 200 {
		t.Errorf("written and read: %d issues and %d lines left", len(again.All()), len(rest))
	}
}

// TestASplitNamesTheReferencesThatMayMeanEitherIssue reads a union merge, which does not tell the sides.
func TestASplitNamesTheReferencesThatMayMeanEitherIssue(t *testing.T) {
	issue := func(id, by, at, dependencies string) string {
		return `{"id":"` + id + `","title":"` + id + by + `","status":"open","created_at":"2026-01-0` + at +
			`Z","created_by":"` + by + `","updated_at":"2026-01-0` + at + `Z"` + dependencies + "}\n"
	}
	on := func(by, at string) string {
		return `,"dependencies":[{"depends_on_id":"x-1","type":"blocks","created_at":"2026-01-0` + at + `Z","created_by":"` + by + `"}]`
	}
	tr, invalid := Parse(issue("x-1", "ann", "1T00:00:00.1", "") + issue("x-1", "bob", "3T00:00:00.1", "") +
		issue("x-2", "cleo", "2T00:00:00", on("cleo", "2T00:00:00")) + // before bob's
		issue("x-3", "bob", "4T00:00:00", on("bob", "4T00:00:00")) +
		issue("x-4", "cleo", "4T00:00:00", on("cleo", "4T00:00:00")))
	if len(invalid) > 0 || len(tr.Splits()) != 1 {
		t.Fatalf("invalid %v, splits %v", invalid, tr.Splits())
	}
	s := tr.Splits()[0]
	if diff := cmp.Diff([]string{"x-3", "x-4"}, s.Unsure); diff != "" || s.Kept.CreatedBy != "ann" {
		t.Errorf("%v: unsure (-want +got):\n%s", s, diff)
	}
	got := map[string]string{}
	for _, id := range []string{"x-2", "x-3", "x-4"} {
		got[id] = must(tr.Find(id))(t).Dependencies[0].On
	}
	if diff := cmp.Diff(map[string]string{"x-2": "x-1", "x-3": s.Moved.ID, "x-4": "x-1"}, got); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
}

// Two clones created a child with one number, and each made its parent depend on its own child: a union of their files
// has two lines of the parent, whose equal dependencies mean different issues.
func TestAUnionKeepsTheDependenciesOnBothIssuesOfAnID(t *testing.T) {
	line := func(id, at, by, depends string) string {
		if depends != "" {
			depends = fmt.Sprintf(`,"dependencies":[{"issue_id":%q,"depends_on_id":"x-a.1","type":"related",%s}]`, id, depends)
		}
		return fmt.Sprintf(`{"id":%q,"title":"same","status":"open","created_at":%q,"created_by":%q,"updated_at":%q%s}`+"\n",
			id, at, by, at, depends)
	}
	for _, parents := range []int{0, 1} { // whose line is first
		bob := line("x-a", "2026-01-01T00:00:01Z", "ann", `"created_at":"2026-01-01T00:00:04Z","created_by":"bob"`)
		cleo := line("x-a", "2026-01-01T00:00:01Z", "ann", `"created_at":"2026-01-01T00:00:05Z","created_by":"cleo"`)
		both := []string{bob, cleo}
		tr, err := Parse(both[parents] + both[1-parents] + line("x-a.1", "2026-01-01T00:00:02Z", "bob", "") +
			line("x-a.1", "2026-01-01T00:00:03Z", "cleo", ""))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range tr.issues.get("x-a").Dependencies {
			got = append(got, d.CreatedBy+" on that of "+tr.issues.get(d.On).CreatedBy)
		}
		slices.Sort(got)
		if want := []string{"bob on that of bob", "cleo on that of cleo"}; !slices.Equal(got, want) {
			t.Errorf("x-a depends: %q, want %q", got, want)
		}
	}
}
