package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/agent/exec/worktree"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/github"
)

const (
	// envPulls is the variable of the process of serve with the address of the API of a fake GitHub.
	envPulls = "WORKTREE_TEST_PULLS"
	// pullRemote is the address that the remote of a repository seems to have, at the host of the fake GitHub.
	pullRemote = "http://127.0.0.1/ann/roof.git"
)

// platform is a fake GitHub with the pull requests of ann/roof.
type platform struct {
	*boardtest.GitHub
	t *testing.T
}

// newPlatform returns a platform that processes of serve use.
func newPlatform(t *testing.T) *platform {
	t.Helper()
	p := &platform{boardtest.NewGitHub(t), t}
	t.Setenv(envPulls, p.URL)
	return p
}

// pullsAt returns the pull requests of an API, or nil for "".
func pullsAt(api string) func(string) worktree.Pulls {
	base, err := url.Parse(api)
	if api == "" || err != nil {
		return nil
	}
	pulls := github.NewPulls(github.PullOptions{Base: base,
		Token: func() (string, error) { return boardtest.Token, nil }})
	return func(address string) worktree.Pulls {
		if of := pulls.Of(address); of != nil {
			return gitHubPulls{of}
		}
		return nil
	}
}

// gitHubPulls opens pull requests only.
type gitHubPulls struct{ *github.Repository }

func (gitHubPulls) Look(context.Context, string, string, string) (worktree.PullAnswer, error) {
	return worktree.PullAnswer{}, errors.New("no look")
}

// pullsOfEach returns the pull requests of an API for each remote, as if its address were pullRemote, or nil for "".
func pullsOfEach(api string) func(string) worktree.Pulls {
	pulls := pullsAt(api)
	if pulls == nil {
		return nil
	}
	return func(string) worktree.Pulls { return pulls(pullRemote) }
}

// count returns the number of all pull requests.
func (p *platform) count() (n int) {
	p.Do(func() { n = len(p.Pulls) })
	return n
}

// wantOne checks that the branch of a task has one pull request.
func (p *platform) wantOne(task, when string) {
	p.t.Helper()
	if all := p.PullsOf("mailroom/" + task + "-1"); len(all) != 1 || all[0].Base != "main" {
		p.t.Errorf("%s the task %s has the pull requests %+v, want one for main", when, task, all)
	}
}

// TestAPullRequestOverTheAPIIsOpenedOnce loses answers of the platform and lets others open and close pull requests.
func TestAPullRequestOverTheAPIIsOpenedOnce(t *testing.T) {
	h := newFixture(t)
	h.remote()
	p := newPlatform(t)
	git := h.script(`case "$*" in *"remote get-url"*) echo ` + pullRemote + `; exit ;; esac`)
	r := h.open(func(o *worktree.Options) { o.Git, o.Pulls = git, pullsAt(p.URL) })
	posts := func(r *http.Request) bool { return r.Method == http.MethodPost }
	refuse := func(only bool, status int, text, pause string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if only && !posts(r) {
				return false
			}
			w.Header().Set("Retry-After", pause)
			p.Refuse(w, status, text)
			return true
		}
	}
	add := func(branch, state string) func(http.ResponseWriter, *http.Request) bool {
		return func(http.ResponseWriter, *http.Request) bool {
			p.AddPull("ann", branch, "main", "", "").State = state
			p.Fault = nil
			return false
		}
	}
	for _, test := range []struct {
		task, problem string
		fault         func(http.ResponseWriter, *http.Request) bool
		after         func(*http.Request) bool
		posts         int
	}{
		{task: "plain", posts: 1},
		{task: "lost", after: posts, posts: 1},
		{task: "limited", fault: refuse(true, 403, "You have exceeded a secondary rate limit", "0.01"), posts: 2,
			problem: "403 rate limit: You have exceeded a secondary rate limit"},
		{task: "busy", fault: refuse(false, 429, "Too many requests", "0.01"), posts: 1, problem: "429 rate limit"},
		{task: "forbidden", fault: refuse(true, 403, "Resource not accessible", ""), posts: 2,
			problem: "the token may not open its pull requests"},
		{task: "away", fault: refuse(false, 502, "Bad gateway", ""), posts: 1, problem: "502 Bad gateway"},
		{task: "broken", fault: refuse(true, 500, "Server error", ""), posts: 2, problem: "500 Server error"},
		{task: "agent", fault: add("mailroom/agent-1", "open")},     // which has opened it
		{task: "person", fault: add("mailroom/person-1", "closed")}, // who has closed or merged it
		{task: "raced", posts: 1, fault: func(_ http.ResponseWriter, r *http.Request) bool {
			if posts(r) { // the agent opens it after the look
				p.AddPull("ann", "mailroom/raced-1", "main", "", "")
			}
			return false
		}},
	} {
		tree := h.acquire(r, test.task)
		writeFile(t, filepath.Join(tree.Path(), "new"), "new\n")
		h.commit(tree)
		if err := tree.Push(t.Context(), "origin"); err != nil {
			t.Fatal(err)
		}
		p.Do(func() { p.Fault, p.After, p.Requests = test.fault, test.after, nil })
		open := func() (string, error) { return tree.PullRequest(t.Context(), "origin", "Fix it", "Because") }
		address, err := open()
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), "\n") ||
				strings.Contains(err.Error(), boardtest.Token) {
				t.Errorf("%s: %q, %v, want %q", test.task, address, err, test.problem)
			}
			p.Do(func() { p.Fault = nil })
			for n := 0; n < 1000 && (n == 0 || err != nil); n++ { // until the limit ends
				address, err = open()
			}
		}
		all := p.PullsOf("mailroom/" + test.task + "-1")
		if err != nil || len(all) != 1 || address != all[0].URL {
			t.Fatalf("%s: the pull request is %q, %v, of %+v", test.task, address, err, all)
		}
		p.Do(func() { p.Fault, p.After = nil, nil })
		if again, err := open(); again != address || err != nil {
			t.Errorf("%s: a repeat has %q, %v", test.task, again, err)
		}
		p.wantLooks(test.task, test.posts)
		h.release(tree)
	}
}

