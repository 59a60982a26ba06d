package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

// refusals collects the refusals of requests that need more than one request before them, or a server of their own.
type refusals struct {
	t    *testing.T
	made []string // lines of operations.md
}

// want checks that an answer is the refusal of a line: OPERATION STATUS CODE.
func (r *refusals) want(line string, a response) {
	r.t.Helper()
	_, what, _ := strings.Cut(line, " ")
	if a.status < 400 {
		r.t.Errorf("%s: got %d %s", line, a.status, a.body)
	} else if got := fmt.Sprint(a.status, " ", a.problem(r.t).Code); got != what {
		r.t.Errorf("%s: got %s: %s", line, got, a.body)
	}
	r.made = append(r.made, line)
}

// ofFullSlots are those of a token whose streams and waits are all open.
func (r *refusals) ofFullSlots() {
	f := start(r.t, func(o *server.Options) { o.Limits.MaxStreams = 1 })
	run := f.submit("t", "one").Run
	worker := f.registerRemote("far", 0).Worker
	f.open(200, "/v1/threads/t/stream")
	r.want("stream-thread 429 rate_limited", f.call("GET /v1/threads/t/stream", ""))
	r.want("stream-run 429 rate_limited", f.call("GET /v1/runs/"+run+"/stream", ""))
	r.want("stream-all 429 rate_limited", f.call("GET /v1/stream", ""))
	r.want("wait-run 429 rate_limited", f.call("GET /v1/runs/"+run+"/wait", ""))
	r.want("claim 429 rate_limited", f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2,"max":1,"wait":"5s"}`, worker)))
}

// ofFastWriters are those of a token that writes too fast.
func (r *refusals) ofFastWriters() {
	f := start(r.t, func(o *server.Options) { o.Limits.Submits, o.Limits.SubmitBurst = 0.001, 1 })
	f.submit("t", "one")
	r.want("submit 429 rate_limited", f.call("POST /v1/messages", `{"text":"a"}`))
	r.want("submit-to-thread 429 rate_limited", f.call("POST /v1/threads/t/messages", `{"text":"a"}`))
	r.want("approve-pairing 429 rate_limited", f.call("POST /v1/pairings", `{"code":"x"}`))
}

// ofLateDecisions are those of tickets that have expired, by each way to decide.
func (r *refusals) ofLateDecisions() {
	f := start(r.t, withTargets)
	late := approval()
	late.After = time.Microsecond
	_, tickets := f.waiting("t", late)
	k := tickets["deploy"]
	link := linkTo(k, nil)
	r.want("decide 410 gone", f.decide(k.ID, `{"decision":"approve","digest":"`+k.Digest+`"}`))
	decisions := fmt.Sprintf(`"decisions":[{"ticket":%q,"decision":"deny"}]`, k.ID)
	r.want("submit 410 gone", f.call("POST /v1/messages", `{"thread":"t","text":"a",`+decisions+`}`))
	r.want("submit-to-thread 410 gone", f.call("POST /v1/threads/t/messages", `{"text":"a",`+decisions+`}`))
	r.want("decide-question 410 gone", f.follow("/v1/question/decision", link, `,"decision":"deny"`))
}

// ofLinks are those of links of alerts whose question is gone or another one.
func (r *refusals) ofLinks() {
	f := start(r.t, withTargets)
	_, tickets := f.waiting("t", approval())
	k := tickets["deploy"]
	other := linkTo(k, func(l *alert.Link) { l.Digest = strings.Repeat("0", 64) })
	none := linkTo(k, func(l *alert.Link) { l.Ticket = thread.TicketID("none", "none") })
	r.want("show-question 404 not_found", f.follow("/v1/question", none, ""))
	r.want("show-question 409 conflict", f.follow("/v1/question", other, ""))
	r.want("decide-question 404 not_found", f.follow("/v1/question/decision", none, `,"decision":"deny"`))
	r.want("decide-question 409 conflict", f.follow("/v1/question/decision", other, `,"decision":"deny"`))
}

// ofWorkers are those of tokens that may serve little, and of workers that have gone.
func (r *refusals) ofWorkers() {
	f := start(r.t)
	one, err := f.client.Accounts().CreateToken(r.t.Context(), api.NewToken{Name: "one", Agents: []string{"far"},
		Scopes: []auth.Permission{auth.PermissionWork}, Quotas: auth.Quotas{auth.QuotaWorkers: 1}})
	if err != nil {
		r.t.Fatal(err)
	}
	w := f.withToken(one.Secret)
	worker := w.registerRemote("far", 0).Worker
	r.want("claim 403 forbidden", w.call("POST /v1/claims", `{"agents":["near"],"max":0,"round":1}`))
	r.want("claim 403 quota", w.call("POST /v1/claims", `{"agents":["far"],"max":0,"round":1}`))
	if a := w.call("POST /v1/workers/"+worker+"/leave", `{}`); a.status > 299 {
		r.t.Fatalf("leave: %d %s", a.status, a.body)
	}
	r.want("claim 409 lease_lost", w.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2,"max":1}`, worker)))
	r.want("renew-worker 409 lease_lost", w.call("POST /v1/workers/"+worker+"/renew", `{}`))
}

