package tracker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func kept(t *testing.T, ids ...string) Folder {
	t.Helper()
	f := FolderAt(filepath.Join(t.TempDir(), ".beads"))
	if err := f.Init(); err != nil {
		t.Fatal(err)
	}
	change(t, f, func(tr *Tracker) error {
		for _, id := range ids {
			if _, err := tr.Create(NewIssue{Issue: Issue{ID: id, Title: id, Priority: PriorityNormal}}, ann()); err != nil {
				return err
			}
		}
		return nil
	})
	return f
}

func change(t *testing.T, f Folder, do func(*Tracker) error) {
	t.Helper()
	if invalid, err := f.Update(t.Context(), do); err != nil || len(invalid) > 0 {
		t.Fatalf("%v, invalid %v", err, invalid)
	}
}

func TestAReaderNeverSeesHalfAFile(t *testing.T) {
	const issues, writes = 100, 12
	var ids []string
	for i := range issues {
		ids = append(ids, fmt.Sprintf("x-%03d", i))
	}
	f := kept(t, ids...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range writes {
			_, err := f.Update(t.Context(), func(tr *Tracker) error {
				for _, id := range ids { // all in one write, so that a torn read is detected
					if _, err := tr.Update(id, ann(), func(it *Issue) error {
						it.Notes = strings.Repeat("n", n)
						return nil
					}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	seen := map[string]bool{}
	for reading := true; reading; {
		select {
		case <-done:
			reading = false // one more read, of the last write
		default:
		}
		tr, invalid, err := f.Read()
		if err != nil || len(invalid) > 0 || len(tr.All()) != issues {
			t.Fatalf("%v, %d issues and invalid %v", err, len(tr.All()), invalid)
		}
		all := map[string]bool{}
		for _, it := range tr.All() {
			all[it.Notes] = true
			seen[it.Notes] = true
		}
		if len(all) != 1 {
			t.Fatalf("a reader saw parts of %d writes", len(all))
		}
	}
	<-done
	if !seen[strings.Repeat("n", writes-1)] {
		t.Errorf("no reader saw the last write, but %d others", len(seen))
	}
}

func TestALargeFileIsReadAndWrittenWhole(t *testing.T) {
	f := kept(t)
	const issues = 4000 // several megabytes
	text := many(issues)
	if err := os.WriteFile(f.File(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, update := range map[string]func(Folder, context.Context, func(*Tracker) error) ([]InvalidLine, error){
		"few": Folder.Update, "all": Folder.UpdateAll,
	} {
		title := "changed by one that looks at " + name
		invalid, err := update(f, t.Context(), func(tr *Tracker) error {
			_, err := tr.Update("proj-00007", ann(), func(it *Issue) error { it.Title = title; return nil })
			return err
		})
		if err != nil || len(invalid) > 0 {
			t.Fatalf("%v, invalid %v", err, invalid)
		}
		got := must(os.ReadFile(f.File()))(t)
		was, is := strings.Split(text, "\n"), strings.Split(string(got), "\n")
		if len(is) != len(was) || !strings.Contains(is[7], title) {
			t.Fatalf("%d lines, want %d; the eighth: %s", len(is), len(was), is[7])
		}
		is[7] = was[7]
		if strings.Join(is, "\n") != text {
			t.Error("another line was changed")
		}
	}
}

func TestFileThatGitReplacesIsReadAgain(t *testing.T) {
	f := kept(t, "x-1")
	other := kept(t, "x-1", "x-2") // the file of another branch
	rounds := 0
	change(t, f, func(tr *Tracker) error {
		if rounds++; rounds == 1 { // git takes no lock
			if err := os.Rename(other.File(), f.File()); err != nil {
				return err
			}
		}
		_, err := tr.Update("x-1", ann(), func(it *Issue) error {
			it.Notes = "changed"
			return nil
		})
		return err
	})
	tr, _, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	if it, err := tr.Find("x-1"); err != nil || it.Notes != "changed" {
		t.Errorf("%v, the change is not in the file: %v", err, it)
	}
	if _, err := tr.Find("x-2"); err != nil {
		t.Errorf("the change of git is lost: %v", err)
	}
	if rounds != 2 {
		t.Errorf("the change was applied %d times, want 2: to the old file and to the new one", rounds)
	}
}
