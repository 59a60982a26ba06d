package server_test

import (
	"strings"
	"testing"

	"mailroom/server"
)

func TestPagesOfConfiguredOriginsMayReadAnswers(t *testing.T) {
	const app = "https://app.example.org"
	f := start(t, func(o *server.Options) { o.Access.Origins = []string{app} })
	closed := start(t)
	for _, tc := range []struct {
		f      *fixture
		route  string
		origin string
		want   int
		may    string
	}{
		{f, "GET /v1/threads", app, 200, app},
		{f, "GET /v1/threads/nowhere", app, 404, app}, // refusals too
		{f, "OPTIONS /v1/messages", app, 204, app},
		{f, "OPTIONS /v1/messages", "https://evil.example", 403, ""},
		{f, "GET /v1/threads", "https://evil.example", 403, ""},
		{f, "GET /v1/threads", "", 200, ""},
		{closed, "OPTIONS /v1/messages", app, 403, ""},
		{closed, "OPTIONS /v1/messages", "", 405, ""}, // not from a browser
	} {
		headers := []string{"Access-Control-Request-Method: POST"}
		if tc.origin != "" {
			headers = append(headers, "Origin: "+tc.origin)
		}
		a := tc.f.call(tc.route, "", headers...)
		if got := a.header.Get("Access-Control-Allow-Origin"); a.status != tc.want || got != tc.may {
			t.Errorf("%s from %q: %d, allowed for %q, want %d and %q", tc.route, tc.origin, a.status, got, tc.want, tc.may)
		}
		if a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Error("credentials are allowed, but the server uses no cookies")
		}
		if tc.want == 204 && !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("the token may not be sent: %v", a.header)
		}
	}
}
