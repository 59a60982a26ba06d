package server_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/store"
)

// provoking is a request that is refused as a line of reference/operations.md says.
type provoking struct {
	line        string // OPERATION STATUS CODE
	route, body string // {name} stands for an id
	as          string // token; "" is the operator's
	twice       string // body of the same request before, which is accepted
}

// refusalsOfThreads are about messages, threads, runs and tickets. The thread mine has a run that waits for a ticket,
// and one behind it.
func refusalsOfThreads() []provoking {
	const foreign = `{"thread":"mine","text":"a","decisions":[{"ticket":"none","decision":"deny"}]}`
	return []provoking{
		{"submit 403 quota", "POST /v1/messages", `{"thread":"second","text":"a"}`, "small", `{"thread":"first","text":"a"}`},
		{"submit 404 not_found", "POST /v1/messages", foreign, "", ""},
		{"submit 409 conflict", "POST /v1/messages", `{"text":"b","key":"k"}`, "", `{"text":"a","key":"k"}`},
		{"submit 409 busy", "POST /v1/messages", `{"thread":"mine","text":"a","mode":"reject"}`, "", ""},
		{"submit-to-thread 403 quota", "POST /v1/threads/third/messages", `{"text":"a"}`, "small", ""},
		{"submit-to-thread 404 not_found", "POST /v1/threads/mine/messages", `{"text":"a"}`, "stranger", ""},
		{"submit-to-thread 409 conflict", "POST /v1/threads/own/messages", `{"text":"b","key":"k2"}`, "", `{"text":"a","key":"k2"}`},
		{"submit-to-thread 409 busy", "POST /v1/threads/mine/messages", `{"text":"a","mode":"reject"}`, "", ""},
		{"submit 422 unserved", "POST /v1/messages", `{"text":"a","agent":"nosuch"}`, "", ""},
		{"submit-to-thread 422 unserved", "POST /v1/threads/mine/messages", `{"text":"a","agent":"nosuch"}`, "", ""},
		{"patch-thread 422 unserved", "PATCH /v1/threads/mine", `{"agent":"nosuch"}`, "", ""},
		{"edit-message 409 conflict", "PATCH /v1/threads/mine/messages/{run}.1", `{"text":"x"}`, "", ""},
		{"retract-message 409 conflict", "DELETE /v1/threads/mine/messages/{run}.1", ``, "", ""},
		{"search 404 not_found", "GET /v1/search?q=x&thread=none", ``, "", ""},
		{"socket 426 invalid", "GET /v1/ws", ``, "", ""},
		{"patch-thread 404 not_found", "PATCH /v1/threads/theirs", `{"deliver_to":"mine"}`, "stranger", ""},
		{"patch-thread 409 conflict", "PATCH /v1/threads/own", `{"deliver_to":"chained"}`, "", ""},
		{"delete-thread 409 conflict", "DELETE /v1/threads/mine", ``, "", ""},
		{"retry-run 409 conflict", "POST /v1/runs/{run}/retry", ``, "", ""},
		{"decide 409 conflict", "POST /v1/tickets/{ticket}", `{"decision":"approve","digest":"{digest}"}`, "", `{"decision":"deny"}`},
		{"cancel-run 409 conflict", "POST /v1/runs/{done}/cancel", ``, "", ""},
	}
}

