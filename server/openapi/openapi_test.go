package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

func TestTheDescriptionIsOpenAPI31(t *testing.T) {
	d := start(t).describe()
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %q", d.OpenAPI)
	}
	report(t, "the document", d.document())
	ids := map[string]bool{}
	for _, op := range d.operations() {
		if op.ID == "" || op.Summary == "" || ids[op.ID] {
			t.Errorf("%s %s has no summary, or no id of its own: %q", op.Method, op.Path, op.ID)
		}
		ids[op.ID] = true
	}
}

// makeObjects creates the objects that the parameters of an operation name, and returns their ids.
func (f *fixture) makeObjects(operation string, n int) map[string]string {
	f.t.Helper()
	threadID := fmt.Sprintf("t%d", n)
	sent := f.submit(threadID, `{"text":"one"}`)
	w := map[string]string{"thread": threadID, "run": sent.Run, "message": sent.Message}
	switch operation {
	case "renew-worker", "leave-worker", "append", "write", "settle", "hand-over",
		"get-claimed-run", "get-claimed-input", "get-claimed-transcript", "get-claimed-log",
		"get-claimed-tickets", "get-claimed-effects", "upload", "get-claimed-blobs", "get-claimed-blob":
		w["worker"], w["claim"] = f.elsewhere(fmt.Sprintf("elsewhere-%d", n), threadID)
		if strings.HasPrefix(operation, "get-claimed-blob") {
			f.writeBlob(w["claim"])
		}
	case "get-ticket", "decide", "show-question", "decide-question":
		work := f.claim()
		for work.Claim.Run != sent.Run { // left over from another operation
			f.settle(work, thread.Settle{Outcome: thread.OutcomeComplete})
			work = f.claim()
		}
		question := mailroom.Ask{Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "Deploy?", Action: "deploy",
			Arguments: []byte(`{"to":"production"}`)}
		f.settle(work, thread.Settle{
			Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Names: []string{question.Name}}, Asks: []mailroom.Ask{question},
		})
		w["ticket"] = thread.TicketID(sent.Run, question.Name)
		if strings.HasSuffix(operation, "-question") {
			w["link"] = f.link(w["ticket"])
		}
	case "get-schedule", "pause-schedule", "resume-schedule", "run-schedule", "delete-schedule":
		w["name"] = "weekly"
		f.call("POST /v1/schedules", `{"name":"weekly","spec":{"every":"168h","text":"go"}}`)
	case "pause-agent":
		w["agent"] = "spare"
	case "resume-agent":
		w["agent"] = "spare"
		f.call("POST /v1/agents/spare/pause", "")
	case "sign-in", "show-link":
		w["secret"] = ask[api.Link](f, "POST /v1/links", "").Secret
	case "sign-out":
		w["cookie"], w["half"] = f.signIn()
	case "post-hook":
		w["channel"] = "ops"
	case "resume-channel":
		w["name"] = "mol"
	case "revoke-pairing":
		w["channel"], w["user"] = "mol", "ann"
	case "delete-rule":
		w["rule"] = "mornings"
		f.call("POST /v1/alerts/rules", `{"name":"mornings","when":["digest"],"to":["phone"]}`)
	case "unsubscribe-push":
		body := `{"endpoint":"https://push.example.net/a","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`
		w["subscription"] = ask[api.PushSubscribed](f, "POST /v1/push/subscriptions", body).ID
	case "revoke-token":
		w["name"] = "phone"
		f.call("POST /v1/tokens", `{"name":"phone","scopes":["read"]}`)
	case "end-token":
		w["name"] = "watch"
		f.call("POST /v1/tokens", `{"name":"watch","scopes":["read"]}`)
	case "set-quotas":
		w["name"] = "tablet"
		f.call("POST /v1/tokens", `{"name":"tablet","scopes":["submit"]}`)
	case "release", "renew-reservation":
		held := ask[api.Reserved](f, "POST /v1/reservations", fmt.Sprintf(`{"names":["text %d"],"holder":"x"}`, n))
		w["reservation"] = held.Granted[0].ID
	case "acknowledge":
		f.call("POST /v1/notifications", `{"from":"x","event":"e"}`)
	case "delete-thread", "retry-run", "wait-run":
		f.call("POST /v1/runs/"+sent.Run+"/cancel", "")
	}
	return w
}

// writeBlob writes a blob with the first step of a claim.
func (f *fixture) writeBlob(claim string) {
	f.t.Helper()
	c, ok := api.ParseClaim(claim)
	if !ok {
		f.t.Fatalf("%q is no claim", claim)
	}
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{IDs: []string{c.Run}})
		if err == nil {
			c.Thread = runs[0].Thread
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	up, err := f.ledger.Workers().Upload(f.t.Context(), c, strings.NewReader("The index of the release notes."))
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.ledger.Workers().Append(f.t.Context(), thread.StepCommit{Claim: c, Number: 1,
		Blobs: []thread.BlobChange{{Name: "index.bin", Upload: up.Name}}}); err != nil {
		f.t.Fatal(err)
	}
}

