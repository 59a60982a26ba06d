package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"mailroom"
)

// TestNoSecretIsTold: neither a secret nor its hash comes back or goes into a log,
// wherever its holder put it.
func TestNoSecretIsTold(t *testing.T) {
	f := start(t)
	secret, other := f.token("ann", "", but("")...), f.token("bob", "", but("")...)
	hash := sha256.Sum256([]byte(secret))
	canaries := []string{secret, other, hex.EncodeToString(hash[:]), token}
	told := map[string]string{}
	for _, with := range []string{secret, token, "mr_" + strings.Repeat("x", 40), "a-wrong-token-of-somebody"} {
		who := f.as(with)
		for _, in := range append(canaries, with) {
			for _, route := range []string{
				"GET /" + in, "GET /v1/threads/" + in, "GET /v1/runs/" + in, "GET /v1/tickets/" + in, "DELETE /v1/tokens/" + in,
				"GET /v1/threads?token=" + in, "GET /v1/threads?" + in + "=1", "GET /v1/runs?q=" + in, "GET /v1/runs?q=agent:" + in + "%20" + in + ":x", "GET /v1/runs?cursor=" + in,
				"GET /v1/threads/t/stream?after=" + in, "GET /v1/runs?limit=" + in, "PUT /v1/" + in, in + " /v1/threads",
			} {
				told[route] += who.call(route, "").body
			}
			for _, body := range []string{
				`{"text":"x","agent":"` + in + `"}`, `{"` + in + `":1}`, `{"text":"x","mode":"` + in + `"}`, `{"text":"x","priority":"` + in + `"}`,
				`{"text":"x","parent":"` + in + `"}`, in, `{"text":"x","key":"` + in + `","not_before":"` + in + `"}`,
			} {
				told[body] += who.call("POST /v1/messages", body).body
			}
			told["header"] += who.call("GET /v1/threads/none", "", "Last-Event-ID: "+in).body
			if in == with || strings.HasPrefix(in, "mr_") { // else it is like any id
				told["id"] += fmt.Sprint(who.call("GET /v1/threads/none", "", "X-Request-ID: "+in).header)
			}
			told["scheme"] += who.call("GET /v1/threads/none", "", "Authorization: Basic "+in).body
		}
		told["metrics"] += who.call("GET /metrics", "").body
		told["list"] += who.call("GET /v1/tokens", "").body
		told["openapi"] += who.call("GET /openapi.json", "").body
	}
	f.log.wait(t, `"path":"/openapi.json"`)
	told["log"] = f.log.String()
	for _, canary := range append(canaries, "mr_"+strings.Repeat("x", 40), "a-wrong-token-of-somebody") {
		for what, text := range told {
			// Who asks for bob's with the token of ann is told what it said, unless
			// it looks like a secret; a hash or a guess is none.
			if strings.Contains(text, canary) && (what == "log" || what == "id" || what == "metrics" || what == "list" || strings.HasPrefix(canary, "mr_")) {
				at := strings.Index(text, canary)
				t.Errorf("%.60q tells %.12q…: …%.200s", what, canary, text[max(0, at-80):])
			}
		}
	}
}

// TestTheSecretOfACallerIsHiddenFromItsAnswer: also one that does not look like a
// secret of this server, as the operator's.
func TestTheSecretOfACallerIsHiddenFromItsAnswer(t *testing.T) {
	f := start(t)
	for _, secret := range []string{token, f.token("ann", "", but("")...)} {
		who := f.as(secret)
		for _, route := range []string{"GET /v1/threads/" + secret, "GET /v1/" + secret, "GET /v1/runs?cursor=" + secret} {
			a := who.call(route, "")
			if a.status < 400 || strings.Contains(a.body, secret) || !strings.Contains(a.body, "…") {
				t.Errorf("%d %s, want a refusal with … for the secret", a.status, a.body)
			}
		}
	}
	// What is short and wrong is not cut out of every word.
	a := f.as("the").call("GET /v1/threads", "")
	if p := a.problem(t); p.Code != mailroom.CodeUnauthenticated || p.Detail != "unknown or revoked token" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
