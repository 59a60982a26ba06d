package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/webhook"
	"mailroom/protocol/agentmail"
	"mailroom/protocol/mcp"
	"mailroom/server"
	"mailroom/server/reference"
	"mailroom/thread"
)

var update = flag.Bool("update", false, "write the examples of the description")

const examplesFile = "../reference/examples.json"

// TestTheExamplesEqualTheAnswersOfAServer calls every operation, each on a new server, and compares request and answer
// with the example in the description. Ids, times and secrets differ with each run, so the test replaces them with
// stable ones.
func TestTheExamplesEqualTheAnswersOfAServer(t *testing.T) {
	d := start(t, otherProtocols).describe()
	recorded := struct {
		Operations map[string]reference.Example `json:"operations"`
		Refusals   map[string]json.RawMessage   `json:"refusals"`
	}{map[string]reference.Example{}, recordRefusals(t)}
	for _, op := range d.operations() {
		t.Run(op.ID, func(t *testing.T) {
			f := start(t, otherProtocols, scheduling)
			recorded.Operations[op.ID] = f.record(d, op)
		})
	}
	raw, err := json.MarshalIndent(recorded, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, '\n')
	if *update && !t.Failed() {
		if err := os.WriteFile(examplesFile, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(examplesFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 256<<10 {
		t.Errorf("the examples have %d bytes, the limit of a file is 256 KiB", len(raw))
	}
	if bytes.Equal(have, raw) {
		return
	}
	was, is := strings.Split(string(have), "\n"), strings.Split(string(raw), "\n")
	for i, line := range is {
		if i >= len(was) || line != was[i] {
			old := strings.Join(was[min(i, len(was)):min(i+1, len(was))], "")
			t.Fatalf("the examples differ from the answers of the server at line %d:\n%s\nnow\n%s\n"+
				"Look at the difference, then run this test with -update.", i+1, old, line)
		}
	}
	t.Fatal("the examples have more lines than the server's answers; run this test with -update")
}

// otherProtocols mounts what a server of the program mounts beside the API.
func otherProtocols(o *server.Options) {
	all := map[string]server.Protocol{
		webhook.Route: o.Parts.Protocols[webhook.Route],
		"POST /mcp":   {Via: "mcp", Summary: "The tools of the Model Context Protocol", Serve: mcp.Handler("1.2.3", o.Log)},
	}
	for _, r := range agentmail.Routes() {
		all[r.Pattern] = server.Protocol{Via: "agentmail", Name: r.Name, Summary: r.Summary, Status: r.Status,
			Public: r.Open, Serve: r.Serve, Parameters: agentmail.Parameters()}
	}
	o.Parts.Protocols = all
}

// record calls an operation and returns its stable example.
func (f *fixture) record(d *description, op operation) reference.Example {
	f.t.Helper()
	seeded := f.seed(op.ID)
	ids := f.makeObjects(op.ID, 1)
	maps.Copy(ids, seeded)
	for name, id := range map[string]string{"agent": "spare", "id": "notes.md",
		"tomorrow": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)} {
		if ids[name] == "" {
			ids[name] = id
		}
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	req := f.request(ctx, d, op, ids)
	out := reference.Example{Parameters: map[string]string{}}
	query := req.URL.Query()
	for name, value := range queries()[op.ID] {
		query.Set(name, fill(value, ids))
	}
	req.URL.RawQuery = query.Encode()
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			out.Parameters[p.Name] = ids[p.Name]
		case query.Has(p.Name):
			out.Parameters[p.Name] = query.Get(p.Name)
		}
	}
	if text, ok := bodies()[op.ID]; ok {
		raw := []byte(f.fillBody(text, ids))
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		req.Header.Set("Content-Type", "application/json")
		req.GetBody = nil
	}
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		if kind, _ := op.RequestBody.only(); kind == binary {
			out.Request = mustJSON(f.t, string(raw))
		} else {
			out.Request = indented(f.t, raw)
		}
		req.Body = io.NopCloser(bytes.NewReader(raw))
	}
	if op.ID == "mcp" {
		req.Header.Set("Accept", "application/json, text/event-stream") // the protocol requires both
	}
	resp, raw := f.read(req, op.ID)
	if resp.StatusCode > 299 && op.ID != "socket" {
		f.t.Fatalf("%d %s", resp.StatusCode, raw)
	}
	out.Status = resp.StatusCode
	if len(raw) > 0 {
		out.Type, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
		if out.Response = raw; !strings.HasSuffix(out.Type, "json") {
			out.Response = mustJSON(f.t, string(raw))
		}
	}
	return stable(f.t, out)
}

// read sends a request and returns its answer: of a stream the first events, of the metrics one of them.
func (f *fixture) read(req *http.Request, operation string) (*http.Response, []byte) {
	f.t.Helper()
	if !strings.HasPrefix(operation, "stream") {
		resp, raw := f.exchange(req)
		if operation == "metrics" {
			raw = metric(raw, "mailroom_runs")
		}
		return resp, raw
	}
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if operation == "stream-all" { // it has new events only
		f.submit("release-notes", `{"text":"Shorter, please."}`)
	}
	// The log of the run is read to its live text. A reader of the thread resumes behind its end, as after a restore.
	last, times := "event: entry", 2
	if operation == "stream-run" {
		last, times = "event: delta", 1
	}
	var raw []byte
	for one := make([]byte, 1); bytes.Count(raw, []byte("\nevent: "))+bytes.Count(raw, []byte("\nid: ")) < 40; {
		if _, err := resp.Body.Read(one); err != nil {
			break
		}
		raw = append(raw, one...)
		if !bytes.HasSuffix(raw, []byte("\n\n")) {
			continue
		}
		if bytes.Count(raw, []byte(last)) == times {
			break
		}
		if operation == "stream-thread" && bytes.Count(raw, []byte("event: ")) == 1 {
			f.submit("t1", `{"text":"Shorter, please."}`)
		}
	}
	return resp, raw
}

