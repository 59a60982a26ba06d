package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/agent/exec/worktree"
)

func TestATaskHasATreeAndABranchOfItsOwn(t *testing.T) {
	h := newFixture(t)
	head := h.git("rev-parse", "HEAD")
	one := h.acquire(h.open(), "one")
	two := h.acquire(h.open(), "issue:roof-X7")
	for _, tree := range []*worktree.Tree{one, two} {
		if got, err := os.ReadFile(filepath.Join(tree.Path(), "readme")); string(got) != "roof\n" {
			t.Errorf("readme of %s is %q, %v", tree.Path(), got, err)
		}
		if !strings.HasPrefix(tree.Path(), h.root+"/roof-of-ann-") || tree.Base() != head {
			t.Errorf("the tree is %s at %s, want one below %s at %s", tree.Path(), tree.Base(), h.root, head)
		}
		if got := gitIn(t, tree.Path(), "symbolic-ref", "--short", "HEAD"); got != tree.Branch() {
			t.Errorf("the tree is on %s, want %s", got, tree.Branch())
		}
		if got := gitIn(t, tree.Path(), "status", "--porcelain"); got != "" {
			t.Errorf("a new tree has changes: %s", got)
		}
	}
	if one.Branch() != "mailroom/one-1" || two.Branch() != "mailroom/"+worktree.Key("issue:roof-X7")+"-1" {
		t.Errorf("branches %s and %s", one.Branch(), two.Branch())
	}
	if list := h.git("worktree", "list", "--porcelain"); !strings.Contains(list, "locked mailroom one\n") {
		t.Errorf("git's list has no locked tree: %s", list)
	}
	writeFile(t, filepath.Join(one.Path(), "half"), "written\n")
	h.release(one)
	again := h.acquire(h.open(), "one")
	if got, err := os.ReadFile(filepath.Join(again.Path(), "half")); again.Path() != one.Path() || err != nil {
		t.Errorf("the next run works in %s and finds %q, %v", again.Path(), got, err)
	}
	h.release(again)
	h.release(two)
	h.wantUntouched()
}

func TestKeysAreFileNamesAndDiffer(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("y", 300)
	for _, task := range []string{"a", "A", "a/b", "a-b", "a.lock", "..", ".", "-x", "", "a..b", "ü", "a\x00b", long,
		long + "y", "main~1", "@{u}"} {
		key := worktree.Key(task)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the key %s", task, other, key)
		}
		seen[key] = task
		if key == "" || len(key) > 50 || !filepath.IsLocal(key) || strings.ContainsAny(key, "/\\~^:?*[@{ \x00") ||
			strings.Contains(key, "..") || strings.HasSuffix(key, ".lock") || strings.HasPrefix(key, "-") ||
			strings.HasPrefix(key, ".") || key != strings.ToLower(key) {
			t.Errorf("the key of %q is %q", task, key)
		}
	}
}

func TestACommitHasAllChangesThatGitDoesNotIgnore(t *testing.T) {
	h := newFixture(t)
	tree := h.acquire(h.open(), "one")
	if res := h.commit(tree); res.Commits != 0 || res.Head != tree.Base() || res.Left != "" {
		t.Errorf("nothing to commit: %+v", res)
	}
	writeFile(t, filepath.Join(tree.Path(), "new\nname"), "new\n")
	writeFile(t, filepath.Join(tree.Path(), "build", "out"), "ignored\n")
	if err := os.Remove(filepath.Join(tree.Path(), "src", "7")); err != nil {
		t.Fatal(err)
	}
	gitIn(t, tree.Path(), "commit", "--quiet", "--allow-empty", "--message", "by the agent itself")
	res := h.commit(tree)
	if res.Commits != 2 || res.Left != "" || res.Head != h.git("rev-parse", tree.Branch()) {
		t.Errorf("result %+v, want the commit of the agent and one more", res)
	}
	if diff := cmp.Diff("A\t\"new\\nname\"\nD\tsrc/7", h.git("diff", "--name-status", tree.Base(), res.Head)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	want := "coder <coder@mailroom.invalid>\nDo it\n\nMailroom-Run: 7\n"
	if got := h.git("log", "-1", "--format=%an <%ae>%n%B", res.Head); got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	if again := h.commit(tree); again != res {
		t.Errorf("a repeat has %+v, want %+v", again, res)
	}
	h.release(tree)
	h.wantUntouched()
}

// TestWhatACommitCannotHaveIsNamed has trees whose changes no commit of the branch can have.
func TestWhatACommitCannotHaveIsNamed(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, folder string){
		"is not on its branch": func(t *testing.T, folder string) { gitIn(t, folder, "checkout", "--quiet", "--detach") },
		"a merge is under way": func(t *testing.T, folder string) {
			gitIn(t, folder, "checkout", "--quiet", "-b", "other")
			gitIn(t, folder, "commit", "--quiet", "--allow-empty", "--message", "other")
			gitIn(t, folder, "checkout", "--quiet", "-")
			gitIn(t, folder, "merge", "--quiet", "--no-ff", "--no-commit", "other")
		},
		"is a git repository inside": func(t *testing.T, folder string) {
			gitIn(t, folder, "init", "--quiet", "inner")
			gitIn(t, filepath.Join(folder, "inner"), "commit", "--quiet", "--allow-empty", "--message", "inner")
		},
	} {
		h := newFixture(t)
		tree := h.acquire(h.open(), "one")
		change(t, tree.Path())
		if res := h.commit(tree); !strings.Contains(res.Left, want) || res.Commits != 0 {
			t.Errorf("result %+v, want one that says %q", res, want)
		}
		h.release(tree)
	}
}

