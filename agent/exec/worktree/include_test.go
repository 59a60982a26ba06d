package worktree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIgnoredFilesThatTheRepositoryNamesAreCopied(t *testing.T) {
	h := newFixture(t)
	outside := filepath.Join(t.TempDir(), "outside.env")
	writeFile(t, outside, "OUTSIDE=1\n")
	for name, text := range map[string]string{".worktreeinclude": "*.env\ndraft\n", "build/deep/local.env": "deep\n",
		"of ann.env": "not ignored\n", ".gitignore": "secret.env\nbuild/\nlink.env\n"} {
		h.write(name, text)
	}
	if err := os.Symlink(outside, filepath.Join(h.folder, "link.env")); err != nil {
		t.Fatal(err)
	}
	r := h.open()
	tree := h.acquire(r, "one")
	got := map[string]string{}
	for _, name := range []string{"secret.env", "build/deep/local.env", "of ann.env", "draft", "link.env"} {
		raw, err := os.ReadFile(filepath.Join(tree.Path(), name))
		if err == nil {
			got[name] = string(raw)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	want := map[string]string{"secret.env": "KEY=1\n", "build/deep/local.env": "deep\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("copied files (-want +got):\n%s", diff)
	}
	if res := h.commit(tree); res.Commits != 0 {
		t.Errorf("the copies are in a commit: %+v", res)
	}
	h.release(tree)
	if err := os.RemoveAll(filepath.Join(tree.Path(), "build")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(tree.Path(), "secret.env"), "KEY=2\n")
	wantProblem(t, r.Remove(t.Context(), "one", false), `git ignores "secret.env"`)
	writeFile(t, filepath.Join(tree.Path(), "secret.env"), "KEY=1\n")
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Errorf("a tree with an unchanged copy: %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(h.folder, "secret.env")); err != nil || string(raw) != "KEY=1\n" {
		t.Errorf("the person's file is %q, %v", raw, err)
	}
}
