package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// registerRemote registers a remote worker of an agent and claims at most that many due runs.
func (f *fixture) registerRemote(agent string, most int) api.Claims {
	f.t.Helper()
	return mustCall[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"agents":[%q],"max":%d,"round":1}`, agent, most))
}

// submitRemote submits to the agent "far", which a remote worker serves.
func (f *fixture) submitRemote(thread, text string) store.Submitted {
	f.t.Helper()
	return mustCall[store.Submitted](f, "POST /v1/threads/"+thread+"/messages",
		fmt.Sprintf(`{"text":%q,"agent":"far"}`, text))
}

// claimRemote returns a worker of the agent "far" and its claim of one run of thread t.
func (f *fixture) claimRemote() (worker string, c api.Claim) {
	f.t.Helper()
	worker = f.registerRemote("far", 0).Worker
	f.submitRemote("t", "hello")
	claims := f.claimRound(worker, 1)
	if len(claims) != 1 {
		f.t.Fatalf("claimed %d runs", len(claims))
	}
	return worker, claims[0]
}

func (f *fixture) claimRound(worker string, round int) []api.Claim {
	f.t.Helper()
	return mustCall[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":%d,"max":10}`, worker,
		round)).Claims
}

func (f *fixture) renew(worker string, round int, held ...string) api.Renewed {
	f.t.Helper()
	raw, err := json.Marshal(api.Renewal{Round: int64(round), Held: append([]string{}, held...)})
	if err != nil {
		f.t.Fatal(err)
	}
	return mustCall[api.Renewed](f, "POST /v1/workers/"+worker+"/renew", string(raw))
}

// callClaim calls an operation under a claim.
func (f *fixture) callClaim(claim, what, body string, headers ...string) response {
	f.t.Helper()
	return f.call("POST /v1/claims/"+claim+"/"+what, body, headers...)
}

// texts returns the messages of a thread in log order.
func (f *fixture) texts(thread string) (texts []string) {
	f.t.Helper()
	page := mustCall[api.Page[mailroom.Entry]](f, "GET /v1/threads/"+thread+"/entries?kind=message&limit=500", "")
	for _, e := range page.Items {
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			f.t.Fatal(err)
		}
		if m.Partial {
			m.Text += " (partial)"
		}
		texts = append(texts, m.Text)
	}
	return texts
}

// mustCallAs is mustCall with another Authorization header.
func mustCallAs[T any](f *fixture, route, body, account string) (out T) {
	f.t.Helper()
	a := f.call(route, body, account)
	if err := json.Unmarshal([]byte(a.body), &out); a.status > 299 || err != nil {
		f.t.Fatalf("%s: %d %s, %v", route, a.status, a.body, err)
	}
	return out
}

// createTokenHeader creates a token and returns its Authorization header.
func (f *fixture) createTokenHeader(body string) string {
	f.t.Helper()
	made := mustCall[struct {
		Secret string `json:"token"`
	}](f, "POST /v1/tokens", body)
	return "Authorization: Bearer " + made.Secret
}

func TestARemoteWorkerServesARun(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	if len(c.Messages) != 1 || c.Messages[0].Text != "hello" || c.Run.Status != mailroom.StatusRunning ||
		*c.Run.Worker != worker || c.Claim != c.Run.ID+":1" {
		t.Errorf("claimed %+v", c)
	}
	for _, step := range []struct{ what, body, want string }{
		{"deltas", `{"offset":0,"text":"Let me "}`, `"offset":7`},
		{"deltas", `{"offset":7,"text":"see."}`, `"offset":11`},
		{"entries",
			`{"number":1,"message":{"text":"Let me see."},"step":{"name":"look","checkpoint":{"page":2},"state":{"seen":true},"progress":0.5,"usage":{"input_tokens":3,"output_tokens":4,"cost_usd":0}}}`, `"seq":5`},
		{"deltas", `{"offset":0,"text":"It is"}`, `"message":"` + c.Run.ID + `.1-2"`},
		{"settle", `{"number":2,"outcome":"complete","text":"It is green."}`, `"status":"completed"`},
	} {
		if a := f.callClaim(c.Claim, step.what, step.body); a.status != 200 || !strings.Contains(a.body, step.want) {
			t.Fatalf("%s %s: %d %s, want %s", step.what, step.body, a.status, a.body, step.want)
		}
	}
	r := mustCall[api.Run](f, "GET /v1/runs/"+c.Run.ID, "")
	if *r.Reply != "It is green." || r.Steps != 1 || r.Progress != 1 || r.Usage.OutputTokens != 4 {
		t.Errorf("run %+v", r)
	}
	if diff := cmp.Diff([]string{"hello", "Let me see.", "It is green."}, f.texts("t")); diff != "" {
		t.Error(diff)
	}
	f.submitRemote("t", "more")
	next := f.claimRound(worker, 2)
	if len(next) != 1 || string(next[0].State) != `{"seen":true}` || string(next[0].Checkpoint) != "null" {
		t.Errorf("the next claim is %+v, want the state of the thread", next)
	}
}

