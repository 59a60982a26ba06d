package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/worker"
)

// shout repeats the message of its run in upper case.
func shout(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	worker.Log(ctx).Info("shouting", "letters", len(input[0].Text))
	return s.Stream(ctx, strings.ToUpper(input[0].Text))
}

func agents(name string, f mailroom.AgentFunc) map[string]mailroom.Agent {
	return map[string]mailroom.Agent{name: f}
}

func TestAWorkerServesItsAgentsAndNamesTheRunInItsLog(t *testing.T) {
	h := newHost(t)
	end, log := h.serve(t, worker.Options{Token: h.workToken(t, "far")}, map[string]mailroom.Agent{
		"shout": mailroom.AgentFunc(shout),
		"quiet": mailroom.AgentFunc(func(context.Context, mailroom.Session) error { return nil }),
	})
	runs := map[string]api.Run{}
	for agent, want := range map[string]string{"shout": "HELLO", "quiet": ""} {
		r := h.waitRun(t, h.send(t, agent, "hello"))
		if r.Status != mailroom.StatusCompleted || r.Reply != nil && *r.Reply != want {
			t.Errorf("%s: the run is %s with the reply %v, want completed and %q", agent, r.Status, r.Reply, want)
		}
		runs[agent] = r
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	for what, of := range map[string]string{
		`msg="attempt ended"`: "shout", "msg=shouting": "shout", "outcome=complete": "quiet",
	} {
		want := "run=" + runs[of].ID + " thread=" + runs[of].Thread + " agent=" + of + " attempt=1"
		if found := log.lines(what + " "); !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("the lines with %s are %q, want %s in one", what, found, want)
		}
	}
}

func TestAWorkerDrainsWhenItsContextEnds(t *testing.T) {
	h := newHost(t)
	entered, gate := make(chan struct{}), make(chan struct{})
	end, _ := h.serve(t, worker.Options{Slots: 1}, agents("slow", func(ctx context.Context, s mailroom.Session) error {
		close(entered)
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return s.Stream(ctx, "finished")
	}))
	first, second := h.send(t, "slow", "one"), h.send(t, "slow", "two")
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r := h.waitRun(t, first); r.Status != mailroom.StatusCompleted || r.Attempt != 1 || *r.Reply != "finished" {
		t.Errorf("the run is %s in attempt %d, want completed in the first", r.Status, r.Attempt)
	}
	if r, err := h.admin.Run(t.Context(), second); err != nil || r.Status != mailroom.StatusQueued {
		t.Errorf("the run in the queue is %s (%v), want it queued", r.Status, err)
	}
}

