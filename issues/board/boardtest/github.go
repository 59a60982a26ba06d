package boardtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom/issues/board"
	"mailroom/issues/board/github"
)

// Token is the token that the fakes accept.
const Token = "pat_secret"

// GitHubAccount is the account of the token.
const GitHubAccount = "mailroom-bot"

// GitHub is a repository of GitHub, as its REST API shows it. Times have seconds, lists are in pages with a Link,
// and an answer 304 has no body.
type GitHub struct {
	*httptest.Server

	// Owned by mu, which [GitHub.Do] holds.
	mu       sync.Mutex
	Issues   map[int]*GitHubIssue
	Comments []GitHubComment
	Pulls    []*GitHubPull
	Parent   string // full name of the repository that it is a fork of, or ""
	PageSize int
	Requests []string // method and path of each request
	Lists    int      // lists that were sent whole
	// Fault answers a request instead of the repository and reports that; After is called when the repository has
	// carried out a request, and may keep its answer. Both may be nil.
	Fault func(w http.ResponseWriter, r *http.Request) bool
	After func(r *http.Request) (lost bool)
	// Reorder changes the order of a list; nil keeps it.
	Reorder func(all []GitHubIssue)
}

// GitHubIssue is an issue or a pull request.
type GitHubIssue struct {
	Number       int               `json:"number"`
	ID           int               `json:"id"`
	Title        string            `json:"title"`
	Body         string            `json:"body"`
	State        string            `json:"state"`
	Labels       []Label           `json:"labels"`
	Assignees    []Login           `json:"assignees"`
	PullRequest  map[string]string `json:"pull_request,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	Dependencies map[string]int    `json:"issue_dependencies_summary"`
	URL          string            `json:"html_url"`
	User         Login             `json:"user"`
	Type         *Label            `json:"type"`
	ClosedAt     *time.Time        `json:"closed_at"`
	StateReason  string            `json:"state_reason,omitempty"`
	CommentCount int               `json:"comments"`
	ParentURL    string            `json:"parent_issue_url,omitempty"`
	BlockedBy    []int             `json:"-"`
	Removed      int               `json:"-"` // status of a deleted or moved issue
}

// Label is a label of an issue.
type Label struct {
	Name string `json:"name"`
}

// Login is an account.
type Login struct {
	Login string `json:"login"`
}

// GitHubComment is a comment of an issue.
type GitHubComment struct {
	Issue     int       `json:"-"`
	ID        int       `json:"id"`
	Body      string    `json:"body"`
	User      Login     `json:"user"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// NewGitHub returns a repository without issues, which is named ann/roof.
func NewGitHub(t *testing.T) *GitHub {
	t.Helper()
	f := &GitHub{Issues: map[int]*GitHubIssue{}, PageSize: 100}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

// Now returns the time as GitHub shows it, in seconds.
func Now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// Add opens issues with the label of the feed, numbered from first.
func (f *GitHub) Add(first, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.Issues[first+i] = &GitHubIssue{Number: first + i, ID: 9000 + first + i, Title: fmt.Sprint("Do ", first+i),
			Body: "It is broken.", State: "open", Labels: []Label{{"agent"}}, CreatedAt: Now(), UpdatedAt: Now(),
			User: Login{"ann"}}
	}
}

// Edit changes an issue like a person.
func (f *GitHub) Edit(number int, change func(it *GitHubIssue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(number, change)
}

func (f *GitHub) change(number int, change func(it *GitHubIssue)) {
	it := f.Issues[number]
	change(it)
	it.UpdatedAt = Now()
}

// State returns "closed", or the mark of an issue, or "open".
func (f *GitHub) State(number int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.Issues[number]
	for _, l := range it.Labels {
		if mark, ok := strings.CutPrefix(l.Name, "mailroom-"); ok && it.State == "open" {
			return mark
		}
	}
	return it.State
}

// Texts returns the comments of an issue without their hidden keys.
func (f *GitHub) Texts(number int) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.Comments {
		if c.Issue == number {
			text, _, _ := strings.Cut(c.Body, "\n\n<!-- mailroom:")
			all = append(all, text)
		}
	}
	return all
}

// AddLabel adds a label.
func (it *GitHubIssue) AddLabel(name string) { it.Labels = append(it.Labels, Label{name}) }

// Assign replaces the assignees.
func (it *GitHubIssue) Assign(names ...string) {
	it.Assignees = nil
	for _, name := range names {
		it.Assignees = append(it.Assignees, Login{name})
	}
}

// Comment adds a comment of an account.
func (f *GitHub) Comment(issue int, account, body string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.comment(issue, account, body, at)
}

func (f *GitHub) comment(issue int, account, body string, at time.Time) {
	f.Comments = append(f.Comments, GitHubComment{issue, len(f.Comments) + 1, body, Login{account}, at, at})
}

// Do calls do while the repository answers no request.
func (f *GitHub) Do(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Open returns a board of the repository.
func (f *GitHub) Open() (board.Board, error) {
	base, err := url.Parse(f.URL)
	if err != nil {
		return nil, err
	}
	return github.New(github.Options{Base: base, Repo: "ann/roof", Token: Token, Labels: []string{"agent"},
		Marks: "mailroom-"})
}

// ServeHTTP implements [http.Handler].
func (f *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Requests = append(f.Requests, r.Method+" "+r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-RateLimit-Remaining", "4981")
	if r.Header.Get("Authorization") != "Bearer "+Token {
		f.Refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	if f.Fault != nil && f.Fault(w, r) {
		return
	}
	record := httptest.NewRecorder()
	f.serve(record, r)
	if f.After != nil && f.After(r) {
		Hang()
		return
	}
	for name, values := range record.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(record.Code)
	if _, err := w.Write(record.Body.Bytes()); err != nil && record.Code != http.StatusNotModified {
		return // the client has gone
	}
}

// Hang cuts the connection before the answer.
func Hang() {
	panic(http.ErrAbortHandler)
}

// Refuse answers with an error.
func (*GitHub) Refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	Answer(w, map[string]string{"message": message})
}

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func (f *GitHub) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/user":
		Answer(w, Login{GitHubAccount})
		return
	case r.URL.Path == "/repos/ann/roof":
		about := map[string]any{"has_issues": true, "default_branch": "main"}
		if f.Parent != "" {
			about["parent"] = map[string]string{"full_name": f.Parent}
		}
		Answer(w, about)
		return
	case r.URL.Path == "/repos/ann/roof/pulls":
		f.servePulls(w, r, "")
		return
	case strings.HasPrefix(r.URL.Path, "/repos/ann/roof/pulls/"):
		f.servePull(w, r)
		return
	case f.Parent != "" && r.URL.Path == "/repos/"+f.Parent+"/pulls":
		f.servePulls(w, r, f.Parent)
		return
	case len(path) < 4 || path[2] != "roof" || path[3] != "issues":
		f.Refuse(w, http.StatusNotFound, "Not Found")
		return
	case len(path) == 4:
		f.list(w, r)
		return
	case path[4] == "comments":
		f.listComments(w, r)
		return
	}
	number, _ := strconv.Atoi(path[4])
	it := f.Issues[number]
	switch {
	case it == nil || it.Removed == http.StatusNotFound:
		f.Refuse(w, http.StatusNotFound, "Not Found")
		return
	case it.Removed != 0:
		w.Header().Set("Location", "https://elsewhere.example/repositories/2/issues/1")
		f.Refuse(w, it.Removed, "Moved Permanently")
		return
	}
	f.serveIssue(w, r, it, path[5:])
}

func (f *GitHub) serveIssue(w http.ResponseWriter, r *http.Request, it *GitHubIssue, path []string) {
	var body struct {
		State, Body string
		Labels      []string
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			f.Refuse(w, http.StatusBadRequest, "Problems parsing JSON")
			return
		}
	}
	switch call := r.Method + " " + strings.Join(path, "/"); {
	case call == "GET ":
		Answer(w, f.shown(it))
	case call == "PATCH ":
		f.change(it.Number, func(it *GitHubIssue) { it.State = body.State })
		Answer(w, f.shown(it))
	case call == "GET dependencies/blocked_by":
		all := []GitHubIssue{}
		for _, n := range it.BlockedBy {
			all = append(all, f.shown(f.Issues[n]))
		}
		Answer(w, all)
	case call == "POST comments" && utf8.RuneCountInString(body.Body) > 65_536:
		f.Refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
	case call == "POST comments":
		f.comment(it.Number, GitHubAccount, body.Body, Now())
		f.change(it.Number, func(*GitHubIssue) {})
		w.WriteHeader(http.StatusCreated)
		Answer(w, map[string]int{"id": len(f.Comments)})
	case call == "GET comments":
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
		var all []GitHubComment
		for _, c := range f.Comments {
			if c.Issue == it.Number && !c.UpdatedAt.Before(since) {
				all = append(all, c)
			}
		}
		writePage(w, r, f.PageSize, all)
	case call == "POST labels":
		for _, l := range body.Labels {
			if !slices.Contains(it.Labels, Label{l}) {
				f.change(it.Number, func(it *GitHubIssue) { it.Labels = append(it.Labels, Label{l}) })
			}
		}
		Answer(w, it.Labels)
	case r.Method == http.MethodDelete && len(path) == 2 && path[0] == "labels":
		if !slices.Contains(it.Labels, Label{path[1]}) {
			f.Refuse(w, http.StatusNotFound, "Label does not exist")
			return
		}
		f.change(it.Number, func(it *GitHubIssue) {
			it.Labels = slices.DeleteFunc(slices.Clone(it.Labels), func(l Label) bool { return l.Name == path[1] })
		})
		Answer(w, it.Labels)
	default:
		f.Refuse(w, http.StatusNotFound, "Not Found")
	}
}

