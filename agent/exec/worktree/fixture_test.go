package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"mailroom/agent/exec/worktree"
)

// TestMain also runs the test binary as a server that can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("WORKTREE_TEST_FOLDER") != "" {
		if err := serve(os.Environ()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// environment is what serve is told, NAME=VALUE. The last entry of a name wins.
type environment []string

func (e environment) get(name string) string {
	for _, entry := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// serve does the tasks that its environment names, at once: each changes a file and commits it.
func serve(env environment) error {
	r, err := worktree.Open(context.Background(), worktree.Options{
		Folder: env.get("WORKTREE_TEST_FOLDER"), Root: env.get("WORKTREE_TEST_ROOT"), Git: env.get("WORKTREE_TEST_GIT"),
		Env: env, Fresh: env.get("WORKTREE_TEST_FRESH") != "", Pulls: pullsOfEach(env.get(envPulls)),
	})
	if err != nil {
		return err
	}
	tasks := strings.Fields(env.get("WORKTREE_TEST_TASKS"))
	ended := make(chan error, len(tasks))
	var all sync.WaitGroup
	for _, task := range tasks {
		all.Go(func() { ended <- work(r, env, task) })
	}
	all.Wait()
	close(ended)
	for e := range ended {
		err = errors.Join(err, e)
	}
	return err
}

func work(r *worktree.Repository, env environment, task string) error {
	ctx := context.Background()
	t, err := r.Acquire(ctx, task, "")
	if err != nil {
		return fmt.Errorf("%s: %w", task, err)
	}
	if trust := env.get("WORKTREE_TEST_TRUST"); trust != "" {
		err = worktree.SetUp(ctx, t, setupOptions(trust), reportSetUp)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", task, err), t.Release())
		}
	}
	if env.get("WORKTREE_TEST_REBASE") != "" {
		var c *worktree.Conflict
		if c, err = t.Rebase(ctx); c != nil {
			err = fmt.Errorf("%s conflicts in %q", task, c.Files)
		}
	} else if err = os.WriteFile(filepath.Join(t.Path(), task+".txt"), []byte(task+"\n"), 0o600); err == nil {
		_, err = t.Commit(ctx, "coder", "Do "+task)
	}
	if remote := env.get("WORKTREE_TEST_PUSH"); remote != "" && err == nil {
		err = t.Push(ctx, remote)
		if err == nil && env.get(envPulls) != "" {
			_, err = t.PullRequest(ctx, remote, "Do "+task, "It is done.")
		}
	}
	if err == nil && env.get("WORKTREE_TEST_REMOVE") != "" {
		return errors.Join(t.Release(), r.Remove(ctx, task, false))
	}
	return errors.Join(err, t.Release())
}

// fixture is a repository of a person with a commit, an ignored file and changes.
type fixture struct {
	t            *testing.T
	folder, root string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{t: t, folder: filepath.Join(base, "Roof of Ann"), root: filepath.Join(base, "data", "worktrees")}
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	h.git("init", "--quiet", "--initial-branch=main")
	config := filepath.Join(".git", "config") // two programs less in each fixture than with git config
	h.write(config, readFile(t, filepath.Join(h.folder, config))+"[user]\n\tname = Ann\n\temail = ann@example.org\n")
	h.write("readme", "roof\n")
	h.write("src/a tab\t and \"quotes\"", "x\n")
	h.write(".gitignore", "secret.env\nbuild/\n")
	for n := range 40 {
		h.write(fmt.Sprintf("src/%d", n), strings.Repeat(fmt.Sprintln(n), 2000))
	}
	h.git("add", "--all")
	h.git("commit", "--quiet", "--message", "begin")
	h.write("secret.env", "KEY=1\n")
	h.write("readme", "roof, changed by Ann\n")
	h.write("draft", "of Ann\n")
	return h
}

func (h *fixture) write(name, text string) {
	h.t.Helper()
	writeFile(h.t, filepath.Join(h.folder, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// git runs git as the person does, in the repository.
func (h *fixture) git(args ...string) string {
	h.t.Helper()
	return gitIn(h.t, h.folder, args...)
}

func gitIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := osexec.Command("git", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=Ann",
		"GIT_COMMITTER_EMAIL=ann@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (h *fixture) open(edit ...func(*worktree.Options)) *worktree.Repository {
	h.t.Helper()
	o := worktree.Options{Folder: h.folder, Root: h.root, Env: os.Environ()}
	for _, f := range edit {
		f(&o)
	}
	r, err := worktree.Open(h.t.Context(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *fixture) acquire(r *worktree.Repository, task string) *worktree.Tree {
	h.t.Helper()
	t, err := r.Acquire(h.t.Context(), task, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

func (h *fixture) release(t *worktree.Tree) {
	h.t.Helper()
	if err := t.Release(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) commit(t *worktree.Tree) worktree.Result {
	h.t.Helper()
	res, err := t.Commit(h.t.Context(), "coder", "Do it\n\nMailroom-Run: 7")
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

// wantProblem checks that an error is a sentence with a text.
func wantProblem(t *testing.T, err error, text string) {
	t.Helper()
	p, ok := errors.AsType[*worktree.Problem](err)
	if !ok || !strings.Contains(p.Text, text) || strings.Contains(p.Text, "\n") {
		t.Errorf("error %q, want a problem that contains %q", err, text)
	}
}

// wantUntouched checks that everything of the person is as newFixture left it, and that git finds no fault.
func (h *fixture) wantUntouched() {
	h.t.Helper()
	for name, want := range map[string]string{"secret.env": "KEY=1\n", "readme": "roof, changed by Ann\n",
		"draft": "of Ann\n"} {
		if got, err := os.ReadFile(filepath.Join(h.folder, name)); err != nil || string(got) != want {
			h.t.Errorf("the person's %s is %q, %v", name, got, err)
		}
	}
	if got, want := h.git("status", "--porcelain"), " M readme\n?? draft"; got != want {
		h.t.Errorf("the person's status is %q, want %q", got, want)
	}
	if got := h.git("symbolic-ref", "HEAD"); got != "refs/heads/main" {
		h.t.Errorf("the person is on %s", got)
	}
	h.git("fsck", "--strict", "--no-dangling")
}

// wantNoRests checks that git's folder has entries for the trees only, and no lock files.
func (h *fixture) wantNoRests(trees ...string) {
	h.t.Helper()
	var admins []string
	all, err := os.ReadDir(filepath.Join(h.folder, ".git", "worktrees"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	for _, a := range all {
		admins = append(admins, a.Name())
	}
	slices.Sort(trees)
	if !slices.Equal(admins, trees) {
		h.t.Errorf("git's folder has the worktrees %q, want %q", admins, trees)
	}
	err = filepath.WalkDir(filepath.Join(h.folder, ".git"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".lock") && filepath.Base(path) != "mailroom.lock" {
			h.t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
}

// branches returns the branches below mailroom/, with their number of commits since main.
func (h *fixture) branches() map[string]string {
	h.t.Helper()
	found := map[string]string{}
	for name := range strings.FieldsSeq(h.git("for-each-ref", "--format=%(refname:short)", "refs/heads/mailroom")) {
		found[name] = h.git("rev-list", "--count", "main.."+name)
	}
	return found
}

// remote adds a bare repository as the remote origin, which logs each push.
func (h *fixture) remote() string {
	h.t.Helper()
	bare := filepath.Join(h.t.TempDir(), "origin.git")
	h.git("clone", "--quiet", "--bare", h.folder, bare)
	gitIn(h.t, bare, "config", "core.logAllRefUpdates", "always")
	h.git("remote", "add", "origin", bare)
	return bare
}

// pushes returns the log of a branch of the remote: "push" for each push.
func (h *fixture) pushes(bare, branch string) string {
	h.t.Helper()
	var all []string
	for line := range strings.Lines(readFile(h.t, filepath.Join(bare, "logs", "refs", "heads", branch))) {
		_, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, what)
	}
	return strings.Join(all, "\n")
}

// script returns a git that runs a text of the shell first.
func (h *fixture) script(text string) string {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "git")
	writeFile(h.t, path, "#!/bin/sh\n"+text+"\nexec git \"$@\"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// trees returns the folder of the repository's trees.
func (h *fixture) trees() string {
	h.t.Helper()
	all, err := filepath.Glob(filepath.Join(h.root, "roof-*"))
	if err != nil || len(all) != 1 {
		h.t.Fatalf("folders of trees: %q, %v", all, err)
	}
	return all[0]
}
