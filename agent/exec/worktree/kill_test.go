package worktree_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// killer is a git that dies, or kills its caller, at one call. Its environment says at which, and how. "during" kills
// git alone: what git started goes on for a while.
//
// Called with "set-up", it is a command of a set-up, which writes its name to a file. "during" kills it when it has
// written the half. With KILL_SETUP the calls of git do not count.
//
// The shell counts the lines by itself, because each program that it starts takes as long as a small git.
const killer = `if [ -n "$KILL_SETUP" ] && [ "$1" != set-up ]; then exec git "$@"; fi
echo >>"$KILL_COUNT"
n=0
while read -r _; do n=$((n + 1)); done <"$KILL_COUNT"
if [ "$1" = set-up ]; then
if [ $n -eq "$KILL_AT" ]; then
case $KILL_HOW in
before) kill -9 $$ ;;
during) echo "half of $2" >>"$KILL_TRACE"; kill -9 $$ ;;
after) echo "$2" >>"$KILL_TRACE"; kill -9 $PPID $$ ;;
caller) kill -9 $PPID ;;
esac
fi
echo "$2" >>"$KILL_TRACE"; exit
fi
[ $n -eq "$KILL_AT" ] || exec git "$@"
case $KILL_HOW in
before) kill -9 0 ;;
during) git "$@" & sleep 0.00$((KILL_AT % 10)); kill -9 $!; exit 137 ;;
after) git "$@"; kill -9 $PPID 0 ;;
caller) kill -9 $PPID ;;
esac
`

// serve does the tasks, and git, which is the killer, kills at its n-th call; 0 is no kill, and git may be "". If the
// kill ends the server, the server is a process of its own. serve returns whether all ended, and the number of calls.
func (h *fixture) serve(git string, n int, how string, remove bool, tasks ...string) (ended bool, calls int) {
	h.t.Helper()
	count := filepath.Join(h.t.TempDir(), "count")
	writeFile(h.t, count, "")
	env := h.environment(git, tasks...)
	env = append(env, "KILL_AT="+strconv.Itoa(n), "KILL_HOW="+how, "KILL_COUNT="+count)
	if remove {
		env = append(env, "WORKTREE_TEST_REMOVE=yes")
	}
	var err error
	if n > 0 && (how == "caller" || how == "after") {
		cmd := osexec.Command(os.Args[0])
		cmd.Env = env
		err = cmd.Run() // with the signal of the kill
	} else {
		err = serve(env)
	}
	if err != nil {
		h.t.Logf("kill %s call %d: %v", how, n, err)
	}
	return err == nil, strings.Count(readFile(h.t, count), "\n")
}

// environment returns what a server is told about its tasks.
func (h *fixture) environment(git string, tasks ...string) environment {
	return append(os.Environ(), "WORKTREE_TEST_FOLDER="+h.folder, "WORKTREE_TEST_ROOT="+h.root,
		"WORKTREE_TEST_GIT="+git, "WORKTREE_TEST_TASKS="+strings.Join(tasks, " "), "KILL_AT=0", "KILL_COUNT="+os.DevNull)
}

// server returns a process that does the tasks, which has not started.
func (h *fixture) server(git string, tasks ...string) *osexec.Cmd {
	cmd := osexec.Command(os.Args[0])
	cmd.Env = h.environment(git, tasks...)
	return cmd
}

// traced gives a task of serve a set-up of two commands, and returns the file that these and their reports write to.
func (h *fixture) traced(git string) string {
	h.t.Helper()
	h.setUpBy(git+" set-up one\n"+git+" set-up two\n", 0o644)
	trace := filepath.Join(h.t.TempDir(), "trace")
	h.t.Setenv("KILL_TRACE", trace)
	h.t.Setenv("WORKTREE_TEST_TRUST", h.trust("HEAD"))
	return trace
}

