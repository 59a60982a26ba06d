package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/client"
	"mailroom/internal/reserved"
	"mailroom/issues/board/boardtest"
)

// pullFixture is a server in its own process whose agent works in worktrees, pushes to a bare repository, and opens
// pull requests at a fake GitHub.
type pullFixture struct {
	*fixture
	repo *boardtest.GitHub
}

func newPullFixture(t *testing.T) *pullFixture {
	t.Helper()
	f := &pullFixture{fixture: newFixture(t, ""), repo: boardtest.NewGitHub(t)}
	base := t.TempDir()
	roof, bare, programs := filepath.Join(base, "roof"), filepath.Join(base, "origin.git"), filepath.Join(base, "bin")
	git, err := exec.LookPath("git")
	f.must(err)
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main", roof},
		{"-C", roof, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "--allow-empty",
			"--message", "begin"},
		{"clone", "--quiet", "--bare", roof, bare}, {"-C", roof, "remote", "add", "origin", bare},
	} {
		if out, err := exec.Command(git, args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	// The address of the remote seems to be at the host of the fake GitHub.
	f.must(os.Mkdir(programs, 0o700))
	f.must(os.WriteFile(filepath.Join(programs, "git"), []byte("#!/bin/sh\ncase \"$*\" in *\"remote get-url\"*) "+
		"echo http://127.0.0.1/ann/roof.git; exit ;; esac\nexec "+git+" \"$@\"\n"), 0o700))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	token := filepath.Join(base, "pulls.token")
	f.must(os.WriteFile(token, []byte(boardtest.Token+"\n"), 0o600))
	f.configure(fmt.Sprintf(`isolation = "none"
default_agent = "fix"
[agents.fix]
kind = "exec"
command = ["sh", "-c", "cat >>work; cat work"]
dir = %q
workspace = "worktree"
push = "origin"
pull_request = true
pull_token_file = %q
pull_url = %q
`, roof, token, f.repo.URL))
	return f
}

// send sends a message to a thread, waits for its run, and returns it.
func (f *pullFixture) send(thread string) api.Run {
	f.t.Helper()
	done, err := f.client().Submit(f.t.Context(), api.Submit{Thread: thread, Text: "tiles"})
	f.must(err)
	return f.waitRun(done.Run)
}

// settled reports whether all runs of the keeper for a thread have ended, but for its next look.
func (f *pullFixture) settled(thread string) bool {
	f.t.Helper()
	q := "thread:" + client.Quote(reserved.PullsID("admin", thread))
	page, err := f.client().Runs(f.t.Context(), client.ListQuery{Q: q})
	f.must(err)
	for _, run := range page.Items {
		if !run.Status.Finished() && run.NotBefore == nil {
			return false
		}
	}
	return len(page.Items) > 0
}

// branch returns what the report says of the branch of a thread.
func (f *pullFixture) branch(thread string) api.ReportBranch {
	f.t.Helper()
	r, err := f.client().Sums().Report(f.t.Context(), client.ReportQuery{})
	f.must(err)
	for _, b := range r.Branches {
		if b.Thread == thread {
			return b
		}
	}
	f.t.Fatalf("the report has no branch of %s: %+v", thread, r.Branches)
	return api.ReportBranch{}
}

// say runs a command that succeeds, and returns what it prints.
func (f *pullFixture) say(args ...string) string {
	f.t.Helper()
	var out strings.Builder
	if code, stderr := f.run(f.t.Context(), &out, args...); code != 0 {
		f.t.Fatalf("mailroom %s: exit code %d, %s", strings.Join(args, " "), code, stderr)
	}
	return out.String()
}

func (f *pullFixture) refuse(status int, message string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		f.repo.Refuse(w, status, message)
		return true
	}
}

// TestAServerThatIsKilledOpensARefusedPullRequestOnce has GitHub refuse the pull request of a run, and kills the server
// before and after each request of the repeat.
func TestAServerThatIsKilledOpensARefusedPullRequestOnce(t *testing.T) {
	f := newPullFixture(t)
	f.serve()
	kills := 0
	for _, when := range []string{"before", "after"} {
		for n := 1; n <= 3; n++ {
			thread := fmt.Sprintf("%s-%d", when, n)
			reached, gone, requests := make(chan struct{}), make(chan struct{}), -1
			stop := func(now string) bool {
				if now != when || requests != n {
					return false
				}
				requests++ // once
				close(reached)
				<-gone
				return true
			}
			f.repo.Do(func() {
				f.repo.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
					if requests++; requests == 0 { // of the run
						f.repo.Refuse(w, http.StatusServiceUnavailable, "Away")
						return true
					}
					if stop("before") {
						boardtest.Hang()
					}
					return false
				}
				f.repo.After = func(*http.Request) bool { return stop("after") }
			})
			if run := f.send(thread); run.Status != mailroom.StatusCompleted {
				t.Errorf("%s: the run is %s", thread, run.Status)
			}
			<-reached
			f.server.kill()
			close(gone)
			kills++
			f.serve()
			platformtest.WaitFor(t, "the pull request of "+thread, func() bool { return f.settled(thread) })
			all := f.repo.PullsOf("mailroom/" + thread + "-1")
			if b := f.branch(thread); len(all) != 1 || b.PullRequest != all[0].URL || b.Unopened != "" || b.Again {
				t.Errorf("%s: the pull requests %+v, and the report says %+v", thread, all, b)
			}
		}
	}
	t.Logf("%d kills, %d pull requests", kills, len(f.repo.Pulls))
}

