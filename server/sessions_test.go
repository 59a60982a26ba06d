package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
)

// browser is a user of pages: it has both halves of a session, and sends the headers of a browser.
type browser struct {
	*fixture
	cookie *http.Cookie
	half   string // in the storage of the page
}

// call sends a request of a page of this server, unless headers say otherwise.
func (b browser) call(route, body string, headers ...string) response {
	return b.fixture.call(route, body,
		append([]string{"Authorization: Session " + b.half, "Cookie: " + b.cookie.Name + "=" + b.cookie.Value,
			"Sec-Fetch-Site: same-origin"}, headers...)...)
}

// signIn spends a new link of the fixture's token.
func (f *fixture) signIn() browser {
	f.t.Helper()
	return f.spend(mustCall[api.Link](f, "POST /v1/links", ""))
}

// spend signs a browser in with a link.
func (f *fixture) spend(link api.Link) browser {
	f.t.Helper()
	got := f.call("POST /v1/session", `{"secret":"`+link.Secret+`"}`, "Authorization: ")
	if got.status != http.StatusCreated {
		f.t.Fatalf("sign in: status %d: %s", got.status, got.body)
	}
	cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil {
		f.t.Fatal(err)
	}
	return browser{f, cookie, answered[api.SignedIn](f.t, got).Half}
}