// shown returns an issue as the API shows it.
func (f *GitHub) shown(it *GitHubIssue) GitHubIssue {
	shown := *it
	open := 0
	for _, n := range it.BlockedBy {
		if f.Issues[n].State == "open" {
			open++
		}
	}
	shown.Dependencies = map[string]int{"blocked_by": open, "total_blocked_by": len(it.BlockedBy)}
	for _, c := range f.Comments {
		if c.Issue == it.Number {
			shown.CommentCount++
		}
	}
	return shown
}

// list lists the issues, the oldest change first. The caller's ETag is that of the whole list.
func (f *GitHub) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := time.Parse(time.RFC3339, q.Get("since"))
	var all []GitHubIssue
	for _, it := range f.Issues {
		wanted := it.Removed == 0 && !it.UpdatedAt.Before(since) && (q.Get("state") == "all" || it.State == q.Get("state"))
		for l := range strings.SplitSeq(q.Get("labels"), ",") {
			wanted = wanted && (l == "" || slices.Contains(it.Labels, Label{l}))
		}
		if wanted {
			all = append(all, f.shown(it))
		}
	}
	slices.SortFunc(all, func(a, b GitHubIssue) int {
		if c := a.UpdatedAt.Compare(b.UpdatedAt); c != 0 {
			return c
		}
		return a.Number - b.Number
	})
	if f.Reorder != nil {
		f.Reorder(all)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	etag := fmt.Sprintf(`W/"%d-%x"`, len(raw), len(r.URL.RawQuery))
	for _, it := range all { // another one after each change
		etag = fmt.Sprintf(`W/"%x%s`, it.UpdatedAt.Unix()+int64(len(it.Labels)), etag[3:])
	}
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("ETag", etag)
	f.Lists++
	writePage(w, r, f.PageSize, all)
}

// listComments lists the comments of all issues, the oldest first.
func (f *GitHub) listComments(w http.ResponseWriter, r *http.Request) {
	type row struct {
		GitHubComment
		IssueURL string `json:"issue_url"`
	}
	all := []row{}
	for _, c := range f.Comments {
		all = append(all, row{c, fmt.Sprintf("%s/repos/ann/roof/issues/%d", f.URL, c.Issue)})
	}
	writePage(w, r, f.PageSize, all)
}

// writePage answers one page of a list.
func writePage[T any](w http.ResponseWriter, r *http.Request, size int, all []T) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	n = max(n, 1)
	from := min((n-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<https://elsewhere.example/?page=%d>; rel="next", `+
			`<https://elsewhere.example/?page=%d>; rel="last"`, n+1, (len(all)+size-1)/size))
	}
	Answer(w, append([]T{}, all[from:to]...))
}
