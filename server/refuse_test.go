package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

// badInput is a request that must be refused as invalid.
type badInput struct {
	route, body string
	status      int
	location    string // of the problem's first error; "" for none
	header      string
}

func badSubmits() []badInput {
	long := strings.Repeat("x", 300)
	deep := `{"text":"a","options":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`
	return []badInput{
		{"POST /v1/messages", ``, 400, "body", ""},
		{"POST /v1/messages", `{`, 400, "body", ""},
		{"POST /v1/messages", `{"text":"a"`, 400, "body", ""},
		{"POST /v1/messages", `{"text":"a"} {}`, 400, "body", ""},
		{"POST /v1/messages", `{"text":"a",}`, 400, "body", ""},
		{"POST /v1/messages", "{\"text\":\"\xff\"}", 400, "body", ""},
		{"POST /v1/messages", `{"text":"a\ud800"}`, 400, "body", ""},
		{"POST /v1/messages", deep, 400, "body", ""},
		{"POST /v1/messages", `null`, 422, "body", ""},
		{"POST /v1/messages", `[]`, 422, "body", ""},
		{"POST /v1/messages", `"text"`, 422, "body", ""},
		{"POST /v1/messages", `{}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"text":" "}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"text":"a","text":"b"}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"text":"a","Text":"b"}`, 422, "body.Text", ""},
		{"POST /v1/messages", `{"text":"a","colour":"red"}`, 422, "body.colour", ""},
		{"POST /v1/messages", `{"messages":[{"text":"a","colour":1}]}`, 422, "body.messages[0].colour", ""},
		{"POST /v1/messages", `{"text":1}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"text":"a\u0000b"}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"text":"a","parts":[{"type":"text","text":"b"}]}`, 422, "body.parts", ""},
		{"POST /v1/messages", `{"text":"a","messages":[{"text":"b"}]}`, 422, "body.messages", ""},
		{"POST /v1/messages", `{"messages":[]}`, 422, "body.messages", ""},
		{"POST /v1/messages", `{"messages":[{"text":"a","role":"assistant"}]}`, 422, "body.role", ""},
		{"POST /v1/messages", `{"messages":[{"text":"a"},{"text":"b","role":"assistant"}]}`, 422, "body.messages[1].role", ""},
		{"POST /v1/messages", `{"parts":[]}`, 422, "body.text", ""},
		{"POST /v1/messages", `{"parts":[{"type":"film"}]}`, 422, "body.parts[0].type", ""},
		{"POST /v1/messages", `{"text":"a","mode":"later"}`, 422, "body.mode", ""},
		{"POST /v1/messages", `{"text":"a","priority":256}`, 422, "body.priority", ""},
		{"POST /v1/messages", `{"text":"a","priority":-1}`, 422, "body.priority", ""},
		{"POST /v1/messages", `{"text":"a","priority":1.5}`, 422, "body.priority", ""},
		{"POST /v1/messages", `{"text":"a","max_attempts":0}`, 422, "body.max_attempts", ""},
		{"POST /v1/messages", `{"text":"a","max_attempts":101}`, 422, "body.max_attempts", ""},
		{"POST /v1/messages", `{"text":"a","max_crashes":-1}`, 422, "body.max_crashes", ""},
		{"POST /v1/messages", `{"text":"a","max_crashes":4}`, 422, "body.max_crashes", ""},
		{"POST /v1/messages", `{"text":"a","max_crashes":"0"}`, 422, "body.max_crashes", ""},
		{"POST /v1/messages", `{"text":"a","not_before":"tomorrow"}`, 422, "body.not_before", ""},
		{"POST /v1/messages", `{"text":"a","mode":"steer","not_before":"2030-01-01T00:00:00Z"}`, 422, "body.not_before", ""},
		{"POST /v1/messages", `{"text":"a","expect_run":"r"}`, 422, "body.expect_run", ""},
		{"POST /v1/messages", `{"text":"a","parent":"unknown"}`, 422, "body.parent", ""},
		{"POST /v1/messages", `{"text":"a","thread":"a/b"}`, 422, "body.thread", ""},
		{"POST /v1/messages", `{"text":"a","thread":".."}`, 422, "body.thread", ""},
		{"POST /v1/messages", `{"text":"a","thread":"` + long + `"}`, 422, "body.thread", ""},
		{"POST /v1/messages", `{"text":"a","key":"` + long + `"}`, 422, "body.key", ""},
		{"POST /v1/messages", `{"text":"a","key":"k"}`, 422, "body.key", "Idempotency-Key: other"},
		{"POST /v1/messages", `{"text":"a","metadata":{"n":1}}`, 422, "body.metadata.n", ""},
		{"POST /v1/messages", `{"text":"a","options":"` + strings.Repeat("x", 65<<10) + `"}`, 413, "body.options", ""},
		{"POST /v1/messages?thread=t", `{"text":"a"}`, 422, "query.thread", ""},
		{"POST /v1/messages?%zz", `{"text":"a"}`, 400, "query", ""},
		{"POST /v1/messages", `text=a`, 415, "header.Content-Type", "Content-Type: application/x-www-form-urlencoded"},
		{"POST /v1/messages", `{"text":"a"}`, 415, "header.Content-Type", "Content-Type: text/plain"},
		{"POST /v1/messages", `{"text":"a"}`, 415, "header.Content-Type", "Content-Type: application/json; charset=latin1"},
	}
}

