package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
)

// hostileBodies are bodies that are no JSON, or JSON that readers read differently.
func hostileBodies() []string {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	return []string{
		"{\"text\":\"\xff\"}", "{\"\xff\":1}", "\xef\xbb\xbf{}", "{\"text\":\"a\x00\"}", `{"text":"a","text":"b"}`,
		`{"metadata":{"a":"1","a":"2"}}`,
		`{"Text":"a"}`, `{"text":"a`, `{"text":"a"} {}`, `{"options":` + deep + `}`, deep, `{"metadata":{"a":"\ud800"}}`,
		`{"\udc00":1}`, `{"state":{"a":1e400}}`,
		`{"options":{"a":123456789012345678901234567890}}`, strings.Repeat(`{"a":`, 10001), "null", "7", "\"x\"",
	}
}

// schemaOf returns what a schema refers to.
func (d *openAPI) schemaOf(s *schema) *schema {
	if s == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.Components.Schemas[name]
	}
	return s
}

// fields returns the paths of the fields of a schema and, to a depth, of what is in them. [] is the element of a list.
func (d *openAPI) fields(s *schema, depth int) (all [][]string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, []string{name})
		path, inner := []string{name}, d.schemaOf(s.Properties[name])
		for inner != nil && inner.Items != nil {
			path, inner = append(path, "[]"), d.schemaOf(inner.Items)
			all = append(all, slices.Clone(path))
		}
		if inner == nil || depth == 0 {
			continue
		}
		for _, rest := range d.fields(inner, depth-1) {
			all = append(all, slices.Concat(path, rest))
		}
	}
	return all
}

// within returns JSON of a schema in which the field at a path has a value.
func (d *openAPI) within(s *schema, path []string, value string) string {
	s = d.schemaOf(s)
	switch {
	case len(path) == 0:
		return value
	case path[0] == "[]":
		return "[" + d.within(s.Items, path[1:], value) + "]"
	}
	return d.sample(s, map[string]string{path[0]: d.within(s.Properties[path[0]], path[1:], value)}, 4)
}

// heldRun is a run that a worker of a server has.
type heldRun struct {
	*hostileServer
	worker string
	round  int
	claim  api.Claim // "": none
	before string    // what is written of it
}

// hold claims a new run unless the worker has one.
func (h *heldRun) hold() {
	h.fixture.t.Helper()
	if h.claim.Claim != "" {
		return
	}
	h.round++
	h.submitRemote(fmt.Sprint("work-", h.round), "hello")
	claims := h.claimRound(h.worker, h.round)
	if len(claims) != 1 {
		h.fixture.t.Fatalf("claimed %d runs", len(claims))
	}
	h.claim = claims[0]
	h.before = h.written()
}

// written is what a request can change of the run: each change of a thread changes its revision.
func (h *heldRun) written() (what string) {
	h.fixture.t.Helper()
	err := h.ledger.View(h.fixture.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{IDs: []string{h.claim.Run.ID}})
		if err != nil || len(rows) != 1 {
			return fmt.Errorf("%d runs, %w", len(rows), err)
		}
		threads, err := r.Threads(store.ThreadQuery{IDs: []string{rows[0].Thread}})
		if err != nil || len(threads) != 1 {
			return fmt.Errorf("%d threads, %w", len(threads), err)
		}
		what = fmt.Sprint(rows[0].Status, rows[0].Step, threads[0].Revision)
		return nil
	})
	if err != nil {
		h.fixture.t.Fatal(err)
	}
	return what
}

// TestNoValueOfAWorkerIsAnInternalError sends each hostile value as each field of what a worker sends for a run that it
// has. A refusal changes nothing: the run stays with its worker, which completes it in the end.
func TestNoValueOfAWorkerIsAnInternalError(t *testing.T) {
	servers, d := hostileServers(t)
	held := map[*hostileServer]*heldRun{}
	for _, s := range servers {
		held[s] = &heldRun{hostileServer: s, worker: s.registerRemote("far", 0).Worker}
	}
	n := 0
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		what, ok := strings.CutPrefix(path, "/v1/claims/{claim}/")
		o, post := d.Paths[path]["post"]
		if !ok || !post || o.RequestBody == nil {
			continue
		}
		for _, a := range d.attempts("POST", path, o) {
			if a.body == "" || strings.Contains(a.target, "?") {
				continue
			}
			n++
			wantAlike(t, a.what, servers, func(s *hostileServer) string {
				h := held[s]
				h.hold()
				own := a
				own.target = "/v1/claims/" + h.claim.Claim + "/" + what
				updates := s.rows.updates.Load()
				got := s.answerOf(t, own)
				if !strings.HasPrefix(got, "4") {
					h.complete() // what was accepted would be repeated by the next request
				} else if s.rows.updates.Load() == updates {
					return got // without a transaction, nothing is written
				} else if after := h.written(); after != h.before {
					t.Errorf("%s: refused with %s, and the run is %s, was %s", a.what, got, after, h.before)
					h.before = after
				}
				return got
			})
		}
	}
	if n < 500 {
		t.Errorf("sent %d requests, want those of all operations", n)
	}
	for _, h := range held {
		h.hold()
		h.complete()
	}
	wantSameRows(t, servers)
}