func TestALinkSignsABrowserInOnce(t *testing.T) {
	f := start(t)
	f.submit("a", "hello")
	link := mustCall[api.Link](f, "POST /v1/links", "")
	if until := time.Until(link.ExpiresAt); until > 5*time.Minute || until < 4*time.Minute {
		t.Errorf("the link expires in %s, want 5 minutes", until)
	}
	for _, headers := range [][]string{{"Authorization: Bearer " + link.Secret},
		{"Authorization: ", "Cookie: mailroom=" + link.Secret}} {
		if got := f.call("GET /v1/threads", "", headers...); got.status != http.StatusUnauthorized {
			t.Errorf("the secret of a link as a credential (%q): status %d, want 401", headers[0][:15], got.status)
		}
	}
	secret := `{"secret":"` + link.Secret + `"}`
	got := f.call("POST /v1/session", secret, "Authorization: ",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0")
	if got.status != http.StatusCreated {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.MaxAge != 30*24*3600 ||
		cookie.Secure {
		t.Errorf("got the cookie %q", got.header.Get("Set-Cookie"))
	}
	if strings.Contains(got.body, cookie.Value) || strings.Contains(f.log.String(), cookie.Value) ||
		strings.Contains(f.log.String(), link.Secret) {
		t.Error("a secret is in the response or in the log")
	}
	b := browser{f, cookie, answered[api.SignedIn](t, got).Half}
	if got := b.call("GET /v1/threads/a", ""); got.status != http.StatusOK {
		t.Errorf("with the session: status %d: %s", got.status, got.body)
	}
	var self api.Session
	if err := json.Unmarshal([]byte(b.call("GET /v1/session", "").body), &self); err != nil ||
		self.Token != auth.Operator || self.Kind != "session" || self.ExpiresAt == nil {
		t.Errorf("got %+v, %v", self, err)
	}
	var clients []string
	for _, row := range mustCall[api.Page[api.Token]](f, "GET /v1/tokens", "").Items {
		if row.Client != nil {
			clients = append(clients, row.Kind+" "+*row.Client)
		}
	}
	if !slices.Equal(clients, []string{"session Firefox on Linux"}) {
		t.Errorf("the list of tokens has the clients %q, want that of the session", clients)
	}
	if got := f.call("POST /v1/session", secret, "Authorization: "); got.status != http.StatusUnauthorized {
		t.Errorf("the link again: status %d, want 401", got.status)
	}
	if got := f.call("GET /v1/threads", "", "Authorization: Bearer "+cookie.Value); got.status != http.StatusUnauthorized {
		t.Errorf("the secret of a session as a bearer token: status %d, want 401", got.status)
	}
	if got := b.call("DELETE /v1/session", ""); got.status != http.StatusNoContent ||
		!strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: status %d, cookie %q", got.status, got.header.Get("Set-Cookie"))
	}
	if got := b.call("GET /v1/threads", ""); got.status != http.StatusUnauthorized {
		t.Errorf("after signing out: status %d, want 401", got.status)
	}
}

func TestCookiesAreSecureBehindTLS(t *testing.T) {
	for name, change := range map[string]func(*server.Options){
		"a proxy":    func(o *server.Options) { o.Access.BehindProxy = true },
		"an address": func(o *server.Options) { o.Access.URL = "https://mail.example.org" },
	} {
		if b := start(t, change).signIn(); !b.cookie.Secure {
			t.Errorf("%s: the cookie is not Secure", name)
		}
	}
}

func TestASessionIsForPagesOfItsServerOnly(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Access.Origins = []string{"https://app.example.org"} })
	b := f.signIn()
	f.submit("a", "hello")
	for _, tc := range []struct {
		what    string
		headers []string
		want    int
	}{
		{"own page", nil, http.StatusOK},
		{"address entered by the user", []string{"Sec-Fetch-Site: none"}, http.StatusOK},
		{"page of another origin of this site", []string{"Sec-Fetch-Site: same-site"}, http.StatusForbidden},
		{"page of another site", []string{"Sec-Fetch-Site: cross-site"}, http.StatusForbidden},
		{"page of a trusted origin", []string{"Sec-Fetch-Site: cross-site", "Origin: https://app.example.org"}, http.StatusForbidden},
		{"the same without fetch metadata", []string{"Sec-Fetch-Site: ", "Origin: https://app.example.org"}, http.StatusForbidden},
		{"own page of an older browser", []string{"Sec-Fetch-Site: ", "Origin: " + f.url}, http.StatusOK},
		{"sandboxed page", []string{"Sec-Fetch-Site: ", "Origin: null"}, http.StatusForbidden},
	} {
		for _, route := range []string{"GET /v1/threads/a", "POST /v1/threads/a/interrupt"} {
			if got := b.call(route, "", tc.headers...); got.status != tc.want {
				t.Errorf("%s from a %s: status %d, want %d", route, tc.what, got.status, tc.want)
			}
		}
	}
	if got := b.call("POST /v1/threads/a/interrupt", "", "Sec-Fetch-Site: "); got.status != http.StatusForbidden {
		t.Errorf("a write that says nothing of its page: status %d, want 403", got.status)
	}
	handshake := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}
	if got := b.call("GET /v1/ws", "", append(handshake, "Sec-Fetch-Site: ",
		"Origin: https://app.example.org")...); got.status != http.StatusForbidden {
		t.Errorf("a socket of another origin: status %d, want 403", got.status)
	}
}

func TestASessionHasTheRightsOfItsToken(t *testing.T) {
	f := start(t)
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read","submit"]}`)
	f.submit("hidden", "hello")
	operator := f.secret
	f.secret = made.Secret
	f.submit("hers", "hello")
	b := f.signIn()
	for route, want := range map[string]int{
		"GET /v1/threads/hers": http.StatusOK, "GET /v1/threads/hidden": http.StatusNotFound,
		"GET /metrics": http.StatusForbidden,
	} {
		if got := b.call(route, ""); got.status != want {
			t.Errorf("%s: status %d, want %d", route, got.status, want)
		}
	}
	if got := f.call("POST /v1/links", `{"scopes":["read","decide"]}`); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a link with more scopes: status %d, want 422", got.status)
	}
	f.secret = operator
	list := mustCall[api.Page[api.Token]](f, "GET /v1/tokens", "")
	if len(list.Items) != 2 || list.Items[1].Kind != "session" || *list.Items[1].For != "ann" {
		t.Fatalf("got the tokens %+v", list.Items)
	}
	if got := f.call("DELETE /v1/tokens/ann", ""); got.status != http.StatusNoContent {
		t.Fatalf("revoke: status %d", got.status)
	}
	if got := b.call("GET /v1/threads", ""); got.status != http.StatusUnauthorized {
		t.Errorf("after its token was revoked: status %d, want 401", got.status)
	}
	if list := mustCall[api.Page[api.Token]](f, "GET /v1/tokens", ""); len(list.Items) != 1 {
		t.Errorf("the row of the session is left: %+v", list.Items)
	}
}

