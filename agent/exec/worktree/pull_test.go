package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
)

// fakeForge is gh or glab for a platform that keeps pull requests in a file, one address a line. It fails as the file
// fault says: before it opens one, or after. It logs its calls.
const fakeForge = `#!/bin/sh
echo "$(basename "$0") $*" >>"$FORGE/calls"
fault=$(cat "$FORGE/fault" 2>/dev/null)
case "$2" in
list)
	test "$fault" != away || { echo "error connecting to api.example.org" >&2; exit 1; }
	for at; do :; done
	case "$0" in *glab) field=web_url ;; *) field=url ;; esac
	grep "/$at\$" "$FORGE/opened" 2>/dev/null | sed 's/.*/[{"'$field'":"&"}]/' | grep . || echo '[]' ;;
create)
	branch=
	while [ $# -gt 0 ]; do case "$1" in --head|--source-branch) branch=$2 ;; esac; shift; done
	test "$fault" != refused || { echo "no permission" >&2; exit 1; }
	echo "https://forge.example.org/pull/$branch" >>"$FORGE/opened"
	test "$fault" != lost || { echo "the connection was lost" >&2; exit 1; } ;;
esac
`

func TestAPullRequestIsOpenedOnce(t *testing.T) {
	for remote, program := range map[string]string{"": "gh", "gitlab.example.org": "glab"} {
		h := newFixture(t)
		bare := h.remote()
		programs, state := t.TempDir(), t.TempDir()
		for _, name := range []string{"gh", "glab"} {
			writeFile(t, filepath.Join(programs, name), fakeForge)
			if err := os.Chmod(filepath.Join(programs, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if remote != "" { // a folder stands for the host
			moved := filepath.Join(t.TempDir(), remote)
			if err := os.Rename(bare, moved); err != nil {
				t.Fatal(err)
			}
			h.git("remote", "set-url", "origin", moved)
		}
		t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
		r := h.open(func(o *worktree.Options) { o.Env = append(os.Environ(), "FORGE="+state) })
		fault := func(text string) { writeFile(t, filepath.Join(state, "fault"), text) }
		for _, test := range []struct{ task, fault, problem string }{
			{"five", "", ""}, {"one", "", ""}, {"two", "lost", ""}, {"three", "refused", "create failed: no permission"},
			{"four", "away", "list failed: error connecting"},
		} {
			tree := h.acquire(r, test.task)
			open := func() (string, error) { return tree.PullRequest(t.Context(), "origin", "Fix it", "Because") }
			if address, err := open(); address != "" || err != nil {
				t.Errorf("a branch that was not pushed has the pull request %q, %v", address, err)
			}
			writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
			h.commit(tree)
			if err := tree.Push(t.Context(), "origin"); err != nil {
				t.Fatal(err)
			}
			fault(test.fault)
			if test.task == "five" { // the agent has opened it
				writeFile(t, filepath.Join(state, "opened"), "https://forge.example.org/pull/mailroom/five-1\n")
			}
			address, err := open()
			if test.problem != "" {
				wantProblem(t, err, test.problem)
				fault("")
				address, err = open()
			}
			if want := "https://forge.example.org/pull/mailroom/" + test.task + "-1"; address != want || err != nil {
				t.Errorf("%s: the pull request is %q, %v, want %s", test.task, address, err, want)
			}
			if again, err := open(); again != address || err != nil {
				t.Errorf("%s: a repeat has %q, %v", test.task, again, err)
			}
			h.release(tree)
		}
		opened, err := os.ReadFile(filepath.Join(state, "opened"))
		if n := strings.Count(string(opened), "\n"); n != 5 || err != nil {
			t.Errorf("%d pull requests, %v, want one for each task: %s", n, err, opened)
		}
		calls, err := os.ReadFile(filepath.Join(state, "calls"))
		for call := range strings.Lines(string(calls)) {
			if name, _, _ := strings.Cut(call, " "); name != program || err != nil {
				t.Errorf("the remote %q: call of %s, want %s", remote, name, program)
			}
		}
	}
}
