package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
)

// newRoof returns a repository with one commit.
func newRoof(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "roof")
	gitIn(t, ".", "init", "--quiet", folder)
	gitIn(t, folder, "commit", "--quiet", "--allow-empty", "--message", "begin")
	return folder
}

func gitIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := osexec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// inThread returns a session of a run in a thread.
func inThread(thread, run string, attempt int) *session {
	s := newSession(attempt, "go")
	s.run.Thread, s.run.ID, s.run.Agent = thread, run, "coder"
	return s
}

func TestTheRunsOfAThreadShareAWorktree(t *testing.T) {
	folder := newRoof(t)
	root := filepath.Join(t.TempDir(), "worktrees")
	a := command(t, "cat *.txt 2>/dev/null; echo $MAILROOM_RUN >$MAILROOM_RUN.txt; git log --format=%s | head -1",
		exec.Options{Dir: folder, Worktrees: &exec.Worktrees{Root: root}})
	for _, test := range []struct {
		thread, run, want string
		commits           int
	}{
		{"one", "r1", "begin\n", 1}, {"one", "r2", "r1\nChanges of coder\n", 2}, {"two", "r3", "begin\n", 1},
	} {
		s := inThread(test.thread, test.run, 1)
		if err := a.Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.messages, ""); got != test.want {
			t.Errorf("run %s says %q, want %q", test.run, got, test.want)
		}
		made := body[entry.Tree](t, s, entry.KindTree)
		if made.Branch != "mailroom/"+test.thread+"-1" || made.Commits != test.commits || made.Left != "" ||
			made.Head != gitIn(t, folder, "rev-parse", made.Branch) || made.Base != gitIn(t, folder, "rev-parse", "HEAD") {
			t.Errorf("run %s has made %+v", test.run, made)
		}
		if started := body[exec.Started](t, s, exec.KindStarted); started.Branch != made.Branch {
			t.Errorf("the start of %s names the branch %q, want %q", test.run, started.Branch, made.Branch)
		}
		text := gitIn(t, folder, "log", "-1", "--format=%B", made.Branch)
		if !strings.Contains(text, "Mailroom-Run: "+test.run) {
			t.Errorf("the commit of %s is %q", test.run, text)
		}
	}
	if got := gitIn(t, folder, "status", "--porcelain"); got != "" {
		t.Errorf("the folder of the person has changes: %s", got)
	}
}

