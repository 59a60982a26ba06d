package feed_test

import (
	"os"
	"strings"
	"testing"

	"mailroom/issues/tracker"
)

// TestFindingsOfAMergeAreLoggedOnce has the lines of two clones in one file, as a union merge leaves them: one id means
// two issues, and one issue has two titles. The server names both once, also after many polls and changes, and writes
// no text of an issue to its log.
func TestFindingsOfAMergeAreLoggedOnce(t *testing.T) {
	w := newFixture(t)
	const file = `{"id":"x-a","title":"secret of ann","description":"","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.1Z","created_by":"ann","updated_at":"2026-01-03T03:04:05Z","closed_at":"2026-01-03T03:04:05Z"}
{"id":"x-a","title":"secret of bob","description":"","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.1Z","created_by":"ann","updated_at":"2026-01-04T03:04:05Z","closed_at":"2026-01-03T03:04:05Z"}
{"id":"x-b","title":"secret one","description":"","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.2Z","created_by":"ann","updated_at":"2026-01-03T03:04:05Z","closed_at":"2026-01-03T03:04:05Z"}
{"id":"x-b","title":"secret two","description":"","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.3Z","created_by":"bob","updated_at":"2026-01-03T03:04:05Z","closed_at":"2026-01-03T03:04:05Z"}
`
	if err := os.WriteFile(w.folder.File(), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.waitFor("both findings", func() bool {
		return strings.Contains(w.logs.String(), "the id x-b was given to two issues") &&
			strings.Contains(w.logs.String(), "two copies of issue x-a")
	})
	for _, id := range []string{"x-c", "x-d"} { // changes of the file, by a person and by the server
		w.create(id) // locks the file: the server may be writing it
		w.waitStatus(id, tracker.StatusClosed)
	}
	logs := w.logs.String()
	for _, finding := range []string{"the id x-b was given to two issues", "two copies of issue x-a"} {
		if n := strings.Count(logs, finding); n != 1 {
			t.Errorf("%q was reported %d times, want once", finding, n)
		}
	}
	if strings.Contains(logs, "secret") {
		t.Error("the log has the text of an issue")
	}
}