func TestATokenForSomeThreadsReachesNoOther(t *testing.T) {
	f := start(t)
	run := f.submit("a", "hello").Run
	other := f.submit("b", "hello").Run
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited",
		`{"scopes":["read","submit"],"threads":["a","new"],"expires_at":"`+until+`"}`)
	f.secret = made.Secret
	for route, want := range map[string]int{
		"GET /v1/threads/a": 200, "GET /v1/threads/a/messages": 200, "GET /v1/runs/" + run: 200, "GET /v1/session": 200,
		"GET /v1/threads/b": 404, "GET /v1/runs/" + other: 404, "POST /v1/runs/" + other + "/cancel": 404,
		"GET /v1/threads": 403, "GET /v1/runs": 403, "GET /v1/stats": 403, "GET /v1/stream": 403, "GET /v1/agents": 403,
		"POST /v1/links": 403,
		"GET /v1/tokens": 403, "GET /v1/reservations?project=a": 403, "GET /v1/runs/count": 403, "GET /v1/failures": 403,
		"GET /v1/waits": 403, "GET /v1/report": 403, "GET /v1/audit": 403,
		"GET /v1/schedules": 403, "GET /v1/schedules/x": 403,
		"GET /v1/budgets": 403,
		"GET /metrics":    403, "GET /v1/stats/sums": 403,
	} {
		if got := f.call(route, ""); got.status != want {
			t.Errorf("%s: status %d, want %d: %s", route, got.status, want, got.body)
		}
	}
	for thread, want := range map[string]int{"a": 202, "new": 202, "b": 404, "another": 404} {
		if got := f.call("POST /v1/threads/"+thread+"/messages", `{"text":"x"}`); got.status != want {
			t.Errorf("submit to %s: status %d, want %d: %s", thread, got.status, want, got.body)
		}
	}
	if got := f.call("POST /v1/messages", `{"text":"x"}`); got.status != 404 {
		t.Errorf("submit to a new thread: status %d, want 404", got.status)
	}
	if got := f.call("POST /v1/threads/a/messages", `{"text":"x","deliver_to":"b"}`); got.status < 400 {
		t.Errorf("a delivery to another thread: status %d, want a refusal", got.status)
	}
}

func TestASessionOfTheOperatorWithFewerScopesSeesAllThreads(t *testing.T) {
	f := start(t)
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read","submit"]}`)
	f.withToken(made.Secret).submit("hers", "hello")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	reader := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+until+`"}`)
	f.secret = reader.Secret
	if page := mustCall[api.Page[api.Thread]](f, "GET /v1/threads", ""); len(page.Items) != 1 {
		t.Errorf("got %d threads, want that of ann", len(page.Items))
	}
	if stats := mustCall[api.Stats](f, "GET /v1/stats", ""); stats.Threads != 1 {
		t.Errorf("got %d threads in the counts, want that of ann", stats.Threads)
	}
	for _, route := range []string{"POST /v1/threads/hers/interrupt", "PATCH /v1/tokens/ann", "GET /metrics"} {
		if got := f.call(route, ""); got.status != 403 {
			t.Errorf("%s: status %d, want 403", route, got.status)
		}
	}
}