func TestAFailedAttemptLeavesItsChangesToTheNext(t *testing.T) {
	folder := newRoof(t)
	a := command(t, "test -f half && exit 0; echo half >half; exit 1",
		exec.Options{Dir: folder, Worktrees: &exec.Worktrees{Root: filepath.Join(t.TempDir(), "worktrees")}})
	first := inThread("one", "r1", 1)
	if err := a.Run(t.Context(), first); err == nil {
		t.Fatal("the first attempt did not fail")
	}
	if got := gitIn(t, folder, "rev-list", "--count", "mailroom/one-1"); got != "1" {
		t.Errorf("a failed attempt left %s commits, want the one of the person", got)
	}
	second := inThread("one", "r1", 2)
	if err := a.Run(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if made := body[entry.Tree](t, second, entry.KindTree); made.Commits != 1 {
		t.Errorf("the second attempt has made %+v, want one commit", made)
	}
}

func TestAWorktreeThatCannotBeMadeFailsTheRun(t *testing.T) {
	folder, root := newRoof(t), filepath.Join(t.TempDir(), "worktrees")
	for _, test := range []struct {
		dir   string
		most  int
		class mailroom.Class
		agent bool
		error string
	}{
		{t.TempDir(), 0, mailroom.ClassPermanent, true, "the folder is not in a git repository"},
		{folder, 1, mailroom.ClassUnavailable, false, "as many as max_worktrees allows"},
	} {
		a := command(t, "true", exec.Options{Dir: test.dir, Worktrees: &exec.Worktrees{Root: root, Most: test.most},
			Env: []string{"GIT_DIR=" + folder}})
		err := a.Run(t.Context(), inThread("one", "r1", 1))
		if test.most > 0 {
			if err != nil {
				t.Fatal(err)
			}
			trees, wrong := filepath.Glob(filepath.Join(root, "roof-*", "one"))
			if wrong != nil || len(trees) != 1 {
				t.Fatalf("worktrees %q, %v", trees, wrong)
			}
			if err := os.WriteFile(filepath.Join(trees[0], "draft"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			err = a.Run(t.Context(), inThread("two", "r2", 1))
		}
		f := mailroom.AsFailure(err)
		if f.Class != test.class || f.Agent != test.agent || !strings.Contains(f.Error(), test.error) {
			t.Errorf("%v failure %q of the agent: %v; want %v, %q", f.Class, f, f.Agent, test.class, test.error)
		}
		if _, err := os.Stat(root); err != nil {
			t.Error(err)
		}
	}
}

func TestABranchIsPushedAfterASuccess(t *testing.T) {
	folder := newRoof(t)
	bare := filepath.Join(t.TempDir(), "origin.git")
	gitIn(t, ".", "clone", "--quiet", "--bare", folder, bare)
	for _, test := range []struct{ remote, want string }{
		{bare, ""}, {bare + ".missing", "does not appear to be a git repository"},
	} {
		gitIn(t, folder, "remote", "add", "origin", test.remote)
		root := filepath.Join(t.TempDir(), "worktrees")
		a := command(t, "echo x >x", exec.Options{Dir: folder, Worktrees: &exec.Worktrees{Root: root, Push: "origin"}})
		s := inThread("one", "r1", 1)
		if err := a.Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		made := body[entry.Tree](t, s, entry.KindTree)
		if pushed := made.Pushed == "origin"; pushed != (test.want == "") || !strings.Contains(made.Unpushed, test.want) {
			t.Errorf("with the remote %s the run has made %+v", test.remote, made)
		}
		if test.want == "" && gitIn(t, bare, "rev-parse", made.Branch) != made.Head {
			t.Errorf("the remote lacks %+v", made)
		}
		gitIn(t, folder, "remote", "remove", "origin")
	}
}

// pulls are the pull requests of a platform that fails as it says.
type pulls struct {
	fault  error
	opened []string
	answer worktree.PullAnswer // of a look, and its error
	looks  error
	tags   []string // of the looks
	finds  int
}

func (p *pulls) Find(_ context.Context, branch string) (string, error) {
	p.finds++
	return p.find(branch)
}

func (p *pulls) find(branch string) (string, error) {
	if slices.Contains(p.opened, branch) {
		return "https://forge.example.org/" + branch, nil
	}
	return "", nil
}

func (p *pulls) Open(_ context.Context, branch, _, _ string) (string, error) {
	if p.fault == nil {
		p.opened = append(p.opened, branch)
	}
	address, _ := p.find(branch)
	return address, p.fault
}

func (p *pulls) Look(_ context.Context, branch, address, tag string) (worktree.PullAnswer, error) {
	if want, err := p.find(branch); address != want || err != nil {
		return worktree.PullAnswer{}, fmt.Errorf("a look at %s, want %s", address, want)
	}
	p.tags = append(p.tags, tag)
	return p.answer, p.looks
}

func TestAPullRequestThatFailsIsOpenedByTheNextRun(t *testing.T) {
	folder := newRoof(t)
	bare := filepath.Join(t.TempDir(), "origin.git")
	gitIn(t, ".", "clone", "--quiet", "--bare", folder, bare)
	gitIn(t, folder, "remote", "add", "origin", bare)
	p := &pulls{fault: errors.New("the limit is reached")}
	a := command(t, "echo x >>x", exec.Options{Dir: folder, Worktrees: &exec.Worktrees{Push: "origin", PullRequest: true,
		Root: filepath.Join(t.TempDir(), "worktrees"), Pulls: func(string) worktree.Pulls { return p }}})
	for n, want := range []struct{ address, unopened string }{
		{"", "the limit is reached"}, {"https://forge.example.org/mailroom/one-1", ""},
		{"https://forge.example.org/mailroom/one-1", ""},
	} {
		s := inThread("one", fmt.Sprint("r", n), 1)
		if err := a.Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		made := body[entry.Tree](t, s, entry.KindTree)
		if made.PullRequest != want.address || made.Unopened != want.unopened || made.Pushed != "origin" {
			t.Errorf("run %d has made %+v, want %+v", n, made, want)
		}
		p.fault = nil
	}
	if len(p.opened) != 1 {
		t.Errorf("pull requests %q, want one", p.opened)
	}
}

func TestASubmitNamesARepositoryThatIsAllowed(t *testing.T) {
	base := t.TempDir()
	roof, plain := newRoof(t), t.TempDir()
	inside, secret := filepath.Join(base, "work", "inside"), filepath.Join(base, "secret")
	for _, folder := range []string{inside, secret} {
		gitIn(t, ".", "clone", "--quiet", roof, folder)
	}
	gitIn(t, secret, "worktree", "add", "--quiet", filepath.Join(base, "work", "linked"))
	gitIn(t, ".", "init", "--quiet", base) // a repository around the allowed folder
	gitIn(t, base, "commit", "--quiet", "--allow-empty", "--message", "begin")
	link := filepath.Join(base, "work", "link")
	err := errors.Join(os.Symlink(secret, link), os.Mkdir(filepath.Join(base, "work", "none"), 0o700),
		os.Mkdir(filepath.Join(inside, "sub"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	a := command(t, "pwd; echo x >x", exec.Options{Dir: plain, Worktrees: &exec.Worktrees{Asked: true,
		Root: filepath.Join(t.TempDir(), "worktrees"), Repos: []string{roof, filepath.Join(base, "work")}}})
	const refused, outside = "names no folder that repos of the agent allows", "is not in one of the folders"
	var last []mailroom.Entry
	for n, test := range []struct{ repo, error string }{
		{roof, ""}, {inside, ""}, {filepath.Join(inside, "sub"), ""}, {roof + "/../roof/", ""}, {"", ""},
		{secret, refused}, {link, refused}, {base, refused}, {"/", refused}, {base + "/work/../secret", refused},
		{base + "/no such folder", refused}, {base + "/workshop", refused}, {"roof", "not an absolute path"},
		{filepath.Join(base, "work", "none"), outside}, {filepath.Join(base, "work", "linked"), outside},
	} {
		s := inThread(fmt.Sprint("thread ", n), fmt.Sprint("r", n), 1)
		if test.repo != "" {
			s.run.Options, _ = json.Marshal(map[string]string{"repo": test.repo}) // a string
		}
		err := a.Run(t.Context(), s)
		if test.error != "" {
			f := mailroom.AsFailure(err)
			if f.Class != mailroom.ClassPermanent || f.Agent || !strings.Contains(f.Error(), test.error) {
				t.Errorf("%q: %v, want %q", test.repo, err, test.error)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", test.repo, err)
		}
		if got := strings.TrimSpace(s.messages[0]); (got == plain) != (test.repo == "") {
			t.Errorf("%q: the run works in %s", test.repo, got)
		}
		if started := body[exec.Started](t, s, exec.KindStarted); n == 0 {
			raw, _ := json.Marshal(started)
			last = []mailroom.Entry{{Kind: exec.KindStarted, Body: raw}}
		}
	}

	// Further runs of the thread work in the same worktree.
	s := inThread("thread 0", "next", 1)
	s.log = last
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if made := body[entry.Tree](t, s, entry.KindTree); !strings.HasPrefix(made.Branch, "mailroom/thread-0-") {
		t.Errorf("the next run has made %+v", made)
	}

	// They end with the setting, and work nowhere else.
	for _, o := range []*exec.Worktrees{nil, {Asked: true, Root: filepath.Join(t.TempDir(), "trees")},
		{Asked: true, Root: filepath.Join(t.TempDir(), "trees"), Repos: []string{filepath.Join(base, "work")}},
		{Root: filepath.Join(t.TempDir(), "trees")}} {
		a := command(t, "pwd; echo x >x", exec.Options{Dir: inside, Worktrees: o})
		s := inThread("thread 0", "later", 1)
		s.log = last
		f := mailroom.AsFailure(a.Run(t.Context(), s))
		if f == nil || f.Class != mailroom.ClassPermanent || f.Agent || !strings.Contains(f.Error(), "or no more") {
			t.Errorf("%+v: %v", o, f)
		}
	}
	if got := gitIn(t, secret, "for-each-ref", "--format=%(refname)", "refs/heads/mailroom"); got != "" {
		t.Errorf("a repository outside of the allowed folders has the branches %s", got)
	}
}

func TestThePointersOfGitLFSAreInTheEntryOfTheRun(t *testing.T) {
	folder := newRoof(t)
	for name, text := range map[string]string{".gitattributes": "*.bin filter=lfs -text\n",
		"model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		gitIn(t, folder, "add", name)
	}
	gitIn(t, folder, "commit", "--quiet", "--message", "models")
	s := inThread("one", "r1", 1)
	root := filepath.Join(t.TempDir(), "worktrees")
	a := command(t, "true", exec.Options{Dir: folder, Worktrees: &exec.Worktrees{Root: root}})
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if made := body[entry.Tree](t, s, entry.KindTree); !strings.HasPrefix(made.Pointers, `"model.bin": only the pointer`) {
		t.Errorf("the entry is %+v", made)
	}
}
