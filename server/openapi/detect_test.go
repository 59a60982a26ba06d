package openapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// changed returns the server's description with one text replaced.
func changed(t *testing.T, raw []byte, old, now string) *description {
	t.Helper()
	if !strings.Contains(string(raw), old) {
		t.Fatalf("the description lacks %s", old)
	}
	d, err := describe([]byte(strings.Replace(string(raw), old, now, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *description) operation(t *testing.T, id string) operation {
	t.Helper()
	for _, op := range d.operations() {
		if op.ID == id {
			return op
		}
	}
	t.Fatalf("no operation %s is described", id)
	return operation{}
}

func TestAnInvalidDocumentIsDetected(t *testing.T) {
	raw := start(t).call("GET /openapi.json", "")
	for _, e := range []struct{ name, old, now string }{
		{"another version", `"openapi":"3.1.0"`, `"openapi":"3.0.3"`},
		{"no title", `"title":"Mailroom"`, `"name":"Mailroom"`},
		{"a parameter in an unknown place", `"in":"path"`, `"in":"air"`},
		{"an optional path parameter", `"in":"path","name":"claim","required":true`, `"in":"path","name":"claim"`},
		{"an answer without a description", `"description":"A refusal. The field code classifies it."`, `"summary":"A refusal"`},
		{"a reference to nothing", `"$ref":"#/components/schemas/`, `"$ref":"#/components/schemas/No`},
		{"an unknown type", `"type":"integer"`, `"type":"whole"`},
		{"a bound that is not a number", `"minimum":1`, `"minimum":"one"`},
	} {
		if found := changed(t, raw, e.old, e.now).document(); len(found) == 0 {
			t.Errorf("%s is not detected", e.name)
		}
	}
}

func TestAnUndescribedRequestIsDetected(t *testing.T) {
	f := start(t)
	d := f.describe()
	const (
		runs     = "list-runs GET /v1/runs"
		entries  = "list-entries GET /v1/threads/t/entries"
		messages = "list-messages GET /v1/threads/t/messages"
		submit   = "submit POST /v1/messages"
		retry    = "cancel-run POST /v1/runs/r/cancel"
	)
	for _, e := range []struct {
		name, route, body, header string // added to the usual headers, or replaces one
		want                      int
	}{
		{"a list", runs, "", "", 0},
		{"a list with every parameter", entries + "?kind=message&kind=run&limit=5&run=r", "", "", 0},
		{"a message", submit, `{"text":"x","not_before":"2026-11-22T04:00:00Z"}`, "Idempotency-Key: k", 0},
		{"no token", runs, "", "Authorization: ", 1},
		{"another path", "list-runs GET /v1/runs/r", "", "", 1},
		{"another method", "list-runs POST /v1/runs", "", "", 1},
		{"an unknown parameter", runs + "?limits=5", "", "", 1},
		{"a number in words", runs + "?limit=five", "", "", 1},
		{"a number that is too low", runs + "?limit=-1", "", "", 1},
		{"a boolean in words", messages + "?all=maybe", "", "", 1},
		{"no body", submit, "", "", 1},
		{"an undescribed body", runs, `{}`, "", 1},
		{"a body of another type", submit, `{"text":"x"}`, "Content-Type: text/plain", 1},
		{"a body that is not JSON", submit, `text`, "", 1},
		{"a field of another type", submit, `{"text":1}`, "", 1},
		{"an unknown field", submit, `{"texts":"x"}`, "", 1},
		{"a number out of bounds", submit, `{"text":"x","priority":256}`, "", 1},
		{"an invalid time", submit, `{"text":"x","not_before":"tomorrow"}`, "", 1},
		{"an optional body left out", retry, "", "", 0},
	} {
		part := strings.Fields(e.route)
		var body io.Reader
		if e.body != "" {
			body = strings.NewReader(e.body)
		}
		req, err := http.NewRequestWithContext(t.Context(), part[1], f.url+part[2], body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(e.header, ": "); ok {
			req.Header.Set(name, value)
		}
		if found := d.request(d.operation(t, part[0]), req); len(found) != e.want {
			t.Errorf("%s: found %q, want %d", e.name, found, e.want)
		}
	}
}

func TestAnUndescribedResponseIsDetected(t *testing.T) {
	f := start(t)
	raw := f.call("GET /openapi.json", "")
	problem := `{"type":"about:blank","title":"t","status":404,"detail":"d","code":"not_found","errors":[]}`
	agents := string(f.call("GET /v1/agents", ""))
	run := string(f.call("GET /v1/runs/"+f.submit("t", `{"text":"x"}`).Run, ""))
	const json, refused = "application/json", "application/problem+json"
	for _, e := range []struct {
		name, operation string
		status          int
		kind, body      string
		want            int
	}{
		{"as it is", "get-run", 200, json, run, 0},
		{"a refusal", "get-run", 404, refused, problem, 0},
		{"nothing", "delete-thread", 204, "", "", 0},
		{"something instead of nothing", "delete-thread", 204, json, "{}", 1},
		{"a list of another kind", "get-run", 200, json, agents, 1},
		{"a missing field", "get-run", 200, json, `{}`, 1},
		{"a field of another type", "get-run", 200, json, strings.Replace(run, `"attempt":0`, `"attempt":"none"`, 1), 1},
		{"an invalid time", "get-run", 200, json, strings.Replace(run, `"created_at":"2`, `"created_at":"in 2`, 1), 1},
		{"a value outside of its enum", "get-run", 200, json, strings.Replace(run, `"status":"queued"`, `"status":"lost"`, 1), 1},
		{"a refusal with the wrong type", "get-run", 404, json, problem, 1},
		{"a page", "get-run", 200, "text/html", "<p>", 1},
		{"no type", "get-run", 200, "", run, 1},
		{"no JSON", "get-run", 200, json, "text", 1},
		{"more than JSON", "get-run", 200, json, run + run, 1},
		{"a text type", "metrics", 200, "text/plain; version=0.0.4", "a 1", 0},
	} {
		d, err := describe(raw)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		if e.kind != "" {
			header.Set("Content-Type", e.kind)
		}
		if found := d.response(d.operation(t, e.operation), e.status, header, []byte(e.body)); len(found) != e.want {
			t.Errorf("%s: found %q, want %d", e.name, found, e.want)
		}
	}
	closed := changed(t, raw, `"default":{`, `"x-default":{`)
	found := []string{}
	for _, op := range closed.operations() {
		if _, ok := op.Responses["default"]; !ok {
			found = append(found, closed.response(op, 418, http.Header{}, nil)...)
		}
	}
	if len(found) != 1 {
		t.Errorf("a status that is not described: found %q, want 1", found)
	}
}
