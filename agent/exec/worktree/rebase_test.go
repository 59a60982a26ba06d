package worktree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

// lines returns a text of ten lines, with the named ones changed.
func lines(changed ...string) string {
	all := strings.Split("abcdefghij", "")
	for _, c := range changed {
		all[strings.Index("abcdefghij", c[:1])] = c
	}
	return strings.Join(all, "\n") + "\n"
}

// advanceAll commits several states of a file to the default branch of a remote.
func (h *fixture) advanceAll(bare, name string, texts ...string) (last string) {
	for _, text := range texts {
		last = h.advance(bare, name, text)
	}
	return last
}

func TestABranchThatConflictsIsRebasedOnce(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	r := h.open(fresh)
	for _, test := range []struct {
		task         string
		mine, theirs []string // states of the file
		base         string   // after it: "old" or "new"
		files        string
	}{
		{"apart", []string{lines("a1")}, []string{lines("j1")}, "old", ""},
		{"merged", []string{lines("a1", "j1"), lines("a1", "j1", "e1")}, []string{lines("a1", "j1"), lines("a2", "j1")}, "new", ""},
		{"conflict", []string{lines("c1")}, []string{lines("c2")}, "old", "conflict.txt"},
	} {
		name := test.task + ".txt"
		before := h.advance(bare, name, lines())
		tree := h.acquire(r, test.task)
		for _, text := range test.mine {
			writeFile(t, filepath.Join(tree.Path(), name), text)
			h.commit(tree)
		}
		writeFile(t, filepath.Join(tree.Path(), "secret.env"), "ignored\n")
		if err := tree.Push(t.Context(), "origin"); err != nil {
			t.Fatal(err)
		}
		head := gitIn(t, tree.Path(), "rev-parse", "HEAD")
		after := h.advanceAll(bare, name, test.theirs...)
		c, err := tree.Rebase(t.Context())
		var files string
		if c != nil {
			files = strings.Join(c.Files, " ")
			if c.Commit != after || c.With != "main of origin" {
				t.Errorf("%s: the conflict is %+v, want one with %s", test.task, c, after)
			}
		}
		if err != nil || files != test.files {
			t.Errorf("%s: conflicts in %q, %v; want %q", test.task, files, err, test.files)
		}
		want := map[string]string{"old": before, "new": after}[test.base]
		if tree.Base() != want {
			t.Errorf("%s: the branch begins at %s, want the %s base %s", test.task, tree.Base(), test.base, want)
		}
		now := gitIn(t, tree.Path(), "rev-parse", "HEAD")
		if moved := now != head; moved != (test.base == "new") {
			t.Errorf("%s: the branch moved from %s to %s", test.task, head, now)
		}
		if got := gitIn(t, tree.Path(), "status", "--porcelain"); got != "" {
			t.Errorf("%s: the tree has changes: %s", test.task, got)
		}
		if raw, err := os.ReadFile(filepath.Join(tree.Path(), "secret.env")); string(raw) != "ignored\n" {
			t.Errorf("%s: the ignored file is %q, %v", test.task, raw, err)
		}
		if test.base == "new" {
			got, err := os.ReadFile(filepath.Join(tree.Path(), name))
			if string(got) != lines("a2", "j1", "e1") || err != nil {
				t.Errorf("%s: after the rebase the file is %q, %v", test.task, got, err)
			}
			if log := gitIn(t, tree.Path(), "log", "--format=%an %s", after+".."); log != "coder Do it" {
				t.Errorf("%s: the commits after the rebase are %q, want one", test.task, log)
			}
		}
		for range 2 {
			if err := tree.Push(t.Context(), "origin"); err != nil {
				t.Errorf("%s: %v", test.task, err)
			}
		}
		if got := gitIn(t, bare, "rev-parse", tree.Branch()); got != now {
			t.Errorf("%s: the remote has %s, want %s", test.task, got, now)
		}
		h.release(tree)
	}
	h.wantUntouched()
}

// conflicting returns a tree whose rebase moves it: its first commit is upstream already, where its file went on.
func (h *fixture) conflicting(r *worktree.Repository, bare, task string) *worktree.Tree {
	h.t.Helper()
	name := task + ".txt"
	h.advance(bare, name, lines())
	tree := h.acquire(r, task)
	writeFile(h.t, filepath.Join(tree.Path(), name), lines("a1", "j1"))
	h.commit(tree)
	writeFile(h.t, filepath.Join(tree.Path(), name), lines("a1", "j1", "e1"))
	h.commit(tree)
	h.advanceAll(bare, name, lines("a1", "j1"), lines("a2", "j1"))
	h.advance(bare, "build.txt", strings.Repeat("new\n", 20_000))
	return tree
}

