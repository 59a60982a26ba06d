package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/internal/machinetest"
)

// TestUndoInOneCloneSurvivesTheMerge removes values in one clone that the base has, while the other
// clone edits the title of the same issues, so that git cannot merge the lines. The base comes from
// git's merge driver, from conflict markers in diff3 style, from git's index, and after a union merge from the parents
// of the merge.
func TestUndoInOneCloneSurvivesTheMerge(t *testing.T) {
	undo := []struct {
		id, member   string
		before, then []string
		want         any
	}{
		{"x-label", "labels", []string{"label add x-label base", "label add x-label stays"},
			[]string{"label remove x-label base"}, []any{"stays"}},
		{"x-dep", "dependencies", []string{"dep add x-dep x-label"}, []string{"dep remove x-dep x-label"}, nil},
		{"x-priority", "priority", []string{"update x-priority -p 0"}, []string{"update x-priority -p 4"}, 4.0},
		{"x-open", "status", []string{"close x-open"}, []string{"reopen x-open"}, "open"},
		{"x-text", "notes", []string{"update x-text --notes base"}, []string{"update x-text --notes="}, nil},
		{"x-late", "assignee", []string{"update x-late -a bob"}, []string{"update x-late --assignee="}, nil},
	}
	bd, err := machinetest.Program("bd")
	check(t, err)
	for how, settings := range map[string][][]string{
		"index":  {{"merge.conflictStyle", "merge"}},
		"marks":  {{"merge.conflictStyle", "diff3"}},
		"driver": {{"merge.bd.driver", bd + " merge %A %O %A %B"}},
		"union":  nil, // git leaves the lines of both sides, and the parents of the merge have the base
	} {
		for _, undoer := range []string{"ours", "theirs"} {
			t.Run(how+"/"+undoer, func(t *testing.T) {
				t.Parallel()
				one := newPlace(t)
				for _, u := range undo {
					one.must("ann", "create", "base", "--id", u.id, "-p", "3")
				}
				for _, u := range undo {
					one.do(u.before)
				}
				one.mustGit("init", "-q", "-b", "main")
				if driver := map[string]string{"driver": "bd", "union": "union"}[how]; driver != "" {
					check(t, os.WriteFile(filepath.Join(one.dir, ".gitattributes"), []byte(".beads/issues.jsonl merge="+driver+"\n"),
						0o644))
				}
				one.mustGit("add", ".")
				one.mustGit("commit", "-qm", "begin")
				two := &place{t, filepath.Join(t.TempDir(), "two")}
				one.mustGit("clone", "-q", one.dir, two.dir)
				undoes, edits := two, one
				if undoer == "theirs" {
					undoes, edits = one, two
				}
				for _, u := range undo {
					undoes.do(u.then)
					edits.must("bob", "update", u.id, "--title", "edited") // later than the removal, which must not matter
				}
				one.mustGit("commit", "-qam", "one")
				two.mustGit("commit", "-qam", "two")
				for _, s := range settings {
					two.mustGit("config", s[0], s[1])
				}
				two.mustGit("fetch", "-q", "origin")
				if out, err := two.git("merge", "origin/main"); (err == nil) != (how == "driver" || how == "union") {
					t.Fatalf("git merge: %v: %s", err, out)
				}
				if how == "marks" { // only the markers have the base
					two.mustGit("add", ".")
				}
				two.must("ann", "sync")
				found := two.lines()
				for _, u := range undo {
					if diff := cmp.Diff(u.want, found[u.id][u.member]); diff != "" {
						t.Errorf("%s of %s (-want +got):\n%s", u.member, u.id, diff)
					}
					if found[u.id]["title"] != "edited" {
						t.Errorf("%s has the title %v", u.id, found[u.id]["title"])
					}
				}
			})
		}
	}
}

func (p *place) do(commands []string) {
	p.t.Helper()
	for _, c := range commands {
		p.must("ann", strings.Fields(c)...)
	}
}
