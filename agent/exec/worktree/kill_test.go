package worktree_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// killer is a git that dies, or kills its caller, at one call. Its environment says at which, and how. "during" kills
// git alone: what git started goes on for a while.
const killer = `echo >>"$KILL_COUNT"
if [ "$(wc -l <"$KILL_COUNT")" -ne "$KILL_AT" ]; then exec git "$@"; fi
case $KILL_HOW in
before) kill -9 0 ;;
during) git "$@" & sleep 0.00$((KILL_AT % 10)); kill -9 $!; exit 137 ;;
after) git "$@"; kill -9 $PPID 0 ;;
caller) kill -9 $PPID ;;
esac
`

// serve runs the tasks in a process of their own, whose n-th call of git is killed. It returns whether all ended, and
// the number of calls.
func (h *fixture) serve(git string, n int, how string, remove bool, tasks ...string) (ended bool, calls int) {
	h.t.Helper()
	count := filepath.Join(h.t.TempDir(), "count")
	writeFile(h.t, count, "")
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKTREE_TEST_FOLDER="+h.folder, "WORKTREE_TEST_ROOT="+h.root,
		"WORKTREE_TEST_GIT="+git, "WORKTREE_TEST_TASKS="+strings.Join(tasks, " "), "KILL_AT="+strconv.Itoa(n),
		"KILL_HOW="+how, "KILL_COUNT="+count)
	if remove {
		cmd.Env = append(cmd.Env, "WORKTREE_TEST_REMOVE=yes")
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) > 0 {
		h.t.Logf("kill %s call %d: %v: %s", how, n, err, out)
	}
	raw, failed := os.ReadFile(count)
	if failed != nil {
		h.t.Fatal(failed)
	}
	return err == nil, strings.Count(string(raw), "\n")
}

// TestGitCanBeKilledAtEachStep kills git, or the server, at each call of a task and repeats the task.
func TestGitCanBeKilledAtEachStep(t *testing.T) {
	h := newFixture(t)
	git := h.script(killer)
	bare := h.remote()
	base := h.advance(bare, "of another person", "x\n")
	t.Setenv("WORKTREE_TEST_FRESH", "yes")
	t.Setenv("WORKTREE_TEST_PUSH", "origin")
	kills, pushes := 0, 0
	for _, how := range []string{"during", "caller"} {
		for n := 1; ; n++ {
			task := fmt.Sprintf("%s-%d", how, n)
			ended, calls := h.serve(git, n, how, false, task)
			if !ended {
				if again, _ := h.serve(git, 0, how, false, task); !again {
					t.Fatalf("after a kill %s call %d the repeat failed", how, n)
				}
			}
			branches := h.branches()
			made := h.git("rev-list", "--count", base+"..mailroom/"+task+"-1")
			if len(branches) != 1 || made != "1" {
				t.Fatalf("after a kill %s call %d: %v with %s commits, want one", how, n, branches, made)
			}
			log := gitIn(t, bare, "log", "--walk-reflogs", "--format=%gs", "refs/heads/mailroom/"+task+"-1", "--")
			if log != "push" {
				t.Fatalf("after a kill %s call %d the remote got the pushes %q, want one", how, n, log)
			}
			pushes++
			if got := h.git("diff", "--name-status", base, "mailroom/"+task+"-1"); got != "A\t"+task+".txt" {
				t.Fatalf("after a kill %s call %d the branch has other changes: %.200s", how, n, got)
			}
			h.wantNoRests(task)
			if removed, _ := h.serve(git, 0, how, true, task); !removed {
				t.Fatalf("after a kill %s call %d the tree cannot be removed", how, n)
			}
			h.wantNoRests()
			h.git("branch", "--quiet", "-D", "mailroom/"+task+"-1")
			if calls < n {
				break // the task has fewer calls
			}
			kills++
		}
	}
	t.Logf("%d kills, %d branches, %d pushes", kills, pushes, pushes)
	h.wantUntouched()
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
	if ended, _ := h.serve(git, 0, "before", false, tasks...); !ended {
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
		log := gitIn(t, bare, "log", "--walk-reflogs", "--format=%gs", "refs/heads/mailroom/"+task+"-1", "--")
		if log != "push" {
			t.Errorf("%s was pushed with the log %q, want one push", task, log)
		}
	}
	t.Logf("%d kills, %d branches", rounds, len(got))
	if len(got) != len(tasks) {
		t.Errorf("%d branches, want %d: %v", len(got), len(tasks), got)
	}
	h.wantNoRests(tasks...)
	h.wantUntouched()
}