func TestOddRepositoriesAreOneSentence(t *testing.T) {
	h := newFixture(t)
	empty := filepath.Join(t.TempDir(), "empty")
	h.git("init", "--quiet", empty)
	nothing := t.TempDir()
	blocked := filepath.Join(t.TempDir(), "blocked")
	h.git("clone", "--quiet", h.folder, blocked)
	gitIn(t, blocked, "branch", "mailroom")
	for _, test := range []struct{ folder, git, want string }{
		{filepath.Join(nothing, "missing"), "", "the folder of the repository does not exist"},
		{nothing, "", "the folder is not in a git repository"},
		{empty, "", "the repository has no commit to begin at"},
		{blocked, "", "a branch of the repository is named mailroom"},
		{h.folder, "no-such-git", "git is not installed"},
		{h.folder, h.script(`case "$*" in *reset*) trap "" XFSZ; ulimit -f 1 ;; esac`), "the disk may be full"},
	} {
		r, err := worktree.Open(t.Context(), worktree.Options{Folder: test.folder, Root: h.root, Git: test.git,
			Env: append(os.Environ(), "GIT_DIR="+h.folder+"/.git", "GIT_CEILING_DIRECTORIES="+nothing)})
		if err == nil {
			_, err = r.Acquire(t.Context(), "one", "")
		}
		wantProblem(t, err, test.want)
	}
	h.release(h.acquire(h.open(), "one")) // the disk has space again
	h.wantUntouched()
	h.wantNoRests("one")
}

