package github_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/issues/board"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/github"
)

// repository is the fake of a repository.
type repository struct{ *boardtest.GitHub }

func newRepository(t *testing.T) *repository {
	t.Helper()
	return &repository{boardtest.NewGitHub(t)}
}

func (f *repository) waitState(w *boardtest.Server, number int, want string) {
	w.WaitFor(fmt.Sprintf("issue %d is %s", number, want), func() bool {
		return f.State(number) == want && w.Settled(fmt.Sprint(number))
	})
}

// newBoard returns a board of the repository.
func (f *repository) newBoard(t *testing.T) board.Board {
	t.Helper()
	b, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// newServer returns a server that feeds from the repository.
func (f *repository) newServer(t *testing.T) *boardtest.Server {
	t.Helper()
	w := boardtest.New(t, nil)
	w.Options.Kind, w.Options.Open = github.Kind, f.Open
	return w
}

func TestIssuesOfGitHubAreDoneAndClosed(t *testing.T) {
	f := newRepository(t)
	f.PageSize = 2
	f.Add(1, 7)
	f.Edit(2, func(it *boardtest.GitHubIssue) { it.PullRequest = map[string]string{"url": "x"} })
	f.Edit(3, func(it *boardtest.GitHubIssue) { it.Labels = nil })
	f.Edit(4, func(it *boardtest.GitHubIssue) { it.Assign("bob") })
	f.Edit(5, func(it *boardtest.GitHubIssue) { it.BlockedBy = []int{3} })
	f.Edit(6, func(it *boardtest.GitHubIssue) { it.AddLabel("P0") })
	w := f.newServer(t)
	w.Start()
	for _, n := range []int{1, 6, 7} {
		f.waitState(w, n, "closed")
		if got := f.Texts(n); !slices.Equal(got, []string{"done"}) {
			t.Errorf("comments of %d: %q", n, got)
		}
	}
	for _, n := range []int{2, 3, 4, 5} {
		if f.State(n) != "open" || w.Agent.Count(fmt.Sprint(n)) > 0 {
			t.Errorf("%d is %s", n, f.State(n))
		}
	}
	f.Edit(3, func(it *boardtest.GitHubIssue) { it.State = "closed" })
	f.waitState(w, 5, "closed")
	if s := w.Runner.State(); !strings.Contains(s.Cursor, "0 ready, 4981 requests left") {
		t.Errorf("progress %q", s.Cursor)
	}
}

// TestRandomHistoriesOfARepository edits, closes, reassigns and reopens issues while two servers on one store poll the
// repository. GitHub loses answers of writes that it has carried out, fails, limits, and answers HTML. In the end each
// generation of an issue has one run and each run one comment.
func TestRandomHistoriesOfARepository(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0)) // owned by mu of the fake
	f := newRepository(t)
	f.PageSize = 3
	const n = 10
	f.Add(1, n)
	counts := map[string]int{}
	quiet := false
	f.failAtRandom(rnd, counts, &quiet)
	first := f.newServer(t)
	first.WithSQLite()
	first.Options.MaxClaims = 4
	second := f.newServer(t)
	if err := second.Store.Close(); err != nil {
		t.Fatal(err)
	}
	second.Store, second.Options, second.Agent = first.Store, first.Options, first.Agent
	t.Cleanup(func() { second.Store = boardtest.NoStore{} })
	first.Start()
	second.Start()
	for range 60 {
		number := 1 + rand.IntN(n)
		f.Edit(number, func(it *boardtest.GitHubIssue) {
			switch rand.IntN(8) {
			case 0:
				it.Body += " More."
			case 1:
				it.State = "closed"
			case 2:
				it.Assign("bob")
			case 3:
				it.Assignees = nil
			case 4:
				it.AddLabel("hot")
			default:
				it.State = "open"
			}
		})
		first.WaitFor("a poll", polled(first))
	}
	for number := 1; number <= n; number++ { // in the end all are open and for the feed
		f.Edit(number, func(it *boardtest.GitHubIssue) { it.Assignees = nil })
	}
	f.Do(func() { quiet = true })
	total := 0
	for number := 1; number <= n; number++ {
		f.waitState(first, number, "closed")
		id := fmt.Sprint(number)
		completed := 0
		for _, run := range first.Runs(board.Thread("roof", id)) {
			if run.Status == mailroom.StatusCompleted {
				completed++
			}
		}
		total += completed
		if got := f.Texts(number); len(got) != completed || first.Agent.Count(id) != completed {
			t.Errorf("issue %d: %d runs, %d attempts, comments %q", number, completed, first.Agent.Count(id), got)
		}
	}
	t.Logf("%d issues, %d runs, %v, two pollers", n, total, counts)
	if counts["lost answers"] == 0 || counts["other faults"] == 0 {
		t.Error("no fault was tried")
	}
}

