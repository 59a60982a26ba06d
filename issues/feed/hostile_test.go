package feed_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/issues/tracker"
)

// TestTrackerFilesCannotLeadOutside has a project that replaces the tracker's files with links and
// pipes. The server changes nothing outside, reports the problem, and handles the issue once the
// file is restored.
func TestTrackerFilesCannotLeadOutside(t *testing.T) {
	for _, name := range []string{"issues.jsonl", "issues.lock", "issues.jsonl.tmp"} {
		for kind, set := range map[string]func(at, outside string) error{
			"is a link": func(at, outside string) error { return os.Symlink(outside, at) },
			"is a pipe": func(at, _ string) error { return syscall.Mkfifo(at, 0o644) },
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				w := newFixture(t)
				w.create("x-a")
				raw, err := os.ReadFile(w.folder.File())
				if err != nil {
					t.Fatal(err)
				}
				raw = append(raw, "no issue\n"...)
				if err := os.WriteFile(w.folder.File(), raw, 0o644); err != nil {
					t.Fatal(err)
				}
				outside, at := filepath.Join(t.TempDir(), "outside"), filepath.Join(w.folder.Path(), name)
				if err := os.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
				if err := set(at, outside); err != nil {
					t.Fatal(err)
				}
				w.start()
				if name != "issues.jsonl.tmp" { // not used by the server
					w.waitFor("the reported problem", func() bool {
						return strings.Contains(w.runner.State().Reason, name+" "+kind)
					})
					if err := os.Remove(at); err != nil {
						t.Fatal(err)
					}
				}
				if name == "issues.jsonl" {
					if err := os.WriteFile(at, raw, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				w.waitStatus("x-a", tracker.StatusClosed)
				if _, err := os.Lstat(outside); err == nil {
					t.Error("a file was created outside")
				}
			})
		}
	}
}
