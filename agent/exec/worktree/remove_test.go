package worktree_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

// TestARemovalLosesNothing tries to remove trees with something that is nowhere else.
func TestARemovalLosesNothing(t *testing.T) {
	file := func(name string) func(*testing.T, *worktree.Tree) {
		return func(t *testing.T, tree *worktree.Tree) { writeFile(t, filepath.Join(tree.Path(), name), "only here\n") }
	}
	git := func(args ...string) func(*testing.T, *worktree.Tree) {
		return func(t *testing.T, tree *worktree.Tree) { gitIn(t, tree.Path(), args...) }
	}
	for _, test := range []struct {
		want    string
		changes []func(*testing.T, *worktree.Tree)
	}{
		{`"new" is not in git`, []func(*testing.T, *worktree.Tree){file("new")}},
		{`"readme" has changes`, []func(*testing.T, *worktree.Tree){file("readme")}},
		{`"readme" has changes`, []func(*testing.T, *worktree.Tree){file("readme"), git("add", "readme")}},
		{`git ignores "secret.env"`, []func(*testing.T, *worktree.Tree){file("secret.env")}},
		{`git ignores "build/"`, []func(*testing.T, *worktree.Tree){file("build/out")}},
		{`git is told not to look for changes in "readme"`, []func(*testing.T, *worktree.Tree){
			git("update-index", "--assume-unchanged", "readme"), file("readme")}},
		{`git is told not to look for changes in "readme"`, []func(*testing.T, *worktree.Tree){
			git("update-index", "--skip-worktree", "readme"), file("readme")}},
		{`"new" is not in git`, []func(*testing.T, *worktree.Tree){
			git("config", "status.showUntrackedFiles", "no"), file("new")}},
		{"its commit is not in its branch", []func(*testing.T, *worktree.Tree){git("checkout", "--quiet", "--detach"),
			git("commit", "--quiet", "--allow-empty", "--message", "only here")}},
		{"its branch mailroom/one-1 does not exist any more", []func(*testing.T, *worktree.Tree){
			git("commit", "--quiet", "--allow-empty", "--message", "only here"), git("checkout", "--quiet", "--detach"),
			git("branch", "-D", "mailroom/one-1")}},
		{"the reference refs/worktree/mark of its own", []func(*testing.T, *worktree.Tree){
			git("update-ref", "refs/worktree/mark", "HEAD")}},
		{"a cherry-pick is under way", []func(*testing.T, *worktree.Tree){git("commit", "--quiet", "--allow-empty",
			"--message", "x"), git("update-ref", "CHERRY_PICK_HEAD", "HEAD")}},
	} {
		h := newFixture(t)
		r := h.open()
		tree := h.acquire(r, "one")
		for _, change := range test.changes {
			change(t, tree)
		}
		wantProblem(t, r.Remove(t.Context(), "one", false), "worktree one is in use")
		h.release(tree)
		before := folderOf(t, tree.Path())
		wantProblem(t, r.Remove(t.Context(), "one", false), "worktree one is kept: ")
		wantProblem(t, r.Remove(t.Context(), "one", false), test.want)
		if after := folderOf(t, tree.Path()); after != before {
			t.Errorf("%s: a refused removal changed the tree from %s to %s", test.want, before, after)
		}
		h.release(h.acquire(r, "one"))
		h.wantNoRests("one")
	}
}

// folderOf returns the files of a tree with their sizes.
func folderOf(t *testing.T, path string) string {
	t.Helper()
	out, err := osexec.Command("find", path, "-printf", "%P %s %m\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAProcessInATreeKeepsIt(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	tree := h.acquire(r, "one")
	h.release(tree)
	cmd := osexec.Command("cat")
	cmd.Dir = filepath.Join(tree.Path(), "src")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, r.Remove(t.Context(), "one", false), "works in worktree one")
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Error(err)
	}
}

func TestARemovedTreeLeavesItsBranchIfThatHasCommits(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	for _, task := range []string{"one", "two"} {
		tree := h.acquire(r, task)
		if task == "one" {
			writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
		}
		h.commit(tree)
		h.release(tree)
		if err := r.Remove(t.Context(), task, false); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(tree.Path()); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", tree.Path(), err)
		}
		wantProblem(t, r.Remove(t.Context(), task, false), "there is no worktree")
	}
	if got := h.branches(); len(got) != 1 || got["mailroom/one-1"] != "1" {
		t.Errorf("branches %v, want the one with a commit", got)
	}
	tree := h.acquire(r, "one")
	if tree.Branch() != "mailroom/one-2" {
		t.Errorf("the next tree is on %s, want a new branch", tree.Branch())
	}
	h.release(tree)
	h.wantUntouched()
	h.wantNoRests("one")
}

