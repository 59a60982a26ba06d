package github_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/github"
)

// pullsAt returns the pull requests of a repository at the API with an address.
func pullsAt(t *testing.T, api, address string) *github.Repository {
	t.Helper()
	return github.NewPulls(github.PullOptions{Base: mustParse(t, api),
		Token: func() (string, error) { return boardtest.Token, nil }}).Of(address)
}

// TestTheTokenOfPullRequestsGoesOnlyToItsHost gives addresses of remotes, which an agent can change.
func TestTheTokenOfPullRequestsGoesOnlyToItsHost(t *testing.T) {
	const cloud, own = "https://api.github.com", "https://git.example.org/api/v3"
	for _, test := range []struct {
		api, address string
		want         bool
	}{
		{cloud, "https://github.com/ann/roof.git", true}, {cloud, "https://github.com/ann/roof", true},
		{cloud, "https://GitHub.com/ann/roof/", true}, {cloud, "https://ann@github.com/ann/roof", true},
		{cloud, "git@github.com:ann/roof.git", true}, {cloud, "github.com:ann/roof", true},
		{cloud, "ssh://git@github.com/ann/roof.git", true}, {cloud, "ssh://git@ssh.github.com:443/ann/roof.git", true},
		{own, "https://git.example.org/ann/roof.git", true}, {own, "ssh://git@git.example.org:2222/ann/roof", true},
		{"https://api.roof.ghe.com", "git@roof.ghe.com:ann/roof.git", true},
		{cloud, "https://git.example.org/ann/roof.git", false}, {own, "https://github.com/ann/roof.git", false},
		{cloud, "https://github.com.example.org/ann/roof", false}, {cloud, "https://github.com@example.org/ann/roof", false},
		{cloud, "git@example.org:github.com/roof", false}, {cloud, "https://gist.github.com/ann/roof", false},
		{cloud, "https://github.com/ann/roof/x", false}, {cloud, "https://github.com/ann", false},
		{cloud, "https://github.com/../user", false}, {cloud, "https://github.com/ann/roof%3Fx", false},
		{cloud, "file://github.com/ann/roof", false}, {cloud, "ext::sh -c x github.com:ann/roof", false},
		{cloud, "/srv/github.com/ann/roof.git", false}, {cloud, "", false},
	} {
		if got := pullsAt(t, test.api, test.address) != nil; got != test.want {
			t.Errorf("the API %s serves %q: %v, want %v", test.api, test.address, got, test.want)
		}
	}

	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host got %s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer stranger.Close()
	t.Setenv("GITHUB_API_URL", stranger.URL)
	f := boardtest.NewGitHub(t)
	f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	_, err := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git").Open(t.Context(), "b", "Fix it", "")
	if err == nil || !strings.Contains(err.Error(), "was renamed or moved") {
		t.Errorf("a redirect to another host: %v", err)
	}
}

func TestThePullRequestOfABranchIsFoundInAnyState(t *testing.T) {
	type pull struct{ owner, branch, state, in string }
	for name, test := range map[string]struct {
		pulls []pull
		all   bool // GitHub ignores the filter
		want  int  // of pulls; -1 is none
	}{
		"none":                  {nil, false, -1},
		"open":                  {[]pull{{"Ann", "b", "open", ""}}, false, 0},
		"closed or merged":      {[]pull{{"ann", "b", "closed", ""}}, false, 0},
		"newest":                {[]pull{{"ann", "b", "closed", ""}, {"ann", "b", "closed", ""}}, false, 1},
		"open before newest":    {[]pull{{"ann", "b", "open", ""}, {"ann", "b", "closed", ""}}, false, 0},
		"another branch":        {[]pull{{"ann", "bb", "open", ""}}, true, -1},
		"same branch of a fork": {[]pull{{"eve", "b", "open", ""}}, true, -1},
		"at the parent":         {[]pull{{"ann", "b", "closed", "up/roof"}}, false, 0},
		"others at the parent":  {[]pull{{"up", "b", "open", "up/roof"}}, true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := boardtest.NewGitHub(t)
			f.Parent = "up/roof"
			for _, p := range test.pulls {
				added := f.AddPull(p.owner, p.branch, "main", "", "")
				added.State, added.In = p.state, p.in
			}
			f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				ignored := test.all && strings.HasSuffix(r.URL.Path, "/pulls")
				if ignored {
					boardtest.Answer(w, f.Pulls)
				}
				return ignored
			}
			want := ""
			if test.want >= 0 {
				want = f.Pulls[test.want].URL
			}
			got, err := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git").Find(t.Context(), "b")
			if got != want || err != nil {
				t.Errorf("found %q, %v, want %q", got, err, want)
			}
		})
	}
	f := boardtest.NewGitHub(t)
	f.Parent = "up/private"
	f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		hidden := strings.HasPrefix(r.URL.Path, "/repos/up/")
		if hidden {
			f.Refuse(w, http.StatusNotFound, "Not Found")
		}
		return hidden
	}
	if got, err := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git").Find(t.Context(), "b"); got != "" || err != nil {
		t.Errorf("at a parent that the token cannot read: %q, %v", got, err)
	}
}

