package agentmail_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/ledger"
	"mailroom/protocol/agentmail"
	"mailroom/server"
	"mailroom/store/memory"
	"mailroom/stream"
)

const operator = "a-token-that-is-hard-to-guess"

// post is a server with the agent mail routes.
type post struct {
	t   *testing.T
	url string
}

func open(t *testing.T) *post {
	t.Helper()
	l, b := ledger.New(memory.New(), ledger.Options{}), bus.New()
	faces := map[string]server.Protocol{}
	for _, r := range agentmail.Routes() {
		faces[r.Pattern] = server.Protocol{Via: "agentmail", Name: r.Name, Status: r.Status, Public: r.Open, Serve: r.Serve}
	}
	srv := server.New(server.Options{
		Ledger: server.PartsOf(l), Streams: stream.New(l, b),
		Access: server.Access{Token: operator}, Parts: server.Parts{Protocols: faces},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ledgerCtx, stopLedger := context.WithCancel(context.Background())
	served, committed := make(chan error, 1), make(chan error, 1)
	go func() { committed <- l.Run(ledgerCtx) }()
	go func() { served <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		stopLedger()
		if err := <-committed; err != nil {
			t.Error(err)
		}
	})
	return &post{t, "http://" + ln.Addr().String()}
}

var varying = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"|"id":"[0-9a-f-]{36}"`)

// request makes a request and returns its response, such as "201 {…}", without times and ids.
func (p *post) request(route, body string, headers ...string) string {
	p.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operator)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", varying.ReplaceAllString(string(raw), "…")))
}

// TestProtocol makes the requests of the client libraries.
func TestProtocol(t *testing.T) {
	p := open(t)
	const alice = `{"file_path":".beads/issues/bd-1","agent_name":"alice","ttl":60}`
	bob := strings.Replace(alice, "alice", "bob", 1)
	for _, e := range []struct {
		route, body, want string
		header            string
	}{
		{"GET /api/health", "", `200 {"status":"ok"}`, "Authorization: "},
		{"GET /api/reservations", "", `200 []`, ""},
		{"POST /api/reservations", alice,
			`201 {…,"file_path":".beads/issues/bd-1","agent_name":"alice","created_at":…,"expires_at":…,"fence":1}`, ""},
		{"POST /api/reservations", alice,
			`201 {…,"file_path":".beads/issues/bd-1","agent_name":"alice","created_at":…,"expires_at":…,"fence":1}`, ""},
		{"POST /api/reservations", bob, `409 {"error":".beads/issues/bd-1 is reserved by alice","holder":"alice","expires_at":…}`, ""},
		{"POST /api/reservations", bob,
			`201 {…,"file_path":".beads/issues/bd-1","agent_name":"bob","created_at":…,"expires_at":…,"fence":1}`,
			"X-Project: other"},
		{"POST /api/reservations", `{"file_path":"src/*.go","agent_name":"bob","reason":"fields that are not known"}`,
			`201 {…,"file_path":"src/*.go","agent_name":"bob","created_at":…,"expires_at":…,"fence":2}`, ""},
		{"GET /api/reservations", "",
			`200 [{…,"file_path":".beads/issues/bd-1","agent_name":"alice","created_at":…,"expires_at":…,"fence":1},{…,"file_path":"src/*.go","agent_name":"bob","created_at":…,"expires_at":…,"fence":2}]`, ""},
		{"DELETE /api/reservations/bob/bd-1", "", `204`, ""},
		{"POST /api/reservations", bob, `409 {"error":".beads/issues/bd-1 is reserved by alice","holder":"alice","expires_at":…}`, ""},
		{"DELETE /api/reservations/alice/bd-1", "", `204`, ""},
		{"DELETE /api/reservations/alice/bd-1", "", `204`, ""},
		{"DELETE /api/reservations/bob/src/%2A.go", "", `204`, ""},
		{"POST /api/reservations", bob,
			`201 {…,"file_path":".beads/issues/bd-1","agent_name":"bob","created_at":…,"expires_at":…,"fence":5}`, ""},

		{"POST /api/reservations", `{"agent_name":"bob"}`, `400 {"error":"file_path: must each be text of 1 to 500 characters"}`, ""},
		{"POST /api/reservations", `{"file_path":"a","agent_name":""}`,
			`400 {"error":"agent_name: must be a name of 1 to 200 characters without slashes or surrounding blanks"}`, ""},
		{"POST /api/reservations", `{"file_path":"a","agent_name":"bob","ttl":0}`,
			`400 {"error":"ttl: must be between 1 and 604800 seconds"}`, ""},

		{"GET /api/notifications/carol", "", `200 []`, ""},
		{"POST /api/notifications", `{"from_agent":"bob","event_type":"issue.closed","payload":{"id":"bd-1"}}`,
			`201 {"id":6,"to":["alice","carol"]}`, "Idempotency-Key: k"},
		{"POST /api/notifications", `{"from_agent":"bob","event_type":"issue.closed","payload":{"id":"bd-1"}}`,
			`201 {"id":6,"to":["alice","carol"]}`, "Idempotency-Key: k"},
		{"GET /api/notifications/bob", "", `200 []`, ""},
		{"GET /api/notifications/carol", "", `200 [{"id":6,"from":"bob","event":"issue.closed","data":{"id":"bd-1"},"created_at":…}]`, ""},
		{"GET /api/notifications/carol", "", `200 []`, ""},
		{"POST /api/notifications", `{"from_agent":"bob"}`, `400 {"error":"event_type: must be text of 1 to 200 characters"}`, ""},
	} {
		var headers []string
		if e.header != "" {
			headers = append(headers, e.header)
		}
		if got := p.request(e.route, e.body, headers...); got != e.want {
			t.Errorf("%s %s\n got %s\nwant %s", e.route, e.body, got, e.want)
		}
	}
}

func TestProtocolRequiresAToken(t *testing.T) {
	p := open(t)
	for _, r := range agentmail.Routes() {
		route := strings.NewReplacer("{agent}", "a", "{id...}", "i").Replace(r.Pattern)
		if got := p.request(route, `{}`, "Authorization: Bearer wrong"); strings.HasPrefix(got, "401 ") == r.Open {
			t.Errorf("%s with a wrong token: %s", route, got)
		}
	}
	c := client.New(p.url, operator)
	made, err := c.Accounts().CreateToken(t.Context(),
		api.NewToken{Name: "eve", Scopes: []auth.Permission{auth.PermissionRead}})
	if err != nil {
		t.Fatal(err)
	}
	want := `403 {"error":"this requires a token with the scope submit"}`
	if got := p.request("POST /api/reservations", `{"file_path":"a","agent_name":"eve"}`, "Authorization: Bearer "+
		made.Secret); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