func TestARebaseOverwritesNothing(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	r := h.open(fresh)
	tree := h.conflicting(r, bare, "ignored")
	writeFile(t, filepath.Join(tree.Path(), "secret.env"), "mine\n")
	clone := filepath.Join(t.TempDir(), "clone")
	h.git("clone", "--quiet", bare, clone)
	writeFile(t, filepath.Join(clone, "secret.env"), "upstream\n")
	gitIn(t, clone, "add", "--force", "secret.env")
	gitIn(t, clone, "commit", "--quiet", "--message", "Add a file that others ignore")
	gitIn(t, clone, "push", "--quiet", "origin", "HEAD")
	head := gitIn(t, tree.Path(), "rev-parse", "HEAD")
	c, err := tree.Rebase(t.Context())
	if err != nil || c == nil || !slices.Equal(c.Files, []string{"secret.env"}) {
		t.Errorf("an ignored file in the way is the conflict %+v, %v", c, err)
	}
	raw, err := os.ReadFile(filepath.Join(tree.Path(), "secret.env"))
	if string(raw) != "mine\n" || gitIn(t, tree.Path(), "rev-parse", "HEAD") != head {
		t.Errorf("the ignored file is %q, %v", raw, err)
	}
	h.release(tree)
	h.wantUntouched()
}

func TestARebaseCanBeKilledAtEachStep(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	git := h.script(killer)
	t.Setenv("WORKTREE_TEST_FRESH", "yes")
	t.Setenv("WORKTREE_TEST_REBASE", "yes")
	t.Setenv("WORKTREE_TEST_PUSH", "origin")
	before := h.advance(bare, "text", lines())
	h.advanceAll(bare, "text", lines("a1", "j1"), lines("a2", "j1"))
	after := h.advance(bare, "large.txt", strings.Repeat("new\n", 300_000))
	kills := 0
	for how, step := range map[string]int{"during": 1, "caller": 4} {
		for n := 4; ; n += step { // before it the repository is opened
			task := fmt.Sprintf("%s-%d", how, n)
			gitIn(t, bare, "update-ref", "refs/heads/main", before)
			tree := h.acquire(h.open(fresh), task)
			for _, text := range []string{lines("a1", "j1"), lines("a1", "j1", "e1")} {
				writeFile(t, filepath.Join(tree.Path(), "text"), text)
				// As an agent does it itself: one program, where the Commit of the tree starts six.
				gitIn(t, tree.Path(), "commit", "--quiet", "--all", "--author=coder <coder@example.org>", "--message", "Do it")
			}
			h.release(tree)
			gitIn(t, bare, "update-ref", "refs/heads/main", after)
			ended, calls := h.serve(git, n, how, false, task)
			if !ended {
				if again, _ := h.serve("", 0, how, false, task); !again {
					t.Fatalf("after a kill %s call %d the repeat failed", how, n)
				}
			}
			log := gitIn(t, bare, "log", "--format=%an %s", after+"..refs/heads/"+tree.Branch())
			pushed := h.pushes(bare, tree.Branch())
			if log != "coder Do it" || pushed != "push" {
				t.Fatalf("after a kill %s call %d the commits are %q, and the pushes %q; want one each", how, n, log, pushed)
			}
			if got := gitIn(t, tree.Path(), "status", "--porcelain"); got != "" {
				t.Fatalf("after a kill %s call %d the tree has changes: %s", how, n, got)
			}
			h.wantNoRests(task)
			if err := h.open().Remove(t.Context(), task, false); err != nil {
				t.Fatalf("after a kill %s call %d: %v", how, n, err)
			}
			if calls < n {
				break
			}
			kills++
		}
	}
	t.Logf("%d kills", kills)
	h.wantUntouched()
}

func TestAKilledRebaseKeepsTheChangesOfAPerson(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	broken := h.script(`case "$*" in *"reset --hard"*) exit 1 ;; esac`)
	tree := h.conflicting(h.open(fresh), bare, "one")
	h.release(tree)
	head := h.git("rev-parse", tree.Branch())
	half, err := h.open(fresh, func(o *worktree.Options) { o.Git = broken }).Acquire(t.Context(), "one", "")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := half.Rebase(t.Context()); err == nil {
		t.Fatalf("a rebase without its last step succeeded: %+v", c)
	}
	h.release(half)
	in := func(name string) string { return filepath.Join(tree.Path(), name) }
	writeFile(t, in("build.txt"), strings.Repeat("new\n", 100)) // git was killed while it wrote the file
	for name, text := range map[string]string{"readme": "of Ann\n", "build.txt": "of Ann\n", "one.txt": "of Ann\n"} {
		before, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, in(name), text)
		_, err = h.open(fresh).Acquire(t.Context(), "one", "")
		wantProblem(t, err, "was being rebased, but has changes in \""+name+"\"")
		if got, err := os.ReadFile(in(name)); string(got) != text || err != nil {
			t.Errorf("the change of a person in %s is %q, %v", name, got, err)
		}
		writeFile(t, in(name), string(before))
	}
	again := h.acquire(h.open(fresh), "one")
	if got := gitIn(t, tree.Path(), "status", "--porcelain"); got != "" || again.Base() == tree.Base() ||
		h.git("rev-parse", tree.Branch()) == head {
		t.Errorf("after the repeat the branch begins at %s, with changes %q", again.Base(), got)
	}
	h.release(again)
}
