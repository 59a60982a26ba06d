package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/auth"
)

// scrape reads a number of the metrics.
func scrape(h *fixture, name string) (int, error) {
	r, err := http.NewRequest(http.MethodGet, h.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := bearer(operator).RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(raw), "\n"+name)
	value, _, _ := strings.Cut(after, "\n")
	if !found {
		return 0, fmt.Errorf("no %s in the metrics", name)
	}
	return strconv.Atoi(value)
}

func TestWrongArgumentsAreRefusedInPlainWords(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		h.send(operator, "taken", "hello", "echo")
		for _, e := range []struct {
			tool  string
			in    args
			code  mailroom.Code
			words string
		}{
			{"wait_for_message", args{"timeout_secs": 301}, mailroom.CodeInvalid, "between 0 and 300, not 301"},
			{"wait_for_message", args{"timeout_secs": -1}, mailroom.CodeInvalid, "between 0 and 300"},
			{"wait_for_message", args{"timeout_secs": "soon"}, mailroom.CodeInvalid, "timeout_secs"},
			{"wait_for_message", args{"timeout": 1}, mailroom.CodeInvalid, "timeout"},
			{"inbox_peek", args{"limit": 0}, mailroom.CodeInvalid, "between 1 and 100, not 0"},
			{"inbox_pop", args{}, mailroom.CodeInvalid, "activity_id"},
			{"inbox_pop", args{"activity_id": " "}, mailroom.CodeInvalid, "activity_id is blank"},
			{"send_message_to_user", args{"message": " \n"}, mailroom.CodeInvalid, "message is blank"},
			{"send_message_to_user", args{"message": "a\x00b"}, mailroom.CodeInvalid, "NUL"},
			{"send_message_to_user", args{"message": strings.Repeat("x", 64<<10)}, mailroom.CodeTooLarge, "send it in parts"},
			{"send_message_to_user", args{"message": "x", "workspace_id": "none"}, mailroom.CodeNotFound, `no thread "none"`},
			{"send_message_to_user", args{"message": "x", "workspace_id": "taken"}, mailroom.CodeConflict,
				"is not an inbox but belongs to agent echo"},
			{"delegate_task", args{"workspace_id": "echo", "task": ""}, mailroom.CodeInvalid, "task is blank"},
			{"delegate_task", args{"workspace_id": "", "task": "x"}, mailroom.CodeInvalid, "workspace_id is blank"},
			{"delegate_task", args{"workspace_id": "mine", "task": "x"}, mailroom.CodeInvalid, "is this inbox itself"},
			{"delegate_task", args{"workspace_id": "missing", "task": "x"}, mailroom.CodeNotFound, `no thread and no agent is named "missing"`},
			{"delegate_task", args{"workspace_id": "mailbox", "task": "x"}, mailroom.CodeInvalid, "have no reader"},
			{"delegate_task", args{"workspace_id": "echo", "task": "x", "source_workspace_id": "none"}, mailroom.CodeNotFound, `no thread "none"`},
			{"submit_message", args{"text": ""}, mailroom.CodeInvalid, "empty"},
			{"submit_message", args{"text": "x", "agent": "missing"}, mailroom.CodeUnserved, `unknown agent "missing"`},
			{"submit_message", args{"text": "x", "mode": "fast"}, mailroom.CodeInvalid, "mode"},
			{"get_run", args{"run": "none"}, mailroom.CodeNotFound, `no run "none"`},
			{"get_run", args{"run": ""}, mailroom.CodeInvalid, "run is blank"},
			{"get_run", args{"run": "none", "timeout_secs": 1e9}, mailroom.CodeInvalid, "between 0 and 300"},
			{"cancel_run", args{"run": "none"}, mailroom.CodeNotFound, `no run "none"`},
			{"list_tickets", args{"state": "shut"}, mailroom.CodeInvalid, "state"},
			{"decide", args{"ticket": "none", "decision": "approve"}, mailroom.CodeNotFound, `no ticket "none"`},
			{"decide", args{"ticket": "none", "decision": "perhaps"}, mailroom.CodeInvalid, "decision"},
		} {
			me.refuse(e.tool, e.in, e.code, e.words)
		}
		if got := h.texts("mine", mailroom.RoleAssistant); got != "" {
			h.t.Errorf("a refused message was stored: %q", got)
		}
	})
}

func TestAnAgentOfAnyNameIsAnInboxByItsKind(t *testing.T) {
	h := open(t)
	h.send(operator, "mine", "hello", "mailbox")
	if row := h.web(operator, "mine").read(); row.Text != "hello" {
		t.Errorf("read %+v", row)
	}
}

func TestForeignInboxIsNotFound(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		ann := h.token("ann", auth.PermissionRead, auth.PermissionSubmit, auth.PermissionDecide)
		bob := connect(h.token("bob", auth.PermissionRead, auth.PermissionSubmit, auth.PermissionDecide), "anns")
		run := h.send(ann, "anns", "secret", "inbox")
		missing := `no thread "anns"`
		for tool, in := range map[string]args{
			"wait_for_message": {"timeout_secs": 1}, "inbox_peek": nil, "inbox_pop": {"activity_id": run},
			"send_message_to_user": {"message": "x"}, "submit_message": {"thread": "anns", "text": "x"},
		} {
			bob.refuse(tool, in, mailroom.CodeNotFound, missing)
		}
		bob.refuse("delegate_task", args{"workspace_id": "anns", "task": "x", "source_workspace_id": "bobs"},
			mailroom.CodeNotFound, `"anns"`)
		bob.refuse("get_run", args{"run": run}, mailroom.CodeNotFound, "no run")
		bob.refuse("cancel_run", args{"run": run}, mailroom.CodeNotFound, "no run")
		if answer, _ := bob.try("list_tickets", args{"state": "any"}); answer != `{"items":[],"next":null}` {
			h.t.Errorf("tickets: %s, want none", answer)
		}
		if row := connect(ann, "anns").read(); row.Text != "secret" {
			h.t.Errorf("message of ann %+v", row)
		}
	})
}