// refusalsOfWork are those of a worker: {held} is its claim, {lost} one that it has settled.
func refusalsOfWork() []provoking {
	const lost, held = "/v1/claims/{lost}/", "/v1/claims/{held}/"
	return []provoking{
		{"claim 404 not_found", "POST /v1/claims", `{"worker":"none","round":1,"agents":["far"]}`, "", ""},
		{"claim 409 conflict", "POST /v1/claims", `{"round":1,"agents":["echo"]}`, "", ""},
		{"get-claimed-run 409 lease_lost", "GET " + lost + "run", ``, "", ""},
		{"get-claimed-input 409 lease_lost", "GET " + lost + "input", ``, "", ""},
		{"get-claimed-transcript 409 lease_lost", "GET " + lost + "transcript", ``, "", ""},
		{"get-claimed-tickets 409 lease_lost", "GET " + lost + "tickets", ``, "", ""},
		{"get-claimed-effects 409 lease_lost", "GET " + lost + "effects", ``, "", ""},
		{"get-claimed-log 409 lease_lost", "GET " + lost + "log", ``, "", ""},
		{"upload 415 invalid", "POST " + held + "uploads", `{}`, "", ""},
		{"upload 409 lease_lost", "POST " + lost + "uploads", ``, "", ""},
		{"get-claimed-blobs 409 lease_lost", "GET " + lost + "blobs", ``, "", ""},
		{"get-claimed-blob 404 not_found", "GET " + held + "blob?name=none", ``, "", ""},
		{"get-claimed-blob 409 lease_lost", "GET " + lost + "blob?name=none", ``, "", ""},
		{"hand-over 409 lease_lost", "POST " + lost + "steered", `{"after":0}`, "", ""},
		{"append 404 not_found", "POST /v1/claims/none:1/entries", `{"number":1,"step":{}}`, "", ""},
		{"append 409 conflict", "POST " + held + "entries", `{"number":7,"step":{}}`, "", ""},
		{"append 409 lease_lost", "POST " + lost + "entries", `{"number":5,"step":{}}`, "", ""},
		{"write 409 conflict", "POST " + held + "deltas", `{"offset":0,"text":"other"}`, "", `{"offset":0,"text":"first"}`},
		{"write 409 lease_lost", "POST " + lost + "deltas", `{"offset":0,"text":"x"}`, "", ""},
		{"settle 409 conflict", "POST " + held + "settle", `{"number":9,"outcome":"complete"}`, "", ""},
		{"settle 409 lease_lost", "POST " + lost + "settle", `{"number":9,"outcome":"complete"}`, "", ""},
	}
}

// refusalsOfOthers are about agents, alerts, projects and tokens. The project p is the operator's.
func refusalsOfOthers() []provoking {
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	return []provoking{
		{"resume-agent 409 conflict", "POST /v1/agents/echo/resume", ``, "", ""},
		{"raise-budget 404 not_found", "POST /v1/budgets/raise", `{"kind":"agent","name":"x","period":"day","by":"1usd"}`, "", ""},
		{"delete-rule 404 not_found", "DELETE /v1/alerts/rules/none", ``, "", ""},
		{"test-alert 404 not_found", "POST /v1/alerts/test", `{"target":"none"}`, "", ""},
		{"show-push 404 not_found", "GET /v1/push", ``, "", ""},
		{"show-question 401 unauthenticated", "POST /v1/question", `{"link":"x"}`, "", ""},
		{"decide-question 401 unauthenticated", "POST /v1/question/decision", `{"link":"x","decision":"deny"}`, "", ""},
		{"reserve 404 not_found", "POST /v1/reservations", `{"project":"p","names":["b"],"holder":"y"}`, "stranger", ""},
		{"reserve 409 conflict", "POST /v1/reservations", `{"project":"p","names":["a"],"holder":"y"}`, "",
			`{"project":"p","names":["a"],"holder":"x"}`},
		{"renew-reservation 404 not_found", "POST /v1/reservations/none/renew", `{"ttl":"1h"}`, "", ""},
		{"notify 404 not_found", "POST /v1/notifications", `{"project":"p","from":"x","event":"e"}`, "stranger", ""},
		{"notify 409 conflict", "POST /v1/notifications", `{"project":"p","from":"x","event":"other","key":"k"}`, "",
			`{"project":"p","from":"x","event":"e","key":"k"}`},
		{"take-notifications 404 not_found", "POST /v1/notifications/take", `{"project":"p","agent":"x"}`, "stranger", ""},
		{"list-issues 404 not_found", "GET /v1/issues", ``, "", ""},
		{"create-token 409 conflict", "POST /v1/tokens", `{"name":"twin","scopes":["read"]}`, "", `{"name":"twin","scopes":["read"]}`},
		{"create-limited-token 404 not_found", "POST /v1/tokens/limited",
			fmt.Sprintf(`{"scopes":["read"],"run":"none","expires_at":%q}`, soon), "", ""},
		{"show-link 401 unauthenticated", "POST /v1/links/show", `{"secret":"x"}`, "", ""},
		{"sign-in 401 unauthenticated", "POST /v1/session", `{"secret":"x"}`, "", ""},
	}
}