func TestARepeatedClaimRoundReturnsTheSameClaims(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	if again := f.claimRound(worker, 1); len(again) != 1 || again[0].Claim != c.Claim ||
		again[0].Messages[0].Text != "hello" {
		t.Errorf("the repeated round is answered with %+v, want its claims", again)
	}
	f.submitRemote("u", "two")
	if next := f.claimRound(worker, 2); len(next) != 1 || next[0].Run.Thread != "u" {
		t.Errorf("next round returned %+v", next)
	}
	f.wantCode("a round before", f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":1}`, worker)), 409,
		mailroom.CodeConflict)
}

func TestAnUnacknowledgedClaimIsReleasedByTheNextRenewal(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote() // this response counts as lost
	renewed := f.renew(worker, 0)
	if run := mustCall[api.Run](f, "GET /v1/runs/"+c.Run.ID, ""); run.Status != mailroom.StatusRunning ||
		renewed.LeaseMS != 15000 {
		t.Errorf("run after a renewal without a round: %s, %+v", run.Status, renewed)
	}
	if out := f.renew(worker, 1, c.Claim); len(out.Lost) != 0 {
		t.Errorf("renewal lost a held claim: %+v", out)
	}
	f.renew(worker, 1)
	run := mustCall[api.Run](f, "GET /v1/runs/"+c.Run.ID, "")
	if run.Status != mailroom.StatusQueued || run.Crashes != 0 || run.Failures != 0 {
		t.Errorf("run is %s with %d crashes, want queued and none", run.Status, run.Crashes)
	}
	f.wantCode("a step under it", f.callClaim(c.Claim, "entries", `{"number":1}`), 409, mailroom.CodeLeaseLost)
	if out := f.renew(worker, 1, c.Claim); !cmp.Equal(out.Lost, []string{c.Claim}) {
		t.Errorf("got lost %v", out.Lost)
	}
	if next := f.claimRound(worker, 2); len(next) != 1 || next[0].Run.Attempt != 2 {
		t.Errorf("next claim %+v", next)
	}
}

// Each round of a worker ends the one before, whatever that does at the moment.
func TestARoundThatIsEndedByAnotherHasNoClaims(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0).Worker
	var rounds sync.WaitGroup
	for round := range 100 {
		rounds.Go(func() {
			body := fmt.Sprintf(`{"worker":%q,"round":%d,"wait":"1ms"}`, worker, round+1)
			if got := f.call("POST /v1/claims", body); got.status != http.StatusOK {
				t.Errorf("round %d: status %d: %s", round+1, got.status, got.body)
			}
		})
	}
	rounds.Wait()
}

func TestAWaitingClaimIsServedAndEndsWithItsCaller(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0).Worker
	waitClaim := func(ctx context.Context, round int64) <-chan api.Claims {
		out := make(chan api.Claims, 1)
		go func() {
			defer close(out)
			got, err := f.client.Work.Claim(ctx, api.ClaimRequest{Worker: worker, Round: round}, 20*time.Second)
			if err == nil {
				out <- got
			}
		}()
		return out
	}
	gone, leave := context.WithCancel(t.Context())
	first := waitClaim(gone, 1)
	leave()
	if got, ok := <-first; ok {
		t.Errorf("cancelled claim returned %+v", got)
	}
	briefly := func(round int) []api.Claim {
		return mustCall[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":%d,"wait":"10ms"}`, worker,
			round)).Claims
	}
	second := waitClaim(t.Context(), 2)
	if got := briefly(3); len(got) != 0 || got == nil {
		t.Errorf("after its timeout a claim got %+v, want an empty list", got)
	}
	f.submitRemote("t", "hello")
	claimed, round := len(briefly(4))+len((<-second).Claims), 5 // the later round ended the second
	for ; claimed == 0 && round < 2000; round++ {               // on a busy machine a claim may take longer than a round
		claimed = len(briefly(round))
	}
	if claimed != 1 {
		t.Errorf("the rounds claimed %d runs, want one", claimed)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := f.client.Work.Claim(t.Context(), api.ClaimRequest{Worker: worker, Round: int64(round)}, 20*time.Second)
		waiting <- err
	}()
	f.stop()
	if err := <-waiting; mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("claim during the shutdown: %v", err)
	}
}

