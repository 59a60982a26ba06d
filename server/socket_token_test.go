package server_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

// createScopedToken creates a token with scopes, as JSON strings, and returns its secret.
func (f *fixture) createScopedToken(name, scopes string) string {
	f.t.Helper()
	return mustCall[api.CreatedToken](f, "POST /v1/tokens", fmt.Sprintf(`{"name":%q,"scopes":[%s]}`, name, scopes)).Secret
}

func TestARevokedTokenEndsItsSockets(t *testing.T) {
	f := start(t)
	secret := f.createScopedToken("ann", `"read","submit"`)
	idle, busy, operator := f.dial(), f.dial("Authorization: Bearer "+secret), f.dialWithToken()
	who := result[api.Identity](idle, `{"op":"auth","id":1,"token":%q}`, secret)
	if who.Name != "ann" || fmt.Sprint(who.Scopes) != "[read submit]" {
		t.Errorf("auth: %+v", who)
	}
	result[store.Submitted](busy, `{"op":"submit","id":1,"thread":"t","text":"one"}`)
	busy.send(`{"op":"subscribe","id":2,"thread":"t","after":"2"}`)
	busy.want("ack 2 1")
	idle.send(`{"op":"auth","id":2,"token":%q}`, token)
	idle.want("error 2 conflict") // a socket belongs to one client

	if a := f.call("DELETE /v1/tokens/ann", ""); a.status != 204 {
		t.Fatalf("revoke: %d %s", a.status, a.body)
	}
	for _, p := range []*peer{idle, busy} {
		if got := p.closed(); got.Code != 4401 {
			t.Errorf("closed with %v, want 4401", got)
		}
	}
	operator.send(`{"op":"ping","id":1}`)
	operator.want("pong 1")
	late := f.dial()
	late.send(`{"op":"auth","id":1,"token":%q}`, secret)
	late.want("error 1 unauthenticated")
	if got := late.closed(); got.Code != 4401 {
		t.Errorf("a revoked token: %v, want 4401", got)
	}
}

func TestASocketHasThePermissionsOfItsToken(t *testing.T) {
	f := start(t)
	ann, bob := f.createScopedToken("ann", `"read","submit"`), f.createScopedToken("bob", `"read"`)
	run := f.submit("operators", "one").Run
	work := f.claim()
	f.park(work, approval())
	ticket := thread.TicketID(run, "deploy")
	p := f.dial("Authorization: Bearer " + ann)
	all := f.dial("Authorization: Bearer " + ann)
	all.send(`{"op":"subscribe","id":1}`)
	all.want("ack 1 1")
	before := f.snapshot()
	for frame, want := range map[string]string{
		`{"id":1,"op":"subscribe","thread":"operators"}`:                            "error 1 not_found",
		`{"id":1,"op":"subscribe","run":"` + run + `"}`:                             "error 1 not_found",
		`{"id":1,"op":"resume","thread":"operators","run":"` + run + `"}`:           "error 1 not_found",
		`{"id":1,"op":"submit","thread":"operators","text":"x"}`:                    "error 1 not_found",
		`{"id":1,"op":"submit","thread":"mine","text":"x","sender":"another name"}`: "error 1 forbidden",
		`{"id":1,"op":"cancel","run":"` + run + `"}`:                                "error 1 not_found",
		`{"id":1,"op":"interrupt","thread":"operators"}`:                            "error 1 not_found",
		`{"id":1,"op":"decide","ticket":"` + ticket + `","decision":"deny"}`:        "error 1 forbidden",
	} {
		p.send("%s", frame)
		if got := p.next().String(); got != want {
			t.Errorf("%s: %q, want %q", frame, got, want)
		}
	}
	if after := f.snapshot(); after != before {
		t.Errorf("rows changed to\n%s, before:\n%s", after, before)
	}
	reader := f.dial("Authorization: Bearer " + bob)
	reader.send(`{"op":"submit","id":1,"text":"x"}`)
	reader.want("error 1 forbidden")

	f.submit("operators", "two")
	mine := result[store.Submitted](p, `{"op":"submit","id":2,"text":"x"}`)
	h := all.next() // no frame of the operator's thread came before
	if h.Entry == nil || h.Entry.Thread != mine.Thread {
		t.Errorf("frame of the stream of all threads %s, want an entry of %s", h, mine.Thread)
	}
	if !strings.Contains(string(h.Entry.Body), `"ann"`) {
		t.Errorf("sender is not the token: %s", h.Entry.Body)
	}
}
