package github_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/issues/board"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/github"
	"mailroom/issues/tracker"
)

func remote(f *boardtest.GitHub) tracker.Remote {
	return tracker.Remote{Place: "ann/roof", API: f.URL, Token: boardtest.Token}
}

// TestAnExportReadsIssuesWhole has an issue with many comments, a list that moves, and a limit that ends soon.
func TestAnExportReadsIssuesWhole(t *testing.T) {
	f := boardtest.NewGitHub(t)
	f.PageSize = 10
	f.Add(1, 35)
	for n := range 25 {
		f.Comment(1, "bob", fmt.Sprint("text ", n), boardtest.Now())
	}
	f.Edit(2, func(it *boardtest.GitHubIssue) { it.BlockedBy = []int{1} })
	f.Edit(3, func(it *boardtest.GitHubIssue) { it.Type = &boardtest.Label{Name: "Bug"} })
	f.Edit(4, func(it *boardtest.GitHubIssue) { it.ParentURL = f.URL + "/repos/Ann/Roof/issues/1" })
	lists := 0
	f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/issues") {
			return false
		}
		if lists++; lists == 2 {
			w.Header().Set("Retry-After", "0.01")
			f.Refuse(w, http.StatusForbidden, "You have exceeded a secondary rate limit")
			return true
		}
		f.Issues[lists].UpdatedAt = boardtest.Now().Add(time.Duration(lists) * time.Second) // it moves to the end
		return false
	}
	all, err := github.Export(t.Context(), remote(f))
	if err != nil || len(all) != 35 {
		t.Fatalf("%d issues, %v", len(all), err)
	}
	for _, o := range all {
		switch o.Title {
		case "Do 1":
			if len(o.Comments) != 25 || o.Comments[24].Text != "text 24" || o.Comments[24].Author != "bob" {
				t.Errorf("comments %+v", o.Comments)
			}
		case "Do 2":
			if len(o.Dependencies) != 1 || o.Dependencies[0].On != "github:9001" {
				t.Errorf("dependencies %+v", o.Dependencies)
			}
		case "Do 3":
			if o.Type != "bug" {
				t.Errorf("type %s", o.Type)
			}
		case "Do 4":
			if len(o.Dependencies) != 1 || o.Dependencies[0].Type != tracker.DependencyParentChild {
				t.Errorf("parent %+v", o.Dependencies)
			}
		}
	}
}

// TestAnExportOfManyIssuesReadsTheCommentsInPages has more issues with comments than requests, and a comment that is
// deleted between two pages, so that the list lacks the next one.
func TestAnExportOfManyIssuesReadsTheCommentsInPages(t *testing.T) {
	f := boardtest.NewGitHub(t)
	f.Add(1, 200)
	for number := range 201 {
		for n := range number % 3 {
			f.Comment(number, "bob", fmt.Sprintf("%d of %d", n, number), boardtest.Now())
		}
	}
	want := len(f.Comments) - 1
	f.After = func(r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/issues/comments") && r.URL.Query().Get("page") == "1" {
			f.Comments = append(f.Comments[:3:3], f.Comments[4:]...)
		}
		return false
	}
	all, err := github.Export(t.Context(), remote(f))
	got := 0
	for _, o := range all {
		got += len(o.Comments)
		for n, c := range o.Comments {
			if text := strings.Replace(o.Title, "Do", fmt.Sprintf("%d of", n), 1); c.Text != text {
				t.Errorf("%s has %q, want %q", o.Title, c.Text, text)
			}
		}
	}
	if err != nil || len(all) != 200 || got != want && got != want+1 {
		t.Fatalf("%d issues with %d comments, want %d; %v", len(all), got, want, err)
	}
	if len(f.Requests) > 12 { // 67 issues have comments
		t.Errorf("%d requests: %q", len(f.Requests), f.Requests)
	}
}

// TestAnExportOfFewIssuesLeavesOtherCommentsUnread has a repository with many comments of other issues.
func TestAnExportOfFewIssuesLeavesOtherCommentsUnread(t *testing.T) {
	f := boardtest.NewGitHub(t)
	f.PageSize = 10
	f.Add(1, 41)
	for range 500 {
		f.Comment(41, "bob", "closed", boardtest.Now())
	}
	f.Issues[41].State, f.Issues[41].UpdatedAt = "closed", boardtest.Now().Add(-time.Hour)
	for number := range 40 {
		f.Comment(number+1, "bob", "open", boardtest.Now())
	}
	all, err := github.Export(t.Context(), remote(f))
	if err != nil || len(all) != 40 || len(all[7].Comments) != 1 || all[7].Comments[0].Text != "open" {
		t.Fatalf("%d issues: %v", len(all), err)
	}
	if len(f.Requests) > 60 { // the list has 54 pages
		t.Errorf("%d requests", len(f.Requests))
	}
}

