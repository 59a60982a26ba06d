package worktree_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

func TestAPushReplacesOnlyWhatThisServerPushed(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	r := h.open()
	tree := h.acquire(r, "one")
	push := func() error { return tree.Push(t.Context(), "origin") }
	there := func() string {
		return gitIn(t, bare, "for-each-ref", "--format=%(objectname)", "refs/heads/mailroom/one-1")
	}
	if err := push(); err != nil || there() != "" {
		t.Errorf("a branch without a commit: %v, and the remote has %q", err, there())
	}
	change := func(name string) string {
		writeFile(t, filepath.Join(tree.Path(), name), "new\n")
		return h.commit(tree).Head
	}
	for _, name := range []string{"first", "second"} {
		head := change(name)
		for range 2 {
			if err := push(); err != nil || there() != head {
				t.Errorf("%s: %v, and the remote has %q, want %s", name, err, there(), head)
			}
		}
	}
	if log := gitIn(t, bare, "log", "--walk-reflogs", "--format=%gs", "mailroom/one-1", "--"); log != "push\npush" {
		t.Errorf("the remote got the pushes %q, want two", log)
	}

	// The agent rewrites its commits, which is its right.
	gitIn(t, tree.Path(), "commit", "--quiet", "--amend", "--message", "better")
	if err := push(); err != nil || there() != h.git("rev-parse", "mailroom/one-1") {
		t.Errorf("rewritten commits: %v", err)
	}

	// A person pushes to the branch.
	clone := filepath.Join(t.TempDir(), "clone")
	h.git("clone", "--quiet", "--branch", "mailroom/one-1", bare, clone)
	gitIn(t, clone, "commit", "--quiet", "--allow-empty", "--message", "of Ann")
	gitIn(t, clone, "push", "--quiet", "origin", "HEAD")
	of := there()
	change("third")
	wantProblem(t, push(), "has commits that this server did not push")
	if there() != of {
		t.Errorf("the remote has %s, want the commit %s of the person", there(), of)
	}
	gitIn(t, bare, "update-ref", "-d", "refs/heads/mailroom/one-1")
	wantProblem(t, push(), "was deleted on origin after it was pushed")
	h.release(tree)

	// A person's branch of the name of a task that was never pushed.
	gitIn(t, bare, "branch", "mailroom/two-1", "main")
	tree = h.acquire(r, "two")
	change("fourth")
	wantProblem(t, push(), "has commits that this server did not push")
	h.release(tree)
	h.wantUntouched()
}

func TestAPatchHasTheCommitsOfABranch(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	tree := h.acquire(r, "one")
	writeFile(t, filepath.Join(tree.Path(), "new"), "new\x00\n")
	h.commit(tree)
	h.release(tree)
	text, err := r.Patch(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	h.git("clone", "--quiet", h.folder, clone)
	am := osexec.Command("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "am", "--quiet")
	am.Dir, am.Stdin = clone, strings.NewReader(text)
	if out, err := am.CombinedOutput(); err != nil {
		t.Fatalf("git am: %v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(clone, "new")); err != nil || string(got) != "new\x00\n" {
		t.Errorf("the file is %q, %v", got, err)
	}
	_, err = r.Patch(t.Context(), "two")
	wantProblem(t, err, "there is no worktree")
}

// TestARemoteWithARelativeAddressIsTheOneOfThePerson fetches and pushes from a worktree, which is in another folder.
func TestARemoteWithARelativeAddressIsTheOneOfThePerson(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	newest := h.advance(bare, "of another person", "x\n")
	relative, err := filepath.Rel(h.folder, bare)
	if err != nil {
		t.Fatal(err)
	}
	h.git("remote", "set-url", "origin", relative)
	tree := h.acquire(h.open(func(o *worktree.Options) { o.Fresh = true }), "one")
	if tree.Base() != newest || tree.Stale() != "" {
		t.Errorf("the branch begins at %s (%s), want %s", tree.Base(), tree.Stale(), newest)
	}
	writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
	head := h.commit(tree).Head
	if err := tree.Push(t.Context(), "origin"); err != nil {
		t.Fatal(err)
	}
	if there := gitIn(t, bare, "rev-parse", "mailroom/one-1"); there != head {
		t.Errorf("the remote has %s, want %s", there, head)
	}
	h.release(tree)
}