func TestStepsAndSettlesAreRepeatedByTheirNumber(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	step := `{"number":1,"step":{"name":"one"},"message":{"text":"said"}}`
	first := f.callClaim(c.Claim, "entries", step)
	if again := f.callClaim(c.Claim, "entries", step); again.status != 200 || again.body != first.body {
		t.Errorf("the same step again: %d %s, want %s", again.status, again.body, first.body)
	}
	f.wantCode("other content", f.callClaim(c.Claim, "entries", `{"number":1,"step":{"name":"two"}}`), 409,
		mailroom.CodeConflict)
	f.wantCode("a hole", f.callClaim(c.Claim, "entries", `{"number":3,"step":{"name":"three"}}`), 409,
		mailroom.CodeConflict)
	for _, settle := range []string{
		`{"number":2,"outcome":"complete","text":"done"}`, `{"number":2,"outcome":"complete","text":"done"}`,
	} {
		if a := f.callClaim(c.Claim, "settle", settle); a.status != 200 || !strings.Contains(a.body, `"status":"completed"`) {
			t.Errorf("%s: %d %s", settle, a.status, a.body)
		}
	}
	f.wantCode("another end", f.callClaim(c.Claim, "settle", `{"number":2,"outcome":"fail","failure":{"message":"no"}}`),
		409, mailroom.CodeLeaseLost)
	if diff := cmp.Diff([]string{"hello", "said", "done"}, f.texts("t")); diff != "" {
		t.Error(diff)
	}
}

