package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/internal/machinetest"
)

// TestTwoClonesThatChooseOneIDKeepBothIssues lets two clones choose the same id for two issues, and
// joins the clones in each way in which files meet. The issue that was created first keeps the id;
// the other one keeps everything else.
func TestTwoClonesThatChooseOneIDKeepBothIssues(t *testing.T) {
	bd, err := machinetest.Program("bd")
	check(t, err)
	for how, id := range map[string]string{"plain": "x-epic.1", "diff3": "x-epic.1", "driver": "x-epic.1",
		"union": "x-epic.1", "import": "x-epic.1", "driver of a chosen id": "x-login"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			one := newPlace(t)
			one.must("ann", "create", "Release", "--id", "x-epic", "-t", "epic")
			one.mustGit("init", "-q", "-b", "main")
			attribute := map[string]string{"union": "union", "driver": "bd", "driver of a chosen id": "bd"}[how]
			if attribute != "" {
				check(t, os.WriteFile(filepath.Join(one.dir, ".gitattributes"), []byte(".beads/issues.jsonl merge="+attribute+"\n"),
					0o644))
			}
			one.mustGit("add", ".")
			one.mustGit("commit", "-qm", "begin")
			two := &place{t, filepath.Join(t.TempDir(), "two")}
			one.mustGit("clone", "-q", one.dir, two.dir)
			two.mustGit("config", "merge.bd.driver", bd+" merge %A %O %A %B")
			if how == "diff3" {
				two.mustGit("config", "merge.conflictStyle", "diff3")
			}
			create := func(p *place, actor, title string) {
				if id == "x-login" {
					p.must(actor, "create", title, "--id", id)
				} else {
					p.must(actor, "create", title, "--parent", "x-epic")
				}
				p.must(actor, "comments", "add", id, "of "+actor)
				p.must(actor, "create", "waits for "+title, "--id", "x-"+actor, "--deps", "blocks:"+id)
			}
			create(one, "alice", "Write the guide")
			create(two, "bob", "Fix the crash")
			two.must("bob", "close", id, "-r", "fixed")
			one.mustGit("commit", "-qam", "one")
			two.mustGit("commit", "-qam", "two")
			var said string
			if how == "import" {
				said = two.said("bob", "import", one.file())
			} else {
				_, _ = two.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main") // the plain ways leave a conflict
				said = two.said("bob", "sync")
			}
			if !strings.HasPrefix(how, "driver") && !strings.Contains(said, id+" was given to two issues") {
				t.Errorf("bd says %q", said)
			}
			ids, got := two.contents()
			want := map[string][]string{
				"Release":                   {"open"},
				"Write the guide":           {"open", "of alice", "Release"},
				"Fix the crash":             {"closed", "of bob", "Release"},
				"waits for Write the guide": {"open", "Write the guide"},
				"waits for Fix the crash":   {"open", "Fix the crash"},
			}
			if id == "x-login" { // no child
				want["Write the guide"], want["Fix the crash"] = []string{"open", "of alice"}, []string{"closed", "of bob"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("issues (-want +got):\n%s\n%s", diff, two.raw())
			}
			if ids[id] != "Write the guide" {
				t.Errorf("%s is %q now", id, ids[id])
			}
			after := two.must("bob", "doctor")
			if !strings.Contains(after, "no problems") || !strings.Contains(after, "(Fix the crash) was "+id) {
				t.Errorf("bd doctor: %s", after)
			}
			if before := two.raw(); how == "import" { // an older copy of what was merged is no edit
				two.must("bob", "import", one.file())
				if diff := cmp.Diff(before, two.raw()); diff != "" {
					t.Errorf("a repeated import changed (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// contents returns the titles of issues by id, and by title: the status, the texts of comments, and the
// titles of what the issue depends on.
func (p *place) contents() (titles map[string]string, found map[string][]string) {
	var issues []struct {
		ID, Title, Status string
		Comments          []struct{ Text string }
		Dependencies      []struct {
			On string `json:"depends_on_id"`
		}
	}
	check(p.t, json.Unmarshal([]byte("["+strings.Join(strings.Split(strings.TrimSpace(p.raw()), "\n"), ",")+"]"), &issues))
	titles, found = map[string]string{}, map[string][]string{}
	for _, it := range issues {
		titles[it.ID] = it.Title
	}
	for _, it := range issues {
		found[it.Title] = []string{it.Status}
		for _, c := range it.Comments {
			found[it.Title] = append(found[it.Title], c.Text)
		}
		for _, d := range it.Dependencies {
			found[it.Title] = append(found[it.Title], titles[d.On])
		}
	}
	return titles, found
}

// said runs a command and returns what it printed on stderr.
func (p *place) said(actor string, args ...string) string {
	p.t.Helper()
	cmd := p.command(actor, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	check(p.t, cmd.Run())
	return stderr.String()
}

// raw returns the file.
func (p *place) raw() string {
	p.t.Helper()
	text, err := os.ReadFile(p.file())
	check(p.t, err)
	return string(text)
}

// changedLines returns the lines of the file that text does not have.
func (p *place) changedLines(text string) (changed []string) {
	was := strings.SplitAfter(text, "\n")
	for line := range strings.Lines(p.raw()) {
		if !slices.Contains(was, line) {
			changed = append(changed, line)
		}
	}
	return changed
}

// TestAMergeDoesNotTakeAnOldCopyForAnEdit imports what a clone exported before it changed its mind, and lets a union
// merge bring the old line back.
func TestAMergeDoesNotTakeAnOldCopyForAnEdit(t *testing.T) {
	for name, c := range map[string]struct{ before, after []string }{
		"reopened":             {[]string{"close x-1 -r done"}, []string{"reopen x-1"}},
		"less urgent":          {nil, []string{"update x-1 -p 4"}},
		"a label removed":      {[]string{"label add x-1 base"}, []string{"label remove x-1 base"}},
		"a dependency removed": {[]string{"dep add x-1 x-2"}, []string{"dep remove x-1 x-2"}},
		"a text removed":       {[]string{"update x-1 --notes base"}, []string{"update x-1 --notes="}},
		"deleted":              {nil, []string{"delete x-1 --force"}},
		"changed several times": {[]string{"label add x-1 base"},
			[]string{"label remove x-1 base", "update x-1 -p 4", "update x-1 --title other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.must("ann", "create", "the issue", "--id", "x-1", "-p", "1")
			p.must("ann", "create", "another", "--id", "x-2")
			p.do(c.before)
			p.must("ann", "export", "-o", "old.jsonl")
			old, err := os.ReadFile(filepath.Join(p.dir, "old.jsonl"))
			check(t, err)
			p.do(c.after)
			want := p.raw()
			for range 2 {
				p.must("ann", "import", "old.jsonl")
				if diff := cmp.Diff(want, p.raw()); diff != "" {
					t.Fatalf("the import of the old copy changed (-before +after):\n%s", diff)
				}
			}
			first, _, _ := strings.Cut(string(old), "\n")
			check(t, os.WriteFile(p.file(), []byte(want+first+"\n"), 0o644))
			p.must("ann", "sync")
			if diff := cmp.Diff(want, p.raw()); diff != "" {
				t.Errorf("a union merge with the old copy changed (-before +after):\n%s", diff)
			}
		})
	}
}
