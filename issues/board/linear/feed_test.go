package linear_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/platformtest"
	"mailroom/issues/board"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/linear"
)

// newServer returns a server that feeds from a project.
func newServer(t *testing.T, f *boardtest.Linear) *boardtest.Server {
	t.Helper()
	w := boardtest.New(t, nil)
	w.Options.Kind, w.Options.Open = linear.Kind, open(f)
	return w
}

func waitState(w *boardtest.Server, f *boardtest.Linear, name, want string) {
	w.WaitFor(fmt.Sprintf("%s is %s", name, want), func() bool { return f.State(name) == want && w.Settled(f.ID(name)) })
}

func TestIssuesOfLinearAreDoneAndClosed(t *testing.T) {
	f := boardtest.NewLinear(t, 9)
	f.Update(func() { f.Pages = 2 })
	f.Edit("R-2", state("Backlog"))
	f.Edit("R-3", set("labels", []boardtest.Object{}))
	f.Edit("R-4", set("assignee", person("bob")))
	f.Edit("R-5", set("inverseRelations", []boardtest.Object{blocks(f.Issue("R-3"))}))
	f.Edit("R-6", func(it boardtest.Object) {
		it["assignee"], it["delegate"] = person("bob"), person(boardtest.LinearAccount)
	})
	f.Edit("R-7", state("In Progress"))
	f.Edit("R-8", set("trashed", true))
	w := newServer(t, f).Start()
	for _, name := range []string{"R-1", "R-6", "R-9"} {
		waitState(w, f, name, "Done")
		if got := f.Texts(name); !slices.Equal(got, []string{"done"}) {
			t.Errorf("comments of %s: %q", name, got)
		}
	}
	for _, name := range []string{"R-2", "R-3", "R-4", "R-5", "R-7", "R-8"} {
		if w.Agent.Count(f.ID(name)) > 0 || len(f.Texts(name)) > 0 {
			t.Errorf("%s was done", name)
		}
	}
	if got := w.Agent.Input(f.ID("R-1")); !strings.Contains(got, "Issue R-1, https://linear.example/issue/R-1") {
		t.Errorf("the agent got %q", got)
	}
	if got := f.Issue("R-6")["assignee"].(boardtest.Object)["id"]; got != "bob" {
		t.Errorf("the assignee is %v", got)
	}
	closed := f.Issue("R-3")
	closed["state"] = boardtest.LinearState("R", "Done")
	f.Edit("R-5", set("inverseRelations", []boardtest.Object{blocks(closed)}))
	waitState(w, f, "R-5", "Done")
	w.WaitFor("the progress", func() bool {
		return strings.HasPrefix(w.Runner.State().Cursor, "0 ready, 1499 requests and ")
	})
}

// TestRandomHistoriesOfAProject edits, closes, moves, delegates and reopens issues while two servers on one store poll
// the project. Linear loses answers of writes that it has carried out, fails, limits, and answers HTML. In the end each
// generation of an issue has one run and each run one comment.
func TestRandomHistoriesOfAProject(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const n = 8
	f := boardtest.NewLinear(t, n)
	f.Update(func() { f.Pages, f.Points = 3, 1e9 })
	first := newServer(t, f).WithSQLite()
	first.Options.MaxClaims = 4
	second := newServer(t, f)
	if err := second.Store.Close(); err != nil {
		t.Fatal(err)
	}
	second.Store, second.Options, second.Agent = first.Store, first.Options, first.Agent
	t.Cleanup(func() { second.Store = boardtest.NoStore{} })
	first.Start()
	second.Start()
	faults := []platformtest.Fault{{Lose: true}, {Lose: true}, {Half: true}, {Status: 502, Message: "Bad Gateway"},
		{Raw: "<html>sign in"}, {Code: "RATELIMITED", Status: 400, RetryAfter: 0.01}, {Code: "INTERNAL_SERVER_ERROR"}}
	calls := []string{"commentCreate", "commentCreate", "issueUpdate", "issueUpdate", "issue", "issues", "comment", "team"}
	for range 60 {
		f.Fail(calls[rnd.IntN(len(calls))], faults[rnd.IntN(len(faults))])
		name := fmt.Sprint("R-", 1+rnd.IntN(n))
		team := f.Issue(name)["team"].(boardtest.Object)["key"].(string)
		switch rnd.IntN(8) {
		case 0:
			f.Edit(name, set("description", fmt.Sprint("More ", rnd.IntN(100))))
		case 1:
			f.Edit(name, set("state", boardtest.LinearState(team, "Done")))
		case 2:
			f.Edit(name, set("assignee", person("bob")))
		case 3:
			f.Edit(name, set("assignee", nil))
		case 4:
			f.Move(name, f.State(name))
		default:
			f.Edit(name, set("state", boardtest.LinearState(team, "Todo")))
		}
		first.WaitFor("a poll", polled(first))
	}
	f.ClearFaults()
	for i := range n { // in the end all are for the feed, and none waits for a person
		f.Edit(fmt.Sprint("R-", i+1), func(it boardtest.Object) { it["assignee"] = nil })
	}
	total := 0
	for i := range n {
		name := fmt.Sprint("R-", i+1)
		waitState(first, f, name, "Done")
		completed := 0
		for _, run := range first.Runs(board.Thread("roof", f.ID(name))) {
			if run.Status == mailroom.StatusCompleted {
				completed++
			}
		}
		total += completed
		if got := f.Texts(name); len(got) != completed || first.Agent.Count(f.ID(name)) != completed {
			t.Errorf("%s: %d runs, %d attempts, comments %q", name, completed, first.Agent.Count(f.ID(name)), got)
		}
	}
	lost := 0
	for _, call := range f.Calls("") {
		if call.Status == 0 {
			lost++
		}
	}
	t.Logf("%d issues, %d runs, %d lost answers of %d, two pollers", n, total, lost, len(f.Calls("")))
	if lost == 0 {
		t.Error("no answer was lost")
	}
}

