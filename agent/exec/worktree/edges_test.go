package worktree_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

// TestAFullDiskAtEachCallOfGitLosesNothing lets one call of git after the other write no byte, and repeats the task.
func TestAFullDiskAtEachCallOfGitLosesNothing(t *testing.T) {
	h := newFixture(t)
	bare := h.remote()
	count := filepath.Join(t.TempDir(), "count")
	full := h.script(`echo >>"$COUNT"; n=0; while read -r _; do n=$((n + 1)); done <"$COUNT"
if [ $n -eq "$AT" ]; then trap "" XFSZ; ulimit -f 0; fi`)
	work := func(git, task string, at int) error {
		writeFile(t, count, "")
		r := h.open(fresh, func(o *worktree.Options) {
			o.Git, o.Env = git, append(o.Env, "COUNT="+count, "AT="+strconv.Itoa(at))
		})
		tree, err := r.Acquire(t.Context(), task, "")
		if err != nil {
			return err
		}
		defer h.release(tree)
		writeFile(t, filepath.Join(tree.Path(), task+".txt"), task+"\n")
		res, err := tree.Commit(t.Context(), "coder", "Do "+task)
		if err == nil && res.Left != "" {
			err = fmt.Errorf("left: %s", res.Left)
		}
		if err == nil {
			err = tree.Push(t.Context(), "origin")
		}
		return err
	}
	problems := 0
	for at := 2; ; at++ { // the first call opens the repository
		task := fmt.Sprint("task-", at)
		err := work(full, task, at)
		if err != nil {
			problems++
			if text := err.Error(); !strings.Contains(text, "disk") || strings.Contains(text, "\n") {
				t.Errorf("a full disk at call %d: %q", at, text)
			}
			if err := work("", task, 0); err != nil {
				t.Fatalf("after a full disk at call %d: %v", at, err)
			}
		}
		if got := gitIn(t, bare, "show", "mailroom/"+task+"-1:"+task+".txt"); got != task {
			t.Errorf("after a full disk at call %d the remote has %q", at, got)
		}
		if n := strings.Count(readFile(t, count), "\n"); err == nil && n < at {
			break
		}
	}
	t.Logf("%d problems", problems)
	if problems < 4 {
		t.Errorf("%d calls of git met the full disk", problems)
	}
	h.wantUntouched()
}