// failAtRandom loses answers of writes and breaks other requests, unless quiet, and counts both. The fake owns rnd.
func (f *repository) failAtRandom(rnd *rand.Rand, counts map[string]int, quiet *bool) {
	f.After = func(r *http.Request) bool {
		if *quiet || r.Method == http.MethodGet || rnd.IntN(3) > 0 {
			return false
		}
		counts["lost answers"]++
		return true
	}
	f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if *quiet || rnd.IntN(12) > 0 {
			return false
		}
		counts["other faults"]++
		switch rnd.IntN(4) {
		case 0:
			f.Refuse(w, http.StatusBadGateway, "Server Error")
		case 1:
			w.Header().Set("Retry-After", "0.01")
			f.Refuse(w, http.StatusForbidden, "You have exceeded a secondary rate limit")
		case 2:
			_, _ = io.WriteString(w, "<html>unicorn</html>")
		default:
			boardtest.Hang()
		}
		return true
	}
}

// polled reports whether the server has polled since.
func polled(w *boardtest.Server) func() bool {
	from := w.Runner.State().LastSuccess
	return func() bool { return w.Runner.State().LastSuccess.After(from) }
}

func TestAnUnchangedListIsNotSentAgain(t *testing.T) {
	f := newRepository(t)
	f.Add(1, 3)
	f.Edit(1, func(it *boardtest.GitHubIssue) { it.UpdatedAt = boardtest.Now() })
	b := f.newBoard(t)
	cursor := ""
	for range 3 {
		page, err := b.Changes(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		cursor = page.Next
	}
	before := f.Lists
	for range 5 {
		page, err := b.Changes(t.Context(), cursor)
		if err != nil || len(page.Issues) > 0 || page.Next != cursor {
			t.Fatalf("%+v, %v", page, err)
		}
	}
	if f.Lists != before {
		t.Errorf("%d lists were sent", f.Lists-before)
	}
	f.Edit(2, func(it *boardtest.GitHubIssue) { it.AddLabel("hot") })
	page, err := b.Changes(t.Context(), cursor)
	if err != nil || len(page.Issues) == 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestAListIsReadWholeWhileItMoves changes issues between two pages, and has many changes in one second.
func TestAListIsReadWholeWhileItMoves(t *testing.T) {
	f := newRepository(t)
	f.PageSize = 3
	f.Add(1, 20)
	for number := 1; number <= 10; number++ { // the others have one time
		f.Issues[number].UpdatedAt = boardtest.Now().Add(-time.Duration(100-number) * time.Second)
	}
	b, seen, cursor := f.newBoard(t), map[string]bool{}, ""
	for n, more := 0, true; more; n++ {
		page, err := b.Changes(t.Context(), cursor)
		if err != nil || n > 50 {
			t.Fatal(n, err)
		}
		for _, it := range page.Issues {
			seen[it.ID] = true
		}
		if cursor, more = page.Next, page.More; n < 5 {
			f.Edit(n+1, func(it *boardtest.GitHubIssue) { it.Body = "moved" })
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d issues were listed", len(seen))
	}
}

func TestALimitStopsAllCallsUntilItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		status int
		text   string
		least  time.Duration
	}{
		"primary": {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "%reset"}, 403, "x",
			80 * time.Second},
		"secondary":           {map[string]string{"Retry-After": "90"}, 403, "x", 90 * time.Second},
		"without a time":      {nil, 403, "You have exceeded a secondary rate limit.", time.Minute},
		"too many":            {nil, 429, "x", time.Minute},
		"a time in the years": {map[string]string{"Retry-After": "99999999"}, 403, "x", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRepository(t)
			f.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
				for k, v := range c.header {
					w.Header().Set(k, strings.Replace(v, "%reset", fmt.Sprint(time.Now().Add(90*time.Second).Unix()), 1))
				}
				f.Refuse(w, c.status, c.text)
				return true
			}
			b := f.newBoard(t)
			for range 3 {
				_, err := b.Changes(t.Context(), "")
				failure := mailroom.AsFailure(err)
				if failure.Class != mailroom.ClassUnavailable || failure.RetryAfter < c.least-2*time.Second ||
					failure.RetryAfter > c.least+12*time.Second {
					t.Fatalf("%v, retry after %s", err, failure.RetryAfter)
				}
			}
			if err := b.Comment(t.Context(), board.Comment{Issue: "1", Key: "k", Text: "x"}); err == nil ||
				errors.Is(err, mailroom.ErrUnknown) {
				t.Errorf("the comment: %v", err)
			}
			if len(f.Requests) != 1 {
				t.Errorf("requests %q", f.Requests)
			}
		})
	}
}