func TestAnExportIsBounded(t *testing.T) {
	f := boardtest.NewGitHub(t)
	f.Add(1, board.MaxExport+1)
	for number, it := range f.Issues {
		it.UpdatedAt = it.UpdatedAt.Add(-time.Duration(number) * time.Second)
	}
	_, err := github.Export(t.Context(), remote(f))
	if err == nil || !strings.Contains(err.Error(), "more than 5000 issues") {
		t.Errorf("too many issues: %v", err)
	}
	f.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3000")
		f.Refuse(w, http.StatusTooManyRequests, "slow down")
		return true
	}
	_, err = github.Export(t.Context(), remote(f))
	if err == nil || !strings.HasPrefix(err.Error(), "try again in 50m,") {
		t.Errorf("a long limit: %v", err)
	}
}

func TestPlacesOfGitHub(t *testing.T) {
	for place, want := range map[string]string{"roof": "invalid repository", "ann/roof/x": "invalid repository",
		"https://github.com/ann":   "names no repository",
		"https://evil.example/a/b": "set GITHUB_API_URL=https://evil.example"} {
		r := tracker.Remote{Place: place, Token: "x", API: "http://127.0.0.1:1"}
		if strings.Contains(place, "evil") {
			r.API = ""
		}
		if _, err := github.Export(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", place, err, want)
		}
	}
}

// TestAnExportReadsWhatHasChanged leaves out what is older than the last export, and has what was closed since.
func TestAnExportReadsWhatHasChanged(t *testing.T) {
	f := boardtest.NewGitHub(t)
	f.Add(1, 3)
	last := boardtest.Now().Add(-time.Hour)
	f.Issues[1].UpdatedAt, f.Issues[2].State = last.Add(-time.Hour), "closed"
	f.Issues[2].UpdatedAt, f.Issues[3].UpdatedAt = last, last.Add(time.Second)
	r := remote(f)
	r.Since = last
	r.Seen = map[string]time.Time{"github:9003": last.Add(time.Second)}
	all, err := github.Export(t.Context(), r)
	if err != nil || len(all) != 1 || all[0].Key != "github:9002" || all[0].Status != tracker.StatusClosed {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestAnExportKeepsTheFirstAndTheLastCommentsOfALongIssue has issues on both sides of the bound, a list that does not say
// how long it is, and one that grows.
func TestAnExportKeepsTheFirstAndTheLastCommentsOfALongIssue(t *testing.T) {
	for _, test := range []struct {
		comments int
		endless  bool
		grows    bool     // by a page, while it is read
		kept     []string // the first and last ones, and those around what is left out
	}{
		{2000, false, false, []string{"0", "1999"}},
		{2345, false, false, []string{"0", "999", "left out", "1400", "2344"}},
		{2345, true, false, []string{"0", "1999", "left out"}},
		{2345, false, true, []string{"0", "999", "left out", "1400", "2399"}},
	} {
		f := boardtest.NewGitHub(t)
		f.Add(1, 1)
		for n := range test.comments {
			f.Comment(1, "bob", fmt.Sprint(n), boardtest.Now())
		}
		if test.grows {
			f.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
				for n := len(f.Comments); r.URL.Query().Get("page") == "15" && n < test.comments+100; n++ {
					f.Comments = append(f.Comments, boardtest.GitHubComment{Issue: 1, ID: n + 1, Body: fmt.Sprint(n),
						User: boardtest.Login{Login: "bob"}})
				}
				return false
			}
		}
		if test.endless {
			f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				page, _ := strconv.Atoi(r.URL.Query().Get("page"))
				if !strings.HasSuffix(r.URL.Path, "/1/comments") {
					return false
				}
				w.Header().Set("Link", `<https://elsewhere.example/?page=9>; rel="next"`)
				boardtest.Answer(w, f.Comments[(page-1)*100:page*100])
				return true
			}
		}
		all, err := github.Export(t.Context(), remote(f))
		if err != nil || len(all) != 1 {
			t.Fatalf("%d comments: %d issues, %v", test.comments, len(all), err)
		}
		var kept []string
		list := all[0].Comments
		for n, c := range list {
			gap := strings.HasPrefix(c.Text, "Comments are left out here: ")
			near := n == 0 || n == len(list)-1 || strings.HasPrefix(list[n-1].Text, "Comments") ||
				strings.HasPrefix(list[n+1].Text, "Comments")
			if gap {
				kept = append(kept, "left out")
			} else if near {
				kept = append(kept, c.Text)
			}
		}
		if !slices.Equal(kept, test.kept) || len(f.Requests) > 24 {
			t.Errorf("%d comments: kept %q in %d requests, want %q", test.comments, kept, len(f.Requests), test.kept)
		}
	}
}
