package server_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// causes returns what a run waits for, as the causes and texts of its blockers.
func (f *fixture) causes(run string) (all []string) {
	f.t.Helper()
	for _, b := range mustCall[api.Run](f, "GET /v1/runs/"+run, "").WaitsFor {
		all = append(all, string(b.Cause)+": "+b.Text)
	}
	return all
}

func TestARunSaysWhatItWaitsFor(t *testing.T) {
	f := start(t)
	want := func(what, run string, causes ...string) {
		t.Helper()
		if diff := gocmp.Diff(causes, f.causes(run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	first := f.submit("a", "one").Run
	want("no worker has come", first, "worker: a worker: no live one serves agent echo")
	work := f.claim()
	want("it runs", first)
	second := f.submit("a", "two").Run
	want("behind a run that works", second, "run: the run before it in its thread")
	f.park(work, mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "Deploy\n**release** `7`?", Action: "deploy"})
	want("it waits for a decision", first, "decision: a decision: Deploy release 7?")
	want("behind it", second, "run: the run before it in its thread", "decision: a decision: Deploy release 7?")
	got := mustCall[api.Run](f, "GET /v1/runs/"+second, "").WaitsFor
	if got[0].Run != first || len(got[1].Tickets) != 1 || got[1].Until != nil {
		t.Errorf("got %+v", got)
	}
	later := mustCall[store.Submitted](f, "POST /v1/threads/b/messages",
		`{"text":"x","not_before":"2099-01-02T03:04:05Z"}`).Run
	want("later", later, "time: its time")
	if at := mustCall[api.Run](f, "GET /v1/runs/"+later, "").WaitsFor[0].Until; at == nil || at.Year() != 2099 {
		t.Errorf("until %v", at)
	}
	parent := f.submit("p", "ask another").Run
	f.park(f.claim(), mailroom.Ask{Name: "child", Kind: mailroom.TicketChildren})
	want("it waits for a child", parent, "child: the end of a run that it has sent",
		"worker: a worker: no live one serves agent far")
	third := f.submit("c", "three").Run
	want("a worker serves it", third, "slot: a free slot of agent echo")
	mustCall[api.Pause](f, "POST /v1/agents/echo/pause", `{"reason":"the provider\nis down"}`)
	want("paused", third, "pause: agent echo, which admin has paused: the provider is down")
	for _, r := range mustCall[api.Page[api.Run]](f, "GET /v1/runs", "").Items {
		if len(r.WaitsFor) == 0 {
			t.Errorf("in the list, run %s (%s) waits for nothing", r.ID, r.Status)
		}
	}
}

// A token that does not see all threads has no index of its queued runs: these are found among its newest ones.
func TestWhatQueuedRunsWaitForIsFoundBehindALongHistory(t *testing.T) {
	f := start(t)
	w := &world{fixture: f, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.add("old", "ann", "echo", "apple", 700)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	ann.submit("new", "one")
	for who, as := range map[string]*fixture{"ann": ann, "the operator": f} {
		got := mustCall[api.Waits](as, "GET /v1/waits", "")
		if got.Runs != 1 || got.LookedTo != nil || len(got.Items) != 1 || got.Items[0].Cause != thread.CauseWorker {
			t.Errorf("%s: got %+v", who, got)
		}
	}
}

// A token for one run, or of another owner, learns nothing of the runs before.
func TestWhatARunWaitsForNamesNoRunThatItsReaderDoesNotSee(t *testing.T) {
	f := start(t)
	first := f.submit("a", "one").Run
	f.park(f.claim(), mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "a secret"})
	second := f.submit("a", "two").Run
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	limited := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited",
		`{"run":"`+second+`","scopes":["read"],"expires_at":"`+until+`"}`)
	f.secret = limited.Secret
	a := f.call("GET /v1/runs/"+second, "")
	if a.status != 200 || strings.Contains(a.body, first) || strings.Contains(a.body, "secret") ||
		!strings.Contains(a.body, `"cause":"run"`) {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestQueuedRunsAreSummedUpByWhatTheyWaitFor(t *testing.T) {
	f := start(t)
	for _, id := range []string{"a", "b"} {
		f.submit(id, "one")
		ask := mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "Deploy " + id + "?", Action: "deploy"}
		f.park(f.claim(), ask)
		f.submit(id, "two")
		f.submit(id, "three")
	}
	f.submit("c", "one")
	mustCall[api.Pause](f, "POST /v1/agents/echo/pause", "")
	got := mustCall[api.Waits](f, "GET /v1/waits", "")
	if got.Runs != 5 || got.LookedTo != nil || len(got.Items) != 2 {
		t.Fatalf("got %+v", got)
	}
	decision, pause := got.Items[0], got.Items[1]
	if decision.Cause != "decision" || decision.Runs != 4 || decision.Behind != 2 || decision.Agent != "echo" ||
		decision.Text != "a decision: Deploy a?" || decision.Run == "" {
		t.Errorf("got %+v", decision)
	}
	if pause.Cause != "pause" || pause.Runs != 1 || pause.Behind != 1 ||
		pause.Text != "agent echo, which admin has paused" {
		t.Errorf("got %+v", pause)
	}
	for q, want := range map[string]int{
		"agent:echo": 5, "thread:a": 2, "status:failed": 0, "status:queued,failed": 5, "agent:none": 0,
	} {
		if got := mustCall[api.Waits](f, "GET /v1/waits?q="+q, ""); got.Runs != want {
			t.Errorf("%s: %d runs, want %d", q, got.Runs, want)
		}
	}
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read"]}`)
	f.secret = made.Secret
	if got := mustCall[api.Waits](f, "GET /v1/waits", ""); got.Runs != 0 || len(got.Items) != 0 {
		t.Errorf("another owner sees %+v", got)
	}
}