// polled reports whether the server has polled since.
func polled(w *boardtest.Server) func() bool {
	from := w.Runner.State().LastSuccess
	return func() bool { return w.Runner.State().LastSuccess.After(from) }
}

// TestAnIssueThatMovesToAnotherTeamIsDoneOnce moves an issue while its run works: it gets another identifier, and a
// state that may start.
func TestAnIssueThatMovesToAnotherTeamIsDoneOnce(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	w := newServer(t, f)
	work, finish := boardtest.GatedWork("done")
	defer finish()
	w.Agent.SetWork(work)
	w.Start()
	w.WaitRun(f.ID("R-1"), mailroom.StatusRunning)
	waitState := func(want string) {
		w.WaitFor("the state "+want, func() bool { return f.State("R-1") == want })
	}
	waitState("In Progress")
	f.Move("R-1", "Todo")
	w.WaitFor("a poll", polled(w))
	finish()
	waitState("Done")
	w.WaitFor("the deliveries", func() bool { return w.Settled(f.ID("R-1")) })
	if id := f.Issue("R-1")["state"].(boardtest.Object)["id"]; id != "S-Done" || w.Agent.Count(f.ID("R-1")) != 1 ||
		!slices.Equal(f.Texts("R-1"), []string{"done"}) {
		t.Errorf("state %v, %d attempts, comments %q", id, w.Agent.Count(f.ID("R-1")), f.Texts("R-1"))
	}
}

func TestARunIsCancelledIfItsIssueLeavesBeforeItStarts(t *testing.T) {
	for what, take := range map[string]func(f *boardtest.Linear, name string){
		"closed": func(f *boardtest.Linear, name string) { f.Edit(name, state("Canceled")) },
		"reassigned": func(f *boardtest.Linear, name string) {
			f.Edit(name, func(it boardtest.Object) { it["assignee"], it["delegate"] = person("bob"), nil })
		},
		"delegated":   func(f *boardtest.Linear, name string) { f.Edit(name, set("delegate", person("other"))) },
		"other place": func(f *boardtest.Linear, name string) { f.Edit(name, set("project", nil)) },
		"trashed":     func(f *boardtest.Linear, name string) { f.Edit(name, set("trashed", true)) },
		"deleted":     func(f *boardtest.Linear, name string) { f.Delete(name) },
	} {
		t.Run(what, func(t *testing.T) {
			f := boardtest.NewLinear(t, 2)
			w := newServer(t, f)
			w.Limit, w.Options.MaxClaims = 1, 2
			work, finish := boardtest.GatedWork("done")
			defer finish()
			w.Agent.SetWork(work)
			w.Start()
			w.WaitRun(f.ID("R-1"), mailroom.StatusRunning)
			w.WaitRun(f.ID("R-2"), mailroom.StatusQueued)
			w.WaitFor("the marks", func() bool { return f.State("R-1") == "In Progress" && f.State("R-2") == "In Progress" })
			take(f, "R-2")
			w.WaitRun(f.ID("R-2"), mailroom.StatusCancelled)
			finish()
			waitState(w, f, "R-1", "Done")
			w.WaitFor("the deliveries", func() bool { return w.Settled(f.ID("R-2")) })
			if len(f.Calls("commentCreate")) != 1 {
				t.Errorf("%d comments were written", len(f.Calls("commentCreate")))
			}
		})
	}
}

// TestAPollCostsLittle bounds the complexity of the queries: 250,000 points an hour are Linear's least limit, and a
// query has at most 10,000.
func TestAPollCostsLittle(t *testing.T) {
	f := boardtest.NewLinear(t, 2)
	w := newServer(t, f).Start()
	waitState(w, f, "R-1", "Done")
	waitState(w, f, "R-2", "Done")
	for call, most := range map[string]float64{"issues": 700, "issue": 250, "issueUpdate": 80, "commentCreate": 10,
		"comment": 10, "viewer": 20, "team": 200} {
		if got := f.Cost(call); got > most {
			t.Errorf("%s costs %v points, want at most %v", call, got, most)
		}
	}
	if got := f.Cost("issues") * float64(time.Hour/linear.HintPause); got > 200_000 {
		t.Errorf("polls that webhooks start cost %v points an hour", got)
	}
	t.Logf("a poll costs %v points, an issue %v", f.Cost("issues"), f.Cost("issue"))
	f.Update(func() { f.Points = 100 })
	w.WaitFor("the pause", func() bool { return strings.Contains(w.Runner.State().Reason, "Rate limit exceeded") })
}
