package github_test

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

const token = "github_pat_secret"

// fakeGitHub is a repository of GitHub, as its REST API shows it. Times have seconds, lists are in pages with a Link,
// and an answer 304 has no body.
type fakeGitHub struct {
	*httptest.Server

	// Owned by mu.
	mu       sync.Mutex
	issues   map[int]*issue
	comments []comment
	pageSize int
	requests []string // method and path of each request
	lists    int      // lists that were sent whole
	// fault answers a request instead of the repository and reports that; after is called when the repository has
	// carried out a request, and may keep its answer. Both may be nil.
	fault func(w http.ResponseWriter, r *http.Request) bool
	after func(r *http.Request) (lost bool)
	// Times of the writes.
	writes []time.Time
}

type issue struct {
	Number       int               `json:"number"`
	ID           int               `json:"id"`
	Title        string            `json:"title"`
	Body         string            `json:"body"`
	State        string            `json:"state"`
	Labels       []named           `json:"labels"`
	Assignees    []user            `json:"assignees"`
	PullRequest  map[string]string `json:"pull_request,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	Dependencies map[string]int    `json:"issue_dependencies_summary"`
	blockedBy    []int
	removed      int // status of a deleted or moved issue
}

type named struct {
	Name string `json:"name"`
}

type user struct {
	Login string `json:"login"`
}

type comment struct {
	Issue     int       `json:"-"`
	Body      string    `json:"body"`
	User      user      `json:"user"`
	UpdatedAt time.Time `json:"updated_at"`
}

func newFakeGitHub(t *testing.T) *fakeGitHub {
	t.Helper()
	f := &fakeGitHub{issues: map[int]*issue{}, pageSize: 100}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// add opens issues with the label of the feed, numbered from first.
func (f *fakeGitHub) add(first, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.issues[first+i] = &issue{Number: first + i, ID: 9000 + first + i, Title: fmt.Sprint("Do ", first+i),
			Body: "It is broken.", State: "open", Labels: []named{{"agent"}}, CreatedAt: now(), UpdatedAt: now()}
	}
}

// edit changes an issue like a person.
func (f *fakeGitHub) edit(number int, change func(it *issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(number, change)
}

func (f *fakeGitHub) change(number int, change func(it *issue)) {
	it := f.issues[number]
	change(it)
	it.UpdatedAt = now()
}

// state returns "closed", or the mark of an issue, or "open".
func (f *fakeGitHub) state(number int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.issues[number]
	for _, l := range it.Labels {
		if mark, ok := strings.CutPrefix(l.Name, "mailroom-"); ok && it.State == "open" {
			return mark
		}
	}
	return it.State
}

// texts returns the comments of an issue without their hidden keys.
func (f *fakeGitHub) texts(number int) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.comments {
		if c.Issue == number {
			text, _, _ := strings.Cut(c.Body, "\n\n<!-- mailroom:")
			all = append(all, text)
		}
	}
	return all
}

// open returns a board of the repository.
func (f *fakeGitHub) open() (board.Board, error) {
	base, err := url.Parse(f.URL)
	if err != nil {
		return nil, err
	}
	return github.New(github.Options{Base: base, Repo: "ann/roof", Token: token, Labels: []string{"agent"},
		Marks: "mailroom-"})
}

func (f *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	if r.Method != http.MethodGet {
		f.writes = append(f.writes, time.Now())
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-RateLimit-Remaining", "4981")
	if r.Header.Get("Authorization") != "Bearer "+token {
		f.refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	if f.fault != nil && f.fault(w, r) {
		return
	}
	record := httptest.NewRecorder()
	f.serve(record, r)
	if f.after != nil && f.after(r) {
		hang(w)
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

// hang cuts the connection before the answer.
func hang(w http.ResponseWriter) {
	panic(http.ErrAbortHandler)
}

func (f *fakeGitHub) refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	answer(w, map[string]string{"message": message})
}

func answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func (f *fakeGitHub) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/user":
		answer(w, user{"mailroom-bot"})
		return
	case r.URL.Path == "/repos/ann/roof":
		answer(w, map[string]bool{"has_issues": true})
		return
	case len(path) < 4 || path[2] != "roof" || path[3] != "issues":
		f.refuse(w, http.StatusNotFound, "Not Found")
		return
	case len(path) == 4:
		f.list(w, r)
		return
	}
	number, _ := strconv.Atoi(path[4])
	it := f.issues[number]
	switch {
	case it == nil || it.removed == http.StatusNotFound:
		f.refuse(w, http.StatusNotFound, "Not Found")
		return
	case it.removed != 0:
		w.Header().Set("Location", "https://elsewhere.example/repositories/2/issues/1")
		f.refuse(w, it.removed, "Moved Permanently")
		return
	}
	f.serveIssue(w, r, it, path[5:])
}

func (f *fakeGitHub) serveIssue(w http.ResponseWriter, r *http.Request, it *issue, path []string) {
	var body struct {
		State, Body string
		Labels      []string
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			f.refuse(w, http.StatusBadRequest, "Problems parsing JSON")
			return
		}
	}
	switch call := r.Method + " " + strings.Join(path, "/"); {
	case call == "GET ":
		answer(w, f.shown(it))
	case call == "PATCH ":
		f.change(it.Number, func(it *issue) { it.State = body.State })
		answer(w, f.shown(it))
	case call == "GET dependencies/blocked_by":
		all := []issue{}
		for _, n := range it.blockedBy {
			all = append(all, f.shown(f.issues[n]))
		}
		answer(w, all)
	case call == "POST comments" && utf8.RuneCountInString(body.Body) > 65_536:
		f.refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
	case call == "POST comments":
		f.comments = append(f.comments, comment{it.Number, body.Body, user{"mailroom-bot"}, now()})
		f.change(it.Number, func(*issue) {})
		w.WriteHeader(http.StatusCreated)
		answer(w, map[string]int{"id": len(f.comments)})
	case call == "GET comments":
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
		var all []comment
		for _, c := range f.comments {
			if c.Issue == it.Number && !c.UpdatedAt.Before(since) {
				all = append(all, c)
			}
		}
		page(f, w, r, all)
	case call == "POST labels":
		for _, l := range body.Labels {
			if !slices.Contains(it.Labels, named{l}) {
				f.change(it.Number, func(it *issue) { it.Labels = append(it.Labels, named{l}) })
			}
		}
		answer(w, it.Labels)
	case r.Method == http.MethodDelete && len(path) == 2 && path[0] == "labels":
		if !slices.Contains(it.Labels, named{path[1]}) {
			f.refuse(w, http.StatusNotFound, "Label does not exist")
			return
		}
		f.change(it.Number, func(it *issue) {
			it.Labels = slices.DeleteFunc(slices.Clone(it.Labels), func(l named) bool { return l.Name == path[1] })
		})
		answer(w, it.Labels)
	default:
		f.refuse(w, http.StatusNotFound, "Not Found")
	}
}

// shown returns an issue as the API shows it.
func (f *fakeGitHub) shown(it *issue) issue {
	shown := *it
	open := 0
	for _, n := range it.blockedBy {
		if f.issues[n].State == "open" {
			open++
		}
	}
	shown.Dependencies = map[string]int{"blocked_by": open}
	return shown
}

// list lists the issues, the oldest change first. The caller's ETag is that of the whole list.
func (f *fakeGitHub) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := time.Parse(time.RFC3339, q.Get("since"))
	var all []issue
	for _, it := range f.issues {
		wanted := it.removed == 0 && !it.UpdatedAt.Before(since) && (q.Get("state") == "all" || it.State == q.Get("state"))
		for l := range strings.SplitSeq(q.Get("labels"), ",") {
			wanted = wanted && (l == "" || slices.Contains(it.Labels, named{l}))
		}
		if wanted {
			all = append(all, f.shown(it))
		}
	}
	slices.SortFunc(all, func(a, b issue) int {
		if c := a.UpdatedAt.Compare(b.UpdatedAt); c != 0 {
			return c
		}
		return a.Number - b.Number
	})
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
	f.lists++
	page(f, w, r, all)
}

// page answers one page of a list.
func page[T any](f *fakeGitHub, w http.ResponseWriter, r *http.Request, all []T) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	n = max(n, 1)
	from := min((n-1)*f.pageSize, len(all))
	to := min(from+f.pageSize, len(all))
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<https://elsewhere.example/?page=%d>; rel="next", <x>; rel="last"`, n+1))
	}
	answer(w, append([]T{}, all[from:to]...))
}
