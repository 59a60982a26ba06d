package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// listThreads reads a whole list page by page and returns the threads of its rows.
func (f *fixture) listThreads(list, q string, limit int) (threads []string) {
	f.t.Helper()
	cursor := ""
	for {
		page := mustCall[api.Page[struct{ ID, Thread string }]](f,
			fmt.Sprintf("GET /v1/%s?limit=%d&q=%s&cursor=%s", list, limit, q, cursor), "")
		for _, row := range page.Items {
			if row.Thread == "" {
				row.Thread = row.ID
			}
			threads = append(threads, row.Thread)
		}
		if page.Next == nil {
			return threads
		}
		cursor = *page.Next
	}
}

func TestListsShowWhatIsVisible(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	for _, thread := range []string{"a1", "team-a", "a2"} {
		ann.makeObjects(thread)
	}
	ann.makeObjects("unowned")
	f.clearOwner("unowned")
	f.submit("b1", "x") // the operator's
	bob.submit("team-b", "x")
	team := f.withToken(f.createToken("lead", "team-", scopesWithout(auth.PermissionWork)...))
	for _, e := range []struct {
		who                    string
		f                      *fixture
		threads, runs, tickets []string
	}{
		{"ann", ann, []string{"a2", "team-a", "a1"}, []string{"a2", "a2", "team-a", "team-a", "a1", "a1"}, []string{"a2", "team-a", "a1"}},
		{"bob", bob, []string{"team-b"}, []string{"team-b"}, nil},
		{"the lead of a team", team, []string{"team-b", "team-a"}, []string{"team-b", "team-a", "team-a"}, []string{"team-a"}},
		{"the operator", f, []string{"team-b", "b1", "a2", "team-a", "a1"},
			[]string{"team-b", "b1", "a2", "a2", "team-a", "team-a", "a1", "a1"}, []string{"a2", "team-a", "a1"}},
	} {
		for _, limit := range []int{1, 2, 500} {
			for list, want := range map[string][]string{"threads": e.threads, "runs": e.runs, "tickets": e.tickets} {
				if got := e.f.listThreads(list, "", limit); !slices.Equal(got, want) {
					t.Errorf("%s of %s, %d at a time: %q, want %q", list, e.who, limit, got, want)
				}
			}
		}
		stats := mustCall[api.Stats](e.f, "GET /v1/stats", "")
		runs := 0
		for _, n := range stats.Runs {
			runs += n
		}
		if stats.Threads != len(e.threads) || runs != len(e.runs) || stats.Runs[mailroom.StatusWaiting] != len(e.tickets) {
			t.Errorf("stats of %s: %+v, want %d threads and %d runs", e.who, stats, len(e.threads), len(e.runs))
		}
	}
	for _, q := range []string{"threads id:a1", "threads owner:ann", "runs thread:a1", "runs agent:echo thread:a2",
		"runs owner:ann", "runs owner:ann agent:echo", "tickets thread:a1", "threads id:unowned", "runs thread:unowned"} {
		list, q, _ := strings.Cut(q, " ")
		if got := bob.listThreads(list, strings.ReplaceAll(q, " ", "%20"), 500); len(got) > 0 {
			t.Errorf("bob's %[2]s with filter %[3]s contain %[1]q", got, list, q)
		}
	}
	for who, e := range map[string]struct {
		f    *fixture
		want []string
	}{
		"ann":                {ann, []string{"a2", "a2", "team-a", "team-a", "a1", "a1"}},
		"the lead of a team": {team, []string{"team-a", "team-a"}},
		"the operator":       {f, []string{"a2", "a2", "team-a", "team-a", "a1", "a1"}},
	} {
		if got := e.f.listThreads("runs", "owner:ann", 2); !slices.Equal(got, e.want) {
			t.Errorf("%s finds runs of ann in %q, want %q", who, got, e.want)
		}
	}
}