// ofSends are those of a step whose sends are refused.
func (r *refusals) ofSends() {
	f := start(r.t)
	_, c := f.claimRemote()
	f.submit("busy", "one")
	step := func(send string) response {
		return f.callClaim(c.Claim, "entries", `{"number":1,"step":{"sends":[{"name":"s","text":"x",`+send+`}]}}`)
	}
	r.want("append 409 busy", step(`"thread":"busy","mode":"reject"`))
	r.want("append 403 forbidden", step(`"thread":"busy","mode":"interrupt"`))
}

// ofFullQuotas are those of a token without room, and of a server without targets or with too many rows.
func (r *refusals) ofFullQuotas() {
	f := start(r.t)
	made, err := f.client.Accounts().CreateToken(r.t.Context(), api.NewToken{Name: "small",
		Scopes: []auth.Permission{auth.PermissionSubmit, auth.PermissionRead},
		Quotas: auth.Quotas{auth.QuotaThreads: 1, auth.QuotaBytes: 4_000}})
	if err != nil {
		r.t.Fatal(err)
	}
	small := f.withToken(made.Secret)
	sent := small.submit("t", "one")
	text := strings.Repeat("x", 5_000)
	r.want("edit-message 403 quota", small.call("PATCH /v1/threads/t/messages/"+sent.Message, `{"text":"`+text+`"}`))
	r.want("reserve 403 quota", small.call("POST /v1/reservations", `{"project":"p","names":["a"],"holder":"x"}`))
	r.want("notify 403 quota", small.call("POST /v1/notifications", `{"project":"p","from":"x","to":["y"],"event":"e"}`))
	r.want("take-notifications 403 quota", small.call("POST /v1/notifications/take", `{"project":"p","agent":"x"}`))
	r.want("subscribe-push 404 not_found", f.callSubscribe("a"))
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	limited := fmt.Sprintf(`{"scopes":["read"],"threads":["t"],"expires_at":%q}`, until)
	// Sessions, links and limited tokens of one name share their bound.
	g := start(r.t, func(o *server.Options) { o.Limits.Submits = -1 })
	g.deriveTokens(auth.MaxDerived - 1)
	mustCall[api.CreatedToken](g, "POST /v1/tokens/limited", limited)
	r.want("create-limited-token 403 quota", g.call("POST /v1/tokens/limited", limited))
	r.want("create-link 403 quota", g.call("POST /v1/links", `{}`))
	rule := func(n int) response {
		return g.call("POST /v1/alerts/rules", fmt.Sprintf(`{"name":"r%d","when":["failed"],"to":["phone"]}`, n))
	}
	g = start(r.t, withTargets)
	for n := range alert.MaxRules {
		if a := rule(n); a.status > 299 {
			r.t.Fatalf("rule %d: %d %s", n, a.status, a.body)
		}
	}
	r.want("put-rule 409 conflict", rule(alert.MaxRules))
	g = startPush(r.t, func(o *server.Options) { o.Limits.Submits = -1 })
	a := g.callSubscribe("0")
	for n := 1; a.status < 300 && n < 1000; n++ {
		a = g.callSubscribe(fmt.Sprint(n))
	}
	r.want("subscribe-push 403 quota", a)
}