// wantSetUp checks that a task was set up by both commands in turn, that a kill repeated one of them at most, and that
// the reports say so. It returns whether they do.
func (h *fixture) wantSetUp(trace, when string) (again bool) {
	h.t.Helper()
	var ran []string
	text := readFile(h.t, trace)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, " again"):
			again = true
		case !strings.HasPrefix(line, "report ") && !strings.HasPrefix(line, "half of "):
			ran = append(ran, line)
		}
	}
	got := strings.Join(ran, " ")
	if ok := got == "one two"; !ok && got != "one one two" && got != "one two two" || !ok && !again {
		h.t.Fatalf("%s the set-up ran %q", when, text)
	}
	if err := os.Remove(trace); err != nil {
		h.t.Fatal(err)
	}
	return again
}

// TestGitCanBeKilledAtEachStep kills git, a command of the set-up, or the server at each call of a task, and repeats
// the task.
func TestGitCanBeKilledAtEachStep(t *testing.T) {
	h := newFixture(t)
	git := h.script(killer)
	trace := h.traced(git)
	bare := h.remote()
	base := h.advance(bare, "of another person", "x\n")
	t.Setenv("WORKTREE_TEST_FRESH", "yes")
	t.Setenv("WORKTREE_TEST_PUSH", "origin")
	platform := newPlatform(t)
	var tasks []string
	kills, cuts := 0, 0
	for _, how := range []string{"during", "caller"} {
		for n := 1; ; n++ {
			task, when := fmt.Sprintf("%s-%d", how, n), fmt.Sprintf("after a kill %s call %d", how, n)
			_, calls := h.serve(git, n, how, false, task)
			if again, _ := h.serve("", 0, how, false, task); !again { // also a task that has ended
				t.Fatalf("%s the repeat failed", when)
			}
			if h.wantSetUp(trace, when) {
				cuts++
			}
			if log := h.pushes(bare, "mailroom/"+task+"-1"); log != "push" {
				t.Fatalf("%s the remote got the pushes %q, want one", when, log)
			}
			platform.wantOne(task, when)
			h.wantNoRests(task)
			if err := h.open().Remove(t.Context(), task, false); err != nil {
				t.Fatalf("%s the tree cannot be removed: %v", when, err)
			}
			h.wantNoRests()
			tasks = append(tasks, task)
			if calls < n {
				break // the task has fewer calls
			}
			kills++
		}
	}
	h.wantOneCommitEach(base, tasks)
	t.Logf("%d kills, %d branches, %d pushes, %d pull requests, %d set-ups were cut", kills, len(tasks), len(tasks),
		platform.count(), cuts)
	if cuts != 2 {
		t.Errorf("%d set-ups were cut, want one at each command", cuts)
	}
	h.wantUntouched()
}

// wantOneCommitEach checks that each task has one branch, and the branch one commit, which adds the file of the task to
// base. One git lists all of it, because a git for each branch takes as long as a kill.
func (h *fixture) wantOneCommitEach(base string, tasks []string) {
	h.t.Helper()
	var branches, commits []string
	for _, task := range slices.Sorted(slices.Values(tasks)) {
		branches = append(branches, "mailroom/"+task+"-1")
		commits = append(commits, "mailroom/"+task+"-1 on "+base+"\n\nA\t"+task+".txt")
	}
	got := strings.Fields(h.git("for-each-ref", "--format=%(refname:short)", "refs/heads/mailroom"))
	slices.Sort(got)
	if diff := cmp.Diff(branches, got); diff != "" {
		h.t.Errorf("the branches differ (-want +got):\n%s", diff)
	}
	got = strings.Split(h.git("log", "--format=%x00%D on %P", "--decorate-refs=refs/heads",
		"--name-status", "--branches=mailroom", "--not", base), "\x00")
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	got = slices.DeleteFunc(got, func(c string) bool { return c == "" })
	slices.Sort(got)
	slices.Sort(commits)
	if diff := cmp.Diff(commits, got); diff != "" {
		h.t.Errorf("the commits of the branches differ (-want +got):\n%s", diff)
	}
}

