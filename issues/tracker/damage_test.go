package tracker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A line is old once another one stands in its place, and not because a change was tried.
func TestAChangeThatIsNotWrittenMakesNoLineOld(t *testing.T) {
	f := kept(t, "x-1")
	other := kept(t, "x-1", "x-2")
	failed := errors.New("the second try fails")
	rounds := 0
	_, err := f.Update(t.Context(), func(tr *Tracker) error {
		if rounds++; rounds > 1 {
			return failed
		}
		if err := os.Rename(other.File(), f.File()); err != nil { // another program replaces the file
			return err
		}
		_, err := tr.Update("x-1", ann(), func(it *Issue) error { it.Notes = "changed"; return nil })
		return err
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(f.Path(), fileReplaced)); err == nil {
		t.Errorf("%s has %q", fileReplaced, text)
	}
}

// Two copies of one issue, under its old id and the new one, become one, also if the second depends on the first.
func TestCopiesUnderTwoIDsAreUnited(t *testing.T) {
	tr := New()
	read := func(line string) *Issue {
		it := &Issue{}
		if err := tr.codec.read(&scanner{}, line, it); err != nil {
			t.Fatal(err)
		}
		tr.issues.put(it)
		return it
	}
	const created = `"title":"one","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.123Z","created_by":"ann"`
	old := read(`{"id":"p-1",` + created + `,"updated_at":"2026-01-04T03:04:05Z","labels":["kept"]}`)
	name := movedID(old.ID, old)
	read(`{"id":"` + name + `",` + created + `,"updated_at":"2026-01-03T03:04:05Z","dependencies":[{"issue_id":"` + name +
		`","depends_on_id":"p-1","type":"blocks"}]}`)
	moveIssues(tr, map[string]string{"p-1": name})
	if tr.issues.has("p-1") || len(tr.issues.order) != 1 {
		t.Fatalf("%d issues", len(tr.issues.order))
	}
	it := tr.issues.get(name)
	if !slices.Equal(it.Labels, []string{"kept"}) || it.UpdatedAt.Day() != 4 || len(it.Dependencies) != 0 {
		t.Errorf("united: %s", tr.Line(it))
	}
}

// An id may be given again once its issue is gone. What depended on the old issue does not depend on the new one.
func TestAMergeDropsDependenciesOnARemovedIssue(t *testing.T) {
	line := func(id, on string) string {
		depends := ""
		if on != "" {
			depends = `,"dependencies":[{"issue_id":"` + id + `","depends_on_id":"` + on + `","type":"blocks"}]`
		}
		return `{"id":"` + id + `","title":"` + id +
			`","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z",` +
			`"updated_at":"2026-01-02T03:04:05Z"` + depends + "}\n"
	}
	base := line("x-1", "")
	removed, depends := "", base+line("x-2", "x-1")
	for _, sides := range [][2]string{{removed, depends}, {depends, removed}} {
		if got := mergedOf(base, sides[0], sides[1]); got != line("x-2", "") {
			t.Errorf("merged: %s", got)
		}
	}
	// A side without a change gives the other one, also if that has a dependency without its issue.
	dangling := line("x-2", "x-1")
	for _, sides := range [][2]string{{depends, dangling}, {dangling, depends}} {
		if got := mergedOf(depends, sides[0], sides[1]); got != dangling {
			t.Errorf("merged with an unchanged side: %s", got)
		}
	}
}