func badChanges(run, message string) []badInput {
	long := strings.Repeat("x", 300)
	return []badInput{
		{"POST /v1/threads/t/messages", `{"text":"a","thread":"u"}`, 422, "body.thread", ""},
		{"POST /v1/threads/a%2Fb/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/%2E%2E/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/../messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads//messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/%20/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/a%00b/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/a%FFb/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"POST /v1/threads/" + long + "/messages", `{"text":"a"}`, 422, "path.thread", ""},
		{"PATCH /v1/threads/t", `{"metadata":[]}`, 422, "body.metadata", ""},
		{"PATCH /v1/threads/t", `{"owner":"me"}`, 422, "body.owner", ""},
		{"PATCH /v1/threads/t/messages/" + message, `{}`, 422, "body.text", ""},
		{"POST /v1/threads/t/interrupt", `{"force":true}`, 422, "body.force", ""},
		{"POST /v1/runs/" + run + "/cancel", `{"force":true}`, 422, "body.force", ""},
		{"POST /v1/runs/" + run + "/cancel", `{"children":"yes"}`, 422, "body.children", ""},
		{"POST /v1/runs/" + run + "/retry", `{"agent_version":"old"}`, 422, "body.agent_version", ""},
		{"POST /v1/runs/cancel", `{}`, 422, "body", ""},
		{"POST /v1/runs/cancel", `{"q":"  "}`, 422, "body.q", ""},
		{"POST /v1/runs/cancel", `{"q":"status:queued","children":true}`, 422, "body.children", ""},
		{"POST /v1/runs/retry", ``, 400, "body", ""},
		{"POST /v1/runs/retry", `{}`, 422, "body", ""},
		{"POST /v1/runs/retry", `{"q":""}`, 422, "body.q", ""},
		{"POST /v1/runs/retry", `{"q":"  "}`, 422, "body.q", ""},
		{"POST /v1/runs/retry", `{"q":"failed"}`, 422, "body.q", ""},
		{"POST /v1/runs/retry", `{"q":"status:failed","dry_run":1}`, 422, "body.dry_run", ""},
		{"POST /v1/runs/retry", `{"q":"status:failed","fresh":true}`, 422, "body.fresh", ""},
		{"PATCH /v1/threads/t", `{"deliver_to":"t"}`, 422, "body.deliver_to", ""},
		{"PATCH /v1/threads/t", `{"deliver_to":"a/b"}`, 422, "body.deliver_to", ""},
		{"PATCH /v1/threads/t", `{"deliver_to":["u"]}`, 422, "body.deliver_to", ""},
		{"POST /v1/threads/t/messages", `{"text":"a","decisions":[{"ticket":"k"}]}`, 422, "body.decisions[0]", ""},
		{"POST /v1/threads/t/messages", `{"text":"a","decisions":[{"ticket":"k","decision":"yes"}]}`, 422, "body.decisions[0].decision", ""},
		{"POST /v1/threads/t/messages", `{"text":"a","decisions":{}}`, 422, "body.decisions", ""},
		{"POST /v1/threads/t/messages", `{"text":"a","decisions":[{"ticket":"k","decision":"deny","by":"me"}]}`, 422, "body.decisions[0].by", ""},
	}
}

func badTokens() []badInput {
	return []badInput{
		{"POST /v1/tokens", `{"name":"a","scopes":[]}`, 422, "body.scopes", ""},
		{"POST /v1/tokens", `{"name":"a","scopes":["fly"]}`, 422, "body.scopes[0]", ""},
		{"POST /v1/tokens", `{"name":"a","scopes":["read"],"quotas":{"threads":-1}}`, 422, "body.quotas.threads", ""},
		{"POST /v1/tokens", `{"name":"a","scopes":["read"],"quotas":{"boats":1}}`, 422, "body.quotas", ""},
	}
}

func badQueries(run string) []badInput {
	return []badInput{
		{"GET /v1/threads?limit=0", ``, 422, "query.limit", ""},
		{"GET /v1/threads?limit=501", ``, 422, "query.limit", ""},
		{"GET /v1/threads?limit=many", ``, 422, "query.limit", ""},
		{"GET /v1/threads?cursor=abc", ``, 422, "query.cursor", ""},
		{"GET /v1/threads?q=colour:red", ``, 422, "query.q", ""},
		{"GET /v1/threads?q=status:broken", ``, 422, "query.q", ""},
		{"GET /v1/threads?page=2", ``, 422, "query.page", ""},
		{"GET /v1/runs?q=name:r", ``, 422, "query.q", ""},
		{"GET /v1/runs?q=metadata:x", ``, 422, "query.q", ""},
		{"GET /v1/runs?q=created:yesterday", ``, 422, "query.q", ""},
		{"GET /v1/tickets?q=name:x", ``, 422, "query.q", ""},
		{"GET /v1/tickets?limit=0", ``, 422, "query.limit", ""},
		{"GET /v1/tickets?cursor=x", ``, 422, "query.cursor", ""},
		{"GET /v1/tickets?state=open", ``, 422, "query.state", ""},
		{"GET /v1/agents?q=echo", ``, 422, "query.q", ""},
		{"GET /v1/workers?limit=1", ``, 422, "query.limit", ""},
		{"GET /v1/stats?q=x", ``, 422, "query.q", ""},
		{"GET /v1/search", ``, 422, "query.q", ""},
		{"GET /v1/search?q=%21%3F", ``, 422, "query.q", ""},
		{"GET /v1/search?q=x&cursor=y", ``, 422, "query.cursor", ""},
		{"GET /v1/search?q=x&limit=101", ``, 422, "query.limit", ""},
		{"GET /v1/search?q=x&thread=unknown", ``, 404, "", ""},
		{"GET /v1/stats/series?step=second", ``, 422, "query.step", ""}, {"GET /v1/stats/series?from=yesterday", ``, 422, "query.from", ""},
		{"GET /v1/stats/series?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", ``, 422, "query.from", ""},
		{"GET /v1/stats/series?step=day&from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59Z", ``, 422, "query.from", ""},
		{"GET /v1/stats/series?step=hour&from=0001-01-01T01:00:00Z", ``, 422, "query.from", ""},
		{"GET /v1/stats/series?from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z", ``, 422, "query.from", ""},
		{"GET /v1/stats/series?agent=" + strings.Repeat("a", 201), ``, 422, "query.agent", ""},
		{"GET /v1/stats/sums?by=x", ``, 422, "query.by", ""}, {"GET /v1/stats/sums?by=label", ``, 422, "query.by", ""},
		{"GET /v1/stats/sums?step=x", ``, 422, "query.step", ""}, {"GET /v1/stats/sums?q=a", ``, 422, "query.q", ""},
		{"GET /v1/stream?after=1", ``, 422, "query.after", ""},
		{"GET /v1/stream?after=0123456789ab-1-1-01", ``, 422, "query.after", ""},
		{"GET /v1/stream?after=" + strings.Repeat("1", 65), ``, 422, "query.after", ""},
		{"GET /v1/stream?until=settled", ``, 422, "query.until", ""},
		{"GET /metrics?format=json", ``, 422, "query.format", ""},
		{"GET /v1/runs?status=failed", ``, 422, "query.status", ""},
		{"GET /v1/threads/t?full=1", ``, 422, "query.full", ""},
		{"GET /v1/threads/t/entries?after=-1", ``, 422, "query.after", ""},
		{"GET /v1/threads/t/entries?limit=501", ``, 422, "query.limit", ""},
		{"GET /v1/threads/t/messages?before=abc", ``, 422, "query.before", ""},
		{"GET /v1/threads/t/messages?visibility=mine", ``, 422, "query.visibility", ""},
		{"GET /v1/runs/" + run + "/wait?timeout=6m", ``, 422, "query.timeout", ""},
		{"GET /v1/runs/" + run + "/wait?timeout=-1s", ``, 422, "query.timeout", ""},
		{"GET /v1/runs/" + run + "/wait?timeout=soon", ``, 422, "query.timeout", ""},
		{"GET /v1/threads/t/stream?after=x", ``, 422, "query.after", ""},
		{"GET /v1/threads/t/stream?after=1:", ``, 422, "query.after", ""},
		{"GET /v1/threads/t/stream", ``, 422, "header.Last-Event-ID", "Last-Event-ID: x"},
		{"GET /v1/threads/t/stream?until=never", ``, 422, "query.until", ""},
		{"GET /v1/threads/t/stream?token=" + token, ``, 422, "query.token", ""},
		{"GET /v1/runs/" + run + "/stream?run=" + run, ``, 422, "query.run", ""},
	}
}

func TestBadInputIsRefusedWithItsLocation(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "hello")
	for _, tc := range slices.Concat(badSubmits(), badPolicies(), badChanges(sent.Run, sent.Message), badQueries(sent.Run), badProjects(), badTokens()) {
		before := f.snapshot()
		var headers []string
		if tc.header != "" {
			headers = append(headers, tc.header)
		}
		a := f.call(tc.route, tc.body, headers...)
		name := fmt.Sprintf("%.80s %.60s", tc.route, tc.body)
		if a.status != tc.status {
			t.Errorf("%s: status %d, want %d: %s", name, a.status, tc.status, a.body)
			continue
		}
		p := a.problem(t)
		if want := api.CodeOf(tc.status); p.Code != want {
			t.Errorf("%s: code %q, want %s", name, p.Code, want)
		}
		got := ""
		if len(p.Errors) > 0 {
			got = p.Errors[0].Location
		}
		for _, field := range p.Errors {
			if field.Message == "" {
				t.Errorf("%s: %s has no message: %s", name, field.Location, a.body)
			}
		}
		if got != tc.location {
			t.Errorf("%s: location %q, want %q: %s", name, got, tc.location, a.body)
		}
		if after := f.snapshot(); after != before {
			t.Errorf("%s: refused, but it wrote:\n%s\nbefore:\n%s", name, after, before)
		}
		if strings.Contains(a.body, token) || len(a.body) > 1500 {
			t.Errorf("%s: the problem has the token or is too long: %s", name, a.body)
		}
	}
}