func TestTextIsStoredOnceWithoutGaps(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	for _, p := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"offset":0,"text":"grü"}`, 200, `"offset":4`},
		{`{"offset":0,"text":"grü"}`, 200, `"offset":4`},              // a repeat
		{`{"offset":2,"text":"üße"}`, 200, `"offset":7`},              // continues the text
		{`{"offset":3,"text":"x"}`, 422, "splits a char"},             // half of the ü
		{`{"offset":2,"text":"u"}`, 409, "different text"},            // than is stored
		{`{"offset":9,"text":"x"}`, 422, "leaves a gap"},              // of two bytes
		{`{"offset":7,"text":"a\u0000"}`, 422, "NUL"},                 // NUL is not text
		{`{"offset":50,"text":"x","live":true}`, 200, "51"},           // live text is not stored
		{`{"offset":50,"text":"hm","channel":"thinking"}`, 200, "52"}, // neither is thinking
		{`{"offset":7,"text":"x","channel":"loud"}`, 422, "channel"},
		{`{"offset":7,"text":"!","message":"` + c.Run.ID + `.1-1"}`, 200, `"offset":8`},
		{`{"offset":0,"text":"x","message":"` + c.Run.ID + `.1-3"}`, 422, "comes after"},
		{`{"offset":0,"text":"x","message":"elsewhere"}`, 422, "not belong to this attempt"},
		{`{"offset":1048576,"text":"x"}`, 413, "exceeds the limit"},
	} {
		if a := f.callClaim(c.Claim, "deltas", p.body); a.status != p.status || !strings.Contains(a.body, p.want) {
			t.Errorf("%s: %d %s, want %d %s", p.body, a.status, a.body, p.status, p.want)
		}
	}
	if a := f.callClaim(c.Claim, "settle", `{"number":1,"outcome":"release"}`); a.status != 200 {
		t.Fatal(a.body)
	}
	if diff := cmp.Diff([]string{"hello", "grüße! (partial)"}, f.texts("t")); diff != "" {
		t.Error(diff)
	}
}

func TestOrdersComeWithEveryClaimResponse(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	mustCall[store.Submitted](f, "POST /v1/threads/t/messages", `{"text":"and this","mode":"steer"}`)
	if a := f.callClaim(c.Claim, "deltas", `{"offset":0,"text":""}`); !strings.Contains(a.body, `"steered":true`) {
		t.Errorf("response %s", a.body)
	}
	if out := f.renew(worker, 1, c.Claim); !cmp.Equal(out.Steered, []string{c.Claim}) {
		t.Errorf("renewed: %+v", out)
	}
	handed := f.callClaim(c.Claim, "steered", `{"after":0}`)
	var got api.HandedOver
	if err := json.Unmarshal([]byte(handed.body), &got); err != nil || len(got.Messages) != 1 ||
		got.Messages[0].Text != "and this" {
		t.Fatalf("steered messages %s, %v", handed.body, err)
	}
	if a := f.callClaim(c.Claim, "entries", fmt.Sprintf(`{"number":1,"step":{"name":"x"},"covers":%d}`,
		got.Last)); !strings.Contains(a.body, `"steered":false`) {
		t.Errorf("response %s", a.body)
	}
	f.call("POST /v1/runs/"+c.Run.ID+"/cancel", "")
	for _, a := range []response{
		f.callClaim(c.Claim, "deltas", `{"offset":0,"text":"so far","live":true}`),
		f.callClaim(c.Claim, "deltas", `{"offset":0,"text":"so far"}`),
		f.callClaim(c.Claim, "entries", `{"number":2,"step":{"record":true}}`), f.call("GET /v1/claims/"+c.Claim+"/run", ""),
	} {
		if !strings.Contains(a.body, `"stop":"cancelled"`) {
			t.Errorf("response %s", a.body)
		}
	}
	if out := f.renew(worker, 1, c.Claim); !cmp.Equal(out.Stop,
		[]api.StopOrder{{Claim: c.Claim, Reason: mailroom.ReasonCancelled}}) {
		t.Errorf("renewed: %+v", out)
	}
	if a := f.callClaim(c.Claim, "settle", `{"number":3,"outcome":"release"}`); !strings.Contains(a.body,
		`"status":"cancelled"`) {
		t.Errorf("settled: %s", a.body)
	}
	if diff := cmp.Diff([]string{"hello", "and this", "so far (partial)"}, f.texts("t")); diff != "" {
		t.Error(diff)
	}
}

func TestARemoteRunWaitsAndContinues(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	a := f.callClaim(c.Claim, "settle", `{"number":1,"outcome":"wait","wait":{"names":["deploy"]},`+
		`"tickets":[{"name":"deploy","kind":"approval","prompt":"Deploy?","action":"deploy","arguments":{"Path":"<b>"}}]}`)
	if a.status != 200 || !strings.Contains(a.body, `"status":"waiting"`) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	open := mustCall[api.Page[api.Ticket]](f, "GET /v1/tickets?q=run:"+c.Run.ID, "").Items[0]
	if d := f.decide(open.ID, fmt.Sprintf(`{"decision":"approve","digest":%q}`, open.Digest)); d.status != 200 {
		t.Fatal(d.body)
	}
	next := f.claimRound(worker, 2)
	if len(next) != 1 || next[0].Run.Attempt != 2 || len(next[0].Tickets) != 1 ||
		*next[0].Tickets[0].Decision != mailroom.VerdictApprove {
		t.Fatalf("resumed claim %+v", next)
	}
	seen := mustCall[api.Page[api.Ticket]](f, "GET /v1/claims/"+next[0].Claim+"/tickets", "")
	want := mailroom.Ask{Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "Deploy?", Action: "deploy",
		Arguments: []byte(`{"Path":"<b>"}`)}
	if k := seen.Items[0].Ticket(); k.Digest != thread.AskDigest(&want) {
		t.Errorf("the digest of %+v is not that of the question", k)
	}
}

func TestAnEffectIsIntendedAndSettledOnce(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	record := func(number int, kind, rest string) response {
		return f.callClaim(c.Claim, "entries",
			fmt.Sprintf(
				`{"number":%d,"step":{"record":true},"effects":[{"kind":"effect.%s","body":{"name":"pay","input":"12"%s}}]}`,
				number, kind, rest))
	}
	for _, a := range []response{record(1, "intended", ""), record(1, "intended", ""),
		record(2, "settled", `,"result":{"ok":true}`), record(2, "settled", `,"result":{"ok":true}`)} {
		if a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	f.wantCode("once more", record(3, "intended", ""), 409, mailroom.CodeConflict)
	f.wantCode("no such kind", f.callClaim(c.Claim, "entries",
		`{"number":3,"effects":[{"kind":"run.completed","body":{"name":"pay"}}]}`), 422, mailroom.CodeInvalid)
	f.wantCode("not its key", record(3, "intended", `,"key":"other"`), 422, mailroom.CodeInvalid)
	f.wantCode("no name", f.callClaim(c.Claim, "entries", `{"number":3,"effects":[{"kind":"effect.intended","body":{}}]}`),
		422, mailroom.CodeInvalid)
	got := mustCall[api.Page[api.Effect]](f, "GET /v1/claims/"+c.Claim+"/effects", "").Items
	if len(got) != 1 || got[0].Last != entry.KindEffectSettled || string(got[0].Result) != `{"ok":true}` ||
		got[0].Key != c.Run.ID+"/pay" || got[0].Tries != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestWorkersAndClaimsOfOtherTokensAreNotFound(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	stranger := f.createTokenHeader(`{"name":"stranger","scopes":["work"]}`)
	reader := f.createTokenHeader(`{"name":"reader","scopes":["read","submit","decide"]}`)
	before := f.snapshot()
	for _, route := range []string{
		"POST /v1/workers/" + worker + "/renew", "POST /v1/workers/" + worker + "/leave", "POST /v1/claims",
		"POST /v1/claims/" + c.Claim + "/entries", "POST /v1/claims/" + c.Claim + "/deltas", "POST /v1/claims/" +
			c.Claim + "/settle",
		"POST /v1/claims/" + c.Claim + "/steered", "GET /v1/claims/" + c.Claim + "/run", "GET /v1/claims/" +
			c.Claim + "/input", "POST /v1/claims/" + c.Claim + "/uploads", "GET /v1/claims/" + c.Claim + "/blobs",
		"GET /v1/claims/" + c.Claim + "/blob?name=x",
		"GET /v1/claims/" + c.Claim + "/transcript", "GET /v1/claims/" + c.Claim + "/tickets", "GET /v1/claims/" + c.Claim +
			"/effects",
	} {
		body := map[string]string{
			"renew": `{"round":9,"held":[]}`, "entries": `{"number":1}`, "deltas": `{"offset":0,"text":"x"}`,
			"settle":  `{"number":1,"outcome":"release"}`,
			"steered": `{}`, "claims": fmt.Sprintf(`{"worker":%q,"round":2}`, worker),
		}[route[strings.LastIndexByte(route, '/')+1:]]
		f.wantCode(route, f.call(route, body, stranger), 404, mailroom.CodeNotFound)
		f.wantCode(route, f.call(route, body, reader), 403, mailroom.CodeForbidden)
	}
	if out := mustCall[api.Renewed](f, "POST /v1/workers/"+worker+"/renew", fmt.Sprintf(`{"round":1,"held":[%q]}`,
		c.Claim)); len(out.Lost) != 0 {
		t.Errorf("renewal of the claim's worker lost the claim: %+v", out)
	}
	// A worker of another token cannot renew a foreign claim.
	other := mustCallAs[api.Claims](f, "POST /v1/claims", `{"agents":["far"],"max":0}`, stranger)
	if a := f.call("POST /v1/workers/"+other.Worker+"/renew", fmt.Sprintf(`{"round":1,"held":[%q]}`, c.Claim),
		stranger); !strings.Contains(a.body, `"lost":["`+c.Claim+`"]`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("rows changed to\n%s\nbefore:\n%s", after, before)
	}
	// A settle by the claim's own worker can be repeated.
	settle := `{"number":1,"outcome":"complete","text":"done"}`
	f.callClaim(c.Claim, "settle", settle)
	f.wantCode("a settle of a claim that has ended", f.callClaim(c.Claim, "settle", settle, stranger), 404,
		mailroom.CodeNotFound)
	if a := f.callClaim(c.Claim, "settle", settle); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestAWorkerEndsWithItsToken revokes the token of a worker that has a claim, and creates its name again.
func TestAWorkerEndsWithItsToken(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		f := startStore(t, open(t), func(ln net.Listener) net.Listener { return ln })
		create := func() *fixture { return f.withToken(f.createToken("far-away", "", auth.PermissionWork)) }
		old := create()
		worker := old.registerRemote("far", 0).Worker
		run := f.submitRemote("t", "hello").Run
		claims := old.claimRound(worker, 1)
		if len(claims) != 1 {
			t.Fatalf("claimed %d runs", len(claims))
		}
		if err := f.client.Accounts().RevokeToken(t.Context(), "far-away"); err != nil {
			t.Fatal(err)
		}
		again := create()
		settle := `{"number":1,"outcome":"complete","text":"stolen"}`
		f.wantCode("the revoked token", old.callClaim(claims[0].Claim, "settle", settle), 401, mailroom.CodeUnauthenticated)
		for what, got := range map[string]response{
			"settle": again.callClaim(claims[0].Claim, "settle", settle), "append": again.callClaim(claims[0].Claim, "entries",
				`{"number":1,"step":{}}`),
			"renew": again.call("POST /v1/workers/"+worker+"/renew", `{"round":1,"held":[]}`),
			"claim": again.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2}`, worker)),
		} {
			if p := got.problem(t); p.Code != mailroom.CodeLeaseLost && p.Code != mailroom.CodeNotFound {
				t.Errorf("the next token of the name: %s: %d %s", what, got.status, got.body)
			}
		}
		row := mustCall[api.Run](f, "GET /v1/runs/"+run, "")
		if row.Status != mailroom.StatusQueued || row.Worker != nil {
			t.Errorf("the run is %s with worker %v, want queued for another worker", row.Status, row.Worker)
		}
		next := again.registerRemote("far", 0).Worker
		if claims := again.claimRound(next, 1); len(claims) != 1 || claims[0].Run.ID != run {
			t.Errorf("the next worker claims %+v", claims)
		}
	})
}