func TestACursorIsBoundToItsToken(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit)),
		f.withToken(f.createToken("bob", "", auth.PermissionRead))
	ann.submit("t", "one")
	ann.submit("t", "two")
	next := *mustCall[api.Page[api.Run]](ann, "GET /v1/runs?limit=1", "").Next
	if got := mustCall[api.Page[api.Run]](ann, "GET /v1/runs?cursor="+next, ""); len(got.Items) != 1 {
		t.Errorf("ann's next page has %d runs, want 1", len(got.Items))
	}
	foreign := maskIDs(bob.call("GET /v1/runs?cursor="+next, ""), map[string]string{"cursor": next})
	nonsense := maskIDs(bob.call("GET /v1/runs?cursor=nonsense", ""), map[string]string{"cursor": "nonsense"})
	if foreign != nonsense || !strings.HasPrefix(foreign, "422 ") {
		t.Errorf("response to ann's cursor: %s\nto an invalid one: %s", foreign, nonsense)
	}
}

// TestIDsInBodiesAreAuthorizedLikeIDsInPaths checks that ids in bodies and queries are authorized like ids in
// paths.
func TestIDsInBodiesAreAuthorizedLikeIDsInPaths(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	theirs := ann.makeObjects("theirs")
	own := bob.submit("own", "x").Run
	theirs["own"] = own
	nothing := map[string]string{"thread": "none", "run": "no-run", "ticket": "no-ticket", "message": "no-run.1",
		"own": own}
	for _, e := range []struct {
		route, body string
		status      int
	}{
		{"POST /v1/messages", `{"thread":"own","text":"x","parent":"{run}"}`, 422},
		{"POST /v1/messages", `{"thread":"own","decisions":[{"ticket":"{ticket}","decision":"deny"}]}`, 404},
		{"GET /v1/threads/own/messages/{message}", ``, 404},
		{"PATCH /v1/threads/own/messages/{message}", `{"text":"x"}`, 404},
		{"DELETE /v1/threads/own/messages/{message}", ``, 404},
		{"GET /v1/threads/own/stream?run={run}", ``, 404},
		{"GET /v1/threads/own/entries?run={run}", ``, 200},
		{"GET /v1/runs?q=parent:{run}", ``, 200},
		{"GET /v1/tickets?q=run:{run}", ``, 200},
	} {
		before := ann.snapshot()
		want := maskIDs(bob.call(fillIDs(e.route, nothing), fillIDs(e.body, nothing)), nothing)
		got := maskIDs(bob.call(fillIDs(e.route, theirs), fillIDs(e.body, theirs)), theirs)
		if got != want || !strings.HasPrefix(want, fmt.Sprint(e.status, " ")) {
			t.Errorf("%s %s: %s\nof a missing object: %s\nwant both the same, with status %d", e.route, e.body, got,
				want, e.status)
		}
		if after := ann.snapshot(); after != before && e.status != 200 {
			t.Errorf("%s %s changed %s to %s", e.route, e.body, before, after)
		}
	}
	f.wantCode("a delivery to ann", bob.call("PATCH /v1/threads/own", `{"deliver_to":"theirs"}`), 404,
		mailroom.CodeNotFound)
	if a := bob.call("PATCH /v1/threads/own", `{"deliver_to":"not-there-yet"}`); a.status != 200 {
		t.Errorf("a delivery to a missing thread: %d %s", a.status, a.body)
	}
	if a := bob.call("PATCH /v1/threads/own", `{"deliver_to":""}`); a.status != 200 {
		t.Fatal(a.body)
	}
	// A refusal does not name a thread that the caller may not see.
	if a := f.call("PATCH /v1/threads/theirs", `{"deliver_to":"own"}`); a.status != 200 {
		t.Fatal(a.body)
	}
	if a := bob.call("PATCH /v1/threads/own", `{"deliver_to":"other"}`); a.problem(t).Code != mailroom.CodeConflict ||
		strings.Contains(a.body, "theirs") {
		t.Errorf("delete of a delivery target: %d %s, want a conflict that does not name ann's thread", a.status, a.body)
	}
}

