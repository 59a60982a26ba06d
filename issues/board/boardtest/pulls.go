package boardtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// GitHubPull is a pull request of the repository.
type GitHubPull struct {
	Number int        `json:"number"`
	URL    string     `json:"html_url"`
	State  string     `json:"state"`
	Merged bool       `json:"merged"`
	Status string     `json:"mergeable_state"`
	Title  string     `json:"title"`
	Body   string     `json:"body"`
	Base   string     `json:"-"`
	In     string     `json:"-"` // repository; "" is ann/roof
	Head   GitHubHead `json:"head"`
}

// GitHubHead is the branch of a pull request.
type GitHubHead struct {
	Branch string `json:"ref"`
	Commit string `json:"sha"`
	User   *Login `json:"user"`
}

// AddPull opens a pull request of a branch of an account. Call it in [GitHub.Do], or in one of the hooks.
func (f *GitHub) AddPull(owner, branch, base, title, body string) *GitHubPull {
	n := 100 + len(f.Pulls)
	f.Pulls = append(f.Pulls, &GitHubPull{Number: n, URL: fmt.Sprintf("https://github.com/ann/roof/pull/%d", n),
		State: "open", Title: title, Body: body, Base: base, Head: GitHubHead{Branch: branch, User: &Login{owner}}})
	return f.Pulls[len(f.Pulls)-1]
}

// PullsOf returns the pull requests of a branch.
func (f *GitHub) PullsOf(branch string) (all []GitHubPull) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.Pulls {
		if p.Head.Branch == branch {
			all = append(all, *p)
		}
	}
	return all
}

// servePull answers with one pull request, or 304 if the caller has this answer.
func (f *GitHub) servePull(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	for _, p := range f.Pulls {
		if p.Number != number || p.In != "" {
			continue
		}
		tag := fmt.Sprintf("%q", fmt.Sprint(p.State, p.Merged, p.Status))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		f.Lists++
		Answer(w, p)
		return
	}
	f.Refuse(w, http.StatusNotFound, "Not Found")
}

// servePulls lists the pull requests of a repository, "" for ann/roof, the newest first, or opens one. As GitHub does,
// it ignores a filter that names no owner, and opens no second one of a branch that has an open one.
func (f *GitHub) servePulls(w http.ResponseWriter, r *http.Request, in string) {
	if r.Method == http.MethodGet {
		q := r.URL.Query()
		owner, branch, filtered := strings.Cut(q.Get("head"), ":")
		all := []GitHubPull{}
		for n := len(f.Pulls) - 1; n >= 0; n-- {
			p := f.Pulls[n]
			if p.In == in && (q.Get("state") == "all" || p.State == "open") &&
				(!filtered || p.Head.Branch == branch && strings.EqualFold(p.Head.User.Login, owner)) {
				all = append(all, *p)
			}
		}
		writePage(w, r, f.PageSize, all)
		return
	}
	var asked struct{ Title, Body, Head, Base string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		f.Refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	for _, p := range f.Pulls {
		if p.Head.Branch == asked.Head && p.State == "open" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			Answer(w, map[string]any{"message": "Validation Failed", "errors": []map[string]string{{
				"message": "A pull request already exists for ann:" + asked.Head + "."}}})
			return
		}
	}
	p := f.AddPull("ann", asked.Head, asked.Base, asked.Title, asked.Body)
	w.WriteHeader(http.StatusCreated)
	Answer(w, p)
}
