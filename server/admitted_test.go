package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
)

// halfSent sends a request but for the end of its body. finish sends the rest and returns the answer.
func (f *fixture) halfSent(route, body string) (finish func() (status int, answer string)) {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	send := func(text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			f.t.Fatal(err)
		}
	}
	// The server asks for the body once it has admitted the request.
	send(
		fmt.Sprintf(
			"%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", route, f.secret, len(body)))
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		f.t.Fatalf("got %q and %v, want 100 Continue", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		f.t.Fatal(err)
	}
	send(body[:len(body)/2])
	return func() (int, string) {
		send(body[len(body)/2:])
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
}

// TestAnAdmittedRequestDoesNothingOnceItsTokenIsRevoked has requests whose bodies end after the revocation.
func TestAnAdmittedRequestDoesNothingOnceItsTokenIsRevoked(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		f := startStore(t, open(t), func(ln net.Listener) net.Listener { return ln })
		ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
		limited := ann.withToken(mustCall[api.CreatedToken](ann, "POST /v1/tokens/limited",
			`{"scopes":["submit"],"expires_at":"`+inAnHour()+`"}`).Secret)
		var finish []func() (int, string)
		for _, by := range []*fixture{ann, limited} {
			finish = append(finish, by.halfSent("POST /v1/messages", `{"thread":"late","text":"x"}`),
				by.halfSent("POST /v1/reservations", `{"project":"late","names":["a"],"holder":"x"}`))
		}
		if err := f.client.Accounts().RevokeToken(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit)
		before := f.snapshot()
		for i, end := range finish {
			if status, answer := end(); status != 401 || !strings.Contains(answer, string(mailroom.CodeUnauthenticated)) {
				t.Errorf("request %d: %d %s, want 401", i, status, answer)
			}
		}
		if after := f.snapshot(); after != before {
			t.Errorf("revoked tokens changed\n%s to\n%s", before, after)
		}
	})
}

// TestEachWriteOfARequestNamesItsCaller: the transaction of the write checks the row of the token, see ledger.Caller.
func TestEachWriteOfARequestNamesItsCaller(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	things := ann.addReservation(ann.makeObjects("hers"))
	things["name"], things["channel"], things["user"], things["rule"], things["subscription"], things["agent"] = "ann~x",
		"c", "u", "r", "s", "echo"
	// In the store only, as by another server in the moment after a request was admitted here.
	if err := f.ledger.Accounts().RevokeToken(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	before := f.snapshot()
	n := 0
	for route, a := range accessRules() {
		method, path, _ := strings.Cut(route, " ")
		if method == "GET" || a.need == "" || a.need == auth.PermissionAdmin {
			continue
		}
		n++
		got := ann.call(fillIDs(method+" "+path, things), fillIDs(a.body, things))
		if got.status < 400 && !strings.Contains(got.body, `"released":[]`) && !strings.Contains(got.body, `"matched":0`) {
			t.Errorf("%s: %d %s by a row that is revoked in the store", route, got.status, got.body)
		}
	}
	if n < 15 {
		t.Errorf("only %d operations write", n)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("a row that is revoked in the store changed\n%s to\n%s", before, after)
	}
}
