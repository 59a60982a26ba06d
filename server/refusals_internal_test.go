package server

import (
	"fmt"
	"testing"
	"time"

	"mailroom"
)

// An attacker who guesses secrets from many addresses adds one record in ten minutes, of a bounded size.
func TestRefusedSecretsAreOneRecordInTenMinutes(t *testing.T) {
	var f refusals
	now := time.Now()
	for i := range 5000 {
		from := fmt.Sprintf("192.0.%d.%d", i/250, i%250)
		f.note(&requestState{code: mailroom.CodeUnauthenticated, token: "guess", from: from})
	}
	for range 30 {
		f.note(&requestState{code: mailroom.CodeUnauthenticated, token: "guess", from: "198.51.100.9"})
		f.note(&requestState{code: mailroom.CodeUnauthenticated, from: "192.0.2.1"}) // without a secret
		f.note(&requestState{code: mailroom.CodeForbidden, token: "valid", from: "192.0.2.2"})
	}
	f.note(&requestState{code: mailroom.CodeUnauthenticated, token: "guess", from: "192.0.0.7"})
	a, from, ok := f.take(now)
	if !ok || a.Name != "sign-in.refused" || a.Detail["requests"] != "5031" || a.Detail["addresses"] != "1000" ||
		from != "192.0.0.7" || len(a.Detail["from"]) > 300 {
		t.Errorf("got %+v from %q, %v", a, from, ok)
	}
	f.note(&requestState{code: mailroom.CodeUnauthenticated, route: "POST /v1/session", from: "192.0.2.3"})
	if a, _, ok := f.take(now.Add(refusalInterval - 1)); ok {
		t.Errorf("a second record before its time: %+v", a)
	}
	if a, from, ok := f.take(now.Add(refusalInterval)); !ok || a.Detail["requests"] != "1" || from != "192.0.2.3" {
		t.Errorf("got %+v from %q, %v", a, from, ok)
	}
	if a, _, ok := f.take(now.Add(time.Hour)); ok {
		t.Errorf("a record without refusals: %+v", a)
	}
}