func TestValuesAreCutAndUnknownFieldsNotEchoed(t *testing.T) {
	f := start(t)
	long := strings.Repeat("é", 150)
	p := f.call("POST /v1/messages", `{"text":"a","agent":"`+long+`"}`).problem(t)
	if got, want := p.Errors[0].Value, strings.Repeat("é", 100)+"…"; got != want {
		t.Errorf("value %q, want it cut at 100 characters", got)
	}
	if !strings.Contains(p.Detail, "echo, codex") {
		t.Errorf("%q does not name the known agents", p.Detail)
	}
	a := f.call("POST /v1/messages", `{"text":"a","password":"hunter2"}`)
	if a.problem(t); strings.Contains(a.body, "hunter2") {
		t.Errorf("the response has the value of an unknown field: %s", a.body)
	}
	a = f.call("POST /v1/messages", `{"text":"a","agent":"`+token+`"}`)
	if a.problem(t); strings.Contains(a.body, token) {
		t.Errorf("the response has the token: %s", a.body)
	}
}

func TestMissingResourcesAreNotFound(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "hello")
	other := f.submit("u", "hello")
	for _, route := range []string{
		"GET /v1/threads/none", "PATCH /v1/threads/none", "DELETE /v1/threads/none",
		"GET /v1/threads/none/entries", "GET /v1/threads/none/messages", "GET /v1/threads/none/messages/m",
		"GET /v1/threads/t/messages/m", "PATCH /v1/threads/t/messages/m", "DELETE /v1/threads/t/messages/m",
		"GET /v1/threads/t/messages/" + other.Message, "DELETE /v1/threads/t/messages/" + other.Message,
		"POST /v1/threads/none/interrupt", "GET /v1/threads/none/stream", "GET /v1/threads/none/stream?after=3&until=settled",
		"GET /v1/threads/t/stream?run=none", "GET /v1/threads/t/stream?run=" + other.Run,
		"GET /v1/runs/none", "GET /v1/runs/none/wait", "GET /v1/runs/none/stream",
		"POST /v1/runs/none/cancel", "POST /v1/runs/none/retry", "GET /v1/tickets/none", "GET /v1/tickets/",
		"GET /", "GET /v1", "GET /v1/", "GET /v1/threads/", "GET /v1/nothing", "GET /v1/runs/a/b/c", "GET /v1//runs",
		"GET /v1/runs/../threads", "GET /openapi.yaml", "GET /docs",
	} {
		body := ""
		if strings.HasPrefix(route, "PATCH") {
			body = `{}`
			if strings.Contains(route, "messages") {
				body = `{"text":"x"}`
			}
		}
		a := f.call(route, body)
		if p := a.problem(t); p.Code != mailroom.CodeNotFound || a.status != 404 {
			t.Errorf("%s: %d %s, want 404 not_found", route, a.status, a.body)
		}
	}
	if got := f.call("GET /v1/runs/"+sent.Run, "").status; got != 200 {
		t.Errorf("an existing run: status %d", got)
	}
}