// TestASetUpCanBeKilledAtEachCommand kills a command of a set-up, or the server right after it.
func TestASetUpCanBeKilledAtEachCommand(t *testing.T) {
	h := newFixture(t)
	git := h.script(killer)
	trace := h.traced(git)
	t.Setenv("KILL_SETUP", "yes")
	for _, how := range []string{"before", "after"} {
		for n := 1; n <= 2; n++ {
			task := fmt.Sprintf("%s-%d", how, n)
			if ended, calls := h.serve(git, n, how, false, task); ended || calls != n {
				t.Fatalf("a kill %s command %d: ended %v after %d commands", how, n, ended, calls)
			}
			if again, _ := h.serve("", 0, how, false, task); !again {
				t.Fatalf("after a kill %s command %d the repeat failed", how, n)
			}
			cut := h.wantSetUp(trace, fmt.Sprintf("after a kill %s command %d", how, n))
			if cut != (how == "after") { // the server that lives records the failure
				t.Errorf("after a kill %s command %d a cut is reported: %v", how, n, cut)
			}
		}
	}
}

// TestARemovalCanBeKilledAtEachStep kills git at each call of a removal.
func TestARemovalCanBeKilledAtEachStep(t *testing.T) {
	h := newFixture(t)
	git := h.script(killer)
	_, before := h.serve(git, 0, "before", false, "count")
	for _, how := range []string{"before", "during"} {
		for n := before + 1; ; n++ {
			task := fmt.Sprintf("%s-%d", how, n)
			ended, calls := h.serve(git, n, how, true, task)
			if calls < n {
				break
			}
			if !ended && h.git("for-each-ref", "refs/heads/mailroom/"+task+"-1") == "" {
				t.Fatalf("a kill %s call %d lost the branch", how, n)
			}
			err := h.open().Remove(t.Context(), task, false)
			if err != nil && !strings.Contains(err.Error(), "there is no worktree") {
				t.Fatalf("after a kill %s call %d: %v", how, n, err)
			}
			h.wantNoRests("count")
			if got := h.branches()["mailroom/"+task+"-1"]; got != "1" {
				t.Fatalf("after a kill %s call %d the branch has %q commits, want 1", how, n, got)
			}
		}
	}
	h.wantUntouched()
}

// TestTwentyTasksAtOnceSurviveKills works on twenty tasks at once in one repository, and kills the server or a git
// again and again.
func TestTwentyTasksAtOnceSurviveKills(t *testing.T) {
	h := newFixture(t)
	git := h.script(killer)
	bare := h.remote()
	t.Setenv("WORKTREE_TEST_PUSH", "origin")
	platform := newPlatform(t)
	var tasks []string
	for n := range 20 {
		tasks = append(tasks, fmt.Sprintf("task-%02d", n))
	}
	rounds := 0
	for _, how := range []string{"after", "caller", "before", "during"} {
		for _, n := range []int{3, 30, 90} {
			h.serve(git, n, how, false, tasks...)
			rounds++
		}
	}
	if ended, _ := h.serve("", 0, "before", false, tasks...); !ended {
		t.Fatal("the tasks did not end without a kill")
	}
	got := h.branches()
	for _, task := range tasks {
		if n := got["mailroom/"+task+"-1"]; n != "1" {
			t.Errorf("%s has %q commits, want 1: %v", task, n, got)
		}
		if text := h.git("show", "mailroom/"+task+"-1:"+task+".txt"); text != task {
			t.Errorf("%s has %q", task, text)
		}
		if log := h.pushes(bare, "mailroom/"+task+"-1"); log != "push" {
			t.Errorf("%s was pushed with the log %q, want one push", task, log)
		}
		platform.wantOne(task, "in the end")
	}
	t.Logf("%d kills, %d branches, %d pull requests", rounds, len(got), platform.count())
	if len(got) != len(tasks) {
		t.Errorf("%d branches, want %d: %v", len(got), len(tasks), got)
	}
	h.wantNoRests(tasks...)
	h.wantUntouched()
}
