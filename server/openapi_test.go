package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	invalid "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/datamodel/high/v3"

	"mailroom"
	"mailroom/client"
)

// generic is a client that knows of the server only what its description says.
type generic struct {
	t     *testing.T
	f     *fixture
	model *v3.Document
	check validator.Validator
}

func describe(f *fixture) *generic {
	f.t.Helper()
	doc, err := libopenapi.NewDocument([]byte(f.call("GET /openapi.json", "").body))
	if err != nil {
		f.t.Fatal(err)
	}
	built, err := doc.BuildV3Model()
	if err != nil {
		f.t.Fatal(err)
	}
	check, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		f.t.Fatal(errs)
	}
	return &generic{f.t, f, &built.Model, check}
}

func (g *generic) report(what string, found []*invalid.ValidationError) {
	g.t.Helper()
	for _, e := range found {
		g.t.Errorf("%s: %s: %s", what, e.Message, e.Reason)
		for _, s := range e.SchemaValidationErrors {
			g.t.Errorf("    %s at %s", s.Reason, s.KeywordLocation)
		}
	}
}

func TestTheDescriptionIsOpenAPI31(t *testing.T) {
	g := describe(start(t))
	if g.model.Version != "3.1.0" {
		t.Errorf("version %q", g.model.Version)
	}
	_, found := g.check.ValidateDocument()
	g.report("the document", found)
	ids := map[string]bool{}
	for path, item := range g.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			if op.OperationId == "" || op.Summary == "" || ids[op.OperationId] {
				t.Errorf("%s %s has no summary, or no id of its own: %q", method, path, op.OperationId)
			}
			ids[op.OperationId] = true
		}
	}
}

