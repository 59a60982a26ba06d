package server_test

import (
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
)

func TestTheLabelOfATokenIsOnItsRuns(t *testing.T) {
	f := start(t)
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens",
		`{"name":"forum","scopes":["read","submit"],"via":"discourse"}`)
	if made.Via == nil || *made.Via != "discourse" {
		t.Errorf("the token shows the label %v", made.Via)
	}
	forum, plain := f.withToken(made.Secret),
		f.withToken(f.createToken("plain", "", auth.PermissionRead, auth.PermissionSubmit))
	limited := mustCall[api.CreatedToken](forum, "POST /v1/tokens/limited", `{"scopes":["read","submit"],"expires_at":"`+
		inAnHour()+`"}`)
	for name, c := range map[string]struct {
		by   *fixture
		want string
	}{"the gateway": {forum, "discourse"}, "a token that acts for it": {f.withToken(limited.Secret),
		"discourse"}, "another token": {plain, "user"}, "the operator": {f, "user"}} {
		sent := c.by.submit("of "+name, "hello")
		if run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, ""); run.Origin.Via != c.want {
			t.Errorf("%s: via %q, want %q", name, run.Origin.Via, c.want)
		}
	}
	if found := mustCall[api.Page[api.Run]](f, "GET /v1/runs?q=via:discourse", ""); len(found.Items) != 2 {
		t.Errorf("the filter finds %d runs, want 2", len(found.Items))
	}
	f.wantCode("a label in the body of a submit", forum.call("POST /v1/messages", `{"text":"x","origin":{"via":"alert"}}`),
		422, mailroom.CodeInvalid)
	for _, via := range []string{"user", "run", "wake", "alert", "mcp", "agentmail", "channel:tg", "Discourse",
		"a b", "é"} {
		a := f.call("POST /v1/tokens", `{"name":"x","scopes":["submit"],"via":"`+via+`"}`)
		f.wantCode("the label "+via, a, 422, mailroom.CodeInvalid)
	}
}