func TestAWrongMethodNamesTheAllowedOnes(t *testing.T) {
	f := start(t)
	for route, allow := range map[string]string{
		"PUT /v1/threads/t":         "DELETE, GET, HEAD, PATCH",
		"GET /v1/messages":          "POST",
		"OPTIONS /v1/runs":          "GET, HEAD",
		"POST /healthz":             "GET, HEAD",
		"POST /v1/threads/t/stream": "GET, HEAD",
	} {
		a := f.call(route, "")
		if p := a.problem(t); a.status != 405 || p.Code != mailroom.CodeInvalid || a.header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q, %s; want 405 invalid, Allow %q", route, a.status, a.header.Get("Allow"), a.body, allow)
		}
	}
}

func TestOnlyTheTokenInTheHeaderAuthenticates(t *testing.T) {
	f := start(t)
	for _, auth := range []string{
		"", "Bearer", "Bearer ", "Bearer " + token + "x", "Bearer " + token[1:], "Basic " + token, token, "Bearer x " + token,
	} {
		for _, route := range []string{"GET /v1/threads", "GET /v1/nothing", "POST /v1/messages?token=" + token, "GET /v1/threads/t/stream"} {
			a := f.call(route, "", "Authorization: "+auth)
			if p := a.problem(t); a.status != 401 || p.Code != mailroom.CodeUnauthenticated || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%q %s: %d %s, want 401 unauthenticated", auth, route, a.status, a.body)
			}
		}
	}
	for _, route := range []string{"GET /healthz", "GET /readyz", "GET /openapi.json"} {
		if a := f.call(route, "", "Authorization: "); a.status != 200 {
			t.Errorf("%s without a token: %d %s, want 200", route, a.status, a.body)
		}
	}
	if a := f.call("GET /v1/threads", "", "Authorization: bearer "+token); a.status != 200 {
		t.Errorf("the scheme in lower case: %d, want 200", a.status)
	}
	closed := start(t, func(o *server.Options) { o.Access.Token = "" })
	if a := closed.call("GET /v1/threads", "", "Authorization: Bearer "); a.status != 401 {
		t.Errorf("a server without a token: %d, want 401", a.status)
	}
}