// objectsToRefuse makes what the requests name, and returns the ids.
func (f *fixture) objectsToRefuse() map[string]string {
	f.t.Helper()
	ids := f.makeObjects("mine")
	ids["digest"] = mustCall[api.Ticket](f, "GET /v1/tickets/"+ids["ticket"], "").Digest
	for _, name := range []string{"own", "chained", "end"} {
		f.submit(name, "hello")
	}
	f.call("PATCH /v1/threads/chained", `{"deliver_to":"end"}`)
	worker := mustCall[api.Claims](f, "POST /v1/claims", `{"agents":["far"],"max":0}`).Worker
	for round, name := range []string{"lost", "held"} {
		sent := mustCall[store.Submitted](f, "POST /v1/messages", fmt.Sprintf(`{"thread":%q,"text":"x","agent":"far"}`, name))
		mustCall[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":%d,"agents":["far"],"max":1}`,
			worker, round+1))
		ids[name] = sent.Run + ":1"
		if name == "lost" {
			ids["done"] = sent.Run
		}
	}
	if got := f.call("POST /v1/claims/"+ids["lost"]+"/settle", `{"number":1,"outcome":"complete"}`); got.status != 200 {
		f.t.Fatalf("settle: %d %s", got.status, got.body)
	}
	return ids
}

// TestDescribedRefusalsAreMade checks that operations.md tells the truth: an operation does refuse with the status and
// code of a line.
func TestDescribedRefusalsAreMade(t *testing.T) {
	f := start(t)
	ids := f.objectsToRefuse()
	tokens := map[string]string{"": token, "stranger": f.createToken("stranger", "", scopesWithout("")...)}
	f.withToken(tokens["stranger"]).submit("theirs", "hello")
	small, err := f.client.Accounts().CreateToken(t.Context(), api.NewToken{Name: "small",
		Scopes: []auth.Permission{auth.PermissionSubmit, auth.PermissionRead},
		Quotas: auth.Quotas{auth.QuotaThreads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	tokens["small"] = small.Secret
	mustCall[api.Reserved](f, "POST /v1/reservations", `{"project":"p","names":["c"],"holder":"x"}`)
	made := slices.Concat([]string{"stream-all 404 not_found"}, refusedUploads(t), refusedAtLimits(t),
		refusedSchedules(t))
	for _, p := range slices.Concat(refusalsOfThreads(), refusalsOfWork(), refusalsOfOthers()) {
		as, route := f.withToken(tokens[p.as]), fillIDs(p.route, ids)
		if p.twice != "" {
			if a := as.call(route, fillIDs(p.twice, ids)); a.status > 299 {
				t.Errorf("%s: the first request: %d %s", p.line, a.status, a.body)
			}
		}
		part := strings.Fields(p.line)
		a := as.call(route, fillIDs(p.body, ids))
		if a.status < 400 {
			t.Errorf("%s: got %d %s", p.line, a.status, a.body)
		} else if got := fmt.Sprint(part[0], " ", a.status, " ", a.problem(t).Code); got != p.line {
			t.Errorf("%s: got %s: %s", p.line, got, a.body)
		}
		method, path, _ := strings.Cut(route, " ")
		req, err := http.NewRequest(method, f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := describeAPI().routes.Handler(req); describeAPI().ids[pattern] != part[0] {
			t.Errorf("%s: %s is the operation %s", p.line, p.route, describeAPI().ids[pattern])
		}
		made = append(made, p.line)
	}
	silent := start(t, func(o *server.Options) { o.Bus = nil })
	silent.wantCode("stream-all", silent.call("GET /v1/stream", ""), 404, mailroom.CodeNotFound)
	compareWithLines(t, made)
}

// compareWithLines compares the refusals that were made with the lines of operations.md.
func compareWithLines(t *testing.T, made []string) {
	t.Helper()
	raw, err := os.ReadFile("reference/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	operation := ""
	var lines, missing []string
	for line := range strings.Lines(string(raw)) {
		if id, ok := strings.CutPrefix(line, "# "); ok {
			operation = strings.TrimSpace(id)
		}
		refusal, _, ok := strings.Cut(line, ": ")
		if !ok || refusal[0] < '0' || refusal[0] > '9' || strings.HasSuffix(refusal, " none") {
			continue
		}
		lines = append(lines, operation+" "+refusal)
		if !slices.Contains(made, operation+" "+refusal) {
			missing = append(missing, operation+" "+refusal)
		}
	}
	for _, line := range made {
		if !slices.Contains(lines, line) {
			t.Errorf("%s is made, and operations.md does not have it", line)
		}
	}
	if len(missing) > 0 {
		t.Errorf("give each of these lines of operations.md a request that is refused so: %q", missing)
	}
}