// wantLooks checks how often a pull request was opened, and that the platform was asked for it before each time.
func (p *platform) wantLooks(task string, want int) {
	p.t.Helper()
	p.Do(func() {
		looked, n := false, 0
		for _, r := range p.Requests {
			switch {
			case strings.HasPrefix(r, "GET /repos/ann/roof/pulls?"):
				looked = true
			case r == "POST /repos/ann/roof/pulls" && !looked:
				p.t.Errorf("%s: a pull request is opened without a look: %q", task, p.Requests)
			case r == "POST /repos/ann/roof/pulls":
				looked = false
				n++
			}
		}
		if n != want {
			p.t.Errorf("%s: %d requests to open one, want %d: %q", task, n, want, p.Requests)
		}
	})
}

// TestTheServerCanBeKilledAtEachRequestOfAPullRequest kills the server before the platform carries out a request, or
// when it has done so and the answer is lost, and repeats the task.
func TestTheServerCanBeKilledAtEachRequestOfAPullRequest(t *testing.T) {
	h := newFixture(t)
	h.remote()
	t.Setenv("WORKTREE_TEST_PUSH", "origin")
	p := newPlatform(t)
	kills := 0
	for _, how := range []string{"before", "after"} {
		for n := 1; ; n++ {
			task := fmt.Sprintf("%s-%d", how, n)
			cmd := h.server("", task)
			started, requests := make(chan struct{}), 0
			kill := func() bool {
				if requests != n {
					return false
				}
				<-started
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				return true
			}
			p.Do(func() {
				p.Fault = func(http.ResponseWriter, *http.Request) bool {
					if requests++; how == "before" && kill() {
						boardtest.Hang()
					}
					return false
				}
				p.After = func(*http.Request) bool { return how == "after" && kill() }
			})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			close(started)
			ended := cmd.Wait() == nil
			p.Do(func() { p.Fault, p.After = nil, nil })
			if !ended {
				kills++
				if again, _ := h.serve("", 0, "before", false, task); !again {
					t.Fatalf("after a kill %s request %d the repeat failed", how, n)
				}
			}
			p.wantOne(task, fmt.Sprintf("after a kill %s request %d", how, n))
			if ended {
				break // the task has fewer requests
			}
		}
	}
	t.Logf("%d kills, %d pull requests", kills, p.count())
	if kills != 6 {
		t.Errorf("%d kills, want one before and one after each of the three requests", kills)
	}
}