func TestATokenServesItsAgentsOnly(t *testing.T) {
	f := start(t)
	coder := f.createTokenHeader(`{"name":"laptop","scopes":["work"],"agents":["coder"]}`)
	f.wantCode("another agent", f.call("POST /v1/claims", `{"agents":["far"],"max":0}`, coder), 403,
		mailroom.CodeForbidden)
	f.wantCode("the server's own", f.call("POST /v1/claims", `{"agents":["echo"],"max":0}`), 409, mailroom.CodeConflict)
	claims := mustCallAs[api.Claims](f, "POST /v1/claims",
		`{"agents":{"coder":2},"max":2,"round":1,"host":"desk","pid":7}`, coder)
	if a := f.call("POST /v1/messages", `{"text":"x","agent":"coder","thread":"t"}`); a.status != 202 {
		t.Errorf("submit to a registered agent: %d %s, want 202", a.status, a.body)
	}
	f.wantCode("not registered", f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2,"agents":["far"]}`,
		claims.Worker), coder), 422, mailroom.CodeInvalid)
	if a := f.call("POST /v1/workers/"+claims.Worker+"/leave", "", coder); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	f.wantCode("after it left", f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2}`, claims.Worker), coder),
		409, mailroom.CodeLeaseLost)
	if a := f.call("POST /v1/messages", `{"text":"x","agent":"coder","thread":"t"}`); a.status != 202 {
		t.Errorf("submit within a day of the last registration: %d %s, want 202", a.status, a.body)
	}
}