// TestWhatIsOfAPersonStays has worktrees, branches and locks of a person beside ours.
func TestWhatIsOfAPersonStays(t *testing.T) {
	h := newFixture(t)
	base := t.TempDir()
	for _, name := range []string{"locked", "away", "one"} {
		h.git("worktree", "add", "--quiet", "-b", "of-ann-"+name, filepath.Join(base, name))
		writeFile(t, filepath.Join(base, name, "secret.env"), name)
	}
	h.git("worktree", "lock", "--reason", "of Ann", filepath.Join(base, "locked"))
	if err := os.Rename(filepath.Join(base, "away"), filepath.Join(base, "unmounted")); err != nil {
		t.Fatal(err)
	}
	h.git("branch", "mailroom/one-1")
	h.git("branch", "mailroom/one-2", "of-ann-one")
	before := h.git("worktree", "list", "--porcelain")
	refs := h.git("for-each-ref")
	r := h.open()
	own := filepath.Join(h.trees(), "of-ann") // a person may also use our folder
	h.git("worktree", "add", "--quiet", "--lock", "--reason", "of Ann", "-b", "mailroom/of-ann-1", own)
	wantProblem(t, r.Adopt(t.Context(), "of-ann", "of-ann"), "no worktree of git has the name of-ann and a lock")
	h.git("worktree", "remove", "--force", "--force", own)
	h.git("branch", "--quiet", "-D", "mailroom/of-ann-1")
	tree := h.acquire(r, "one")
	if tree.Branch() != "mailroom/one-3" {
		t.Errorf("the tree is on %s, want the first name without a branch", tree.Branch())
	}
	h.release(tree)
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Error(err)
	}
	if after := h.git("worktree", "list", "--porcelain"); after != before {
		t.Errorf("the worktrees are now\n%s\nwant\n%s", after, before)
	}
	if after := h.git("for-each-ref"); after != refs {
		t.Errorf("the references are now\n%s\nwant\n%s", after, refs)
	}
	for name, folder := range map[string]string{"locked": "locked", "away": "unmounted", "one": "one"} {
		if got, err := os.ReadFile(filepath.Join(base, folder, "secret.env")); err != nil || string(got) != name {
			t.Errorf("the ignored file of %s is %q, %v", name, got, err)
		}
	}
	h.wantUntouched()
}

func TestAMissingTreeIsNotMadeAgain(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	tree := h.acquire(r, "one")
	h.release(tree)
	if err := os.Rename(tree.Path(), tree.Path()+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Acquire(t.Context(), "one", "")
	wantProblem(t, err, "worktree one is missing")
	wantProblem(t, r.Remove(t.Context(), "one", false), "worktree one is not complete")
	if err := os.Rename(tree.Path()+".away", tree.Path()); err != nil {
		t.Fatal(err)
	}
	h.release(h.acquire(r, "one"))
	if list := h.git("worktree", "list"); !strings.Contains(list, tree.Path()) {
		t.Errorf("git does not list the tree: %s", list)
	}
}

func TestADisposableFolderKeepsNoTree(t *testing.T) {
	h := newFixture(t)
	h.write(".gitignore", "secret.env\nbuild/\nnode_modules/\ntarget\n")
	h.git("commit", "--quiet", "--message", "Ignore more", ".gitignore")
	disposable := func(o *worktree.Options) { o.Disposable = []string{"node_modules", "target"} }
	for _, test := range []struct{ file, problem string }{
		{"node_modules/a/b.js", ""}, {"web/node_modules/a", ""}, {"rust/target/debug/x", ""},
		{"build/out", `git ignores "build/"`}, {"target", `git ignores "target"`},
		{"build/node_modules/x", `git ignores "build/"`}, {"secret.env", `git ignores "secret.env"`},
		{"node_modules2/x", `"node_modules2/x" is not in git`},
	} {
		h.release(h.acquire(h.open(), "one")) // before the setting
		tree := h.acquire(h.open(disposable), "one")
		writeFile(t, filepath.Join(tree.Path(), test.file), "only here\n")
		h.release(tree)
		// The command of a person does not know the settings.
		r, key, err := worktree.Find(h.root, "one", os.Environ())
		if err != nil {
			t.Fatal(err)
		}
		err = r.Remove(t.Context(), key, false)
		if test.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", test.file, err)
			}
			continue
		}
		wantProblem(t, err, test.problem)
		if err := r.Remove(t.Context(), key, true); err != nil {
			t.Fatal(err)
		}
	}
}
