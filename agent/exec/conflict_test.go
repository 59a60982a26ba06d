package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
)

// TestTheOwnerDecidesAboutABranchThatConflicts lets a run and the branch of the remote change the same file.
func TestTheOwnerDecidesAboutABranchThatConflicts(t *testing.T) {
	for _, verdict := range []mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny} {
		t.Run(string(verdict), func(t *testing.T) {
			folder, bare := newRoof(t), filepath.Join(t.TempDir(), "origin.git")
			gitIn(t, ".", "clone", "--quiet", "--bare", folder, bare)
			gitIn(t, folder, "remote", "add", "origin", bare)
			h := newFixture(t, "", func(o *exec.ProgramOptions) {
				o.Dir = folder
				o.Worktrees = &exec.Worktrees{Root: filepath.Join(t.TempDir(), "worktrees"), Fresh: true, Push: "origin"}
			})
			if got := h.reply("t", h.send("t", "!write one")); got != "1: !write one" {
				t.Fatalf("the reply is %q", got)
			}
			branch := bodies[entry.Tree](h, "t", entry.KindTree)[0]
			if branch.Pushed != "origin" {
				t.Fatalf("the first run made %+v", branch)
			}
			clone := filepath.Join(t.TempDir(), "clone")
			gitIn(t, ".", "clone", "--quiet", bare, clone)
			gitIn(t, clone, "commit", "--quiet", "--allow-empty", "--message", "elsewhere")
			gitIn(t, clone, "push", "--quiet", "origin", "HEAD")
			if got := h.reply("t", h.send("t", "!write two")); got != "2: !write two" {
				t.Fatalf("a branch that does not conflict: %q", got)
			}
			if err := os.WriteFile(filepath.Join(clone, "text"), []byte("theirs\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			gitIn(t, clone, "add", "--all")
			gitIn(t, clone, "commit", "--quiet", "--message", "theirs")
			gitIn(t, clone, "push", "--quiet", "origin", "HEAD")

			run := h.send("t", "!write three")
			wantAsked(h, run)
			k := decideOn(h, run, verdict, nil)
			before := gitIn(t, bare, "rev-parse", branch.Branch)
			want := "is not pushed: it conflicts with " + gitIn(t, folder, "symbolic-ref", "--short", "HEAD") +
				` of origin in "text"`
			if !strings.Contains(k.Prompt, want) {
				t.Errorf("the ticket says %q, want %q", k.Prompt, want)
			}
			if got := h.reply("t", run); got != "3: !write three" {
				t.Errorf("the reply is %q", got)
			}
			made := bodies[entry.Tree](h, "t", entry.KindTree)
			if made[2].Pushed != "" || !strings.Contains(made[2].Unpushed, "it conflicts with") {
				t.Errorf("before the decision the run says %+v", made[2])
			}
			if n := len(bodies[exec.Exited](h, "t", exec.KindExited)); n < 3 {
				t.Errorf("%d ends of programs, want 3", n)
			}
			if verdict == mailroom.VerdictDeny {
				if last := made[len(made)-1]; len(made) != 4 || last.Pushed != "origin" || last.Head != made[2].Head ||
					gitIn(t, bare, "rev-parse", branch.Branch) != last.Head || before == last.Head {
					t.Errorf("after the decision to leave it the run says %+v", made)
				}
				return
			}
			sent := bodies[entry.Sent](h, "t", entry.KindSend)
			if len(sent) != 1 {
				t.Fatalf("the run sent %+v, want one message", sent)
			}
			theirs := gitIn(t, clone, "rev-parse", "HEAD")
			decideOn(h, sent[0].Run, mailroom.VerdictDeny, nil) // the stub has not resolved it
			next := h.reply("t", sent[0].Run)
			if !strings.Contains(next, "git merge "+theirs) {
				t.Errorf("the agent got %q, want a request to merge %s", next, theirs)
			}
		})
	}
}
