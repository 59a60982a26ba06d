package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"mailroom"
)

// TestNoSecretIsReturnedOrLogged sends secrets and their hashes in every part of a request. None
// may come back or reach the log.
func TestNoSecretIsReturnedOrLogged(t *testing.T) {
	f := start(t)
	secret, other := f.createToken("ann", "", scopesWithout("")...), f.createToken("bob", "", scopesWithout("")...)
	hash := sha256.Sum256([]byte(secret))
	canaries := []string{secret, other, hex.EncodeToString(hash[:]), token}
	outputs := map[string]string{}
	for _, with := range []string{secret, token, "mr_" + strings.Repeat("x", 40), "a-wrong-token-of-a-stranger"} {
		who := f.withToken(with)
		for _, in := range append(canaries, with) {
			for _, route := range []string{
				"GET /" + in, "GET /v1/threads/" + in, "GET /v1/runs/" + in, "GET /v1/tickets/" + in, "DELETE /v1/tokens/" + in,
				"GET /v1/threads?token=" + in, "GET /v1/threads?" + in + "=1", "GET /v1/runs?q=" + in, "GET /v1/runs?q=agent:" +
					in + "%20" + in + ":x", "GET /v1/runs?cursor=" + in,
				"GET /v1/threads/t/stream?after=" + in, "GET /v1/runs?limit=" + in, "PUT /v1/" + in, in + " /v1/threads",
			} {
				outputs[route] += who.call(route, "").body
			}
			for _, body := range []string{
				`{"text":"x","agent":"` + in + `"}`, `{"` + in + `":1}`, `{"text":"x","mode":"` + in + `"}`,
				`{"text":"x","priority":"` + in + `"}`,
				`{"text":"x","parent":"` + in + `"}`, in, `{"text":"x","key":"` + in + `","not_before":"` + in + `"}`,
			} {
				outputs[body] += who.call("POST /v1/messages", body).body
			}
			outputs["header"] += who.call("GET /v1/threads/none", "", "Last-Event-ID: "+in).body
			if in == with || strings.HasPrefix(in, "mr_") { // otherwise it is a valid request id
				outputs["id"] += fmt.Sprint(who.call("GET /v1/threads/none", "", "X-Request-ID: "+in).header)
			}
			outputs["scheme"] += who.call("GET /v1/threads/none", "", "Authorization: Basic "+in).body
		}
		outputs["metrics"] += who.call("GET /metrics", "").body
		outputs["list"] += who.call("GET /v1/tokens", "").body
		outputs["openapi"] += who.call("GET /openapi.json", "").body
	}
	f.log.wait(t, `"path":"/openapi.json"`)
	outputs["log"] = f.log.String()
	for _, canary := range append(canaries, "mr_"+strings.Repeat("x", 40), "a-wrong-token-of-a-stranger") {
		for what, text := range outputs {
			// A caller gets its own input back in a refusal, unless that looks like a secret. A
			// hash or a guess does not.
			if strings.Contains(text, canary) && (what == "log" || what == "id" || what == "metrics" || what == "list" ||
				strings.HasPrefix(canary, "mr_")) {
				at := strings.Index(text, canary)
				t.Errorf("%.60q has %.12q…: …%.200s", what, canary, text[max(0, at-80):])
			}
		}
	}
}

// TestTheCallersSecretIsRedactedFromItsResponse includes the operator's secret, which has no
// prefix.
func TestTheCallersSecretIsRedactedFromItsResponse(t *testing.T) {
	f := start(t)
	for _, secret := range []string{token, f.createToken("ann", "", scopesWithout("")...)} {
		who := f.withToken(secret)
		for _, route := range []string{"GET /v1/threads/" + secret, "GET /v1/" + secret, "GET /v1/runs?cursor=" + secret} {
			a := who.call(route, "")
			if a.status < 400 || strings.Contains(a.body, secret) || !strings.Contains(a.body, "…") {
				t.Errorf("%d %s, want a refusal with … for the secret", a.status, a.body)
			}
		}
	}
	// A short invalid token is not redacted: it would garble words.
	a := f.withToken("the").call("GET /v1/threads", "")
	if p := a.problem(t); p.Code != mailroom.CodeUnauthenticated || p.Detail != "unknown, expired or revoked token" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