func TestATokenForARunReachesNoOther(t *testing.T) {
	f := start(t)
	run := f.submit("a", "hello").Run
	other := f.submit("a", "more").Run
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["read","submit"],"run":"`+run+
		`","expires_at":"`+until+`"}`)
	f.secret = made.Secret
	for route, want := range map[string]int{
		"GET /v1/runs/" + run: 200, "GET /v1/runs/" + run + "/wait?timeout=0s": 200,
		"GET /v1/runs/" + other: 404, "GET /v1/runs/" + other + "/stream": 404, "POST /v1/runs/" + other + "/cancel": 404,
		"GET /v1/threads/a":            403,
		"POST /v1/threads/a/interrupt": 403, "GET /v1/threads/a/messages": 403, "POST /v1/runs/" + run + "/cancel": 200,
	} {
		if got := f.call(route, ""); got.status != want {
			t.Errorf("%s: status %d, want %d: %s", route, got.status, want, got.body)
		}
	}
}

// Both runs are of one thread, which the token sees.
func TestATokenForARunDecidesItsTicketsOnly(t *testing.T) {
	f := start(t)
	run, tickets := f.waiting("a", approval())
	own := tickets["deploy"].ID
	if got := f.call("POST /v1/runs/"+run+"/cancel", ""); got.status != http.StatusOK {
		t.Fatalf("cancel: status %d: %s", got.status, got.body)
	}
	_, tickets = f.waiting("a", approval())
	other := tickets["deploy"]
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	limited := f.withToken(mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["read","decide"],"run":"`+
		run+`","expires_at":"`+until+`"}`).Secret)
	if got := limited.call("GET /v1/tickets/"+own, ""); got.status != http.StatusOK {
		t.Errorf("its own ticket: status %d: %s", got.status, got.body)
	}
	limited.wantCode("a ticket of another run", limited.call("GET /v1/tickets/"+other.ID, ""), 404, mailroom.CodeNotFound)
	limited.wantCode("its decision", limited.decide(other.ID, `{"decision":"approve","digest":"`+other.Digest+`"}`), 404,
		mailroom.CodeNotFound)
	if k := mustCall[api.Ticket](f, "GET /v1/tickets/"+other.ID, ""); k.State != mailroom.TicketOpen {
		t.Errorf("the ticket of the other run is %s", k.State)
	}
}