// link returns a link of an alert about a ticket.
func (f *fixture) link(ticket string) string {
	f.t.Helper()
	k := ask[api.Ticket](f, "GET /v1/tickets/"+ticket, "")
	return alert.NewLinks(token).Sign(alert.Link{Ticket: k.ID, Digest: k.Digest, Thread: "alert:phone",
		Expires: time.Now().Add(time.Hour)})
}

// signIn returns the cookie of a new session, and the half of its secret that a page keeps.
func (f *fixture) signIn() (cookie, half string) {
	f.t.Helper()
	link := ask[api.Link](f, "POST /v1/links", "")
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/v1/session",
		strings.NewReader(fmt.Sprintf(`{"secret":%q}`, link.Secret)))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, raw := f.exchange(req)
	var in api.SignedIn
	if err := json.Unmarshal(raw, &in); err != nil {
		f.t.Fatal(err)
	}
	cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	return cookie, in.Half
}

// request builds a request from the description of an operation: what it
// requires, and what it gives an example of.
func (f *fixture) request(ctx context.Context, d *description, op operation, ids map[string]string) *http.Request {
	f.t.Helper()
	query := url.Values{}
	path := op.Path
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(ids[p.Name]))
		case p.Required:
			query.Set(p.Name, fmt.Sprint(d.value(p.Schema)))
		}
	}
	var sent io.Reader
	kind, media := op.RequestBody.only()
	switch kind {
	case "":
	case binary:
		sent = strings.NewReader("The index of the release notes.")
	default:
		body := d.value(media.Schema)
		if secret := ids["secret"]; secret != "" {
			body = map[string]string{"secret": secret}
		}
		if given, ok := body.(map[string]any); ok && ids["link"] != "" {
			given["link"] = ids["link"]
		}
		raw, err := json.Marshal(body)
		if err != nil {
			f.t.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(op.Method), f.url+path+"?"+query.Encode(), sent)
	if err != nil {
		f.t.Fatal(err)
	}
	if cookie := ids["cookie"]; cookie != "" {
		req.Header.Set("Cookie", cookie)
		req.Header.Set("Authorization", "Session "+ids["half"])
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	} else {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if sent != nil {
		req.Header.Set("Content-Type", kind)
	}
	return req
}

// TestEveryOperationAnswersAsDescribed calls each operation with a client that knows only the
// description, and checks request and response against it.
func TestEveryOperationAnswersAsDescribed(t *testing.T) {
	f := start(t, scheduling)
	f.runSchedules()
	d := f.describe()
	f.submit("failed", `{"text":"x","metadata":{"team":"a"},"options":{"a":1}}`)
	f.settle(f.claim(), thread.Settle{
		Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{Class: mailroom.ClassPermanent,
			Err: errors.New("rate limit")},
	})
	done := f.submit("done", `{"text":"x"}`)
	f.settle(f.claim(), thread.Settle{
		Outcome: thread.OutcomeComplete, Message: &thread.PartialText{ID: done.Run + ".1-1", Text: "a reply"},
	})
	f.submit("runs", `{"text":"x"}`)
	f.claim()
	operations := d.operations()
	for n, op := range operations {
		ids := f.makeObjects(op.ID, n)
		t.Run(op.ID, func(t *testing.T) {
			f.t = t
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			report(t, "request", d.request(op, f.request(ctx, d, op, ids)))
			resp, raw := f.exchange(f.request(ctx, d, op, ids))
			if upgrade := op.ID == "socket" && resp.StatusCode == http.StatusUpgradeRequired; resp.StatusCode > 299 && !upgrade {
				t.Errorf("status %d: %s", resp.StatusCode, raw)
			}
			report(t, fmt.Sprintf("response %d %s", resp.StatusCode, raw), d.response(op, resp.StatusCode, resp.Header, raw))
		})
		f.t = t
	}
	if len(operations) < 30 {
		t.Errorf("only %d operations are described", len(operations))
	}
}

// TestRefusalsAreAsDescribed checks problems against the description.
func TestRefusalsAreAsDescribed(t *testing.T) {
	f := start(t)
	d := f.describe()
	for _, op := range d.operations() {
		req := f.request(t.Context(), d, op, map[string]string{"agent": "none", "thread": "none", "run": "none",
			"message": "none", "ticket": "none", "name": "none", "worker": "none", "claim": "none", "reservation": "none",
			"channel": "none", "user": "none", "rule": "none", "subscription": "none"})
		req.Header.Set("Authorization", "Bearer wrong")
		resp, raw := f.exchange(req)
		if op.ID == "sign-in" || op.ID == "show-link" || op.ID == "show-question" || op.ID == "decide-question" {
			continue // the secret in its body is wrong
		}
		if guarded := len(d.security(op)) > 0; guarded != (resp.StatusCode == http.StatusUnauthorized) {
			t.Errorf("%s without a token: %d", op.ID, resp.StatusCode)
		}
		report(t, fmt.Sprintf("%s: %d %s", op.ID, resp.StatusCode, raw), d.response(op, resp.StatusCode, resp.Header, raw))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/v1/runs/none", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	_, raw := f.exchange(req)
	var p api.Problem
	if err := json.Unmarshal(raw, &p); err != nil || p.Code != mailroom.CodeNotFound {
		t.Errorf("%+v, %v", p, err)
	}
}