// metric returns the lines of the first metric whose name begins with name.
func metric(raw []byte, name string) []byte {
	var out []string
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, name) {
			out = append(out, line)
		}
	}
	return []byte(strings.Join(out[:min(4, len(out))], ""))
}

// seed makes what an operation has to show: a run with a reply, one that failed, a question. It returns the ids of
// objects that the example is about.
func (f *fixture) seed(operation string) map[string]string {
	f.t.Helper()
	ids := map[string]string{}
	lists := []string{"list-threads", "list-runs", "list-messages", "list-entries", "get-thread", "search",
		"count-runs", "stats", "series", "sums", "get-run", "stream-thread", "wait-run", "list-agents", "list-waits",
		"report"}
	if slices.Contains(lists, operation) {
		done := f.submit("t1", `{"text":"Draft the release notes of 1.4.","metadata":{"team":"docs"}}`)
		f.settle(f.claim(), thread.Settle{Outcome: thread.OutcomeComplete,
			Message: &thread.PartialText{ID: done.Run + ".1-1", Text: "Here is a draft of the release notes."}})
		ids["run"] = done.Run
	}
	if operation == "list-failures" || operation == "retry-runs" {
		f.submit("nightly", `{"text":"Check the links."}`)
		f.settle(f.claim(), thread.Settle{Outcome: thread.OutcomeFail,
			Failure: &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("no route to docs.example.org")}})
	}
	if strings.HasSuffix(operation, "-schedule") || operation == "list-schedules" {
		f.runSchedules()
		if operation == "list-schedules" {
			f.call("POST /v1/schedules", bodies()["put-schedule"])
		}
	}
	switch operation {
	case "stream-run":
		ids["run"] = f.write("Here is a draft")
	case "list-audit":
		f.call("POST /v1/agents/echo/pause", `{"reason":"new model"}`)
	case "list-waits":
		f.makeObjects("get-ticket", 2)
		f.submit("nightly", `{"text":"Check the links."}`)
	case "list-tickets", "report":
		f.makeObjects("get-ticket", 2)
	case "list-reservations", "agentmail-reservations", "release-names":
		f.call("POST /v1/reservations", `{"names":["docs/*.md"],"holder":"writer","reason":"release notes"}`)
	case "list-notifications", "take-notifications", "agentmail-inbox":
		f.call("POST /v1/notifications", bodies()["notify"])
		ids["agent"] = "reviewer"
	case "list-tokens":
		f.call("POST /v1/tokens", `{"name":"laptop","scopes":["read","submit"]}`)
	case "search":
		if _, err := f.ledger.IndexMessages(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	case "list-workers":
		f.elsewhere("coder", "t9")
	case "claim":
		ids["worker"] = ask[api.Claims](f, "POST /v1/claims", `{"agents":["coder"],"max":0}`).Worker
		f.submit("release-notes", `{"text":"Draft the release notes of 1.4.","agent":"coder"}`)
	}
	return ids
}

// write returns the id of a run whose agent has written text, and goes on.
func (f *fixture) write(text string) string {
	f.t.Helper()
	worker := ask[api.Claims](f, "POST /v1/claims", `{"agents":["coder"],"max":0}`).Worker
	f.submit("release-notes", `{"text":"Draft the release notes of 1.4.","agent":"coder"}`)
	claimed := ask[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":1,"wait":"10s"}`, worker)).Claims
	if len(claimed) != 1 {
		f.t.Fatalf("claimed %d runs", len(claimed))
	}
	f.call("POST /v1/claims/"+claimed[0].Claim+"/deltas", fmt.Sprintf(`{"offset":0,"text":%q}`, text))
	return claimed[0].Run.ID
}

// fill replaces {name} with an id.
func fill(text string, ids map[string]string) string {
	for name, id := range ids {
		text = strings.ReplaceAll(text, "{"+name+"}", id)
	}
	return text
}

// fillBody is fill, and {digest} is that of the ticket.
func (f *fixture) fillBody(text string, ids map[string]string) string {
	f.t.Helper()
	if strings.Contains(text, "{digest}") {
		text = strings.ReplaceAll(text, "{digest}", ask[api.Ticket](f, "GET /v1/tickets/"+ids["ticket"], "").Digest)
	}
	return fill(text, ids)
}

// recordRefusals returns a problem of each status that a request of a test can get.
func recordRefusals(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	f := start(t)
	f.submit("t1", `{"text":"one"}`)
	out := map[string]json.RawMessage{}
	for _, e := range []struct{ route, body, header string }{
		{"POST /v1/messages", `{"text":`, ""},
		{"GET /v1/runs", "", "Authorization: Bearer wrong"},
		{"GET /v1/runs", "", "Origin: https://elsewhere.example.org"},
		{"GET /v1/threads/none", "", ""},
		{"POST /v1/threads/t1/messages", `{"text":"Now?","mode":"reject"}`, ""},
		{"POST /v1/messages", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", mailroom.MaxText+1)), ""},
		{"POST /v1/messages", "text", "Content-Type: text/plain"},
		{"POST /v1/messages", `{"text":"Now?","priority":300}`, ""},
	} {
		method, path, _ := strings.Cut(e.route, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(e.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(e.header, ": "); ok {
			req.Header.Set(name, value)
		}
		resp, raw := f.exchange(req)
		if resp.StatusCode < 400 {
			t.Fatalf("%s: %d %s", e.route, resp.StatusCode, raw)
		}
		out[fmt.Sprint(resp.StatusCode)] = raw
	}
	return out
}