func TestWritesAreApart(t *testing.T) {
	const pause = 100 * time.Millisecond
	f := newRepository(t)
	f.Add(1, 1)
	b, err := github.New(github.Options{Base: mustParse(t, f.URL), Repo: "ann/roof", Token: boardtest.Token,
		WritePause: pause})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for n := range 4 {
		if err := b.Comment(t.Context(), board.Comment{Issue: "1", Key: fmt.Sprint(n), Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	// Their arrivals may be closer: on a busy machine one write takes longer on its way than the next.
	if took := time.Since(begin); took < 3*pause {
		t.Errorf("four writes took %s, want at least three pauses of %s", took, pause)
	}
}

// TestABoardThatLies answers what no API answers. Each answer is one sentence without the token, and an error that is
// tried again.
func TestABoardThatLies(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	text := func(status int, body string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		lie  func(w http.ResponseWriter)
		want string
	}{
		"HTML":           {text(200, "<html>sign in "+boardtest.Token), "not from the API of GitHub"},
		"an object":      {text(200, `{"a":1}`), "not from the API of GitHub"},
		"HTML, 404":      {text(404, "<html>"), "not from"},
		"a huge body":    {text(200, strings.Repeat("[", 49<<20)), "larger than"},
		"half an answer": {text(200, `[{"number":`), "not from the API of GitHub"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "moved"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRepository(t)
			f.Fault = func(w http.ResponseWriter, _ *http.Request) bool { c.lie(w); return true }
			b := f.newBoard(t)
			_, err := b.Changes(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), boardtest.Token) ||
				strings.Contains(err.Error(), "\n") || mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
				t.Errorf("%v", err)
			}
			if _, err := b.Issue(t.Context(), "1"); err == nil || errors.Is(err, board.ErrGone) {
				t.Errorf("an issue: %v", err)
			}
			err = b.Comment(t.Context(), board.Comment{Issue: "1", Key: "k", Text: "x"})
			refused := name == "HTML, 404" || name == "a redirect"
			if err == nil || errors.Is(err, mailroom.ErrUnknown) == refused {
				t.Errorf("a comment: %v", err)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("the token went to another host")
	}
}

// TestRowsThatAreNoIssueAreLeftOut keeps the others, and a time in the future hides no later change.
func TestRowsThatAreNoIssueAreLeftOut(t *testing.T) {
	f := newRepository(t)
	f.Add(1, 2)
	f.Issues[2].UpdatedAt = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	lie := `{"number":-1},{"number":"x"},7,null,{"number":3,"id":1,"state":"open"},` +
		`{"number":4,"id":1,"state":"odd","updated_at":"2026-01-01T00:00:00Z"}`
	b := f.newBoard(t)
	page, err := b.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	page, err = b.Changes(t.Context(), page.Next)
	if err != nil || len(page.Issues) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	f.Fault = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, "["+lie+"]"); return true }
	odd, err := f.newBoard(t).Changes(t.Context(), "")
	if err != nil || odd.Invalid != 6 || len(odd.Issues) > 0 {
		t.Errorf("%+v, %v", odd, err)
	}
	f.Fault = nil
	f.Edit(1, func(it *boardtest.GitHubIssue) { it.Body = "more" })
	page, err = b.Changes(t.Context(), page.Next)
	if err != nil || !slices.ContainsFunc(page.Issues, func(it board.Issue) bool { return it.Body == "more" }) {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestRepeatedPagesEnd(t *testing.T) {
	f := newRepository(t)
	f.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Link", `<x>; rel="next"`)
		_, _ = io.WriteString(w, `[{"number":1,"id":1,"state":"open","updated_at":"2026-01-01T00:00:00Z"}]`)
		return true
	}
	b, cursor := f.newBoard(t), ""
	for n := range 100 {
		page, err := b.Changes(t.Context(), cursor)
		if err != nil {
			if !strings.Contains(err.Error(), "repeats the pages") || n > 40 {
				t.Errorf("after %d pages: %v", n, err)
			}
			return
		}
		cursor = page.Next
	}
	t.Error("100 pages were read")
}

func TestACommentIsLookedUpByItsKeyAndAccount(t *testing.T) {
	f := newRepository(t)
	f.PageSize = 2
	f.Add(1, 1)
	b := f.newBoard(t)
	c := board.Comment{Issue: "1", Key: "run/comment", Text: "done", Since: time.Now()}
	find := func(want bool) {
		t.Helper()
		if found, err := b.FindComment(t.Context(), c); err != nil || found != want {
			t.Errorf("found %t, %v; want %t", found, err, want)
		}
	}
	find(false)
	const key = "<!-- mailroom:run/comment -->"
	f.Comment(1, "mallory", "copied\n\n"+key, boardtest.Now())
	f.Comment(1, boardtest.GitHubAccount, key+"\n\nquoted", boardtest.Now())
	f.Comment(1, boardtest.GitHubAccount, "old\n\n"+key, boardtest.Now().Add(-time.Hour))
	find(false)
	quoted := board.Comment{Issue: "1", Key: "other", Text: "I quote <!-- mailroom:run/comment -->"}
	if err := b.Comment(t.Context(), quoted); err != nil {
		t.Fatal(err)
	}
	find(false)
	if err := b.Comment(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	find(true)
}

// TestAWriteWaitsForARightOfItsToken has a token that may only read, which its owner can mend, and a locked issue.
func TestAWriteWaitsForARightOfItsToken(t *testing.T) {
	for text, want := range map[string]mailroom.Class{
		"Resource not accessible by personal access token":  mailroom.ClassUnavailable,
		"Resource not accessible by integration":            mailroom.ClassUnavailable,
		"Unable to create comment because issue is locked.": mailroom.ClassPermanent,
	} {
		f := newRepository(t)
		f.Add(1, 1)
		b := f.newBoard(t)
		f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"message":%q}`, text)
			return true
		}
		err := b.Comment(t.Context(), board.Comment{Issue: "1", Key: "k", Text: "done", Since: time.Now()})
		if f := mailroom.AsFailure(err); f == nil || f.Class != want || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want class %s", text, err, want)
		}
	}
}

// TestALongReplyIsACommentThatGitHubTakes has replies that are shortened, one of them full of what begins a hidden key.
func TestALongReplyIsACommentThatGitHubTakes(t *testing.T) {
	f := newRepository(t)
	f.Add(1, 2)
	w := f.newServer(t)
	w.Agent.SetWork(func(ctx context.Context, s mailroom.Session) error {
		text := "a long reply, "
		if strings.HasSuffix(s.Run().Thread, "1") {
			text = "<!-- mailroom:"
		}
		return s.Stream(ctx, strings.Repeat(text, 10_000))
	})
	w.Start()
	for n := 1; n <= 2; n++ {
		f.waitState(w, n, "closed")
		got := f.Texts(n)
		if len(got) != 1 || !strings.Contains(got[0], "truncated; full text in thread") {
			t.Errorf("%d comments of %d, %.100q", len(got), n, got)
		}
	}
}

func TestGoneIssues(t *testing.T) {
	f := newRepository(t)
	f.Add(1, 4)
	f.Issues[1].Removed, f.Issues[2].Removed, f.Issues[3].Removed = 404, 410, 301
	f.Issues[4].PullRequest = map[string]string{"url": "x"}
	b := f.newBoard(t)
	for _, id := range []string{"1", "2", "3", "4", "5", "-1", "x/../2"} {
		if _, err := b.Issue(t.Context(), id); !errors.Is(err, board.ErrGone) {
			t.Errorf("%s: %v", id, err)
		}
	}
	f.Fault = func(w http.ResponseWriter, _ *http.Request) bool { f.Refuse(w, 500, "x"); return true }
	if _, err := b.Issue(t.Context(), "1"); err == nil || errors.Is(err, board.ErrGone) {
		t.Errorf("an outage: %v", err)
	}
}

// TestAPageOfTheLongestIssuesIsRead has texts of strangers, each as long as GitHub takes.
func TestAPageOfTheLongestIssuesIsRead(t *testing.T) {
	f := newRepository(t)
	f.Add(1, 100)
	long := strings.Repeat("\u2028", 65_536) // JSON writes it with six bytes
	for _, it := range f.Issues {
		it.Body = long
	}
	page, err := f.newBoard(t).Changes(t.Context(), "")
	if err != nil || len(page.Issues) != 100 {
		t.Errorf("%d issues, %v", len(page.Issues), err)
	}
}

// TestARepositoryThatCannotBeReadHasLostNoIssue renames the repository, and takes its right from the token.
func TestARepositoryThatCannotBeReadHasLostNoIssue(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusNotFound} {
		f := newRepository(t)
		f.Add(1, 1)
		b := f.newBoard(t)
		f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/repos/") {
				f.Refuse(w, status, "x")
			}
			return strings.HasPrefix(r.URL.Path, "/repos/")
		}
		if _, err := b.Issue(t.Context(), "1"); errors.Is(err, board.ErrGone) ||
			mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestTheTokenAndTheRepositoryAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(f *repository, w http.ResponseWriter, r *http.Request) bool
		want  string
	}{
		"bad token": {func(f *repository, w http.ResponseWriter, _ *http.Request) bool {
			f.Refuse(w, 401, "Bad credentials")
			return true
		}, "the token is refused"},
		"no such repository": {func(f *repository, w http.ResponseWriter, _ *http.Request) bool {
			f.Refuse(w, 404, "Not Found")
			return true
		}, "the repository ann/roof does not exist, or the token may not read it"},
		"renamed": {func(f *repository, w http.ResponseWriter, _ *http.Request) bool {
			f.Refuse(w, 301, "Moved Permanently")
			return true
		}, "renamed or moved; set its present name"},
		"no issues": {func(_ *repository, w http.ResponseWriter, _ *http.Request) bool {
			boardtest.Answer(w, map[string]bool{"has_issues": false})
			return true
		}, "issues are switched off"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRepository(t)
			f.Fault = func(w http.ResponseWriter, r *http.Request) bool { return c.fault(f, w, r) }
			if _, err := f.newBoard(t).Account(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	f := newRepository(t) // an app has no user
	f.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/user" {
			f.Refuse(w, 403, "Resource not accessible by integration")
		}
		return r.URL.Path == "/user"
	}
	if name, err := f.newBoard(t).Account(t.Context()); name != "" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	for _, repo := range []string{"", "roof", "a/b/c", "../x", "a/..", "a/b?x", "/b", "a/"} {
		if _, err := github.New(github.Options{Repo: repo, Token: "x"}); err == nil {
			t.Errorf("the repository %q is accepted", repo)
		}
	}
}

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
