package tracker_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/issues/tracker"
)

func outside(key, title string, deps ...string) tracker.Outside {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	o := tracker.Outside{Key: key, Issue: tracker.Issue{Title: title, Status: tracker.StatusOpen, Type: "task",
		Priority: tracker.PriorityNormal, CreatedAt: at, UpdatedAt: at}}
	for _, on := range deps {
		o.Dependencies = append(o.Dependencies, tracker.Dependency{On: on, Type: tracker.DependencyBlocks, CreatedAt: at})
	}
	return o
}

// TestIssuesOfABoardKeepTheirIDs imports issues, changes the prefix here, and imports them again.
func TestIssuesOfABoardKeepTheirIDs(t *testing.T) {
	closed := outside("github:3", "closed")
	closed.Status = tracker.StatusClosed
	came := []tracker.Outside{outside("github:1", "one", "github:2", "github:3", "github:9", "github:1"),
		outside("github:2", "two"), closed}
	here := tracker.New()
	lines := tracker.OutsideLines(here, came, "x", false)
	if again := tracker.OutsideLines(tracker.New(), came, "x", false); again != lines {
		t.Errorf("another clone gets other lines:\n%s\n%s", again, lines)
	}
	other, invalid := tracker.Parse(lines)
	if len(invalid) > 0 || len(other.All()) != 2 {
		t.Fatalf("%v\n%s", invalid, lines)
	}
	if got := tracker.ImportSince(here, other, nil, false); got.New != 2 {
		t.Fatalf("%+v", got)
	}
	for _, it := range here.All() {
		if it.Title == "one" && len(it.Dependencies) != 1 {
			t.Errorf("dependencies %+v, want the one on an issue that came", it.Dependencies)
		}
	}
	if _, err := here.Rename("x", "y", tracker.Signature{Actor: "ann", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	renamed := tracker.OutsideLines(here, came, "y", false)
	if strings.Contains(renamed, `"x-`) || tracker.WithIDs(here, lines) != renamed {
		t.Errorf("after a rename:\n%s\nand of the lines before:\n%s", renamed, tracker.WithIDs(here, lines))
	}
	if all := tracker.OutsideLines(here, came, "y", true); !strings.Contains(all, `"closed"`) {
		t.Errorf("closed issues are left out:\n%s", all)
	}
	if seen := tracker.Seen(here); len(seen) != 2 || seen["github:1"].IsZero() {
		t.Errorf("seen %v", seen)
	}
}