func TestAWorkerReleasesWhatDoesNotFinishWithinItsGrace(t *testing.T) {
	h := newHost(t)
	entered := make(chan struct{})
	end, _ := h.serve(t, worker.Options{Grace: time.Millisecond}, agents("slow",
		func(ctx context.Context, s mailroom.Session) error {
			close(entered)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	run := h.send(t, "slow", "one")
	<-entered
	if err := end(); err != nil {
		t.Error(err)
	}
	if r, err := h.admin.Run(t.Context(), run); err != nil || r.Status != mailroom.StatusQueued || r.Failures != 0 {
		t.Errorf("the run is %s after %d failures (%v), want it queued without one", r.Status, r.Failures, err)
	}
	h.serve(t, worker.Options{}, agents("slow", shout))
	// A request of the first worker that is under way may claim the run once more, and gives that claim back too.
	if r := h.waitRun(t, run); r.Attempt < 2 || *r.Reply != "ONE" || r.Failures != 0 {
		t.Errorf("attempt %d after %d failures has the reply %q, want the second worker's", r.Attempt, r.Failures, *r.Reply)
	}
}

// TestAWorkerThatLeavesGivesBackAClaimWhoseAnswerWasLost has a run that may be started once only.
func TestAWorkerThatLeavesGivesBackAClaimWhoseAnswerWasLost(t *testing.T) {
	h := newHost(t)
	lost := make(chan struct{})
	losing := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || r.URL.Path != "/v1/claims" {
			return answer, err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(`"claims":[{`)) {
			return answer, err
		}
		close(lost)
		<-r.Context().Done() // the worker ends before it can ask again
		return nil, r.Context().Err()
	})}
	end, _ := h.serve(t, worker.Options{HTTP: losing}, agents("slow", shout))
	sent, err := h.admin.Submit(t.Context(), api.Submit{Agent: "slow", Text: "one", MaxCrashes: new(0)})
	if err != nil {
		t.Fatal(err)
	}
	<-lost
	if err := end(); err != nil {
		t.Error(err)
	}
	r, err := h.admin.Run(t.Context(), sent.Run)
	if err != nil || r.Status != mailroom.StatusQueued || r.Crashes != 0 {
		t.Errorf("the run is %s after %d crashes (%v), want it queued without one", r.Status, r.Crashes, err)
	}
	h.serve(t, worker.Options{}, agents("slow", shout))
	if r := h.waitRun(t, sent.Run); r.Attempt != 2 || r.Crashes != 0 || *r.Reply != "ONE" {
		t.Errorf("attempt %d has the reply %v, want the second worker's", r.Attempt, r.Reply)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAWorkerSaysWhyItCannotServe has each fault of a caller or a server. The error is one sentence that names the
// cause and what to do.
func TestAWorkerSaysWhyItCannotServe(t *testing.T) {
	h := newHost(t)
	other := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // a client that is gone sees nothing
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	problem := func(code mailroom.Code, detail string) string {
		raw, err := json.Marshal(api.Problem{Code: code, Detail: detail})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	reader := h.token(t, api.NewToken{Name: "reader", Scopes: []auth.Permission{auth.PermissionRead}})
	limited := h.token(t, api.NewToken{Name: "limited", Scopes: []auth.Permission{auth.PermissionWork},
		Agents: []string{"a", "b"}})
	serves := agents("far", shout)
	for what, c := range map[string]struct {
		o      worker.Options
		agents map[string]mailroom.Agent
		code   mailroom.Code
		want   string
	}{
		"no token": {worker.Options{URL: h.url}, serves, mailroom.CodeUnauthenticated,
			"no token for " + h.url + ": set MAILROOM_TOKEN to a token with the scope work, from " +
				"`mailroom token create NAME --scope work`"},
		"no secret": {worker.Options{URL: h.url, Token: "a\nb"}, serves, mailroom.CodeUnauthenticated,
			"the token has characters other than visible ASCII: check MAILROOM_TOKEN"},
		"an unknown token": {worker.Options{URL: h.url, Token: "wrong"}, serves, mailroom.CodeUnauthenticated,
			"the server at " + h.url + " refuses this worker: unknown, expired or revoked token; set MAILROOM_TOKEN to a " +
				"token with the scope work, from `mailroom token create NAME --scope work`"},
		"a token without the scope": {worker.Options{URL: h.url, Token: reader}, serves, mailroom.CodeForbidden,
			"the server at " + h.url + " refuses this worker: this requires a token with the scope work"},
		"a token for other agents": {worker.Options{URL: h.url, Token: limited}, serves, mailroom.CodeForbidden,
			"the server at " + h.url + ` refuses this worker: this token may not serve agent "far"; it may serve a, b`},
		"an agent of the server": {worker.Options{URL: h.url, Token: operatorToken}, agents("own", shout),
			mailroom.CodeConflict, "the server at " + h.url + ` refuses this worker: agent "own" is run by this server: ` +
				"use another name"},
		"no agent": {worker.Options{URL: h.url, Token: "x"}, nil, mailroom.CodeInvalid,
			"no agent to serve: name at least one"},
		"no function": {worker.Options{URL: h.url, Token: "x"}, agents("far", nil), mailroom.CodeInvalid,
			`agent "far" has no code: give an Agent that is not nil`},
		"no interface": {worker.Options{URL: h.url, Token: "x"}, map[string]mailroom.Agent{"far": nil}, mailroom.CodeInvalid,
			`agent "far" has no code: give an Agent that is not nil`},
		"too many slots": {worker.Options{URL: h.url, Token: "x", Slots: 1001}, serves, mailroom.CodeInvalid,
			"1001 slots: use 1 to 1000"},
		"no slot": {worker.Options{URL: h.url, Token: "x", Slots: -1}, serves, mailroom.CodeInvalid,
			"-1 slots: use 1 to 1000"},
		"no address": {worker.Options{URL: "localhost:8420", Token: "x"}, serves, mailroom.CodeInvalid,
			`"localhost:8420" is not an address of a server: set MAILROOM_URL to one such as http://127.0.0.1:8420`},
		"a page": {worker.Options{URL: other(200, "text/html", "<h1>welcome</h1>"), Token: "x"}, serves,
			mailroom.CodeUnavailable, `URL answered /v1/claims with the type "text/html": no Mailroom server answers like ` +
				"that; set MAILROOM_URL to the address of a Mailroom server"},
		"another program": {worker.Options{URL: other(404, "text/plain", "404 page not found"), Token: "x"}, serves,
			mailroom.CodeNotFound, "URL answered 404 Not Found: no Mailroom server answers like that; set MAILROOM_URL to " +
				"the address of a Mailroom server"},
		"an old server": {worker.Options{URL: other(404, api.ProblemType, problem(mailroom.CodeNotFound, "no route")),
			Token: "x"}, serves, mailroom.CodeNotFound, "no route; it is older than this worker; update the server"},
		"no contract": {worker.Options{URL: other(200, "application/json", `{"worker":"w","lease_ms":9}`), Token: "x"},
			serves, mailroom.CodeInvalid, "; update the server, or build the worker with the module of the server's version"},
		"a new server": {worker.Options{URL: other(200, "application/json", `{"lease":{"of":"w"}}`), Token: "x"}, serves,
			mailroom.CodeInvalid, "its answer names no worker or no lease: build this worker with the module of the " +
				"server's version"},
	} {
		err := worker.Serve(t.Context(), c.o, c.agents)
		if mailroom.CodeOf(err) != c.code || err == nil {
			t.Errorf("%s: %v with the code %q, want %q", what, err, mailroom.CodeOf(err), c.code)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), c.o.URL, "URL"); !strings.HasSuffix(got,
			strings.ReplaceAll(c.want, c.o.URL, "URL")) {
			t.Errorf("%s: %s\nwant the end %s", what, got, c.want)
		}
	}
}

func TestARevokedTokenEndsItsWorkerWithTheReason(t *testing.T) {
	h := newHost(t)
	entered, left := make(chan struct{}), make(chan error, 1)
	secret := h.workToken(t, "far")
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		o := worker.Options{URL: h.url, Token: secret, OnReady: func() { close(ready) }}
		ended <- worker.Serve(context.Background(), o, agents("far",
			func(ctx context.Context, s mailroom.Session) error {
				close(entered)
				<-ctx.Done()
				left <- context.Cause(ctx)
				return context.Cause(ctx)
			}))
	}()
	<-ready
	run := h.send(t, "far", "hello")
	<-entered
	if err := h.admin.Accounts().RevokeToken(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
	err := <-ended
	if mailroom.CodeOf(err) != mailroom.CodeUnauthenticated || !strings.Contains(err.Error(), "revoked") ||
		!strings.Contains(err.Error(), "; set MAILROOM_TOKEN") {
		t.Errorf("Serve returns %v, want that the token was revoked, and what to do", err)
	}
	if err := <-left; err == nil {
		t.Error("the agent was not told")
	}
	h.serve(t, worker.Options{}, agents("far", shout))
	if r := h.waitRun(t, run); r.Status != mailroom.StatusCompleted || *r.Reply != "HELLO" {
		t.Errorf("the run is %s, want it completed by another worker", r.Status)
	}
}

func TestAWorkerWaitsForItsServer(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer away.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	err := worker.Serve(ctx, worker.Options{URL: away.URL, Token: "x", OnOutage: func(err error) { cancel(err) },
		OnReady: func() { t.Error("it is ready without a server") }}, agents("far", shout))
	if err != nil {
		t.Errorf("a worker that was ended before it had a server returns %v", err)
	}
	if got := fmt.Sprint(context.Cause(ctx)); !strings.Contains(got, "502") {
		t.Errorf("the reason of the outage is %q, want the status", got)
	}
}
