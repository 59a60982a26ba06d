package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/protocol/mcp"
	"mailroom/schedule"
	"mailroom/server"
	"mailroom/store/memory"
	"mailroom/stream"
)

const operator = "the-operators-own-token"

// fixture is a complete server on a loopback port, over a memory store.
type fixture struct {
	t     *testing.T
	url   string
	admin *client.Client
	stop  func() // stops the server and waits for its goroutines
}

func open(t *testing.T) *fixture {
	t.Helper()
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	ask := mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		_, err := s.Wait(ctx, false, mailroom.Ask{Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "Deploy?"})
		return err
	})
	agents := map[string]engine.Agent{
		"echo": {Agent: builtin.NewEcho(0)}, "inbox": {Agent: inbox.New()}, "mailbox": {Agent: inbox.New()},
		"asker": {Agent: ask}, reserved.Scheduler: {Agent: schedule.New(l, auth.NewOperator(operator))},
	}
	e := engine.New(l.Workers(), b, engine.Options{Local: true, Agents: agents})
	srv := server.New(server.Options{
		Ledger: server.PartsOf(l), Streams: stream.New(l, b), Bus: b,
		Access: server.Access{Token: operator, Origins: []string{"https://tools.example.org"}},
		Agents: server.Agents{
			Names: func() []string { return []string{"asker", "echo", "inbox", "mailbox"} },
			Describe: func(name string) server.AgentInfo {
				if name == "mailbox" {
					return server.AgentInfo{Kind: "inbox"}
				}
				return server.AgentInfo{Kind: name}
			},
		},
		Limits: server.Limits{Commands: time.Minute},
		Parts: server.Parts{Protocols: map[string]server.Protocol{"POST /mcp": {
			Via: "mcp", Query: []string{mcp.ThreadParam}, Headers: mcp.Headers(), Summary: "tools",
			Serve: mcp.Handler("test", nil),
		}}},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{t: t, url: "http://" + ln.Addr().String()}
	h.admin = client.New(h.url, operator)
	ctx, end := context.WithCancel(context.Background())
	engineCtx, stopEngine := context.WithCancel(context.Background())
	ledgerCtx, stopLedger := context.WithCancel(context.Background())
	var all sync.WaitGroup
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { must(l.Run(ledgerCtx)) })
	all.Go(func() { defer stopLedger(); must(e.Run(engineCtx)) })
	all.Go(func() { defer stopEngine(); must(srv.Serve(ctx, ln)) })
	h.stop = sync.OnceFunc(func() { end(); all.Wait() })
	t.Cleanup(h.stop)
	return h
}

// token creates an account and returns its secret.
func (h *fixture) token(name string, scopes ...auth.Permission) string {
	h.t.Helper()
	made, err := h.admin.Accounts().CreateToken(h.t.Context(), api.NewToken{Name: name, Scopes: scopes})
	if err != nil {
		h.t.Fatal(err)
	}
	return made.Secret
}

// send submits a message with a secret.
func (h *fixture) send(secret, thread, text, agent string) string {
	h.t.Helper()
	out, err := client.New(h.url, secret).Submit(h.t.Context(), api.Submit{Thread: thread, Text: text, Agent: agent})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Run
}

// toolClient is an MCP client.
type toolClient struct {
	t       *testing.T
	session *sdk.ClientSession
}

func connect(t *testing.T, over sdk.Transport) *toolClient {
	t.Helper()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the server may be stopped already
	return &toolClient{t, s}
}

// bearer adds a token to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// web connects over HTTP.
func (h *fixture) web(secret, thread string) *toolClient {
	h.t.Helper()
	return connect(h.t, &sdk.StreamableClientTransport{
		Endpoint: h.url + "/mcp?thread=" + thread, HTTPClient: &http.Client{Transport: bearer(secret)}, MaxRetries: -1,
	})
}

// near connects in memory to tools that use a client of the server, like the command.
func (h *fixture) near(secret, thread string) *toolClient {
	h.t.Helper()
	c := client.New(h.url, secret)
	ours, theirs := sdk.NewInMemoryTransports()
	s := mcp.New(mcp.Options{Thread: thread, Dial: func() (*client.Client, error) {
		return c, nil
	}, RetryUnavailable: true})
	serving, err := s.Connect(h.t.Context(), ours, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = serving.Wait() }) // the client has closed it by then
	return connect(h.t, theirs)
}

type args map[string]any

// try calls a tool and returns its result as JSON, or its error.
func (c *toolClient) try(tool string, in args) (answer, refusal string) {
	c.t.Helper()
	out, err := c.call(c.t.Context(), tool, in)
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	return out()
}

// call calls a tool. The function that it returns has the tool's answer or refusal; the error is one of the protocol.
func (c *toolClient) call(ctx context.Context, tool string, in args) (func() (answer, refusal string), error) {
	out, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: in})
	return func() (string, string) {
		text := out.Content[0].(*sdk.TextContent).Text
		if out.IsError {
			return "", text
		}
		return text, ""
	}, err
}

// do calls a tool that must succeed, and decodes its result.
func do[T any](c *toolClient, tool string, in args) T {
	c.t.Helper()
	text, refused := c.try(tool, in)
	if refused != "" {
		c.t.Fatalf("%s: %s", tool, refused)
	}
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatalf("%s: %v in %s", tool, err, text)
	}
	return out
}

// refuse calls a tool that must fail with an error that begins with code and contains words.
func (c *toolClient) refuse(tool string, in args, code mailroom.Code, words string) {
	c.t.Helper()
	answer, refused := c.try(tool, in)
	if !strings.HasPrefix(refused, string(code)+": ") || !strings.Contains(refused, words) {
		c.t.Errorf("%s %v: %q %s, want it refused as %s, with %q", tool, in, refused, answer, code, words)
	}
}

// read waits for the message at the head.
func (c *toolClient) read() mcp.Row {
	c.t.Helper()
	return do[mcp.Row](c, "wait_for_message", args{"timeout_secs": 20})
}

// pop removes the message at the head.
func (c *toolClient) pop(activity string) {
	c.t.Helper()
	if got := do[mcp.Popped](c, "inbox_pop", args{"activity_id": activity}); !got.Removed {
		c.t.Fatalf("popping %s: %+v", activity, got)
	}
}

// texts returns the complete messages of a role in a thread, in order.
func (h *fixture) texts(thread string, role mailroom.Role) string {
	h.t.Helper()
	page, err := h.admin.Messages(h.t.Context(), thread, client.MessagesQuery{Limit: 500, Visibility: mailroom.VisibleAll})
	if err != nil {
		h.t.Fatal(err)
	}
	var all []string
	for _, m := range page.Items {
		if m.Role == role {
			all = append(all, m.Text)
		}
	}
	return strings.Join(all, "|")
}

// ended waits until a run has finished.
func (h *fixture) ended(run string) api.Run {
	h.t.Helper()
	r, err := h.admin.WaitRun(h.t.Context(), run, 5*time.Minute)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}
