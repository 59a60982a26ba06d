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