// TestADiskOfWorktreesThatIsFullOrReadOnlyIsNamed mounts small disks, where the kernel lets a user do that.
func TestADiskOfWorktreesThatIsFullOrReadOnlyIsNamed(t *testing.T) {
	if err := osexec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", "/tmp").Run(); err != nil {
		t.Logf("this kernel lets no user mount a disk: %v", err)
		return
	}
	for _, test := range []struct{ disk, want string }{
		{"size=4k", "the disk of the worktrees is full"}, {"size=40k", "the disk"},
		{"size=100k", "the disk"}, {"nr_inodes=9", "the disk"}, {"ro", "is read-only"},
	} {
		h := newFixture(t)
		if err := os.MkdirAll(h.root, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := osexec.Command("unshare", "-rm", "sh", "-c", `mount -t tmpfs -o "$DISK" none "$WORKTREE_TEST_ROOT" || exit 9
"$0" 2>&1; echo; mount -o remount,rw,size=64m,nr_inodes=999 "$WORKTREE_TEST_ROOT" && exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), "DISK="+test.disk, "WORKTREE_TEST_FOLDER="+h.folder, "WORKTREE_TEST_ROOT="+h.root,
			"WORKTREE_TEST_GIT=", "WORKTREE_TEST_TASKS=one")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: the repeat: %v: %s", test.disk, err, out)
		}
		if text := strings.TrimSpace(string(out)); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %q, want %q", test.disk, text, test.want)
		}
		if got := h.branches()["mailroom/one-1"]; got != "1" {
			t.Errorf("%s: the branch has %q commits, want 1", test.disk, got)
		}
		h.wantUntouched()
	}
}

// TestALockThatAKilledGitLeftIsNamed leaves locks in the git folder of the person, which may be of a git that works.
func TestALockThatAKilledGitLeftIsNamed(t *testing.T) {
	h := newFixture(t)
	h.git("pack-refs", "--all")
	r := h.open()
	lock := func(name string) string {
		path := filepath.Join(h.folder, ".git", filepath.FromSlash(name))
		writeFile(t, path, "of Ann")
		return path
	}
	packed := lock("packed-refs.lock")
	index := lock("index.lock") // of Ann's folder: no tree needs it
	h.release(h.acquire(r, "one"))
	wantProblemIn := func(err error, path string) {
		t.Helper()
		wantProblem(t, err, "another git works in the repository, or was killed there; if no git works, remove its lock: ")
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %s", err, path)
		}
	}
	wantProblemIn(r.Remove(t.Context(), "one", false), packed)
	ref := lock("refs/heads/mailroom/two-1.lock.lock") // not the lock of a branch of the server
	h.release(h.acquire(r, "two"))
	for _, path := range []string{packed, index, ref} {
		if readFile(t, path) != "of Ann" {
			t.Errorf("%s is not as Ann left it", path)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Error(err)
	}
	if got := h.branches(); got["mailroom/one-1"] != "" {
		t.Errorf("the empty branch stays: %v", got)
	}
	h.wantUntouched()
}

// TestARebaseCallsGitAsOftenForManyFiles moves a tree to a commit that changed few files, then one that changed many.
func TestARebaseCallsGitAsOftenForManyFiles(t *testing.T) {
	h := newFixture(t)
	for n := range 30 {
		h.write(fmt.Sprintf("many/%d", n), fmt.Sprintln(n))
	}
	h.git("add", "many")
	h.git("commit", "--quiet", "--message", "many")
	count := filepath.Join(t.TempDir(), "count")
	r := h.open(func(o *worktree.Options) { o.Git = h.script(`echo >>'` + count + `'`) })
	calls := map[int]int{}
	for _, files := range []int{2, 30} {
		name := fmt.Sprint("file-", files)
		h.write(name, lines())
		h.git("add", name)
		h.git("commit", "--quiet", "--message", "begin", name)
		tree := h.acquire(r, name)
		for _, text := range []string{lines("a1", "j1"), lines("a1", "j1", "e1")} {
			writeFile(t, filepath.Join(tree.Path(), name), text)
			h.commit(tree)
		}
		h.write(name, lines("a1", "j1"))
		h.git("commit", "--quiet", "--message", "same", name)
		h.write(name, lines("a2", "j1"))
		for n := range files {
			h.write(fmt.Sprintf("many/%d", n), fmt.Sprintln("new", files))
		}
		h.git("commit", "--quiet", "--message", "all", name, "many")
		writeFile(t, count, "")
		if c, err := tree.Rebase(t.Context()); c != nil || err != nil || tree.Base() != h.git("rev-parse", "HEAD") {
			t.Fatalf("%d files: %v, %v", files, c, err)
		}
		calls[files] = strings.Count(readFile(t, count), "\n")
		h.release(tree)
	}
	if calls[2] != calls[30] || calls[2] == 0 {
		t.Errorf("calls of git by the number of files: %v", calls)
	}
}

// TestFilesOfGitLFSWithoutTheirContentAreNamed has no git-lfs, with and without a setting that needs it.
func TestFilesOfGitLFSWithoutTheirContentAreNamed(t *testing.T) {
	h := newFixture(t)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12345\n"
	for name, text := range map[string]string{".gitattributes": "*.bin filter=lfs -text\n", "a model.bin": pointer,
		"deep/other.bin": pointer, "loaded.bin": "content\n", "pointer.txt": pointer} {
		h.write(name, text)
		h.git("add", name)
	}
	h.git("commit", "--quiet", "--message", "models")
	r := h.open()
	tree := h.acquire(r, "one")
	res := h.commit(tree)
	const want = `"a model.bin" and 1 more: only the pointer of git LFS; install git-lfs for the agent and run ` +
		"git lfs install"
	if res.Pointers != want || res.Commits != 0 {
		t.Errorf("result %+v, want %q", res, want)
	}
	h.release(tree)
	if err := r.Remove(t.Context(), "one", false); err != nil {
		t.Error(err)
	}

	h.git("config", "filter.lfs.process", "git-lfs-that-is-not-installed filter-process")
	h.git("config", "filter.lfs.required", "true")
	_, err := r.Acquire(t.Context(), "two", "")
	wantProblem(t, err, "the repository needs git-lfs, which is not installed for the agent")
	h.git("config", "--remove-section", "filter.lfs")
	h.release(h.acquire(r, "two")) // goes on
	h.wantUntouched()
}
