package tracker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

func ann() Signature { return Signature{Actor: "ann", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)} }

// made returns a tracker with issues x-a, x-b, … with these titles.
func made(t *testing.T, titles ...string) *Tracker {
	t.Helper()
	tr := New()
	for i, title := range titles {
		id := "x-" + string(rune('a'+i))
		if _, err := tr.Create(NewIssue{Issue: Issue{ID: id, Title: title, Priority: PriorityNormal}}, ann()); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func wantCode(t *testing.T, what string, err error, want mailroom.Code) {
	t.Helper()
	if got := mailroom.CodeOf(err); got != want {
		t.Errorf("%s: got %v (code %q), want code %q", what, err, got, want)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestInvalidChangesAreRefusedAndChangeNothing(t *testing.T) {
	tr := made(t, "one")
	before := tr.Text()
	for name, d := range map[string]NewIssue{
		"no title":           {Prefix: "x"},
		"a title too long":   {Prefix: "x", Issue: Issue{Title: strings.Repeat("é", 501)}},
		"a priority too low": {Prefix: "x", Issue: Issue{Title: "t", Priority: 5}},
		"no status":          {Prefix: "x", Issue: Issue{Title: "t", Status: "wontfix"}},
		"no text":            {Prefix: "x", Issue: Issue{Title: "t", Notes: "\xff"}},
		"no prefix":          {Issue: Issue{Title: "t"}},
		"an unknown parent":  {Prefix: "x", Parent: "x-z", Issue: Issue{Title: "t"}},
		"a used id":          {Issue: Issue{ID: "x-a", Title: "t"}},
		"an invalid id":      {Issue: Issue{ID: "x a", Title: "t"}},
		"a blank dependency": {Prefix: "x", Issue: Issue{Title: "t", Dependencies: []Dependency{{On: "missing"}}}},
	} {
		if _, err := tr.Create(d, ann()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, change := range map[string]func(*Issue) error{
		"no title":                 func(it *Issue) error { it.Title = ""; return nil },
		"no status":                func(it *Issue) error { it.Status = "wontfix"; return nil },
		"tombstone":                func(it *Issue) error { it.Status = StatusTombstone; return nil },
		"an error of the function": func(it *Issue) error { return fmt.Errorf("no") },
	} {
		if _, err := tr.Update("x-a", ann(), change); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if diff := cmp.Diff(before, tr.Text()); diff != "" {
		t.Errorf("the file changed (-before +after):\n%s", diff)
	}
}

func TestOneClaimWins(t *testing.T) {
	tr := made(t, "one")
	if it := must(tr.Claim("x-a", ann()))(t); it.Assignee != "ann" || it.Status != StatusInProgress {
		t.Errorf("claimed by %q, %s", it.Assignee, it.Status)
	}
	must(tr.Claim("x-a", ann()))(t) // repeating it succeeds
	_, err := tr.Claim("x-a", Signature{Actor: "bob", At: ann().At})
	wantCode(t, "another", err, mailroom.CodeConflict)
	if !strings.Contains(err.Error(), "ann") {
		t.Errorf("%v does not name the holder", err)
	}
	must(tr.Close("x-a", "done", ann()))(t)
	_, err = tr.Claim("x-a", ann())
	wantCode(t, "a closed one", err, mailroom.CodeConflict)
}

func TestClosedAtIsSetOnlyOnClosedIssues(t *testing.T) {
	tr := made(t, "one")
	if it := must(tr.Close("x-a", "done", ann()))(t); it.ClosedAt.IsZero() || it.CloseReason != "done" {
		t.Errorf("closed at %v for %q", it.ClosedAt, it.CloseReason)
	}
	later := Signature{Actor: "bob", At: ann().At.Add(time.Hour)}
	if it := must(tr.Close("x-a", "again", later))(t); it.CloseReason != "done" {
		t.Errorf("a second close changed the reason to %q", it.CloseReason)
	}
	it := must(tr.Update("x-a", later, func(it *Issue) error { it.Status = StatusOpen; return nil }))(t)
	if !it.ClosedAt.IsZero() || it.CloseReason != "" {
		t.Errorf("reopened: closed at %v for %q, want no time and no reason", it.ClosedAt, it.CloseReason)
	}
}

func TestDependencyCyclesAreRefused(t *testing.T) {
	tr := made(t, "one", "two", "three")
	must(tr.AddDependency("x-a", "x-b", DependencyBlocks, ann()))(t)
	must(tr.AddDependency("x-b", "x-c", DependencyBlocks, ann()))(t)
	for _, on := range []string{"x-a", "x-b"} {
		_, err := tr.AddDependency("x-c", on, DependencyBlocks, ann())
		wantCode(t, "a circle over "+on, err, mailroom.CodeConflict)
	}
	_, err := tr.AddDependency("x-a", "x-a", "related", ann())
	wantCode(t, "itself", err, mailroom.CodeInvalid)
	must(tr.AddDependency("x-c", "x-a", "related", ann()))(t) // related issues may form a cycle
	if rings := tr.Cycles(); len(rings) != 0 {
		t.Errorf("cycles %v, want none", rings)
	}
	// a merge can cause this
	tr.edit(tr.issues.get("x-c")).Dependencies = []Dependency{{On: "x-a", Type: DependencyBlocks}}
	if rings := tr.Cycles(); len(rings) != 1 || len(rings[0]) != 3 || rings[0][0].ID != "x-a" {
		t.Errorf("cycles %v, want one of all three, from x-a", rings)
	}
}

func TestDependenciesOfADuplicateMove(t *testing.T) {
	tr := made(t, "kept", "duplicate", "waits", "waits for both", "needed", "needed by what needs it", "parent", "child")
	for _, d := range [][3]string{
		{"x-c", "x-b", DependencyBlocks}, {"x-d", "x-a", DependencyBlocks}, {"x-d", "x-b", DependencyBlocks}, {"x-a", "x-b", "related"},
		{"x-b", "x-e", DependencyBlocks}, {"x-f", "x-a", DependencyBlocks}, {"x-b", "x-f", DependencyBlocks},
		{"x-b", "x-g", DependencyParentChild}, {"x-h", "x-b", DependencyParentChild},
	} {
		must(tr.AddDependency(d[0], d[1], d[2], ann()))(t)
	}
	if err := tr.MoveDependencies("x-b", "x-a", ann()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, it := range tr.All() {
		for _, d := range it.Dependencies {
			got[it.ID] += d.Type + " " + d.On + ", "
		}
	}
	want := map[string]string{
		"x-a": "blocks x-e, parent-child x-g, ", // not x-f, which would close a cycle
		"x-c": "blocks x-a, ", "x-d": "blocks x-a, ", "x-f": "blocks x-a, ", "x-h": "parent-child x-a, ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ties (-want +got):\n%s", diff)
	}
	if rings := tr.Cycles(); len(rings) != 0 {
		t.Errorf("cycles %v, want none", rings)
	}
	wantCode(t, "itself", tr.MoveDependencies("x-a", "x-a", ann()), mailroom.CodeInvalid)
}

func TestReadyExcludesBlockedIssues(t *testing.T) {
	tr := made(t, "epic", "child", "blocker", "free", "closed blocker", "freed")
	must(tr.AddDependency("x-a", "x-c", DependencyBlocks, ann()))(t)
	must(tr.AddDependency("x-b", "x-a", DependencyParentChild, ann()))(t)
	must(tr.AddDependency("x-f", "x-e", DependencyBlocks, ann()))(t)
	must(tr.Close("x-e", "", ann()))(t)
	ids := func(list []*Issue) (ids []string) {
		for _, it := range list {
			ids = append(ids, it.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got, want := ids(tr.Ready(Filter{}, OrderPriority, ann().At)), []string{"x-c", "x-d", "x-f"}; !slices.Equal(got,
		want) {
		t.Errorf("ready: got %v, want %v", got, want)
	}
	// a child of a blocked parent is blocked
	if got, want := ids(tr.BlockedIssues()), []string{"x-a", "x-b"}; !slices.Equal(got, want) {
		t.Errorf("waiting: got %v, want %v", got, want)
	}
	must(tr.Update("x-c", ann(), func(it *Issue) error { it.Status = StatusInProgress; return nil }))(t)
	if got, want := ids(tr.Ready(Filter{}, OrderPriority, ann().At)), []string{"x-d", "x-f"}; !slices.Equal(got, want) {
		t.Errorf("ready once it is in progress: got %v, want %v", got, want)
	}
}

// TestAChangeWithoutAnEffectKeepsTheUpdateTime: a new time of change would win the merge with a real change of
// another clone.
func TestAChangeWithoutAnEffectKeepsTheUpdateTime(t *testing.T) {
	read, invalid := Parse(
		`{"id":"x-a","title":"one","status":"in_progress","assignee":"ann","labels":["l"],"created_at":"2026-01-01T10:00:00Z","updated_at":"2026-01-01T10:00:00Z"}` + "\n")
	if len(invalid) > 0 {
		t.Fatal(invalid)
	}
	was, err := read.Find("x-a")
	if err != nil {
		t.Fatal(err)
	}
	later := ann()
	later.At = later.At.Add(time.Hour)
	for name, change := range map[string]func() (*Issue, error){
		"a claim": func() (*Issue, error) { return read.Claim("x-a", later) },
		"labels":  func() (*Issue, error) { return read.UpdateLabels("x-a", []string{"l"}, []string{"m"}, later) },
		"a status": func() (*Issue, error) {
			return read.Update("x-a", later, func(it *Issue) error { it.Status = StatusInProgress; return nil })
		},
	} {
		if is, err := change(); err != nil || is != was {
			t.Errorf("%s: got %+v %v, want the same issue", name, is, err)
		}
	}
}

// TestAnIssueBlocksOthersUntilItIsClosedOrPinned gives an issue that others wait for each status, also one of
// another program, and an issue with children each way of being deferred.
func TestAnIssueBlocksOthersUntilItIsClosedOrPinned(t *testing.T) {
	now := ann().At
	for status, blocks := range map[Status]bool{
		StatusOpen: true, StatusInProgress: true, StatusBlocked: true, StatusDeferred: true, StatusHooked: true,
		"in_review": true, "": true,
		StatusClosed: false, StatusPinned: false,
	} {
		tr := made(t, "first", "second")
		must(tr.AddDependency("x-b", "x-a", DependencyBlocks, ann()))(t)
		tr.issues.get("x-a").Status = status // as a file has it
		ready := slices.ContainsFunc(tr.Ready(Filter{}, OrderPriority, now), func(it *Issue) bool { return it.ID == "x-b" })
		if ready == blocks {
			t.Errorf("after an issue that is %q: ready is %v", status, ready)
		}
	}
	for name, is := range map[string]struct {
		edit func(it *Issue)
		off  bool
	}{
		"deferred":               {func(it *Issue) { it.Status = StatusDeferred }, true},
		"deferred until later":   {func(it *Issue) { it.Status, it.DeferUntil = StatusDeferred, now.Add(time.Hour) }, true},
		"open, until later":      {func(it *Issue) { it.DeferUntil = now.Add(time.Hour) }, true},
		"deferred until earlier": {func(it *Issue) { it.Status, it.DeferUntil = StatusDeferred, now.Add(-time.Hour) }, false},
		"closed, until later":    {func(it *Issue) { it.Status, it.DeferUntil = StatusClosed, now.Add(time.Hour) }, false},
	} {
		tr := made(t, "epic", "child", "child of the child")
		must(tr.AddDependency("x-b", "x-a", DependencyParentChild, ann()))(t)
		must(tr.AddDependency("x-c", "x-b", DependencyParentChild, ann()))(t)
		must(tr.Update("x-a", ann(), func(it *Issue) error { is.edit(it); return nil }))(t)
		for _, id := range []string{"x-b", "x-c"} {
			if ready := slices.ContainsFunc(tr.Ready(Filter{}, OrderPriority, now), func(it *Issue) bool {
				return it.ID == id
			}); ready == is.off {
				t.Errorf("%s below an epic that is %s: ready is %v", id, name, ready)
			}
		}
	}
}

func TestReadyIssuesAreSorted(t *testing.T) {
	now := ann().At
	tr := New()
	for _, it := range []struct {
		id       string
		priority int
		age      time.Duration
	}{{"new-low", 3, time.Hour}, {"new-high", 0, time.Hour}, {"old-low", 4, 90 * time.Hour}, {"older-high", 0,
		99 * time.Hour}} {
		by := Signature{Actor: "ann", At: now.Add(-it.age)}
		must(tr.Create(NewIssue{Issue: Issue{ID: "x-" + it.id, Title: it.id, Priority: it.priority}}, by))(t)
	}
	for order, want := range map[Order]string{
		OrderPriority: "older-high new-high new-low old-low",
		OrderAge:      "older-high old-low new-high new-low",
		OrderHybrid:   "new-high new-low older-high old-low",
	} {
		var got []string
		for _, it := range tr.Ready(Filter{}, order, now) {
			got = append(got, it.Title)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", order, diff)
		}
	}
}

func TestDeleteLeavesATombstoneWithoutDependencies(t *testing.T) {
	tr := made(t, "one", "two", "three")
	must(tr.AddDependency("x-b", "x-a", DependencyBlocks, ann()))(t)
	must(tr.AddDependency("x-c", "x-b", DependencyBlocks, ann()))(t)
	_, err := tr.Delete([]string{"x-a"}, "", false, false, ann())
	wantCode(t, "one that others need", err, mailroom.CodeConflict)
	copied, _ := Parse(tr.Text())
	if gone := must(copied.Delete([]string{"x-a"}, "", true, false, ann()))(t); len(gone) != 3 {
		t.Errorf("%d deleted issues, including dependents, want 3", len(gone))
	}
	must(tr.Delete([]string{"x-a"}, "double", false, true, ann()))(t)
	if dead := tr.issues.get("x-a"); dead.Status != StatusTombstone || dead.DeletedBy != "ann" ||
		dead.DeleteReason != "double" || dead.OriginalType != "task" {
		t.Errorf("tombstone %+v", dead)
	}
	if deps := tr.issues.get("x-b").Dependencies; len(deps) != 0 {
		t.Errorf("x-b still depends on %v", deps)
	}
	_, err = tr.Update("x-a", ann(), func(*Issue) error { return nil })
	wantCode(t, "a change of a deleted one", err, mailroom.CodeNotFound)
	if found := tr.List(Filter{All: true}); len(found) != 2 {
		t.Errorf("%d issues are listed, want 2", len(found))
	}
}

func TestIDsAreFoundByAUniquePart(t *testing.T) {
	tr := New()
	for _, id := range []string{"proj-abc", "proj-abc.1", "proj-xyz", "other-abd"} {
		must(tr.Create(NewIssue{Issue: Issue{ID: id, Title: id}}, ann()))(t)
	}
	for part, want := range map[string]string{"proj-abc": "proj-abc", "xyz": "proj-xyz", "abc": "proj-abc",
		"bd": "other-abd", "abc.1": "proj-abc.1"} {
		if it, err := tr.Find(part); err != nil || it.ID != want {
			t.Errorf("%s: got %v, %v, want %s", part, it, err, want)
		}
	}
	_, err := tr.Find("proj")
	wantCode(t, "proj", err, mailroom.CodeInvalid)
	for _, unknown := range []string{"zzz", ""} {
		_, err := tr.Find(unknown)
		wantCode(t, unknown, err, mailroom.CodeNotFound)
	}
}

func TestIDsGrowWithTheTrackerAndChildrenAreNumbered(t *testing.T) {
	tr := New()
	if id := must(tr.Create(NewIssue{Prefix: "x", Issue: Issue{Title: "t"}}, ann()))(t).ID; len(id) != len("x-")+3 {
		t.Errorf("the first id is %s, want three characters after the prefix", id)
	}
	for i := range 400 {
		must(tr.Create(NewIssue{Prefix: "x", Issue: Issue{Title: fmt.Sprint("t", i)}}, ann()))(t)
	}
	if n := tr.idLength(); n < 4 {
		t.Errorf("with 400 issues ids have %d characters, want at least 4", n)
	}
	top := must(tr.Create(NewIssue{Issue: Issue{ID: "x-top", Title: "top"}}, ann()))(t)
	for i := 1; i <= maxNesting; i++ {
		top = must(tr.Create(NewIssue{Parent: top.ID, Issue: Issue{Title: "child"}}, ann()))(t)
		if want := "x-top" + strings.Repeat(".1", i); top.ID != want || top.Parent() == "" {
			t.Errorf("child %s of %q, want %s", top.ID, top.Parent(), want)
		}
	}
	_, err := tr.Create(NewIssue{Parent: top.ID, Issue: Issue{Title: "too deep"}}, ann())
	wantCode(t, "a fourth level", err, mailroom.CodeInvalid)
}

func TestARenamedPrefixIsRenamedEverywhere(t *testing.T) {
	tr, _ := Parse(foreign + "\n" + `{"id":"x-2","title":"two","status":"open","priority":2}` + "\n")
	if n := must(tr.Rename("x", "y", ann()))(t); n != 2 {
		t.Errorf("%d were renamed, want 2", n)
	}
	text := tr.Text()
	if strings.Contains(text, "x-") {
		t.Errorf("the file contains the old prefix:\n%s", text)
	}
	for _, kept := range []string{`"weight":2.50`, `"mood":"good"`, `"custom":{"n":1e400`} {
		if !strings.Contains(text, kept) {
			t.Errorf("the file lacks %s:\n%s", kept, text)
		}
	}
}

func TestARenameChangesIDsAndNothingElse(t *testing.T) {
	tr, invalid := Parse(strings.Join([]string{
		`{"id":"x-1","title":"x-1 stays","weight":2.50,"dependencies":[{"issue_id":"x-1","depends_on_id":"z-9","type":"blocks","n":[1, 2]}, 7, {"issue_id":5}],"comments":[{"id":1,"issue_id":"x-1","text":"x-1"}]}`,
		`{"id":"x-2","comments":{"issue_id":"x-2"},"updated_at":"2020-01-01T00:00:00Z","dependencies":null}`,
		`{"id":"z-9","updated_at":"2020-01-01T00:00:00Z","dependencies":[{"issue_id":"z-9","depends_on_id":"x-1"},{"depends_on_id":"z-1"}]}`,
	}, "\n") + "\n")
	if n := must(tr.Rename("x", "y", ann()))(t); n != 2 || len(invalid) > 0 {
		t.Errorf("%d were renamed, want 2; invalid: %v", n, invalid)
	}
	at := encode(ann().At)
	want := strings.Join([]string{
		`{"id":"y-1","title":"y-1 stays","weight":2.50,"dependencies":[{"issue_id":"y-1","depends_on_id":"z-9","type":"blocks","n":[1, 2]}, 7, {"issue_id":5}],"comments":[{"id":1,"issue_id":"y-1","text":"y-1"}],"updated_at":` + at + `}`,
		`{"id":"y-2","comments":{"issue_id":"x-2"},"updated_at":` + at + `,"dependencies":null}`,
		`{"id":"z-9","updated_at":"2020-01-01T00:00:00Z","dependencies":[{"issue_id":"z-9","depends_on_id":"y-1"},{"depends_on_id":"z-1"}]}`,
	}, "\n") + "\n"
	if diff := cmp.Diff(want, tr.Text()); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
	if it := must(tr.Find("y-1"))(t); it.Title != "y-1 stays" || !it.UpdatedAt.Equal(ann().At) {
		t.Errorf("renamed issue is %v, updated at %v", it, it.UpdatedAt)
	}
}

// TestARenameFollowsEachMentionOfAnIssue has every place that names an issue, in an issue of another prefix, and words
// that only look like ids.
func TestARenameFollowsEachMentionOfAnIssue(t *testing.T) {
	line := `{"id":"z-1","updated_at":"2020-01-01T00:00:00Z"`
	for _, name := range references() {
		line += `,"` + name + `":"x-1"`
	}
	line += `,"relates_to":["x-1","z-1","x-9"]`
	for _, name := range texts() {
		line += `,"` + name + `":"see x-1.\nx-1.2, (x-1) and x-1: but pre-x-1, x-1/a, a/x-1, x-12 and x-1-fix stay <ü>"`
	}
	line += `,"dependencies":[{"depends_on_id":"x-1.2","thread_id":"x-1"}],"comments":[{"text":"as in x-1.","id":"x-1"}],"note":"x-1"}`
	tr, invalid := Parse(`{"id":"x-1"}` + "\n" + `{"id":"x-1.2"}` + "\n" + line + "\n")
	if n := must(tr.Rename("x", "yy", ann()))(t); n != 2 || len(invalid) > 0 {
		t.Fatalf("%d were renamed, want 2; invalid: %v", n, invalid)
	}
	want := strings.NewReplacer(`"x-1"`, `"yy-1"`, `"x-1.2"`, `"yy-1.2"`, "see x-1.", "see yy-1.", `\nx-1.2`, `\nyy-1.2`,
		"(x-1)", "(yy-1)", "and x-1:", "and yy-1:",
		"in x-1.", "in yy-1.", `"note":"x-1"`, `"note":"x-1"`, `{"id":"x-1"}`, `{"id":"x-1"}`).Replace(line)
	got := tr.Line(tr.issues.get("z-1"))
	if diff := cmp.Diff(strings.Split(want, `,"`), strings.Split(got, `,"`)); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
}

func TestTreesAreCutAtARepeatedIssue(t *testing.T) {
	tr := made(t, "top", "left", "right", "shared", "deep")
	for _, tie := range []string{"a b", "a c", "b d", "c d", "d e"} {
		from, to, _ := strings.Cut(tie, " ")
		must(tr.AddDependency("x-"+from, "x-"+to, DependencyBlocks, ann()))(t)
	}
	var got []string
	for _, n := range must(tr.Tree("x-a", 0, false))(t) {
		got = append(got, fmt.Sprintf("%d %s %v", n.Depth, n.Issue.ID, n.Cut))
	}
	want := []string{"0 x-a false", "1 x-b false", "2 x-d false", "3 x-e false", "1 x-c false", "2 x-d true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if nodes := must(tr.Tree("x-e", 1, true))(t); len(nodes) != 2 || nodes[1].Issue.ID != "x-d" || !nodes[1].Cut {
		t.Errorf("one level up from x-e: %v", nodes)
	}
}

func TestDependentsAreCounted(t *testing.T) {
	tr := made(t, "one", "two", "three")
	must(tr.AddDependency("x-b", "x-a", DependencyBlocks, ann()))(t)
	must(tr.AddDependency("x-c", "x-a", "related", ann()))(t)
	must(tr.AddDependency("x-a", "x-b", "related", ann()))(t)
	c := tr.edit(tr.issues.get("x-c"))
	c.Dependencies = append(c.Dependencies, Dependency{On: "x-gone", Type: DependencyBlocks}) // a merge can cause this
	count := tr.CountDependents()
	for i, want := range []int{2, 1, 0} {
		if it := tr.All()[i]; count(it) != want {
			t.Errorf("%d depend on %s, want %d", count(it), it.ID, want)
		}
	}
}