func TestLimitedTokensAreRefused(t *testing.T) {
	f := start(t)
	soon, late, past := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().AddDate(2, 0, 0).Format(time.RFC3339),
		time.Now().Add(-time.Hour).Format(time.RFC3339)
	for body, want := range map[string]int{
		`{"scopes":["read"],"expires_at":"` + past + `"}`:                           422,
		`{"scopes":["read"],"expires_at":"` + late + `"}`:                           422,
		`{"scopes":["read"]}`:                                                       422,
		`{"scopes":["work"],"expires_at":"` + soon + `"}`:                           422,
		`{"scopes":["admin"],"threads":["a"],"expires_at":"` + soon + `"}`:          422,
		`{"scopes":["read"],"threads":["a b\n"],"expires_at":"` + soon + `"}`:       422,
		`{"scopes":["read"],"run":"none","expires_at":"` + soon + `"}`:              404,
		`{"scopes":["read"],"run":"x","threads":["a"],"expires_at":"` + soon + `"}`: 422,
	} {
		if got := f.call("POST /v1/tokens/limited", body); got.status != want {
			t.Errorf("%s: status %d, want %d: %s", body, got.status, want, got.body)
		}
	}
	limited := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+soon+`"}`)
	f.secret = limited.Secret
	if got := f.call("POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+soon+`"}`); got.status != 403 {
		t.Errorf("a limited token makes another one: status %d, want 403", got.status)
	}
}

func TestRunsAreCountedAsTheyAreListed(t *testing.T) {
	f := start(t)
	f.failRun("a", `{"text":"x"}`, "no route to 10.0.0.1")
	f.failRun("b", `{"text":"x"}`, "no route to 10.0.0.2")
	f.failRun("b", `{"text":"x","metadata":{"team":"red"}}`, "out of memory")
	f.submit("c", "x")
	for q, want := range map[string]int{
		"": 4, "status:failed": 3, "agent:echo": 4, "agent:echo status:failed": 3, "status:failed owner:admin": 3,
		"owner:ann": 0,
		"thread:b":  2, "metadata.team:red": 1, "-status:failed": 1, "status:failed status:queued": 0,
		"created:<2026-01-01": 0, "delivery:no": 4,
	} {
		n, more, err := f.client.CountRuns(t.Context(), q, 0)
		if n != want || more || err != nil {
			t.Errorf("%q: got %d, %v, %v; want %d", q, n, more, err, want)
		}
	}
}

func TestFailuresAreGroupedByError(t *testing.T) {
	f := start(t)
	f.failRun("a", `{"text":"x"}`, "no route to 10.0.0.1")
	memory := f.failRun("b", `{"text":"x"}`, "out of memory")
	route := f.failRun("b", `{"text":"x"}`, "no route to 10.0.0.2")
	for _, q := range []string{"", "status:failed", "agent:echo", "agent:echo status:failed", "owner:admin agent:echo",
		"agent:ec*", "-status:completed"} {
		got, err := f.client.Sums().Failures(t.Context(), q, 0)
		if err != nil || len(got.Items) != 2 || got.LookedTo != nil {
			t.Fatalf("%q: got %+v, %v", q, got, err)
		}
		first, second := got.Items[0], got.Items[1]
		if first.Runs != 2 || first.Run != route || first.Message != "no route to 10.0.0.2" ||
			first.Class != string(mailroom.ClassPermanent) || len(first.Agents) != 1 {
			t.Errorf("%q: got %+v first", q, first)
		}
		if second.Runs != 1 || second.Run != memory || !second.FirstAt.Equal(second.LastAt) {
			t.Errorf("%q: got %+v second", q, second)
		}
		page, err := f.client.Runs(t.Context(), client.ListQuery{Q: "group:" + first.Group})
		if err != nil || len(page.Items) != 2 {
			t.Errorf("runs of the group: %d, %v", len(page.Items), err)
		}
	}
	for _, q := range []string{"agent:none", "status:completed", "owner:none", "agent:echo -status:failed"} {
		if got, err := f.client.Sums().Failures(t.Context(), q, 0); err != nil || len(got.Items) != 0 || got.LookedTo != nil {
			t.Errorf("%q: got %+v, %v", q, got, err)
		}
	}
	if got, err := f.client.Sums().Failures(t.Context(), "", 1); err != nil || len(got.Items) != 1 {
		t.Errorf("one group: got %+v, %v", got.Items, err)
	}
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read"]}`)
	spy := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"spy","scopes":["read"],"namespace":"b"}`)
	f.secret = made.Secret
	if got := mustCall[api.Failures](f, "GET /v1/failures", ""); len(got.Items) != 0 {
		t.Errorf("another owner sees %+v", got.Items)
	}
	f.secret = spy.Secret
	got := mustCall[api.Failures](f, "GET /v1/failures", "")
	if len(got.Items) != 2 || got.Items[0].Runs != 1 {
		t.Errorf("a token with the namespace b sees %+v", got.Items)
	}
	if n := mustCall[api.RunCount](f, "GET /v1/runs/count?q=status:failed", ""); n.Count != 2 {
		t.Errorf("a token with the namespace b counts %d failed runs, want 2", n.Count)
	}
}

func TestCountsOfALargeNamespaceArePartial(t *testing.T) {
	f := start(t)
	for i := range 2100 {
		f.submit(fmt.Sprintf("team-%04d", i), "x")
	}
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"spy","scopes":["read"],"namespace":"team-"}`)
	small := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"one","scopes":["read"],"namespace":"team-00"}`)
	f.secret = made.Secret
	if got := mustCall[api.Stats](f, "GET /v1/stats", ""); !got.Partial || got.Threads != 2000 {
		t.Errorf("got %d threads, partial %v; want 2,000 of more", got.Threads, got.Partial)
	}
	f.secret = small.Secret
	if got := mustCall[api.Stats](f, "GET /v1/stats", ""); got.Partial || got.Threads != 100 {
		t.Errorf("got %d threads, partial %v; want all 100", got.Threads, got.Partial)
	}
}