func TestUnusualRepositoriesHaveTrees(t *testing.T) {
	h := newFixture(t)
	inner := filepath.Join(t.TempDir(), "inner")
	h.git("clone", "--quiet", h.folder, inner)
	h.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "module")
	h.git("commit", "--quiet", "--message", "submodule", "--", "module", ".gitmodules")
	bare := filepath.Join(t.TempDir(), "bare.git")
	h.git("clone", "--quiet", "--bare", h.folder, bare)
	detached := filepath.Join(t.TempDir(), "detached")
	h.git("clone", "--quiet", h.folder, detached)
	gitIn(t, detached, "checkout", "--quiet", "--detach", "HEAD~1")
	linked := filepath.Join(t.TempDir(), "linked")
	h.git("worktree", "add", "--quiet", "-b", "linked", linked, "HEAD~1")
	for _, folder := range []string{h.folder, filepath.Join(h.folder, "src"), bare, detached, linked} {
		r, err := worktree.Open(t.Context(), worktree.Options{Folder: folder, Root: filepath.Join(t.TempDir(), "trees"),
			Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		tree := h.acquire(r, "task of "+filepath.Base(folder))
		if got, want := tree.Base(), gitIn(t, folder, "rev-parse", "HEAD"); got != want {
			t.Errorf("the tree of %s begins at %s, want the current commit %s", folder, got, want)
		}
		writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
		if res := h.commit(tree); res.Commits != 1 || res.Left != "" {
			t.Errorf("%s: result %+v, want a commit", folder, res)
		}
		h.release(tree)
		if err := r.Remove(t.Context(), worktree.Key("task of "+filepath.Base(folder)), false); err != nil {
			t.Errorf("%s: remove: %v", folder, err)
		}
	}
}

func TestTheNumberOfTreesIsBounded(t *testing.T) {
	h := newFixture(t)
	r := h.open(func(o *worktree.Options) { o.Most = 2 })
	one := h.acquire(r, "one")
	writeFile(t, filepath.Join(one.Path(), "draft"), "only here\n")
	two := h.acquire(r, "two")
	_, err := r.Acquire(t.Context(), "three", "")
	wantProblem(t, err, "as many as max_worktrees allows")
	writeFile(t, filepath.Join(two.Path(), "new"), "new\n")
	res := h.commit(two)
	h.release(two)
	h.release(one)

	// The idle tree gives way to the next one, and comes back on its branch.
	h.release(h.acquire(r, "three"))
	if got := h.list(); got["two"] != "parked" || got["three"] != "idle" || !strings.HasPrefix(got["one"], "work ") {
		t.Errorf("states %v, want the idle tree parked", got)
	}
	h.wantNoRests("one", "three")
	two = h.acquire(r, "two")
	if again := h.commit(two); again != res || h.list()["three"] != "parked" {
		t.Errorf("the tree came back with %+v, want %+v; states %v", again, res, h.list())
	}
	if _, err := os.Stat(filepath.Join(two.Path(), "new")); err != nil {
		t.Error(err)
	}
	h.release(two)
	h.release(h.acquire(r, "one"))
	h.wantUntouched()
}

// TestARemovalThatWasKilledAtItsEndIsNoMissingTree has the record of a tree whose files are removed already.
func TestARemovalThatWasKilledAtItsEndIsNoMissingTree(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	tree := h.acquire(r, "one")
	writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
	res := h.commit(tree)
	h.release(tree)
	path := filepath.Join(h.root, ".records", filepath.Base(h.trees()), "one.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, strings.Replace(string(raw), `"complete": true`, `"complete": true, "removing": "`+res.Head+`"`, 1))
	h.git("worktree", "remove", "--force", "--force", tree.Path())
	tree = h.acquire(r, "one")
	if again := h.commit(tree); again != res {
		t.Errorf("the tree has %+v, want %+v", again, res)
	}
	h.release(tree)
	h.wantNoRests("one")
}

// TestAnEntryThatAKilledRemovalLeftIsRemoved kills git after it has deleted the file that says whose the entry is.
func TestAnEntryThatAKilledRemovalLeftIsRemoved(t *testing.T) {
	h := newFixture(t)
	entry := filepath.Join(h.folder, ".git", "worktrees", "one")
	killed := h.open(func(o *worktree.Options) {
		o.Git = h.script(`case "$*" in *"worktree remove"*) for path; do :; done
rm -r "$path"; rm "` + entry + `/gitdir" "` + entry + `/HEAD"; kill -9 $$;; esac`)
	})
	r := h.open()
	h.release(h.acquire(r, "one"))
	for _, next := range []string{"the removal goes on", "the task goes on", "a person took its name"} {
		if err := killed.Remove(t.Context(), "one", false); err == nil {
			t.Fatal("git was not killed")
		}
		switch next {
		case "the task goes on":
			h.release(h.acquire(r, "one"))
			h.wantNoRests("one")
			continue
		case "a person took its name":
			writeFile(t, filepath.Join(entry, "locked"), "initializing")
		}
		if err := r.Remove(t.Context(), "one", false); err != nil {
			t.Errorf("%s: %v", next, err)
		}
		if _, err := os.Lstat(entry); (err == nil) != (next == "a person took its name") {
			t.Errorf("%s: the entry: %v", next, err)
		}
		if next == "the removal goes on" {
			h.release(h.acquire(r, "one"))
		}
	}
}

func TestNothingOfTheRepositoryRuns(t *testing.T) {
	h := newFixture(t)
	witness := filepath.Join(t.TempDir(), "witness")
	for _, hook := range []string{"post-checkout", "pre-commit", "commit-msg", "post-commit", "reference-transaction"} {
		path := filepath.Join(h.folder, ".git", "hooks", hook)
		writeFile(t, path, "#!/bin/sh\necho "+hook+" >>'"+witness+"'\n")
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := h.open()
	tree := h.acquire(r, "one")
	writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
	h.commit(tree)
	h.release(tree)
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Error(err)
	}
	if ran, err := os.ReadFile(witness); err == nil {
		t.Errorf("hooks ran: %s", ran)
	}
}

// TestAHalfEntryIsMadeAgain has each state in which a killed "git worktree add" can leave its folder in the git folder.
func TestAHalfEntryIsMadeAgain(t *testing.T) {
	for files := range 6 {
		h := newFixture(t)
		r := h.open(func(o *worktree.Options) { o.Git = h.script("case \"$*\" in *'worktree add'*) kill -9 0 ;; esac") })
		if _, err := r.Acquire(t.Context(), "one", ""); err == nil {
			t.Fatal("a tree without git worktree add")
		}
		tree := filepath.Join(h.root, filepath.Base(h.trees()), "one")
		admin := filepath.Join(h.folder, ".git", "worktrees", "one")
		if err := os.MkdirAll(admin, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, f := range []struct{ path, text string }{
			{filepath.Join(admin, "locked"), "mailroom one\n"}, {filepath.Join(admin, "gitdir"), tree + "/.git\n"},
			{filepath.Join(tree, ".git"), "gitdir: " + admin + "\n"},
			{filepath.Join(admin, "HEAD"), strings.Repeat("0", 40) + "\n"}, {filepath.Join(admin, "commondir"), "../..\n"},
		} {
			if i < files {
				writeFile(t, f.path, f.text)
			}
		}
		h.release(h.acquire(h.open(), "one"))
		h.wantNoRests("one")
	}
}