func TestForeignHostsAndOriginsAreForbidden(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Access.Hosts = []string{"mail.example"} })
	wide := start(t, func(o *server.Options) { o.Access.Hosts = []string{"0.0.0.0"} })
	one := start(t, func(o *server.Options) { o.Access.Hosts = []string{"10.0.0.1"} })
	for _, tc := range []struct {
		f       *fixture
		route   string
		headers []string
		want    int
	}{
		{f, "GET /v1/threads", []string{"Host: localhost"}, 200},
		{f, "GET /v1/threads", []string{"Host: LOCALHOST.:8420"}, 200},
		{f, "GET /v1/threads", []string{"Host: 127.0.0.2:1"}, 200},
		{f, "GET /v1/threads", []string{"Host: [::1]:8420"}, 200},
		{f, "GET /v1/threads", []string{"Host: mail.example:8420"}, 200},
		{f, "GET /v1/threads", []string{"Host: evil.example"}, 403},
		{f, "GET /healthz", []string{"Host: evil.example"}, 403},
		{f, "GET /v1/threads", []string{"Host: localhost.evil.example"}, 403},
		{f, "GET /v1/threads", []string{"Host: 10.0.0.1:8420"}, 403},
		{wide, "GET /v1/threads", []string{"Host: 10.0.0.1:8420"}, 200},
		{wide, "GET /v1/threads", []string{"Host: evil.example"}, 403},
		{one, "GET /v1/threads", []string{"Host: 10.0.0.1:8420"}, 200},
		{one, "GET /v1/threads", []string{"Host: 10.0.0.2:8420"}, 403},
		{f, "POST /v1/messages", []string{"Origin: http://evil.example"}, 403},
		{f, "POST /v1/messages", []string{"Origin: null"}, 403},
		{f, "POST /v1/messages", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{f, "POST /v1/messages", []string{"Sec-Fetch-Site: same-origin"}, 202},
		{f, "POST /v1/messages", []string{"Host: localhost:8420", "Origin: http://localhost:8420"}, 202},
	} {
		body := ""
		if strings.HasPrefix(tc.route, "POST") {
			body = `{"text":"a"}`
		}
		a := tc.f.call(tc.route, body, tc.headers...)
		if a.status != tc.want {
			t.Errorf("%s %v: %d %s, want %d", tc.route, tc.headers, a.status, a.body, tc.want)
		}
		if tc.want == 403 && a.problem(t).Code != mailroom.CodeForbidden {
			t.Errorf("%s %v: %s, want the code forbidden", tc.route, tc.headers, a.body)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	f := start(t)
	fits := `{"text":"a"}` + strings.Repeat(" ", 4<<20-len(`{"text":"a"}`))
	if a := f.call("POST /v1/messages", fits); a.status != 202 {
		t.Errorf("4 MiB: %d %s, want 202", a.status, a.body)
	}
	before := f.snapshot()
	a := f.call("POST /v1/messages", fits+" ")
	if p := a.problem(t); a.status != 413 || p.Code != mailroom.CodeTooLarge {
		t.Errorf("one byte more: %d %s, want 413 too_large", a.status, a.body)
	}
	// Without Content-Length the server detects the excess while reading.
	req, err := http.NewRequest("POST", f.url+"/v1/messages", struct{ io.Reader }{strings.NewReader(fits + " ")})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("one byte more, of no length: %d, want 413", resp.StatusCode)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused bodies wrote %s", after)
	}
}

// stubMessages answers every submit with an error, or panics with it.
type stubMessages struct {
	server.Messages
	err   error
	panic bool
}

func (s *stubMessages) Submit(context.Context, thread.Submit) (store.Submitted, error) {
	if s.panic {
		panic(s.err)
	}
	return store.Submitted{}, s.err
}

func TestEveryCodeHasItsStatusAndSurvivesTheClient(t *testing.T) {
	s := &stubMessages{}
	f := start(t, func(o *server.Options) { s.Messages = o.Ledger.Messages; o.Ledger.Messages = s })
	once := client.New(f.url, token, client.WithMaxAttempts(1), client.WithHTTPClient(&http.Client{Transport: f.http}))
	for code, want := range map[mailroom.Code]int{
		mailroom.CodeInvalid: 422, mailroom.CodeUnauthenticated: 401, mailroom.CodeForbidden: 403, mailroom.CodeNotFound: 404,
		mailroom.CodeUnserved: 422,
		mailroom.CodeConflict: 409, mailroom.CodeBusy: 409, mailroom.CodeLeaseLost: 409, mailroom.CodeGone: 410,
		mailroom.CodeTooLarge: 413, mailroom.CodeRateLimited: 429, mailroom.CodeInternal: 500, mailroom.CodeUnavailable: 503,
	} {
		s.err = &mailroom.Error{
			Code: code, Message: "because of", RetryAfter: 1500 * time.Millisecond, Cause: fmt.Errorf("a secret"),
			Fields: []mailroom.Field{{Location: "text", Message: "is wrong", Value: "v"}},
		}
		a := f.call("POST /v1/messages", `{"text":"a"}`)
		p := a.problem(t)
		if a.status != want || p.Code != code {
			t.Errorf("%s: %d %s, want status %d", code, a.status, a.body, want)
		}
		if strings.Contains(a.body, "secret") {
			t.Errorf("%s: the response has the cause: %s", code, a.body)
		}
		retry := ""
		if code == mailroom.CodeRateLimited || code == mailroom.CodeUnavailable {
			retry = "2"
		}
		if got := a.header.Get("Retry-After"); got != retry {
			t.Errorf("%s: Retry-After %q, want %q", code, got, retry)
		}
		_, err := once.Submit(t.Context(), api.Submit{Text: "a"})
		if got := mailroom.CodeOf(err); got != code {
			t.Errorf("%s is %s in the client: %v", code, got, err)
		}
		if code != mailroom.CodeInternal && (p.Detail != "because of" || p.Errors[0].Location != "body.text") {
			t.Errorf("%s: %s", code, a.body)
		}
	}
	s.err = fmt.Errorf("disk /dev/sda1 failed")
	if a := f.call("POST /v1/messages", `{"text":"a"}`); a.status != 500 || strings.Contains(a.body, "sda1") {
		t.Errorf("an unknown error: %d %s, want a plain 500", a.status, a.body)
	}
	if !strings.Contains(f.log.String(), "sda1 failed") {
		t.Error("the log lacks the cause of an internal error")
	}
	s.err = context.DeadlineExceeded
	if a := f.call("POST /v1/messages", `{"text":"a"}`); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("an operation that timed out: %d %s, want 503 with Retry-After", a.status, a.body)
	}
}