func TestRunsOfARemoteAgentWaitADay(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0).Worker
	f.call("POST /v1/workers/"+worker+"/leave", "")
	run := f.submitRemote("t", "hello").Run
	failOrphans := func() {
		if err := f.ledger.Workers().FailOrphans(t.Context(), []string{"echo"}, time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}
	failOrphans()
	if r := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); r.Status != mailroom.StatusQueued {
		t.Errorf("the run is %s, want queued", r.Status)
	}
	_, err := f.ledger.Submit(t.Context(), thread.Submit{Thread: "u", Agent: "unknown",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	failOrphans()
	if page := mustCall[api.Page[api.Run]](f, "GET /v1/runs?q=agent:unknown",
		""); page.Items[0].Status != mailroom.StatusFailed {
		t.Errorf("a run of an unknown agent is %s", page.Items[0].Status)
	}
}

func TestBadRequestsOfWorkersAreRefused(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	own := "POST /v1/claims/" + c.Claim
	before := f.snapshot()
	for _, r := range []struct {
		route, body string
		status      int
		want        string
	}{
		{"POST /v1/claims", `{}`, 422, "body.round"},
		{"POST /v1/claims", `{"max":0}`, 422, "body.agents"},
		{"POST /v1/claims", `{"max":0,"agents":[]}`, 422, "body.agents"},
		{"POST /v1/claims", `{"max":0,"agents":"far"}`, 422, "body.agents"},
		{"POST /v1/claims", `{"max":0,"agents":{"far":-1}}`, 422, "body.agents"},
		{"POST /v1/claims", `{"max":0,"agents":["a/b"]}`, 422, "body.agents"},
		{"POST /v1/claims", `{"max":1001,"agents":["far"]}`, 422, "body.max"},
		{"POST /v1/claims", `{"agents":["far"],"round":1,"wait":"61s"}`, 422, "body.wait"},
		{"POST /v1/claims", `{"agents":["far"],"round":1,"wait":"soon"}`, 422, "body.wait"},
		{"POST /v1/claims", `{"agents":["far"],"round":1,"Slots":1}`, 422, "body.Slots"},
		{"POST /v1/claims", `{"worker":"unknown","round":1}`, 404, "unknown"},
		{"POST /v1/workers/" + worker + "/renew", `{"round":1}`, 422, "held"},
		{"POST /v1/workers/" + worker + "/renew", `{"round":1,"held":["x"]}`, 422, "body.held[0]"},
		{"POST /v1/workers/" + worker + "/leave", `{"entered":["x"]}`, 422, "body.entered[0]"},
		{"POST /v1/workers/" + worker + "/leave", `{"held":[]}`, 422, "body.held"},
		{"POST /v1/claims/nothing/settle", `{"number":1,"outcome":"release"}`, 404, "nothing"},
		{"POST /v1/claims/" + c.Run.ID + ":2/settle", `{"number":1,"outcome":"release"}`, 404, "no claim"},
		{"POST /v1/claims/" + c.Run.ID + ":01/settle", `{"number":1,"outcome":"release"}`, 404, "no claim"},
		{own + "/settle", `{"number":1}`, 422, "outcome"},
		{own + "/settle", `{"number":1,"outcome":"fail"}`, 422, "failure"},
		{own + "/settle", `{"number":1,"outcome":"wait"}`, 422, "wait"},
		{own + "/settle", `{"number":1,"outcome":"wait","wait":{"names":["x"]}}`, 422, "wait"},
		{own + "/settle", `{"number":1,"outcome":"complete","text":"a","message":{"text":"b"}}`, 422, "body.text"},
		{own + "/settle", `{"number":1,"outcome":"complete","message":{"id":"x","text":"b"}}`, 422, "body.message.id"},
		{own + "/settle", `{"number":1,"outcome":"fail","failure":{"message":"x","class":"bad"}}`, 422, "body.failure.class"},
		{own + "/settle", `{"number":1,"outcome":"fail","failure":{"message":"x","retry_after":"soon"}}`, 422, "body.failure.retry_after"},
		{own + "/entries", `{"number":0}`, 422, "body.number"},
		{own + "/entries", `{"number":1,"step":{"entries":[{"kind":"run.completed","body":{}}]}}`, 422, "kind"},
		{own + "/entries", `{"number":1,"step":{"entries":[{"kind":"x.y","body":[]}]}}`, 422, "body"},
		{own + "/entries", `{"number":1,"step":{"progress":2}}`, 422, "progress"},
		{own + "/entries", `{"number":1,"step":{"tickets":[{"name":"x","kind":"children"}]}}`, 422, "kind"},
		{own + "/entries", `{"number":1,"step":{"sends":[{"name":"x","text":"a","parts":[]}]}}`, 422, "sends"},
		{own + "/entries", `{"number":1,"Step":{}}`, 422, "body.Step"},
		{own + "/deltas", `{"text":"x"}`, 422, "offset"},
		{own + "/deltas", `{"offset":-1,"text":"x"}`, 422, "offset"},
	} {
		a := f.call(r.route, r.body)
		if a.status != r.status || !strings.Contains(a.body, r.want) || a.problem(t).Code == mailroom.CodeInternal {
			t.Errorf("%s %s: %d %s, want %d and %s", r.route, r.body, a.status, a.body, r.status, r.want)
		}
	}
	if after := f.snapshot(); after != before {
		t.Errorf("rows changed to\n%s\nbefore:\n%s", after, before)
	}
}