// TestTheStateOfAPullRequestIsReadOnceUntilItChanges also lets the repository be renamed, and the host lie.
func TestTheStateOfAPullRequestIsReadOnceUntilItChanges(t *testing.T) {
	f := boardtest.NewGitHub(t)
	added := f.AddPull("ann", "b", "main", "", "")
	address := added.URL
	at := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git")
	look := func(branch, address, tag string) (github.Pull, error) {
		return at.Look(t.Context(), branch, address, tag)
	}
	open, err := look("b", address, "")
	if err != nil || !open.Open || open.Merged || open.Tag == "" || open.Same {
		t.Errorf("an open one: %+v, %v", open, err)
	}
	if again, err := look("b", address, open.Tag); err != nil || !again.Same || f.Lists != 1 {
		t.Errorf("without a change: %+v, %v, %d whole answers", again, err, f.Lists)
	}
	f.Do(func() { added.Status = "unstable" })
	if p, err := look("b", address, open.Tag); err != nil || p.Status != "unstable" {
		t.Errorf("with checks that failed: %+v, %v", p, err)
	}
	f.Do(func() { added.State, added.Merged, added.Head.Commit = "closed", true, "c1" })
	for _, address := range []string{address, strings.Replace(address, "ann/roof", "ann/old-name", 1)} {
		if p, err := look("b", address, open.Tag); err != nil || !p.Merged || p.Open || p.Head != "c1" {
			t.Errorf("a merged one at %s: %+v, %v", address, p, err)
		}
	}
	for name, test := range map[string]struct {
		branch, address, want string
		fault                 func(w http.ResponseWriter, r *http.Request) bool
		again                 bool
	}{
		"another branch": {"c", address, "another pull request", nil, false},
		"no number":      {"b", "https://github.com/ann/roof/pulls", "has no number", nil, false},
		"another number": {"b", strings.TrimSuffix(address, "100") + "101", "does not exist", nil, false},
		"a path upwards": {"b", "https://github.com/../user/pull/x", "has no number", nil, false},
		"a lost right":   {"b", address, "the token may not", refusing(f, 403, ""), false},
		"a limit":        {"b", address, "429 rate limit", refusing(f, 429, "7"), true},
		"an outage":      {"b", address, "502", refusing(f, 502, ""), true},
		"no JSON":        {"b", address, "another pull request", saying("[]"), false},
		"a wrong number": {"b", address, "another pull request", saying(`{"number":7,"head":{"ref":"b"}}`), false},
	} {
		f.Do(func() { f.Fault = test.fault })
		_, err := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git").Look(t.Context(), test.branch, test.address, "")
		failure, again := errors.AsType[*mailroom.Failure](err)
		if err == nil || !strings.Contains(err.Error(), test.want) || again != test.again ||
			again && (failure.RetryAfter == 7*time.Second) != (name == "a limit") {
			t.Errorf("%s: %v, %+v, want %q", name, err, failure, test.want)
		}
		f.Do(func() { f.Fault = nil })
	}
}

func TestAPullRequestThatIsNotOpenedSaysWhy(t *testing.T) {
	for _, test := range []struct {
		status     int
		text, want string
		again      bool // a repeat may succeed
	}{
		{301, "Moved Permanently", "the repository ann/roof was renamed or moved; set the present address of the remote", false},
		{401, "Bad credentials " + boardtest.Token, "token of pull_token_file or pull_token_env is refused", false},
		{403, "Resource not accessible", "the token may not open its pull requests", false},
		{404, "Not Found", "the repository ann/roof does not exist", false},
		{422, "Validation Failed", "422 Validation Failed: No commits between main and b", false},
		{429, "Slow down", "429 rate limit: Slow down", true},
		{503, "Away", "503 Away", true},
		{0, "", "open the pull request", true},
	} {
		f := boardtest.NewGitHub(t)
		f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			if test.status == 0 {
				boardtest.Hang()
			}
			if test.status == 429 {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(test.status)
			boardtest.Answer(w, map[string]any{"message": test.text,
				"errors": []map[string]string{{"message": "No commits between main and b"}}})
			return true
		}
		_, err := pullsAt(t, f.URL, "git@127.0.0.1:ann/roof.git").Open(t.Context(), "b", "Fix it", "")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), boardtest.Token) {
			t.Errorf("status %d: %v, want %q", test.status, err, test.want)
		}
		failure, again := errors.AsType[*mailroom.Failure](err)
		if again != test.again || again && (failure.Class != mailroom.ClassUnavailable ||
			(failure.RetryAfter == 7*time.Second) != (test.status == 429)) {
			t.Errorf("status %d: a repeat after %+v, want one: %v", test.status, failure, test.again)
		}
	}
	missing := github.NewPulls(github.PullOptions{Base: mustParse(t, "http://127.0.0.1"),
		Token: func() (string, error) { return "", errors.New("missing token: the file x is empty") }})
	if _, err := missing.Of("git@127.0.0.1:ann/roof").Find(t.Context(), "b"); err == nil ||
		!strings.Contains(err.Error(), "missing token: the file x is empty") {
		t.Errorf("without a token: %v", err)
	}
}

// refusing refuses each request.
func refusing(f *boardtest.GitHub, status int, pause string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", pause)
		f.Refuse(w, status, "Away")
		return true
	}
}

// saying answers each request with a text.
func saying(text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte(text))
		return true
	}
}