func TestAPanicIsInternalAndItsStackIsLogged(t *testing.T) {
	s := &stubMessages{panic: true, err: fmt.Errorf("index out of range")}
	f := start(t, func(o *server.Options) { s.Messages = o.Ledger.Messages; o.Ledger.Messages = s })
	a := f.call("POST /v1/messages", `{"text":"a"}`)
	if p := a.problem(t); a.status != 500 || p.Code != mailroom.CodeInternal || strings.Contains(a.body, "luck") {
		t.Errorf("got %d %s, want a plain 500", a.status, a.body)
	}
	f.waitStopped()
	if log := f.log.String(); !strings.Contains(log, "index out of range") || !strings.Contains(log, "refuse_test.go") {
		t.Errorf("the log lacks the panic and its stack: %s", log)
	}
}

// waitStopped stops the server and waits until it has ended without an error, so that its log is
// complete.
func (f *fixture) waitStopped() {
	f.t.Helper()
	f.stop()
	err := <-f.served
	f.served <- err
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestEachRequestLogsOneLineWithoutContent(t *testing.T) {
	f := start(t)
	f.call("POST /v1/threads/private-thread/messages", `{"text":"my secret diary"}`, "X-Request-ID: req-1")
	f.call("GET /v1/threads/private-thread?token="+token, "", "X-Request-ID: req-2")
	f.call("GET /v1/threads", "", "X-Request-ID: bad id\t")
	f.waitStopped()
	log := f.log.String()
	for _, never := range []string{"secret diary", token, "private-thread", "bad id"} {
		if strings.Contains(log, never) {
			t.Errorf("the log holds %q:\n%s", never, log)
		}
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines for 3 requests:\n%s", len(lines), log)
	}
	var line struct {
		Msg, Method, Path, Code string
		Level                   string
		Status                  int
		Duration, Bytes         int64
		RequestID               string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(lines[1]), &line); err != nil {
		t.Fatal(err)
	}
	if line.Level != "DEBUG" || line.Msg != "request" || line.Method != "GET" || line.Path != "/v1/threads/{thread}" || line.Code != "invalid" ||
		line.Status != 422 || line.Duration <= 0 || line.Bytes == 0 || line.RequestID != "req-2" {
		t.Errorf("got the line %s", lines[1])
	}
}

func TestRequestIDIsAcceptedEchoedAndStored(t *testing.T) {
	f := start(t)
	a := f.call("POST /v1/messages", `{"text":"a"}`, "X-Request-ID: req:1.a_b-C")
	if got := a.header.Get("X-Request-ID"); got != "req:1.a_b-C" {
		t.Errorf("request id echoed as %q", got)
	}
	var sent store.Submitted
	if err := json.Unmarshal([]byte(a.body), &sent); err != nil {
		t.Fatal(err)
	}
	run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, "")
	if want := (mailroom.Origin{Via: "user", Sender: "admin", RequestID: "req:1.a_b-C"}); run.Origin != want {
		t.Errorf("origin %+v, want %+v", run.Origin, want)
	}
	for _, bad := range []string{"", "a b", strings.Repeat("x", 65), "é"} {
		got := f.call("GET /healthz", "", "X-Request-ID: "+bad).header.Get("X-Request-ID")
		if got == bad || len(got) != 36 {
			t.Errorf("for the id %q the server made %q, want a UUID", bad, got)
		}
	}
}

