package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/app/config"
)

func TestTheBoardShowsTheIssuesOfTheTracker(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".beads", "issues.jsonl")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	read := issueBoard(&config.Config{Tracker: &config.Tracker{Folder: dir}})
	write := func(lines ...string) {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(after string, want ...string) map[string]api.IssueColumn {
		t.Helper()
		b, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		columns := map[string]api.IssueColumn{}
		for _, c := range b.Columns {
			columns[c.Name] = c
			var ids []string
			for _, it := range c.Items {
				ids = append(ids, it.ID)
			}
			got = append(got, fmt.Sprint(c.Name, " ", c.Count, " ", strings.Join(ids, " ")))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", after, got, want)
		}
		return columns
	}
	line := func(id, status, more string) string {
		return fmt.Sprintf(`{"id":%q,"title":"title of %s","status":%q,"priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"%s}`, id, id, status, more)
	}
	if _, err := read(t.Context()); mailroom.CodeOf(err) != mailroom.CodeUnavailable || !strings.Contains(err.Error(), "bd init") {
		t.Errorf("without a file: got %v, want unavailable and what to do", err)
	}
	lines := []string{
		line("x-1", "open", `,"labels":["a","b"]`), line("x-2", "open", `,"dependencies":[{"issue_id":"x-2","depends_on_id":"x-1","type":"blocks"}]`),
		line("x-3", "in_progress", `,"assignee":"ann"`), line("x-4", "deferred", ""), line("x-5", "closed", `,"closed_at":"2026-01-02T03:04:05Z"`),
		line("x-6", "closed", `,"closed_at":"2026-01-03T03:04:05Z"`), line("x-7", "tombstone", ""),
	}
	write(lines...)
	columns := want("with issues", "in_progress 1 x-3", "ready 1 x-1", "blocked 1 x-2", "later 1 x-4", "closed 2 x-6 x-5")
	if it := columns["blocked"].Items[0]; !slices.Equal(it.BlockedBy, []string{"x-1"}) || it.Title != "title of x-2" || it.Thread != "issue:x-2" {
		t.Errorf("got %+v", it)
	}
	if it := columns["in_progress"].Items[0]; it.Assignee != "ann" {
		t.Errorf("got %+v", it)
	}
	for i := range 150 {
		lines = append(lines, line(fmt.Sprint("y-", i), "open", ""))
	}
	write(append(lines, line("z", "open", `,"notes":"`+strings.Repeat("x", 1000)+`"`), strings.Replace(line("w", "closed", ""), "title of w", strings.Repeat("ü", 1000), 1))...)
	b, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := b.Columns[1]; c.Count != 152 || len(c.Items) != boardColumn {
		t.Errorf("got %d of %d ready issues, want %d of 152", len(c.Items), c.Count, boardColumn)
	}
	if c := b.Columns[4]; len([]rune(c.Items[2].Title)) != boardTitle {
		t.Errorf("a title of %d characters was not cut", len([]rune(c.Items[2].Title)))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context()); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("of a folder: got %v, want unavailable", err)
	}
	if issueBoard(&config.Config{}) != nil {
		t.Error("there is a board without a tracker")
	}
}
