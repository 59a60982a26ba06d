package linear_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/platformtest"
	"mailroom/issues/board"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/linear"
)

// open returns how to open the board of a project.
func open(f *boardtest.Linear) func() (board.Board, error) {
	return func() (board.Board, error) {
		return linear.New(linear.Options{Base: &url.URL{Scheme: "http", Host: f.Addr}, Token: boardtest.LinearToken,
			Project: "roof-" + boardtest.LinearProject, Labels: []string{"agent"}})
	}
}

// newBoard returns a board of a project, which knows its account.
func newBoard(t *testing.T, f *boardtest.Linear) board.Board {
	t.Helper()
	b, err := open(f)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func set(field string, value any) func(it boardtest.Object) {
	return func(it boardtest.Object) { it[field] = value }
}

func state(name string) func(it boardtest.Object) {
	return set("state", boardtest.LinearState("R", name))
}

func person(id string) boardtest.Object { return boardtest.Object{"id": id, "name": id} }

// blocks is a relation in which an issue blocks another one.
func blocks(by boardtest.Object) boardtest.Object {
	return boardtest.Object{"id": "r1", "type": "blocks", "issue": by}
}

// TestNoChangeIsMissedWhilePagesMove changes an issue after each page, with the oldest and with the newest first.
func TestNoChangeIsMissedWhilePagesMove(t *testing.T) {
	for _, oldest := range []bool{false, true} {
		f := boardtest.NewLinear(t, 9)
		f.Update(func() { f.Oldest, f.Pages = oldest, 2 })
		b, seen, at, calm := newBoard(t, f), map[string]board.Issue{}, "", 0
		for i := 0; calm < 2; i++ {
			page, err := b.Changes(t.Context(), at)
			if err != nil || i > 200 {
				t.Fatal(i, err)
			}
			for _, it := range page.Issues {
				if old, has := seen[it.Name]; !has || !it.UpdatedAt.Before(old.UpdatedAt) {
					seen[it.Name] = it
				}
			}
			if at = page.Next; !page.More {
				calm++
			}
			if i < 8 {
				calm = 0
				f.Edit(fmt.Sprint("R-", i+1), set("title", "changed"))
			}
		}
		for i := range 9 {
			name := fmt.Sprint("R-", i+1)
			if got, want := seen[name].Title, f.Issue(name)["title"]; got != want {
				t.Errorf("oldest first %v: %s has title %q, want %q", oldest, name, got, want)
			}
		}
	}
}

// withoutDate passes requests on, and answers without the header Date.
func withoutDate(t *testing.T, f *boardtest.Linear) string {
	t.Helper()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: f.Addr})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, r)
		answer.Header().Del("Date")
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client may have gone
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestAPassWithoutAClockOfTheServerReadsOnlyChanges has answers without the header Date: the next pass begins at the
// newest change that the first page of the pass before had.
func TestAPassWithoutAClockOfTheServerReadsOnlyChanges(t *testing.T) {
	f := boardtest.NewLinear(t, 9)
	f.Update(func() { f.Pages = 2 })
	for i := range 9 {
		f.Touch(fmt.Sprint("R-", i+1), time.Now().Add(-time.Duration(i+1)*time.Hour))
	}
	b, err := linear.New(linear.Options{Base: &url.URL{Scheme: "http", Host: withoutDate(t, f)},
		Token: boardtest.LinearToken, Project: "roof-" + boardtest.LinearProject, Labels: []string{"agent"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	at := ""
	pass := func() (names []string) {
		for more := true; more; {
			page, err := b.Changes(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Issues {
				names = append(names, it.Name)
			}
			at, more = page.Next, page.More
		}
		return names
	}
	if got := pass(); len(got) != 9 {
		t.Errorf("the first pass read %v", got)
	}
	if got := pass(); !slices.Equal(got, []string{"R-1"}) { // the newest
		t.Errorf("the second pass read %v", got)
	}
	f.Edit("R-9", set("title", "changed"))
	if got := pass(); !slices.Contains(got, "R-9") || len(got) != 2 {
		t.Errorf("the third pass read %v", got)
	}
}

// TestAPassGoesOnIfTheIssueAtItsCursorIsDeleted deletes the issue that ends a page.
func TestAPassGoesOnIfTheIssueAtItsCursorIsDeleted(t *testing.T) {
	f := boardtest.NewLinear(t, 5)
	f.Update(func() { f.Pages = 2 })
	b := newBoard(t, f)
	page, err := b.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, it := range page.Issues {
		f.Delete(it.Name)
		seen[it.Name] = true
	}
	for page.More {
		if page, err = b.Changes(t.Context(), page.Next); err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Issues {
			seen[it.Name] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("listed %v", seen)
	}
}

func TestIssuesOfLinearAreReadAsTheBoardShowsThem(t *testing.T) {
	f := boardtest.NewLinear(t, 7)
	f.Edit("R-2", state("Backlog"))
	f.Edit("R-3", func(it boardtest.Object) {
		it["state"], it["assignee"] = boardtest.LinearState("R", "In Progress"), person("bob")
	})
	f.Edit("R-4", func(it boardtest.Object) { it["assignee"], it["delegate"] = person("bob"), person("me") })
	f.Edit("R-5", state("Canceled"))
	trashed := f.Issue("R-7")
	trashed["trashed"] = true
	relations := []boardtest.Object{blocks(f.Issue("R-1")), blocks(f.Issue("R-5")),
		{"type": "related", "issue": f.Issue("R-2")}, blocks(trashed)}
	f.Edit("R-6", func(it boardtest.Object) { it["priority"], it["inverseRelations"] = 1, relations })
	b := newBoard(t, f)
	type shown struct {
		State     board.State
		Assignees []string
		Blocked   []string
		Priority  int
	}
	for name, want := range map[string]shown{"R-1": {State: board.StateOpen, Priority: 2},
		"R-2": {State: board.StateBlocked, Priority: 2},
		"R-3": {State: board.StateWorking, Assignees: []string{"bob"}, Priority: 2},
		"R-4": {State: board.StateOpen, Assignees: []string{"me"}, Priority: 2},
		"R-5": {State: board.StateClosed, Priority: 2},
		"R-6": {State: board.StateOpen, Blocked: []string{"R-1"}}} {
		it, err := b.Issue(t.Context(), f.ID(name))
		if diff := cmp.Diff(want, shown{it.State, it.Assignees, it.Blocked, it.Priority}); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	f.Edit("R-1", set("project", boardtest.Object{"slugId": "other"}))
	f.Edit("R-2", set("trashed", true))
	for _, id := range []string{f.ID("R-1"), f.ID("R-2"), f.ID("R-99"), "R-3"} {
		if _, err := b.Issue(t.Context(), id); !errors.Is(err, board.ErrGone) {
			t.Errorf("%s: %v, want gone", id, err)
		}
	}
}

// TestAProjectThatCannotBeReadHasLostNoIssue has a token that does not see the project any more.
func TestAProjectThatCannotBeReadHasLostNoIssue(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	b, err := linear.New(linear.Options{Base: &url.URL{Scheme: "http", Host: f.Addr}, Token: boardtest.LinearToken,
		Project: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Issue(t.Context(), f.ID("R-99")); errors.Is(err, board.ErrGone) ||
		mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
		t.Error(err)
	}
}

func TestACommentOfLinearWhoseAnswerIsLostIsWrittenOnce(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	b, other := newBoard(t, f), newBoard(t, f)
	c := board.Comment{Issue: f.ID("R-1"), Key: "run-1:comment", Text: "done"}
	if found, err := b.FindComment(t.Context(), c); found || err != nil {
		t.Fatal(found, err)
	}
	f.Fail("commentCreate", platformtest.Fault{Lose: true})
	if err := b.Comment(t.Context(), c); !errors.Is(err, mailroom.ErrUnknown) {
		t.Fatalf("lost: %v, want an unknown outcome", err)
	}
	if found, err := b.FindComment(t.Context(), c); !found || err != nil {
		t.Errorf("looked up: %v, %v", found, err)
	}
	for _, one := range []board.Board{b, other} { // a repeat, and a second server
		if err := one.Comment(t.Context(), c); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if got := f.Texts("R-1"); !slices.Equal(got, []string{"done"}) {
		t.Errorf("comments %q, want one", got)
	}
	c.Issue = f.ID("R-9")
	c.Key = "run-2:comment"
	if err := b.Comment(t.Context(), c); mailroom.AsFailure(err).Class != mailroom.ClassPermanent {
		t.Errorf("a comment on no issue: %v", err)
	}
}

func TestAMarkMovesAnIssueByTheTypeOfItsStates(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	b := newBoard(t, f)
	if _, err := b.Account(t.Context()); err != nil {
		t.Fatal(err)
	}
	me := any(boardtest.LinearAccount)
	for _, step := range []struct {
		mark     board.Mark
		state    string
		delegate any
	}{
		{board.MarkWorking, "In Progress", me}, // the lowest by position, not by name or place in the list
		{board.MarkWorking, "In Progress", me},
		{board.MarkBlocked, "In Progress", me},
		{board.MarkNone, "Todo", nil},
		{board.MarkWorking, "In Progress", me},
		{board.MarkDone, "In Progress", me}, // no state is named
		{board.MarkClosed, "Done", me},
		{board.MarkClosed, "Done", me},
		{board.MarkWorking, "Done", me}, // a person may close it in the moment of the claim
	} {
		it, err := b.Issue(t.Context(), f.ID("R-1"))
		if err == nil {
			_, err = b.Mark(t.Context(), it, step.mark)
		}
		delegate, _ := f.Issue("R-1")["delegate"].(boardtest.Object)
		if got := f.State("R-1"); err != nil || got != step.state || delegate["id"] != step.delegate {
			t.Fatalf("%s: %v, state %v, delegate %v, want %s, %v", step.mark, err, got, delegate, step.state, step.delegate)
		}
	}
	if n := len(f.Calls("issueUpdate")); n != 4 {
		t.Errorf("%d updates, want 4: a mark that is there is not written again", n)
	}
	f.Edit("R-1", func(it boardtest.Object) { // a person took it over
		it["state"], it["delegate"], it["assignee"] = boardtest.LinearState("R", "In Review"), nil, person("bob")
	})
	it, err := b.Issue(t.Context(), f.ID("R-1"))
	if err != nil {
		t.Fatal(err)
	}
	if it, err = b.Mark(t.Context(), it, board.MarkNone); err != nil || it.State != board.StateWorking {
		t.Errorf("taken over: %v, state %s", err, it.State)
	}
	f.Delete("R-1")
	if _, err = b.Mark(t.Context(), it, board.MarkClosed); err != nil {
		t.Errorf("deleted: %v", err)
	}
}

// TestAMarkWhoseAnswerIsLostIsReadBack repeats a mark after an answer that was lost, and after an error beside data.
func TestAMarkWhoseAnswerIsLostIsReadBack(t *testing.T) {
	const part = `{"data":{"issueUpdate":{"success":true,"issue":null}},` +
		`"errors":[{"message":"x","extensions":{"type":"forbidden"}}]}`
	for name, fault := range map[string]platformtest.Fault{
		"lost": {Lose: true}, "half": {Half: true}, "part": {Raw: part},
	} {
		f := boardtest.NewLinear(t, 1)
		b := newBoard(t, f)
		f.Fail("issueUpdate", fault)
		it := board.Issue{ID: f.ID("R-1")}
		if _, err := b.Mark(t.Context(), it, board.MarkWorking); !errors.Is(err, mailroom.ErrUnknown) {
			t.Errorf("%s: %v, want an unknown outcome", name, err)
		}
		if it, err := b.Mark(t.Context(), it, board.MarkWorking); err != nil || it.State != board.StateWorking {
			t.Errorf("%s: again: %v, %s", name, err, it.State)
		}
	}
}

// TestAnIssueOfWhichAFieldCannotBeReadIsReadAgain answers with data and errors: the issue is not taken as one without
// that field, the others are listed, and it follows when it can be read.
func TestAnIssueOfWhichAFieldCannotBeReadIsReadAgain(t *testing.T) {
	f := boardtest.NewLinear(t, 3)
	f.Break("R-2", "assignee")
	f.Edit("R-3", func(it boardtest.Object) {
		for i := range 30 { // more than a list shows
			it["labels"] = append([]boardtest.Object{{"name": fmt.Sprint("l", i)}}, it["labels"].([]boardtest.Object)...)
		}
	})
	b, at, seen := newBoard(t, f), "", map[string]board.Issue{}
	poll := func(invalid int, want ...string) {
		t.Helper()
		clear(seen)
		page, err := b.Changes(t.Context(), at)
		if err != nil || page.Invalid != invalid {
			t.Fatalf("%v, %d invalid", err, page.Invalid)
		}
		for _, it := range page.Issues {
			seen[it.Name] = it
		}
		at = page.Next
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	poll(0, "R-1")
	poll(1, "R-1", "R-3")
	if !slices.Contains(seen["R-3"].Labels, "agent") {
		t.Errorf("labels %q", seen["R-3"].Labels)
	}
	f.Break("R-2", "")
	poll(0, "R-1", "R-2", "R-3")
	f.Break("R-1", "state")
	if _, err := b.Issue(t.Context(), f.ID("R-1")); mailroom.AsFailure(err).Class != mailroom.ClassUnavailable ||
		errors.Is(err, board.ErrGone) {
		t.Errorf("read alone: %v", err)
	}
}

func TestErrorsOfAnswersAndLimitsAreKnown(t *testing.T) {
	reset := fmt.Sprint(time.Now().Add(90 * time.Second).UnixMilli())
	limit := `{"errors":[{"message":"x","extensions":{"code":"RATELIMITED"}}]}`
	for name, c := range map[string]struct {
		header, body string
		status       int
		least, most  time.Duration // of the pause
		unknown      bool          // the outcome of a write
	}{
		"reset":          {"X-RateLimit-Requests-Remaining: 0", limit, 400, time.Minute, time.Minute, false},
		"retry after":    {"Retry-After: 90", limit, 400, 80 * time.Second, 95 * time.Second, false},
		"years":          {"Retry-After: 99999999", limit, 400, time.Hour, time.Hour, false},
		"without a time": {"", limit, 200, time.Minute, time.Minute, false},
		"too many":       {"", "slow", 429, time.Minute, time.Minute, false},
		"an error in a 200": {"", `{"data":null,"errors":[{"message":"x","extensions":{"type":"internal error"}}]}`,
			200, 0, 0, true},
		"a refusal": {"", `{"errors":[{"message":"x","extensions":{"type":"forbidden"}}]}`, 200, 0, 0, false},
		"too complex": {"", `{"errors":[{"message":"Query too complex","extensions":{"type":"invalid input",` +
			`"code":"INPUT_ERROR","userPresentableMessage":"The query is too complex."}}]}`, 400, 0, 0, false},
		"a bad gateway": {"", "<html>", 502, 0, 0, true},
		"no API":        {"", "<html>" + boardtest.LinearToken, 200, 0, 0, true},
		"no data":       {"", "{}", 200, 0, 0, true},
		"half":          {"", `{"data":{"issues":{"nodes":[`, 200, 0, 0, true},
		"a redirect":    {"Location: http://127.0.0.1:1/", "moved", 307, 0, 0, true},
	} {
		f := boardtest.NewLinear(t, 1)
		fault := platformtest.Fault{Status: c.status, Raw: c.body, Header: c.header}
		f.Fail("commentCreate", fault)
		err := newBoard(t, f).Comment(t.Context(), board.Comment{Issue: f.ID("R-1"), Key: "k", Text: "x"})
		if err == nil || errors.Is(err, mailroom.ErrUnknown) != c.unknown ||
			strings.Contains(err.Error(), boardtest.LinearToken) {
			t.Errorf("%s: a write: %v", name, err)
		}
		b := newBoard(t, f)
		f.Fail("issues", fault, fault)
		for range 2 {
			_, err = b.Changes(t.Context(), "")
			failure := mailroom.AsFailure(err)
			if err == nil || failure.Class != mailroom.ClassUnavailable || failure.RetryAfter > c.most ||
				failure.RetryAfter < c.least-2*time.Second || strings.Contains(err.Error(), boardtest.LinearToken) {
				t.Errorf("%s: a read: %v, retry after %s", name, err, failure.RetryAfter)
			}
		}
		if n := len(f.Calls("issues")); c.most > 0 && n != 1 {
			t.Errorf("%s: %d requests in a pause, want one", name, n)
		}
	}
	f := boardtest.NewLinear(t, 1) // the limit ends when Linear says
	f.Fail("issues", platformtest.Fault{Raw: limit, Status: 400, Header: "X-RateLimit-Complexity-Reset: " + reset})
	_, err := newBoard(t, f).Changes(t.Context(), "")
	if after := mailroom.AsFailure(err).RetryAfter; after != time.Minute { // some points are left
		t.Errorf("%v, retry after %s", err, after)
	}
}

func TestTheTokenAndTheProjectAreChecked(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	at := &url.URL{Scheme: "http", Host: f.Addr}
	for want, o := range map[string]linear.Options{
		"the token is refused":           {Base: at, Token: "lin_api_other", Team: "R"},
		`the project "x" does not exist`: {Base: at, Token: boardtest.LinearToken, Project: "x"},
		`the team "X" does not exist`:    {Base: at, Token: boardtest.LinearToken, Team: "x"},
	} {
		b, err := linear.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Account(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		b.Close()
	}
	for _, o := range []linear.Options{{Token: "x"}, {Team: "R"}} {
		if _, err := linear.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if me, err := newBoard(t, f).Account(t.Context()); me != boardtest.LinearAccount || err != nil {
		t.Errorf("%q, %v", me, err)
	}
	oauth, err := linear.New(linear.Options{Base: at, Token: "token", Team: "R"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(oauth.Close)
	if _, err := oauth.Account(t.Context()); err == nil {
		t.Error("a wrong token is accepted")
	}
	if calls := f.Calls("viewer"); calls[len(calls)-1].Header.Get("Authorization") != "Bearer token" {
		t.Error("a token of OAuth is no bearer token")
	}
}