func TestATokenCannotActUnderAnotherName(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	boss := f.withToken(f.createToken("boss", "", auth.PermissionAdmin))
	for who, f := range map[string]*fixture{"bob": ann, "admin": ann} {
		f.wantCode("sender", f.call("POST /v1/messages", `{"text":"x","sender":"`+who+`"}`), 403, mailroom.CodeForbidden)
		f.wantCode("decided_by", f.call("POST /v1/tickets/none", `{"decision":"deny","decided_by":"`+who+`"}`), 403,
			mailroom.CodeForbidden)
	}
	sent := ann.submit("t", "x")
	m := mustCall[mailroom.Message](ann, "GET /v1/threads/t/messages/"+sent.Message, "")
	run := mustCall[api.Run](ann, "GET /v1/runs/"+sent.Run, "")
	thread := mustCall[api.Thread](ann, "GET /v1/threads/t", "")
	if m.Sender != "ann" || run.Origin.Sender != "ann" || thread.Owner != "ann" {
		t.Errorf("sender %q, origin %q, owner %q, want ann's", m.Sender, run.Origin.Sender, thread.Owner)
	}
	sent = mustCall[store.Submitted](boss, "POST /v1/messages", `{"thread":"t","text":"x","sender":"carol"}`)
	if m := mustCall[mailroom.Message](ann, "GET /v1/threads/t/messages/"+sent.Message, ""); m.Sender != "carol" {
		t.Errorf("sender of an admin's submit: %q", m.Sender)
	}
	// Decisions in a submit need the scope decide.
	limited := f.withToken(f.createToken("limited", "", auth.PermissionRead, auth.PermissionSubmit))
	f.wantCode("a decision without the scope", limited.call("POST /v1/messages",
		`{"thread":"t","decisions":[{"ticket":"x","decision":"deny"}]}`), 403, mailroom.CodeForbidden)
}

func TestARetryByFilterFindsWhatIsVisible(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	for who, f := range map[string]*fixture{"ann": ann, "bob": bob} {
		mustCall[api.Run](f, "POST /v1/runs/"+f.submit("of-"+who, "x").Run+"/cancel", "")
	}
	for _, dry := range []string{"true", "false"} {
		got := mustCall[api.Retried](bob, "POST /v1/runs/retry", `{"q":"status:cancelled","dry_run":`+dry+`}`)
		if got.Matched != 1 {
			t.Errorf("bob finds %d runs to retry, want 1", got.Matched)
		}
	}
	if got := ann.listThreads("runs", "status:cancelled", 50); !slices.Equal(got, []string{"of-ann"}) {
		t.Errorf("cancelled runs of ann: %q, want her run only", got)
	}
}

func TestACancelByFilterFindsWhatIsVisible(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	hers := ann.submit("of-ann", "x").Run
	bob.submit("of-bob", "x")
	if got := mustCall[api.CancelledMany](bob, "POST /v1/runs/cancel", `{"q":"status:queued"}`); got.Matched != 1 ||
		got.Cancelled != 1 {
		t.Errorf("bob cancels %+v, want his run only", got)
	}
	if got := mustCall[api.Run](ann, "GET /v1/runs/"+hers, "").Status; got != mailroom.StatusQueued {
		t.Errorf("ann's run is %s, want queued", got)
	}
}

func TestACancelWithChildrenEndsWhatIsVisible(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	parent := ann.submit("team-a", "x").Run
	lead := f.withToken(f.createToken("lead", "team-", scopesWithout(auth.PermissionWork)...))
	child := mustCall[store.Submitted](lead, "POST /v1/messages", `{"thread":"hers","text":"x","parent":"`+parent+`"}`).Run
	own := mustCall[store.Submitted](ann, "POST /v1/messages", `{"thread":"own","text":"x","parent":"`+parent+`"}`).Run
	mustCall[api.Run](ann, "POST /v1/runs/"+parent+"/cancel", `{"children":true}`)
	if got := mustCall[api.Run](lead, "GET /v1/runs/"+child, "").Status; got != mailroom.StatusQueued {
		t.Errorf("another token's child of ann's run is %s, want queued", got)
	}
	if got := mustCall[api.Run](ann, "GET /v1/runs/"+own, "").Status; got != mailroom.StatusCancelled {
		t.Errorf("her own is %s, want cancelled", got)
	}
}