func TestReadyReportsTheReason(t *testing.T) {
	var reason error
	f := start(t, func(o *server.Options) { o.Ready = func() error { return reason } })
	if a := f.call("GET /readyz", ""); a.status != 200 {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	reason = fmt.Errorf("no sweep yet")
	a := f.call("GET /readyz", "")
	if p := a.problem(t); a.status != 503 || !strings.Contains(p.Detail, "no sweep yet") || a.header.Get("Retry-After") == "" {
		t.Errorf("not ready: %d %s", a.status, a.body)
	}
	if a := f.call("GET /healthz", ""); a.status != 200 {
		t.Errorf("healthz while not ready: %d, want 200", a.status)
	}
}

func TestTheDescriptionListsEveryRoute(t *testing.T) {
	f := start(t)
	spec := mustCall[struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}](f, "GET /openapi.json", "")
	if !strings.HasPrefix(spec.OpenAPI, "3.1") {
		t.Errorf("version %q, want 3.1", spec.OpenAPI)
	}
	var got []string
	for path, methods := range spec.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(got)
	want := []string{
		"DELETE /v1/threads/{thread}", "DELETE /v1/threads/{thread}/messages/{message}", "DELETE /v1/tokens/{name}", "POST /v1/tokens/{name}/revoke",
		"GET /healthz", "GET /metrics", "GET /v1/stats/sums", "GET /readyz", "GET /v1/agents", "GET /v1/channels",
		"GET /v1/runs", "GET /v1/runs/{run}", "GET /v1/runs/{run}/stream", "GET /v1/runs/{run}/wait",
		"GET /v1/stats", "GET /v1/issues", "GET /v1/search", "GET /v1/stats/series", "GET /v1/stream", "GET /v1/threads", "GET /v1/threads/{thread}", "GET /v1/threads/{thread}/entries", "GET /v1/threads/{thread}/messages",
		"GET /v1/threads/{thread}/messages/{message}", "GET /v1/threads/{thread}/stream",
		"GET /v1/tickets", "GET /v1/tickets/{ticket}", "GET /v1/tokens", "GET /v1/workers", "GET /v1/ws",
		"PATCH /v1/threads/{thread}", "PATCH /v1/threads/{thread}/messages/{message}", "PATCH /v1/tokens/{name}",
		"GET /v1/claims/{claim}/blob", "GET /v1/claims/{claim}/blobs", "POST /v1/claims/{claim}/uploads", "POST /v1/claims",
		"GET /v1/claims/{claim}/input", "GET /v1/claims/{claim}/log", "GET /v1/claims/{claim}/run", "GET /v1/claims/{claim}/effects",
		"GET /v1/claims/{claim}/tickets", "GET /v1/claims/{claim}/transcript", "POST /v1/claims/{claim}/deltas",
		"POST /v1/claims/{claim}/entries", "POST /v1/claims/{claim}/settle", "POST /v1/claims/{claim}/steered",
		"POST /v1/workers/{worker}/leave", "POST /v1/workers/{worker}/renew",
		"POST /v1/messages", "POST /v1/runs/cancel", "POST /v1/runs/retry", "POST /v1/runs/{run}/cancel", "POST /v1/runs/{run}/retry",
		"POST /v1/threads/{thread}/interrupt", "POST /v1/threads/{thread}/messages", "POST /v1/tickets/{ticket}", "POST /v1/tokens",
		"POST /v1/reservations", "GET /v1/reservations", "POST /v1/reservations/{reservation}/renew", "DELETE /v1/reservations/{reservation}",
		"POST /v1/reservations/release", "POST /v1/notifications", "GET /v1/notifications", "POST /v1/notifications/take",
		"POST /v1/notifications/acknowledge",
		"POST /v1/agents/{agent}/pause", "POST /v1/agents/{agent}/resume", "GET /v1/runs/count", "GET /v1/failures", "GET /v1/waits", "GET /v1/report", "GET /v1/audit", "POST /v1/links", "POST /v1/links/show", "POST /v1/tokens/limited", "POST /v1/session", "GET /v1/session", "DELETE /v1/session",
		"GET /v1/budgets", "POST /v1/budgets/raise", "GET /v1/schedules", "GET /v1/schedules/{name}", "POST /v1/schedules", "POST /v1/schedules/{name}/pause", "POST /v1/schedules/{name}/resume", "POST /v1/schedules/{name}/run", "DELETE /v1/schedules/{name}", "GET /v1/alerts", "POST /v1/alerts/rules", "DELETE /v1/alerts/rules/{rule}", "POST /v1/alerts/test", "GET /v1/push", "POST /v1/push/subscriptions", "DELETE /v1/push/subscriptions/{subscription}", "POST /v1/question", "POST /v1/question/decision",
		"POST /v1/channels/{name}/resume", "GET /v1/pairings", "POST /v1/pairings", "DELETE /v1/pairings/{channel}/{user}",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("routes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