// TestAPersonLearnsWhyAPullRequestWasRefusedAndRepeatsIt refuses pull requests for a while, and for good.
func TestAPersonLearnsWhyAPullRequestWasRefusedAndRepeatsIt(t *testing.T) {
	f := newPullFixture(t)
	f.serve()
	f.repo.Do(func() {
		f.repo.Fault = f.refuse(http.StatusForbidden, "Resource not accessible by personal access token")
	})
	f.send("lost")
	platformtest.WaitFor(t, "the answer of the server's run", func() bool { return f.settled("lost") })
	const why = "the token may not open its pull requests"
	if b := f.branch("lost"); !strings.Contains(b.Unopened, why) || b.Again {
		t.Errorf("the report says %+v, want %q", b, why)
	}
	f.repo.Do(func() { f.repo.Fault = f.refuse(http.StatusBadGateway, "Away") })
	f.send("busy")
	platformtest.WaitFor(t, "the first attempt of the server's run", func() bool { return f.branch("busy").Again })
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"report"}, []string{why, "try now: mailroom publish lost", "the server tries again: ", "502 Away"}},
		{[]string{"worktrees"}, []string{"no pull request: ", why, "the server tries again: "}},
	} {
		if out := f.say(test.args...); !contains(out, test.want...) {
			t.Errorf("mailroom %s says %s, want %q", strings.Join(test.args, " "), out, test.want)
		}
	}
	f.repo.Do(func() { f.repo.Fault = nil })
	for _, thread := range []string{"lost", "busy"} {
		out := f.say("publish", thread)
		all := f.repo.PullsOf("mailroom/" + thread + "-1")
		if len(all) != 1 || !strings.Contains(out, all[0].URL) || f.branch(thread).PullRequest != all[0].URL {
			t.Errorf("publish %s says %q, and the pull requests are %+v", thread, out, all)
		}
	}
	if out := f.say("worktrees"); strings.Contains(out, "no pull request") {
		t.Errorf("mailroom worktrees says %s", out)
	}
	var out strings.Builder
	if code, stderr := f.run(t.Context(), &out, "publish", "none"); code == 0 {
		t.Errorf("publish of no thread: %d, %s", code, stderr)
	}
}

// TestTheStateOfAPullRequestIsInTheReport merges one, closes another one, and takes the host away.
func TestTheStateOfAPullRequestIsInTheReport(t *testing.T) {
	f := newPullFixture(t)
	f.serve()
	for _, thread := range []string{"merged", "closed", "open", "deleted"} {
		f.send(thread)
		platformtest.WaitFor(t, "the first look", func() bool { return f.branch(thread).State == "open" })
	}
	for thread, change := range map[string]func(p *boardtest.GitHubPull){
		"merged":  func(p *boardtest.GitHubPull) { p.State, p.Merged = "closed", true },
		"closed":  func(p *boardtest.GitHubPull) { p.State = "closed" },
		"open":    func(p *boardtest.GitHubPull) { p.Status = "dirty" },
		"deleted": func(p *boardtest.GitHubPull) { p.State = "closed" },
	} {
		f.repo.Do(func() {
			for _, p := range f.repo.Pulls {
				if p.Head.Branch == "mailroom/"+thread+"-1" {
					change(p)
				}
			}
		})
	}
	f.must(f.client().DeleteThread(t.Context(), "deleted"))
	var out strings.Builder
	if code, stderr := f.run(t.Context(), &out, "publish", "deleted"); code == 0 {
		t.Errorf("publish of a deleted thread: %s, %s", stderr, out.String())
	}
	for _, thread := range []string{"merged", "closed", "open"} {
		f.say("publish", thread)
	}
	f.repo.Do(func() { f.repo.Fault = f.refuse(http.StatusBadGateway, "Away") })
	f.say("publish", "merged")
	for thread, want := range map[string]string{"merged": "merged", "closed": "closed", "open": "open"} {
		b := f.branch(thread)
		if b.State != want || b.StateAt == nil || b.Number == 0 || (b.Unread != "") != (thread == "merged") ||
			(b.Trouble == "it conflicts with its base") != (thread == "open") {
			t.Errorf("the report says of %s: %+v", thread, b)
		}
	}
	report, worktrees := f.say("report"), f.say("worktrees")
	for _, want := range []string{"merged pull request #100 https://", "closed pull request #101 https://",
		"open pull request #102 https://", "; it conflicts with its base", "merged as of ", "a later look failed: "} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q: %s", want, report)
		}
	}
	if !contains(worktrees, "merged pull request https://", "closed pull request https://", "a later look failed: ") {
		t.Errorf("the worktrees are %s", worktrees)
	}
	if !strings.Contains(f.say("report", "--markdown"), "merged, 1 commit") {
		t.Error("Markdown has no state")
	}
	f.say("worktrees", "remove", "--merged")
	if left := f.say("worktrees"); strings.Contains(left, "/merged ") || !contains(left, "/closed ", "/open ") {
		t.Errorf("after the removal of merged ones the worktrees are %s", left)
	}
}

func contains(text string, all ...string) bool {
	for _, part := range all {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