func TestATokenReachesThreadsOfOthersInItsNamespaceOnly(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	ann.submit("team-1", "from ann")
	team := f.withToken(f.createToken("team", "team-", scopesWithout(auth.PermissionWork)...))
	f.wantCode("a new thread within the namespace of others", ann.call("POST /v1/threads/team-2/messages",
		`{"text":"mine"}`), 404, mailroom.CodeNotFound)
	ann.submit("teams", "not theirs")
	if a := team.call("POST /v1/threads/team-1/messages", `{"text":"from the team"}`); a.status != 202 {
		t.Errorf("a submit within the namespace: %d %s", a.status, a.body)
	}
	team.submit("elsewhere", "their own")
	if a := team.call("GET /v1/threads/elsewhere", ""); a.status != 200 {
		t.Errorf("own thread outside of the namespace: %d %s", a.status, a.body)
	}
	f.wantCode("beside the namespace", team.call("GET /v1/threads/teams", ""), 404, mailroom.CodeNotFound)
	if owner := mustCall[api.Thread](ann, "GET /v1/threads/team-1", "").Owner; owner != "ann" {
		t.Errorf("owner %q", owner)
	}
}

func TestAThreadMadeByARunHasTheRunsOwner(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	ann.submit("t", "go")
	w := f.claim()
	_, err := f.ledger.Workers().Append(t.Context(), thread.StepCommit{Claim: w.Claim, Number: 1, Step: mailroom.Step{
		Sends: []mailroom.Send{{Name: "help", Thread: "helper", Parts: mailroom.Text("do it"), Answer: mailroom.AnswerWait}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := mustCall[api.Thread](ann, "GET /v1/threads/helper", ""); got.Owner != "ann" || *got.Parent != "t" {
		t.Errorf("owner of the thread that her run created: %q", got.Owner)
	}
	f.wantCode("bob", bob.call("GET /v1/threads/helper", ""), 404, mailroom.CodeNotFound)
}

func TestOneOfTwoConcurrentCreatorsOwnsAThread(t *testing.T) {
	f := start(t)
	both := []*fixture{f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))}
	for n := range 20 {
		answers := make(chan response, 2)
		for _, f := range both {
			go func() { answers <- f.call("POST /v1/messages", fmt.Sprintf(`{"thread":"t%d","text":"me first"}`, n)) }()
		}
		one, two := <-answers, <-answers
		if one.status > two.status {
			one, two = two, one
		}
		if one.status != 202 || two.status != 404 || two.problem(t).Detail != fmt.Sprintf(`no thread "t%d"`, n) {
			t.Fatalf("%d %s\n%d %s\nwant one accepted and one not found", one.status, one.body, two.status, two.body)
		}
	}
}

func TestTheStreamOfAllThreadsShowsWhatIsVisible(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	r, everything := ann.openAll(""), f.openAll("")
	submit := func(who *fixture, thread string) store.Submitted { return who.submit(thread, "x") }
	wantThreads := func(r *reader, want ...string) {
		t.Helper()
		for _, want := range want {
			lines := r.block()
			if thread, _, _ := strings.Cut(strings.SplitN(lines, `"thread":"`, 2)[1], `"`); thread != want {
				t.Errorf("thread %q, want %q: %s", thread, want, lines)
			}
		}
	}
	his, mine := submit(bob, "b"), submit(ann, "a")
	f.bus.Publish(bus.Notice{Thread: "a", Delta: &entry.Delta{Run: his.Run, Text: "of another thread"}})
	f.bus.Publish(bus.Notice{Thread: "b", Delta: &entry.Delta{Run: his.Run, Text: "his"}})
	f.bus.Publish(bus.Notice{Thread: "a", Delta: &entry.Delta{Run: mine.Run, Text: "hers"}})
	wantThreads(r, "a", "a", "a")
	wantThreads(everything, "b", "b", "a", "a", "b", "a")

	// A new thread under a used id is authorized again.
	cancel := func(who *fixture, sent store.Submitted) {
		t.Helper()
		mustCall[api.Run](who, "POST /v1/runs/"+sent.Run+"/cancel", "")
	}
	drop := func(who *fixture, thread string) {
		t.Helper()
		if a := who.call("DELETE /v1/threads/"+thread, ""); a.status != 204 {
			t.Fatal(a.body)
		}
	}
	cancel(ann, mine)
	wantThreads(r, "a") // before it is dropped with the thread
	drop(ann, "a")
	cancel(bob, submit(bob, "a"))
	drop(bob, "a")
	submit(ann, "a")
	wantThreads(r, "a", "a")
	if a := ann.call("GET /v1/threads/a/entries", ""); strings.Contains(a.body, "bob") {
		t.Errorf("%s has an entry of bob", a.body)
	}
}

// TestRevocationEndsOpenStreamsAndSockets revokes over the same server and in another process.
func TestRevocationEndsOpenStreamsAndSockets(t *testing.T) {
	for name, revoke := range map[string]func(*fixture) error{
		"over this server":   func(f *fixture) error { return f.client.Accounts().RevokeToken(f.t.Context(), "ann") },
		"by another process": func(f *fixture) error { return f.ledger.Accounts().RevokeToken(f.t.Context(), "ann") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
			run := ann.submit("t", "x").Run
			streams := []*reader{
				ann.open(200, "/v1/threads/t/stream?after=2"), ann.open(200, "/v1/runs/"+run+"/stream?after=2"), ann.openAll(""),
			}
			other := f.open(200, "/v1/threads/t/stream?after=2")
			socket, follower := ann.dialWithToken(), ann.dialWithToken()
			follower.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
			follower.want("ack 1 1")
			waits := make(chan response, 1)
			go func() { waits <- ann.call("GET /v1/runs/"+run+"/wait?timeout=15s", "") }()
			f.waitSubscribers(6) // the streams, the wait, the other and the subscription

			begin := time.Now()
			if err := revoke(f); err != nil {
				t.Fatal(err)
			}
			for _, r := range streams {
				if got := r.block(); got != "" && !strings.HasPrefix(got, ":") {
					t.Errorf("a revoked stream continues with %q", got)
				}
			}
			f.wantCode("the wait", <-waits, 401, mailroom.CodeUnauthenticated)
			for _, p := range []*peer{socket, follower} {
				if got := p.closed(); got.Code != 4401 {
					t.Errorf("a socket is closed with %v, want 4401", got)
				}
			}
			t.Logf("all ended after %s", time.Since(begin))
			f.wantCode("from then on", ann.call("GET /v1/threads", ""), 401, mailroom.CodeUnauthenticated)
			f.submit("t", "y")
			other.want("entry 3 message") // other tokens are not affected

			// A new token of the same name does not revive the old secret.
			next := f.withToken(f.createToken("ann", "", auth.PermissionRead))
			f.wantCode("the old secret", ann.call("GET /v1/threads", ""), 401, mailroom.CodeUnauthenticated)
			if got := next.listThreads("threads", "", 50); !slices.Equal(got, []string{"t"}) {
				t.Errorf("the next token of that name sees %q, want t", got)
			}
		})
	}
}

// waitSubscribers waits until n streams and waits are open.
func (f *fixture) waitSubscribers(n int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	for want := fmt.Sprintf("\nmailroom_stream_subscribers %d\n", n); ctx.Err() == nil; {
		if strings.Contains(f.call("GET /metrics", "").body, want) {
			return
		}
	}
	f.t.Fatalf("timeout waiting for %d streams and waits", n)
}

func TestTokensAreListedWithoutTheirSecrets(t *testing.T) {
	f := start(t)
	team := "team-"
	made, err := f.client.Accounts().CreateToken(t.Context(),
		api.NewToken{Name: "ann", Scopes: []auth.Permission{"read"}, Namespace: team})
	if err != nil || !strings.HasPrefix(made.Secret, "mr_") || len(made.Secret) < 50 {
		t.Fatalf("%+v, %v", made, err)
	}
	f.createToken("worker", "", auth.PermissionWork)
	if err := f.client.Accounts().RevokeToken(t.Context(), "worker"); err != nil {
		t.Fatal(err)
	}
	got, err := f.client.Accounts().Tokens(t.Context())
	if err != nil || len(got) != 2 || got[1].RevokedAt == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	want := api.Token{Name: "ann", Scopes: []auth.Permission{"read"}, Namespace: &team, Agents: []string{}, Kind: "token",
		CreatedAt: made.CreatedAt, Quotas: auth.Quotas{"threads": 0, "bytes": 0, "notifications": 0, "workers": 0,
			"streams": 256}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	// Its last use is recorded to the minute.
	ann := f.withToken(made.Secret)
	for end := time.Now().Add(5 * time.Minute); got[0].UsedAt == nil && time.Now().Before(end) &&
		err == nil; got, err = f.client.Accounts().Tokens(t.Context()) {
		ann.call("GET /v1/threads", "")
	}
	if at := got[0].UsedAt; at == nil || at.Second() != 0 || time.Since(*at) > 2*time.Minute {
		t.Errorf("used at %v, want this minute", at)
	}
	for _, e := range []struct {
		body   string
		status int
		code   mailroom.Code
	}{
		{`{"name":"ann","scopes":["read"]}`, 409, mailroom.CodeConflict},
		{`{"name":"admin","scopes":["read"]}`, 422, mailroom.CodeInvalid},
		{`{"name":"..","scopes":["read"]}`, 422, mailroom.CodeInvalid},
		{`{"name":"a b","scopes":["read"]}`, 422, mailroom.CodeInvalid},
		{`{"name":"x","scopes":[]}`, 422, mailroom.CodeInvalid},
		{`{"name":"x","scopes":["fly"]}`, 422, mailroom.CodeInvalid},
		{`{"name":"x"}`, 422, mailroom.CodeInvalid},
		{`{"name":"x","scopes":["work"],"namespace":"a"}`, 422, mailroom.CodeInvalid},
		{`{"name":"x","scopes":["read"],"namespace":"a/"}`, 422, mailroom.CodeInvalid},
		{`{"name":"x","scopes":["read"],"token":"mine"}`, 422, mailroom.CodeInvalid},
	} {
		f.wantCode(e.body, f.call("POST /v1/tokens", e.body), e.status, e.code)
	}
	f.wantCode("an unknown token", f.call("DELETE /v1/tokens/unknown", ""), 404, mailroom.CodeNotFound)
	if a := f.call("DELETE /v1/tokens/worker", ""); a.status != 204 {
		t.Errorf("revoked again: %d %s", a.status, a.body)
	}
}

func TestFramesReachWhatIsVisible(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createToken("ann", "", scopesWithout("")...)),
		f.withToken(f.createToken("bob", "", scopesWithout("")...))
	theirs := ann.makeObjects("theirs")
	nothing := map[string]string{"thread": "none", "run": "no-run", "ticket": "no-ticket"}
	p := bob.dialWithToken()
	before := f.snapshot()
	exchange := func(frame string, things map[string]string) string {
		p.send("%s", fillIDs(frame, things))
		h := p.next()
		if h.Error == nil {
			return h.String()
		}
		return maskIDs(response{status: h.Error.Status, body: fmt.Sprintf("%q %s %v", h.Error.Detail, h.Error.Code,
			h.Error.Errors)}, things)
	}
	for _, frame := range []string{
		`{"op":"subscribe","id":1,"thread":"{thread}"}`, `{"op":"subscribe","id":1,"run":"{run}"}`,
		`{"op":"subscribe","id":1,"thread":"{thread}","run":"{run}"}`,
		`{"op":"resume","id":1,"thread":"{thread}","run":"{run}"}`,
		`{"op":"cancel","id":1,"run":"{run}"}`, `{"op":"interrupt","id":1,"thread":"{thread}"}`,
		`{"op":"decide","id":1,"ticket":"{ticket}","decision":"deny"}`,
	} {
		want, got := exchange(frame, nothing), exchange(frame, theirs)
		if got != want || !strings.HasPrefix(want, "404 ") {
			t.Errorf("%s: %s\nof a missing object: %s\nwant both the same, with status 404", frame, got, want)
		}
	}
	if got := exchange(`{"op":"submit","id":1,"thread":"{thread}","text":"x"}`, theirs); !strings.Contains(got,
		"not_found") {
		t.Errorf("a submit: %s, want not_found", got)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused frames changed\n%s to\n%s", before, after)
	}
	reader := f.withToken(f.createToken("reader", "", auth.PermissionRead)).dialWithToken()
	reader.send(`{"op":"submit","id":1,"text":"x"}`)
	reader.want("error 1 forbidden")
}
