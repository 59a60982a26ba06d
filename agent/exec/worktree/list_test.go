package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/agent/exec/worktree"
)

// list returns the states of the trees by key, with what would be lost.
func (h *fixture) list() map[string]string {
	h.t.Helper()
	all, err := worktree.List(h.t.Context(), h.root, os.Environ())
	if err != nil {
		h.t.Fatal(err)
	}
	states := map[string]string{}
	for _, w := range all {
		states[filepath.Base(w.Path)] = strings.TrimSpace(w.State + " " + w.Detail)
		if want := filepath.Base(h.trees()) + "/" + filepath.Base(w.Path); w.Name != want || w.Repository != h.folder {
			h.t.Errorf("%s has the name %q and the repository %q", w.Path, w.Name, w.Repository)
		}
		whole := w.State != "parked" && w.State != worktree.StateMissing && w.State != worktree.StateUnfinished
		if whole && w.Size < 100_000 {
			h.t.Errorf("%s has %d bytes", w.Path, w.Size)
		}
	}
	return states
}

func TestTreesAreListedWithTheirState(t *testing.T) {
	h := newFixture(t)
	if got := h.list(); len(got) != 0 {
		t.Errorf("without trees the list is %v", got)
	}
	r := h.open()
	for _, task := range []string{"idle", "work", "kept", "missing"} {
		h.release(h.acquire(r, task))
	}
	used := h.acquire(r, "used")
	writeFile(t, filepath.Join(h.trees(), "work", "secret.env"), "KEY=2\n")
	if err := r.Keep(t.Context(), "kept", true); err != nil {
		t.Error(err)
	}
	if err := os.Rename(filepath.Join(h.trees(), "missing"), filepath.Join(h.root, "away")); err != nil {
		t.Fatal(err)
	}
	broken := h.open(func(o *worktree.Options) { o.Git = h.script("case \"$*\" in *reset*) kill -9 0 ;; esac") })
	if _, err := broken.Acquire(t.Context(), "unfinished", ""); err == nil {
		t.Error("a tree was made without its files")
	}
	want := map[string]string{"idle": "idle", "work": `work git ignores "secret.env", so it is only there`, "kept": "kept",
		"missing": "missing", "used": "in use", "unfinished": "unfinished"}
	if diff := cmp.Diff(want, h.list()); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	h.release(used)
	wantProblem(t, r.Remove(t.Context(), "kept", true), "is kept; end that first")
	if err := r.Remove(t.Context(), "work", true); err != nil {
		t.Errorf("force: %v", err)
	}
	found, key, err := worktree.Find(h.root, filepath.Base(h.trees())+"/idle", os.Environ())
	if err != nil || key != "idle" {
		t.Fatalf("found %q, %v", key, err)
	}
	if err := found.Remove(t.Context(), key, false); err != nil {
		t.Error(err)
	}
	_, _, err = worktree.Find(h.root, "idle", os.Environ())
	wantProblem(t, err, "there is no worktree")
}

func TestATreeWithoutARecordIsKeptUntilItIsAdopted(t *testing.T) {
	h := newFixture(t)
	r := h.open()
	tree := h.acquire(r, "one")
	writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
	res := h.commit(tree)
	h.release(tree)
	if err := os.RemoveAll(filepath.Join(h.root, ".records", filepath.Base(h.trees()))); err != nil {
		t.Fatal(err)
	}
	r = h.open()
	if diff := cmp.Diff(map[string]string{"one": "unrecorded"}, h.list()); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	wantProblem(t, r.Remove(t.Context(), "one", true), "there is no worktree")
	wantProblem(t, r.Adopt(t.Context(), "one", "two"), "cannot be the task")
	if err := r.Adopt(t.Context(), "one", "one"); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, r.Adopt(t.Context(), "one", "one"), "has a record already")
	again := h.acquire(r, "one")
	if now := h.commit(again); again.Path() != tree.Path() || again.Base() != tree.Base() || now != res {
		t.Errorf("the adopted tree has %+v from %s, want %+v from %s", now, again.Base(), res, tree.Base())
	}
	h.release(again)
	h.wantUntouched()
}

func TestAKeptTreeMakesNoRoom(t *testing.T) {
	h := newFixture(t)
	r := h.open(func(o *worktree.Options) { o.Most = 1 })
	h.release(h.acquire(r, "one"))
	if err := r.Keep(t.Context(), "one", true); err != nil {
		t.Fatal(err)
	}
	_, err := r.Acquire(t.Context(), "two", "")
	wantProblem(t, err, "as many as max_worktrees allows")
	if got := h.list(); got["one"] != "kept" || len(got) != 1 {
		t.Errorf("states %v, want the kept tree alone", got)
	}
}
