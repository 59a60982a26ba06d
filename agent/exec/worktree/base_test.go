package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

func fresh(o *worktree.Options) { o.Fresh = true }

// advance commits a file to the default branch of a remote, as another person does, and returns the commit.
func (h *fixture) advance(bare, name, text string) string {
	h.t.Helper()
	clone := filepath.Join(h.t.TempDir(), "clone")
	h.git("clone", "--quiet", bare, clone)
	writeFile(h.t, filepath.Join(clone, name), text)
	gitIn(h.t, clone, "add", "--all")
	gitIn(h.t, clone, "commit", "--quiet", "--message", "Change "+name)
	gitIn(h.t, clone, "push", "--quiet", "origin", "HEAD")
	return gitIn(h.t, clone, "rev-parse", "HEAD")
}

func TestANewBranchBeginsAtTheFetchedBranchOfTheRemote(t *testing.T) {
	h := newFixture(t)
	local := h.git("rev-parse", "HEAD")
	wantBase := func(task, want, stale string, edit ...func(*worktree.Options)) {
		t.Helper()
		tree := h.acquire(h.open(edit...), task)
		if got := tree.Stale(); tree.Base() != want || stale == "" && got != "" || !strings.Contains(got, stale) ||
			strings.Contains(got, "\n") {
			t.Errorf("%s begins at %s, and says %q; want %s and %q", task, tree.Base(), got, want, stale)
		}
		h.release(tree)
	}
	wantBase("none", local, "", fresh) // the repository has no remote
	bare := h.remote()
	h.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	h.git("fetch", "--quiet", "origin")
	first := h.advance(bare, "first", "1\n")
	wantBase("head", local, "")
	wantBase("one", first, "", fresh)
	wantBase("again", first, "", fresh)
	if got := h.git("rev-parse", "refs/remotes/origin/main"); got != local {
		t.Errorf("the person's remote-tracking branch moved to %s", got)
	}
	if _, err := os.Lstat(filepath.Join(h.folder, ".git", "FETCH_HEAD")); err == nil {
		before := gitIn(t, h.folder, "rev-parse", "FETCH_HEAD")
		wantBase("quiet", first, "", fresh)
		if after := gitIn(t, h.folder, "rev-parse", "FETCH_HEAD"); after != before {
			t.Errorf("FETCH_HEAD of the person moved to %s", after)
		}
	}
	second := h.advance(bare, "second", "2\n")
	moved := bare + ".away"
	if err := os.Rename(bare, moved); err != nil {
		t.Fatal(err)
	}
	const away = "the remote origin could not be fetched, so the branch begins at the last commit of it that is known "
	wantBase("offline", first, away, fresh)
	h.git("remote", "set-url", "origin", moved)
	h.git("fetch", "--quiet", "origin") // the person knows a newer commit than the server
	h.git("remote", "set-url", "origin", bare)
	wantBase("person", second, away, fresh)
	h.git("remote", "rename", "origin", "other")
	h.git("update-ref", "-d", "refs/remotes/other/main")
	wantBase("unknown", local, "so the branch begins at the current commit of the repository: ", fresh)
	h.git("remote", "set-url", "other", filepath.Join(t.TempDir(), "empty"))
	h.git("init", "--quiet", "--bare", h.git("remote", "get-url", "other"))
	wantBase("empty", local, "has no default branch", fresh)
	h.wantUntouched()
}
