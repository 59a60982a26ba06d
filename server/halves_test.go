package server_test

import (
	"net/http"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/server"
)

// TestASessionCookieWithoutThePageHalfIsRefused sends what a program on another port of the host can get or make: the
// cookie, which the browser sends there, any header, and secrets of its own.
func TestASessionCookieWithoutThePageHalfIsRefused(t *testing.T) {
	f := start(t)
	f.submit("a", "hello")
	operator := f.signIn()
	bob := f.withToken(f.createScopedToken("bob", `"read","submit"`))
	own := bob.signIn()
	limited := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+in(1)+
		`"}`).Secret
	link := mustCall[api.Link](f, "POST /v1/links", "").Secret
	cookie := func(values ...string) string {
		return "Cookie: " + operator.cookie.Name + "=" + strings.Join(values, "; "+operator.cookie.Name+"=")
	}
	half := func(secret string) string { return "Authorization: Session " + secret }
	bearer := func(secret string) string { return "Authorization: Bearer " + secret }
	page := []string{"Origin: " + f.url, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Referer: " + f.url + "/"}
	for what, headers := range map[string][]string{
		"the cookie":                            {"Authorization: ", cookie(operator.cookie.Value)},
		"the cookie, and an empty half":         {"Authorization: Session ", cookie(operator.cookie.Value)},
		"the cookie as a half":                  {half(operator.cookie.Value), cookie(operator.cookie.Value)},
		"the cookie as a token":                 {bearer(operator.cookie.Value)},
		"the half of the page":                  {half(operator.half)},
		"the half of the page, and no value":    {half(operator.half), cookie("")},
		"the half of the page as a cookie":      {half(""), cookie(operator.half)},
		"the half of the page as a token":       {bearer(operator.half), cookie(operator.cookie.Value)},
		"both, exchanged":                       {half(operator.cookie.Value), cookie(operator.half)},
		"both, joined in the cookie":            {half(""), cookie(operator.cookie.Value + operator.half)},
		"both, of two sessions":                 {half(own.half), cookie(operator.cookie.Value)},
		"the operator's half, a foreign cookie": {half(operator.half), cookie(own.cookie.Value)},
		"a token in the cookie":                 {"Authorization: ", cookie(bob.secret)},
		"the halves of a token":                 {half(bob.secret[20:]), cookie(bob.secret[:20])},
		"the halves of a limited token":         {half(limited[20:]), cookie(limited[:20])},
		"the halves of a link":                  {half(link[20:]), cookie(link[:20])},
		"a link in the cookie":                  {half(""), cookie(link)},
	} {
		for _, route := range []string{"GET /v1/session", "GET /v1/threads/a", "POST /v1/threads/a/interrupt",
			"POST /v1/tokens", "DELETE /v1/session", "GET /v1/stream", "POST /v1/links"} {
			if got := f.call(route, "", append(page, headers...)...); got.status != http.StatusUnauthorized {
				t.Errorf("%s, %s: status %d, want 401: %s", what, route, got.status, got.body)
			}
		}
	}
	// A cookie that another port adds, for a longer path, is sent first. It signs the user not out.
	if got := operator.call("GET /v1/session", "", cookie(own.cookie.Value, "x",
		operator.cookie.Value)); got.status != http.StatusOK {
		t.Errorf("beside other cookies of its name: status %d, want 200: %s", got.status, got.body)
	}
	if f.log.wait(t, `"path":"/v1/stream"`); strings.Contains(f.log.String(), operator.half) ||
		strings.Contains(f.log.String(), operator.cookie.Value) {
		t.Error("a half is in the log")
	}
}

func TestASessionIsTheFirstFrameOfASocket(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Access.Origins = []string{"https://app.example.org"} })
	b := f.withToken(f.createScopedToken("ann", `"read","submit"`)).signIn()
	cookie := "Cookie: " + b.cookie.Name + "=" + b.cookie.Value
	p := f.dial(cookie, "Origin: "+f.url)
	if who := result[api.Identity](p, `{"op":"auth","id":1,"session":%q}`, b.half); who.Name != "ann" {
		t.Fatalf("authenticated as %+v", who)
	}
	p.send(`{"op":"submit","id":2,"thread":"hers","text":"x"}`)
	p.want("ack 2")
	// A program may send both halves with the handshake.
	program := f.dial(cookie, "Authorization: session "+b.half, "Origin: "+f.url)
	program.send(`{"op":"subscribe","id":1,"thread":"hers","after":0}`)
	program.want("ack 1 1")
	for what, tc := range map[string]struct {
		headers []string
		frame   string
		want    string
	}{
		"no Origin": {[]string{cookie}, `"session":"` + b.half + `"`, "error 1 forbidden"},
		"a trusted origin": {[]string{cookie, "Origin: https://app.example.org"}, `"session":"` + b.half + `"`,
			"error 1 forbidden"},
		"no cookie":        {[]string{"Origin: " + f.url}, `"session":"` + b.half + `"`, "error 1 unauthenticated"},
		"the cookie alone": {[]string{cookie, "Origin: " + f.url}, `"session":"x"`, "error 1 unauthenticated"},
		"the cookie as token": {[]string{cookie, "Origin: " + f.url}, `"token":"` + b.cookie.Value + `"`,
			"error 1 unauthenticated"},
	} {
		p := f.dial(tc.headers...)
		p.send(`{"op":"auth","id":1,%s}`, tc.frame)
		if got := p.next().String(); got != tc.want {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
			continue // the server does not close it
		}
		if got := p.closed(); got.Code != 4401 {
			t.Errorf("%s: closed with %v, want 4401", what, got)
		}
	}
	if _, resp, err := f.tryDial(cookie, "Authorization: Session "+b.half); err == nil ||
		resp.StatusCode != http.StatusForbidden {
		t.Errorf("a handshake with both halves and no Origin: %v", err)
	}
	b.call("DELETE /v1/session", "")
	for _, p := range []*peer{p, program} {
		if got := p.closed(); got.Code != 4401 {
			t.Errorf("after signing out: closed with %v, want 4401", got)
		}
	}
}

func TestALinkShowsWhoseSessionItMakes(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createScopedToken("ann", `"read","submit"`))
	session := ann.signIn()
	show := func(secret string) response {
		return f.call("POST /v1/links/show", `{"secret":"`+secret+`"}`, "Authorization: ")
	}
	for by, call := range map[string]func(route, body string, headers ...string) response{"token": ann.call,
		"session": session.call} {
		link := answered[api.Link](t, call("POST /v1/links", `{"scopes":["read"]}`, "User-Agent: x"))
		for range 2 { // showing spends nothing
			got := answered[api.ShownLink](t, show(link.Secret))
			if got.Token != "ann" || got.MadeBy != by || len(got.Scopes) != 1 || !got.ExpiresAt.Equal(link.ExpiresAt) {
				t.Errorf("made by a %s: %+v", by, got)
			}
		}
		f.spend(link)
		if got := show(link.Secret); got.problem(t).Code != mailroom.CodeUnauthenticated {
			t.Errorf("a spent link: status %d", got.status)
		}
	}
	for _, secret := range []string{"unknown", ann.secret, session.half} {
		if got := show(secret); got.status != http.StatusUnauthorized {
			t.Errorf("what is no link: status %d, want 401", got.status)
		}
	}
}