// world makes what the parameters of an operation name.
func (g *generic) world(operation string, n int) map[string]string {
	g.t.Helper()
	thread := fmt.Sprintf("t%d", n)
	sent := g.f.submit(thread, "one")
	w := map[string]string{"thread": thread, "run": sent.Run, "message": sent.Message}
	switch operation {
	case "renew-worker", "leave-worker", "append", "write", "settle", "hand-over",
		"get-claimed-run", "get-claimed-input", "get-claimed-transcript", "get-claimed-tickets", "get-claimed-effects":
		agent := fmt.Sprintf("elsewhere-%d", n)
		claims := g.f.elsewhere(agent, 1)
		g.f.call("POST /v1/threads/"+thread+"/messages", fmt.Sprintf(`{"text":"two","agent":%q,"mode":"interrupt"}`, agent))
		claims = ask[client.Claims](g.f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2,"wait":"10s"}`, claims.Worker))
		w["worker"], w["claim"] = claims.Worker, claims.Claims[0].Claim
	case "get-ticket", "decide":
		work := g.f.claim()
		for work.Claim.Run != sent.Run { // left by an operation before
			g.f.end(work, mailroom.Complete, "")
			work = g.f.claim()
		}
		g.f.park(work, approval())
		w["ticket"] = mailroom.TicketID(sent.Run, "deploy")
	case "revoke-token":
		w["name"] = "phone"
		ask[client.CreatedToken](g.f, "POST /v1/tokens", `{"name":"phone","scopes":["read"]}`)
	case "delete-thread", "retry-run", "wait-run":
		g.f.call("POST /v1/runs/"+sent.Run+"/cancel", "")
	}
	return w
}

// request builds a request from the description of an operation: what it
// requires, and what it gives an example of.
func (g *generic) request(ctx context.Context, method, path string, op *v3.Operation, world map[string]string) *http.Request {
	g.t.Helper()
	query := url.Values{}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(world[p.Name]))
		case p.Required != nil && *p.Required:
			query.Set(p.Name, fmt.Sprint(value(p.Schema.Schema())))
		}
	}
	var sent io.Reader
	if op.RequestBody != nil {
		media, ok := op.RequestBody.Content.Get("application/json")
		if !ok {
			g.t.Fatalf("%s takes no JSON", op.OperationId)
		}
		raw, err := json.Marshal(value(media.Schema.Schema()))
		if err != nil {
			g.t.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), g.f.url+path+"?"+query.Encode(), sent)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// value makes a value that fits a schema.
func value(s *base.Schema) any {
	var v any
	switch {
	case len(s.Examples) > 0 && s.Examples[0].Decode(&v) == nil:
		return v
	case len(s.Enum) > 0 && s.Enum[0].Decode(&v) == nil:
		return v
	case slices.Contains(s.Type, "object"):
		out := map[string]any{}
		for name, p := range s.Properties.FromOldest() {
			if slices.Contains(s.Required, name) || len(p.Schema().Examples) > 0 {
				out[name] = value(p.Schema())
			}
		}
		return out
	case slices.Contains(s.Type, "array") && s.MinItems != nil && *s.MinItems > 0:
		return []any{value(s.Items.A.Schema())}
	case slices.Contains(s.Type, "array"):
		return []any{}
	case slices.Contains(s.Type, "integer"), slices.Contains(s.Type, "number"):
		return 1
	case slices.Contains(s.Type, "boolean"):
		return false
	}
	return "text"
}

// TestEveryOperationAnswersAsDescribed asks for each operation what its
// description says, with a client that knows nothing else, and holds request
// and answer against the description.
func TestEveryOperationAnswersAsDescribed(t *testing.T) {
	f := start(t)
	g := describe(f)
	f.fail("failed", `{"text":"x","metadata":{"team":"a"},"options":{"a":1}}`, "rate limit")
	f.submit("done", "x")
	f.end(f.claim(), mailroom.Complete, "a reply")
	f.submit("runs", "x")
	f.claim()
	n := 0
	for path, item := range g.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			n++
			world := g.world(op.OperationId, n)
			t.Run(op.OperationId, func(t *testing.T) { g.t = t; g.exchange(method, path, op, world) })
			g.t = t
		}
	}
	if n < 30 {
		t.Errorf("only %d operations are described", n)
	}
}

func (g *generic) exchange(method, path string, op *v3.Operation, world map[string]string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	req := g.request(ctx, method, path, op, world)
	_, found := g.check.ValidateHttpRequest(req)
	g.report("request", found)
	resp, err := g.f.http.RoundTrip(g.request(ctx, method, path, op, world))
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	var raw []byte
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // which has no end
		if raw, err = io.ReadAll(resp.Body); err != nil {
			g.t.Fatal(err)
		}
	}
	if upgrade := op.OperationId == "socket" && resp.StatusCode == http.StatusUpgradeRequired; resp.StatusCode > 299 && !upgrade {
		g.t.Errorf("status %d: %s", resp.StatusCode, raw)
	}
	seen := *resp
	seen.Body = io.NopCloser(bytes.NewReader(raw))
	_, found = g.check.ValidateHttpResponse(req, &seen)
	g.report(fmt.Sprintf("response %d %s", resp.StatusCode, raw), found)
}

// TestRefusalsAreAsDescribed does the same for problems.
func TestRefusalsAreAsDescribed(t *testing.T) {
	f := start(t)
	g := describe(f)
	for path, item := range g.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			req := g.request(t.Context(), method, path, op, map[string]string{"thread": "none", "run": "none", "message": "none", "ticket": "none", "name": "none", "worker": "none", "claim": "none"})
			req.Header.Set("Authorization", "Bearer wrong")
			resp, err := f.http.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if open := len(op.Security) > 0 || slices.Contains([]string{"health", "ready"}, op.OperationId); !open && resp.StatusCode != 401 {
				t.Errorf("%s without a token: %d", op.OperationId, resp.StatusCode)
			}
			if resp.StatusCode == 401 {
				resp.Body = io.NopCloser(bytes.NewReader(raw))
				_, found := g.check.ValidateHttpResponse(req, resp)
				g.report(fmt.Sprintf("%s: %d %s", op.OperationId, resp.StatusCode, raw), found)
			}
		}
	}
	var p client.Problem
	if err := json.Unmarshal([]byte(f.call("GET /v1/runs/none", "").body), &p); err != nil || p.Code != mailroom.NotFound {
		t.Errorf("%+v, %v", p, err)
	}
}