// complete completes the run, if it has not ended or asked.
func (h *heldRun) complete() {
	h.fixture.t.Helper()
	run := mustCall[api.Run](h.fixture, "GET /v1/runs/"+h.claim.Run.ID, "")
	if run.Status == mailroom.StatusRunning {
		if end := h.callClaim(h.claim.Claim, "settle", fmt.Sprintf(`{"number":%d,"outcome":"complete","text":"done"}`,
			run.Steps+1)); end.status != http.StatusOK {
			h.fixture.t.Errorf("settle: %d %s", end.status, end.body)
		}
	}
	h.claim = api.Claim{}
}

// TestNoFrameIsAnInternalError sends each hostile value as each member of each frame of a socket, and frames that are
// none.
func TestNoFrameIsAnInternalError(t *testing.T) {
	servers, _ := hostileServers(t)
	for _, s := range servers {
		at := httptest.NewServer(s.handler)
		t.Cleanup(at.Close)
		s.url, s.http = at.URL, http.DefaultTransport
	}
	frames := hostileBodies()
	for op, members := range map[string]map[string]string{
		"submit": {"thread": `"t"`, "text": `"x"`, "agent": `"echo"`, "key": `"k"`, "metadata": `{}`, "options": `{}`,
			"messages": `null`, "priority": `0`, "not_before": `null`},
		"cancel": {"run": `"r"`, "children": `false`}, "interrupt": {"thread": `"idle"`},
		"decide":    {"ticket": `"k"`, "decision": `"approve"`, "answer": `null`},
		"subscribe": {"thread": `"idle"`, "run": `"r"`, "after": `"0"`}, "unsubscribe": {"sub": `"1"`},
		"resume": {"thread": `"idle"`, "run": `"r"`, "after": `"0"`},
		"ping":   {}, "auth": {"token": `"x"`, "session": `"x"`},
	} {
		for _, name := range append(slices.Sorted(maps.Keys(members)), "op", "id", "nothing") {
			for _, value := range hostileValues() {
				all := map[string]string{"op": fmt.Sprintf("%q", op), "id": "1"}
				if required := map[string]string{"subscribe": "thread", "submit": "text", "decide": "decision", "cancel": "run",
					"resume": "thread"}[op]; required != "" {
					all[required] = members[required]
				}
				all[name] = value
				var fields []string
				for _, name := range slices.Sorted(maps.Keys(all)) {
					fields = append(fields, fmt.Sprintf("%q:%s", name, all[name]))
				}
				frames = append(frames, "{"+strings.Join(fields, ",")+"}")
			}
		}
	}
	peers := map[*hostileServer]*peer{}
	for _, frame := range frames {
		wantAlike(t, fmt.Sprintf("%.120q", frame), servers, func(s *hostileServer) string {
			if peers[s] == nil {
				peers[s] = s.dialWithToken()
			}
			got, open := peers[s].answersOf(frame)
			if !open {
				peers[s] = nil
			}
			return got
		})
	}
	for _, p := range peers {
		if p != nil {
			_ = p.conn.CloseNow() // at the end of the test
		}
	}
	wantSameRows(t, servers)
}

// answersOf sends a frame and then a ping, and returns the code of each answer up to that of the ping. open reports
// whether the socket is open then.
func (p *peer) answersOf(frame string) (codes string, open bool) {
	p.t.Helper()
	_ = p.conn.Write(p.ctx, websocket.MessageText, []byte(frame)) // the server may have closed it, which the read tells
	_ = p.conn.Write(p.ctx, websocket.MessageText, []byte(`{"op":"ping","id":"last"}`))
	for {
		_, raw, err := p.conn.Read(p.ctx)
		if err != nil {
			end, ok := errors.AsType[websocket.CloseError](err)
			if !ok || end.Code == websocket.StatusInternalError {
				return codes + " internal: " + err.Error(), false
			}
			return fmt.Sprint(codes, " closed ", int(end.Code)), false
		}
		var h serverFrame
		if err := json.Unmarshal(raw, &h); err != nil {
			p.t.Fatalf("answer %.200q: %v", raw, err)
		}
		switch {
		case string(h.ID) == `"last"`:
			return codes, true
		case h.Error != nil:
			codes += " " + string(h.Error.Code)
		case len(h.ID) > 0:
			codes += " " + h.Op
		}
	}
}