// deriveTokens makes n limited tokens that act for the operator, in the ledger and many in a commit: over HTTP, the
// server reads all tokens after each.
func (f *fixture) deriveTokens(n int) {
	f.t.Helper()
	var made sync.WaitGroup
	for i := range n {
		made.Go(func() {
			in := auth.Token{Sum: fmt.Sprintf("%064x", i), Terms: auth.Terms{Kind: auth.KindLimited,
				Scopes: []auth.Permission{auth.PermissionRead}, ExpiresAt: time.Now().Add(time.Hour)}}
			if _, err := f.ledger.Accounts().DeriveToken(f.t.Context(), in, auth.NewOperator(token)); err != nil {
				f.t.Error(err)
			}
		})
	}
	made.Wait()
}

// ofParts are those of channels and pairings.
func (r *refusals) ofParts() {
	elsewhere := "run by other.example"
	f := start(r.t, func(o *server.Options) {
		o.Parts.Channels = &fakeChannels{all: []api.Channel{{Name: "a", State: api.ChannelStandby, Reason: &elsewhere}}}
		o.Parts.Pairings = &fakePairings{}
	})
	r.want("resume-channel 409 conflict", f.call("POST /v1/channels/a/resume", ""))
	r.want("approve-pairing 404 not_found", f.call("POST /v1/pairings", `{"code":"other"}`))
	r.want("approve-pairing 409 conflict", f.call("POST /v1/pairings", `{"code":"FULL"}`))
}

// ofSteers are those of a run that has as many steered messages as it may have unread.
func (r *refusals) ofSteers() {
	f := start(r.t, func(o *server.Options) { o.Limits.Submits = -1 })
	f.submit("busy", "one")
	f.claimOf("echo")
	_, c := f.claimRemote()
	for range thread.MaxSteers {
		mustCall[store.Submitted](f, "POST /v1/messages", `{"thread":"busy","mode":"steer","text":"x"}`)
	}
	r.want("append 429 rate_limited", f.callClaim(c.Claim, "entries",
		`{"number":1,"step":{"sends":[{"name":"s","text":"x","thread":"busy","mode":"steer"}]}}`))
}

// ofInboxes are those of a project with as many inboxes as it may have: to look into another one would begin it.
func (r *refusals) ofInboxes() {
	f := start(r.t, func(o *server.Options) { o.Limits.Submits = -1 })
	const each = 100
	for n := range project.MaxInboxes / each {
		names := make([]string, each)
		for i := range names {
			names[i] = fmt.Sprintf("a%d", n*each+i)
		}
		in := api.Notify{From: names[0], Event: "e", To: names}
		if a := f.call("POST /v1/notifications", mustBody(r.t, in)); a.status > 299 {
			r.t.Fatalf("notification %d: %d %s", n, a.status, a.body)
		}
	}
	r.want("list-notifications 413 too_large", f.call("GET /v1/notifications?agent=another", ""))
}

// ofAlerts are those of a browser while an alert is sent to it.
func (r *refusals) ofAlerts() {
	f := startPush(r.t)
	id := f.subscribe("a")
	if _, err := f.ledger.Submit(r.t.Context(), thread.Submit{Thread: "alert:browsers:push:" + id,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}}); err != nil {
		r.t.Fatal(err)
	}
	f.claimOf("alert:browsers")
	r.want("unsubscribe-push 409 conflict", f.call("DELETE /v1/push/subscriptions/"+id, ""))
}

// callSubscribe subscribes a browser to alerts.
func (f *fixture) callSubscribe(path string) response {
	f.t.Helper()
	body, err := json.Marshal(newBrowser(path))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.call("POST /v1/push/subscriptions", string(body))
}

// refusedAtLimits gets the refusals at limits, and returns their lines.
func refusedAtLimits(t *testing.T) []string {
	r := &refusals{t: t}
	for _, refuse := range []func(){r.ofFullSlots, r.ofFastWriters, r.ofLateDecisions, r.ofLinks, r.ofWorkers, r.ofSends,
		r.ofFullQuotas, r.ofParts, r.ofHooks, r.ofSteers, r.ofInboxes, r.ofAlerts} {
		refuse()
	}
	return r.made
}