func TestEachToolNeedsTheScopeOfWhatItDoes(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		const read, submit, decide = auth.PermissionRead, auth.PermissionSubmit, auth.PermissionDecide
		all := h.token("all", read, submit, decide)
		run := h.send(all, "alls", "hello", "inbox")
		connect(all, "alls").read()
		reader := connect(h.namesake("all", read), "alls")
		if row := reader.read(); row.Text != "hello" {
			h.t.Errorf("message with the scope read: %+v", row)
		}
		for tool, e := range map[string]struct {
			in   args
			need auth.Permission
		}{
			"send_message_to_user": {args{"message": "x"}, decide}, "inbox_pop": {args{"activity_id": run}, decide},
			"delegate_task":  {args{"workspace_id": "echo", "task": "x"}, decide},
			"submit_message": {args{"text": "x"}, submit}, "cancel_run": {args{"run": run}, submit},
			"decide": {args{"ticket": "x", "decision": "deny"}, decide},
		} {
			reader.refuse(tool, e.in, mailroom.CodeForbidden, "the scope "+string(e.need))
		}
		// A caller that may not create an inbox gets not_found.
		connect(h.namesake("all", read), "other").refuse("wait_for_message", nil, mailroom.CodeNotFound, `no thread "other"`)
		submitter := connect(h.namesake("all", submit), "alls")
		for tool, in := range map[string]args{
			"wait_for_message": nil, "inbox_peek": nil, "get_run": {"run": run}, "list_tickets": nil,
		} {
			submitter.refuse(tool, in, mailroom.CodeForbidden, "the scope read")
		}
	})
}

// namesake replaces the token of a name by one with other scopes.
func (h *fixture) namesake(name string, scopes ...auth.Permission) string {
	h.t.Helper()
	if err := h.admin.Accounts().RevokeToken(h.t.Context(), name); err != nil {
		h.t.Fatal(err)
	}
	return h.token(name, scopes...)
}

func TestRequestsNeedAToken(t *testing.T) {
	h := open(t)
	for _, secret := range []string{"", "wrong"} {
		_, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: h.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(secret)}, MaxRetries: -1,
		}, nil)
		if err == nil || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("with the token %q: %v, want unauthorized", secret, err)
		}
	}
}

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`

// post is try for a request that must be answered.
func (h *fixture) post(path, body string, headers ...string) (status int, answer string) {
	h.t.Helper()
	status, answer, err := h.try(h.t.Context(), path, body, headers...)
	if err != nil {
		h.t.Fatal(err)
	}
	return status, answer
}

// try sends one request as it is, with headers "Name: value".
func (h *fixture) try(
	ctx context.Context, path, body string, headers ...string,
) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for _, line := range append([]string{"Content-Type: application/json", "Accept: application/json, text/event-stream"},
		headers...) {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	resp, err := bearer(operator).RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func TestServerChecksPrecedeTheTools(t *testing.T) {
	h := open(t)
	for name, e := range map[string]struct {
		path, body string
		header     string
		status     int
		words      string
	}{
		"a valid request":            {"/mcp", list, "", 200, "wait_for_message"},
		"a page of a trusted origin": {"/mcp", list, "Origin: https://tools.example.org", 200, "wait_for_message"},
		"a page of another origin":   {"/mcp", list, "Origin: https://evil.example.org", 403, "unknown origin"},
		"a page of another site":     {"/mcp", list, "Sec-Fetch-Site: cross-site", 403, "are refused"},
		"a foreign host name":        {"/mcp", list, "Host: evil.example.org", 403, "unknown host"},
		"an unknown parameter":       {"/mcp?inbox=x", list, "", 422, "query.inbox"},
		"a form": {"/mcp", "a=b", "Content-Type: application/x-www-form-urlencoded", 415,
			"must be application/json"},
		"no JSON":            {"/mcp", "{", "", 400, "is not JSON"},
		"a name twice":       {"/mcp", `{"id":1,"id":2}`, "", 422, "duplicate field"},
		"more than fits":     {"/mcp", `{"x":"` + strings.Repeat("x", 4<<20) + `"}`, "", 413, "exceeds the limit"},
		"an unknown session": {"/mcp", list, "Mcp-Session-Id: x", 200, "wait_for_message"},
	} {
		status, answer := h.post(e.path, e.body, e.header)
		if status != e.status || !strings.Contains(answer, e.words) {
			t.Errorf("%s: %d %.200s, want %d with %q", name, status, answer, e.status, e.words)
		}
	}
	r, err := http.NewRequest(http.MethodOptions, h.url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://tools.example.org")
	r.Header.Set("Access-Control-Request-Method", "POST")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	allowed := resp.Header.Get("Access-Control-Allow-Headers")
	if resp.Body.Close(); !strings.Contains(allowed, "Authorization") ||
		!strings.Contains(allowed, "Mcp-Protocol-Version") {
		t.Errorf("a page of a trusted origin may send %s, want all that a client sends", allowed)
	}
	r, err = http.NewRequest(http.MethodGet, h.url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err = bearer(operator).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d, want 405", resp.StatusCode)
	}
}
