package server_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
)

// in returns the time that is some hours away, for a request.
func in(hours int) string {
	return time.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
}

func answered[T any](t *testing.T, a response) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status > 299 {
		t.Fatalf("status %d, %v: %.200s", a.status, err, a.body)
	}
	return out
}

func TestATokenCannotCreateATokenThatOutlivesIt(t *testing.T) {
	f := start(t)
	limited := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", `{"scopes":["admin"],"expires_at":"`+in(2)+`"}`)
	named := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"day","scopes":["admin"],"expires_at":"`+in(2)+`"}`)
	session := f.withToken(named.Secret).signIn()
	operators := f.signIn()
	for i, tc := range []struct {
		what  string
		call  func(route, body string, headers ...string) response
		hours int // 0: no end
		want  int
	}{
		{"a limited token", f.withToken(limited.Secret).call, 0, 403},
		{"a limited token", f.withToken(limited.Secret).call, 1, 403},
		{"a token with an end", f.withToken(named.Secret).call, 0, 422},
		{"a token with an end", f.withToken(named.Secret).call, 3, 422},
		{"a token with an end", f.withToken(named.Secret).call, 1, 201},
		{"its session", session.call, 0, 422},
		{"its session", session.call, 1, 201},
		{"a session of the operator", operators.call, 0, 201},
	} {
		end := ""
		if tc.hours > 0 {
			end = `,"expires_at":"` + in(tc.hours) + `"`
		}
		if got := tc.call("POST /v1/tokens", fmt.Sprintf(`{"name":"n%d","scopes":["admin"]%s}`, i,
			end)); got.status != tc.want {
			t.Errorf("%s makes one of %d hours: status %d, want %d: %s", tc.what, tc.hours, got.status, tc.want, got.body)
		}
	}
	for what, call := range map[string]func(route, body string,
		headers ...string) response{"a token": f.withToken(named.Secret).call, "a session": session.call} {
		if got := call("POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+in(3)+`"}`); got.status != 422 {
			t.Errorf("%s with an end of 2 hours makes a limited one of 3: status %d, want 422", what, got.status)
		}
		if got := call("POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+in(1)+`"}`); got.status != 201 {
			t.Errorf("%s makes one of an hour: status %d: %s", what, got.status, got.body)
		}
	}
}

// TestARotatedTokenLeavesNothingValid revokes a token and creates its name again, as after a theft.
func TestARotatedTokenLeavesNothingValid(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		rotate(t, startStore(t, open(t), func(ln net.Listener) net.Listener { return ln }))
	})
}

func rotate(t *testing.T, f *fixture) {
	create := func() *fixture {
		return f.withToken(mustCall[api.CreatedToken](f, "POST /v1/tokens",
			`{"name":"eve","scopes":["read","submit","decide"]}`).Secret)
	}
	eve := create()
	limited := mustCall[api.CreatedToken](eve, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+
		in(8000)+`"}`)
	link := mustCall[api.Link](eve, "POST /v1/links", "")
	session := eve.signIn()
	mustCall[api.Page[api.Token]](f, "GET /v1/tokens", "")
	if got := f.call("DELETE /v1/tokens/eve", ""); got.status != http.StatusNoContent {
		t.Fatal(got.body)
	}
	again := create()
	for what, got := range map[string]response{
		"the token": eve.call("GET /v1/session", ""), "the limited token": f.withToken(limited.Secret).call("GET /v1/session",
			""),
		"the session": session.call("GET /v1/session", ""), "the link": f.call("POST /v1/session", `{"secret":"`+link.Secret+
			`"}`, "Authorization: "),
	} {
		if got.status != http.StatusUnauthorized {
			t.Errorf("%s works again: status %d", what, got.status)
		}
	}
	if got := again.call("GET /v1/session", ""); got.status != http.StatusOK {
		t.Errorf("the new token: status %d", got.status)
	}
	if list := mustCall[api.Page[api.Token]](f, "GET /v1/tokens", ""); len(list.Items) != 1 {
		t.Errorf("rows are left: %+v", list.Items)
	}
}

// TestSigningOutEndsWhatTheSessionMade includes a session that was made by a link of the session.
func TestSigningOutEndsWhatTheSessionMade(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		signOut(t, func() *fixture { return startStore(t, open(t), func(ln net.Listener) net.Listener { return ln }) })
	})
}

func signOut(t *testing.T, begin func() *fixture) {
	for _, end := range []string{"it signs out", "an admin revokes it"} {
		f := begin()
		ann := f.withToken(f.createScopedToken("ann", `"read","submit"`))
		session := ann.signIn()
		limited := answered[api.CreatedToken](t, session.call("POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+
			in(24)+`"}`))
		link := answered[api.Link](t, session.call("POST /v1/links", ""))
		phone := f.spend(answered[api.Link](t, session.call("POST /v1/links", "")))
		kept := ann.signIn()
		if got := phone.call("GET /v1/session", ""); got.status != http.StatusOK {
			t.Fatal(got.body)
		}
		if end == "it signs out" {
			session.call("DELETE /v1/session", "")
		} else {
			name := ""
			for _, row := range mustCall[api.Page[api.Token]](f, "GET /v1/tokens", "").Items {
				if row.Kind == "session" && name == "" { // the oldest
					name = row.Name
				}
			}
			if got := f.call("DELETE /v1/tokens/"+name, ""); got.status != http.StatusNoContent {
				t.Fatal(got.body)
			}
		}
		for what, got := range map[string]response{
			"the session":             session.call("GET /v1/session", ""),
			"its limited token":       f.withToken(limited.Secret).call("GET /v1/session", ""),
			"its link":                f.call("POST /v1/session", `{"secret":"`+link.Secret+`"}`, "Authorization: "),
			"the session of its link": phone.call("GET /v1/session", ""),
		} {
			if got.status != http.StatusUnauthorized {
				t.Errorf("%s: %s works: status %d", end, what, got.status)
			}
		}
		if got := kept.call("GET /v1/session", ""); got.status != http.StatusOK {
			t.Errorf("%s: another session of the token: status %d", end, got.status)
		}
	}
}

