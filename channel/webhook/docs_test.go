package webhook_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// TestManualExamplesSignAndVerify runs the programs in docs/channels/webhook.md.
func TestManualExamplesSignAndVerify(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/channels/webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, c := range map[string]struct{ program, file, more string }{
		"python": {"python3", "hook.py", `
import json, sys
q = json.load(sys.stdin)
at = str(int(time.time()))
print(json.dumps({
    "signature": sign(q["secret"], "msg_1", at, q["body"].encode()), "at": at,
    "good": [verify(q["secret"], r["headers"], r["body"].encode()) for r in q["requests"]],
}))
`},
		"js": {"node", "hook.mjs", `
import { readFileSync } from "node:fs";
const q = JSON.parse(readFileSync(0));
const at = String(Math.floor(Date.now() / 1000));
console.log(JSON.stringify({
  signature: sign(q.secret, "msg_1", at, Buffer.from(q.body)), at,
  good: q.requests.map((r) => verify(q.secret, r.headers, Buffer.from(r.body))),
}));
`},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				t.Fatalf("this example needs %s: run make programs: %v", c.program, err)
			}
			_, code, found := strings.Cut(string(manual), "```"+language+"\n")
			code, _, ended := strings.Cut(code, "```")
			if !found || !ended {
				t.Fatal("the manual lacks this program")
			}
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(code+c.more), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{platformtest.WebhookSecret, platformtest.WebhookKey} {
				runExample(t, secret, c.program, file)
			}
		})
	}
}

// runExample runs a program that verifies outbound requests and signs an inbound one.
func runExample(t *testing.T, secret string, command ...string) {
	o := newFixture(t)
	o.secret = func() (string, error) { return secret, nil }
	o.start()
	o.postMessage("1", "r", "Grüße, “you” <there>")
	o.WaitFor(t, "a request", func() bool { return len(o.Posts()) >= 1 })
	type request struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	of := func(p platformtest.WebhookPost, change func(*request)) (r request) {
		r = request{Headers: map[string]string{}, Body: p.Raw}
		for name := range p.Header {
			r.Headers[strings.ToLower(name)] = p.Header.Get(name)
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	sent := o.Posts()[0]
	old := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	const id, at, signature = "webhook-id", "webhook-timestamp", "webhook-signature"
	requests := []request{
		of(sent, nil),
		of(sent, func(r *request) { r.Headers[signature] = "v1,AAAA " + r.Headers[signature] }),
		of(sent, func(r *request) { r.Body += " " }),
		of(sent, func(r *request) { r.Headers[id] += "0" }),
		of(sent, func(r *request) { r.Headers[signature] = "v1,AAAA" }),
		of(sent, func(r *request) {
			r.Headers[at] = old
			r.Headers[signature] = platformtest.SignWebhook(platformtest.WebhookKey, r.Headers[id], old, []byte(r.Body))
		}),
	}
	said := platformtest.WebhookMessage("r", "ann", "signed there")
	in, err := json.Marshal(map[string]any{"secret": secret, "body": said, "requests": requests})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(string(in))
	raw, err := cmd.CombinedOutput()
	var out struct {
		Signature, At string
		Good          []bool
	}
	if err != nil || json.Unmarshal(raw, &out) != nil {
		t.Fatalf("the program printed %s, %v", raw, err)
	}
	for i, good := range out.Good {
		if good != (i < 2) {
			t.Errorf("request %d valid: %t", i, good)
		}
	}
	if len(out.Good) != len(requests) {
		t.Errorf("the program verified %d of %d requests", len(out.Good), len(requests))
	}
	a, err := o.program.Post("ops", "msg_1", said, func(r *http.Request) {
		r.Header.Set(at, out.At)
		r.Header.Set(signature, out.Signature)
	})
	if err != nil || a.Code != 202 {
		t.Errorf("signed request: %d %s, %v", a.Code, a.Body, err)
	}
}