// TestAUserSeesAndEndsHerOwnSessions has a lost phone, and a session that was lent for reading.
func TestAUserSeesAndEndsHerOwnSessions(t *testing.T) {
	f := start(t)
	ann, bob := f.withToken(f.createScopedToken("ann", `"read","submit"`)), f.withToken(f.createScopedToken("bob",
		`"read","submit"`))
	phone := ann.signIn()
	lost := mustCall[api.Page[api.Token]](ann, "GET /v1/tokens", "").Items[1].Name
	desk := ann.signIn()
	reader := f.spend(mustCall[api.Link](ann, "POST /v1/links", `{"scopes":["read"]}`))
	limited := f.withToken(mustCall[api.CreatedToken](ann, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+
		in(1)+`"}`).Secret)
	his, operators := bob.signIn(), f.signIn()
	type caller = func(route, body string, headers ...string) response
	names := func(call caller) (found []string) {
		for _, row := range answered[api.Page[api.Token]](t, call("GET /v1/tokens", "")).Items {
			found = append(found, row.Name)
		}
		return found
	}
	for what, tc := range map[string]struct {
		call caller
		want int
	}{
		"an admin": {f.call, 8}, "ann": {ann.call, 5}, "her session": {desk.call, 5},
		"her session that may read": {reader.call, 3}, "her limited token": {limited.call, 2},
	} {
		if got := names(tc.call); len(got) != tc.want {
			t.Errorf("%s sees %q, want %d rows", what, got, tc.want)
		}
	}
	all := names(f.call)
	for what, call := range map[string]caller{"bob": bob.call, "his session": his.call,
		"a session of ann that may read": reader.call, "a limited token of ann": limited.call} {
		for _, name := range all {
			if slices.Contains(names(call), name) {
				continue // its own
			}
			if got := call("DELETE /v1/tokens/"+name, ""); got.status != http.StatusNotFound {
				t.Errorf("%s revokes %s: status %d, want 404", what, name, got.status)
			}
		}
	}
	if got := ann.call("DELETE /v1/tokens/ann", ""); got.status != http.StatusForbidden {
		t.Errorf("a token revokes itself: status %d, want 403", got.status)
	}
	if got := desk.call("DELETE /v1/tokens/"+lost, ""); got.status != http.StatusNoContent ||
		phone.call("GET /v1/session", "").status != http.StatusUnauthorized {
		t.Errorf("the lost phone was not ended: status %d", got.status)
	}
	for _, name := range names(ann.call) {
		if got := ann.call("DELETE /v1/tokens/"+name, ""); name != "ann" && got.status != http.StatusNoContent {
			t.Errorf("revoke %s: status %d, want 204", name, got.status)
		}
	}
	for what, call := range map[string]caller{"the desk": desk.call, "the reader": reader.call,
		"the limited token": limited.call} {
		if got := call("GET /v1/session", ""); got.status != http.StatusUnauthorized {
			t.Errorf("%s is valid after it was ended: status %d", what, got.status)
		}
	}
	for what, call := range map[string]caller{"ann": ann.call, "bob": bob.call, "his session": his.call,
		"a session of the operator": operators.call} {
		if got := call("GET /v1/session", ""); got.status != http.StatusOK {
			t.Errorf("%s: status %d, want 200", what, got.status)
		}
	}
}

// TestARevocationSaysWhichRunsGoOn revokes a token with a scheduled run, first without cancelling it.
func TestARevocationSaysWhichRunsGoOn(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionSubmit))
	run := mustCall[api.Submitted](ann, "POST /v1/messages", `{"thread":"hers","text":"x","not_before":"`+in(2)+`"}`).Run
	session := ann.signIn()
	for _, test := range []struct {
		body string
		want api.RevokedToken
	}{{"", api.RevokedToken{OpenRuns: 1}}, {`{"cancel":true}`, api.RevokedToken{Cancelled: 1}}, {`{}`,
		api.RevokedToken{}}} {
		if got := answered[api.RevokedToken](t, f.call("POST /v1/tokens/ann/revoke", test.body)); got != test.want {
			t.Errorf("revoke with %q: got %+v, want %+v", test.body, got, test.want)
		}
	}
	if r := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); r.Status != mailroom.StatusCancelled {
		t.Errorf("the run is %s", r.Status)
	}
	if got := session.call("GET /v1/session", ""); got.status != http.StatusUnauthorized {
		t.Errorf("the session of the token: status %d", got.status)
	}
	bob := f.withToken(f.createToken("bob", "", auth.PermissionSubmit))
	limited := mustCall[api.CreatedToken](bob, "POST /v1/tokens/limited", `{"scopes":["submit"],"expires_at":"`+in(2)+`"}`)
	f.wantCode("runs of a limited token", bob.call("POST /v1/tokens/"+limited.Name+"/revoke", `{"cancel":true}`), 422,
		mailroom.CodeInvalid)
	f.wantCode("another token", bob.call("POST /v1/tokens/ann/revoke", `{"cancel":true}`), 404, mailroom.CodeNotFound)
}
