package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/client"
	"mailroom/protocol/mcp"
)

// mcpClient is an MCP client of mailroom mcp in a child process.
type mcpClient struct {
	t       *testing.T
	session *sdk.ClientSession
}

func (h *fixture) mcpClient(thread string) *mcpClient {
	h.t.Helper()
	cmd := exec.Command("mailroom", "mcp", "--thread", thread)
	cmd.Env, cmd.Stderr = append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), h.t.Output()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(h.t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			h.t.Errorf("close the session: %v", err)
		}
	})
	return &mcpClient{h.t, s}
}

// call calls a tool and decodes its result. refused is the error of the tool, or "".
func (c *mcpClient) call(name string, in map[string]any, answer any) (refused string) {
	c.t.Helper()
	out, err := c.session.CallTool(c.t.Context(), &sdk.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		c.t.Errorf("%s: %v", name, err)
		return err.Error()
	}
	text := out.Content[0].(*sdk.TextContent).Text
	if out.IsError {
		return text
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		c.t.Errorf("%s: %v in %s", name, err, text)
	}
	return ""
}

// must is call for a tool that must succeed.
func (c *mcpClient) must(name string, in map[string]any, answer any) {
	c.t.Helper()
	if refused := c.call(name, in, answer); refused != "" {
		c.t.Fatalf("%s: %s", name, refused)
	}
}

// replies returns the messages that the reader of an inbox has written.
func (h *fixture) replies(thread string) []string {
	h.t.Helper()
	at, err := h.dir.Address()
	if err != nil {
		h.t.Fatal(err)
	}
	token, err := h.dir.Token()
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := client.New(at.URL, token).Messages(h.t.Context(), thread, client.MessagesQuery{Limit: 500})
	if err != nil {
		h.t.Fatal(err)
	}
	var texts []string
	for _, m := range page.Items {
		if m.Role == mailroom.RoleAssistant {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

func TestAnInboxIsReadAcrossAKillOfItsServer(t *testing.T) {
	h := newFixture(t, "")
	me := h.mcpClient("mine")
	if refused := me.call("inbox_peek", nil, nil); !strings.HasPrefix(refused, "unavailable: no server on ") {
		t.Errorf("inbox_peek without a server: %q, want unavailable", refused)
	}
	p := &process{}
	h.process(p)
	again := func() { h.process(p, "--listen", strings.TrimPrefix(p.url, "http://")) }
	var timeout struct{ Timeout bool }
	me.must("wait_for_message", map[string]any{"timeout_secs": 1}, &timeout) // creates the inbox
	if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "mine", "--detach", "one"); code != exitDone {
		t.Fatalf("send: exit code %d: %s", code, stderr)
	}
	var first mcp.Row
	me.must("wait_for_message", nil, &first)

	p.kill()
	if refused := me.call("inbox_peek", nil, nil); !strings.HasPrefix(refused, "unavailable: ") {
		t.Errorf("inbox_peek after the kill: %q, want unavailable", refused)
	}
	waited := make(chan mcp.Row)
	go func() {
		var row mcp.Row
		if refused := me.call("wait_for_message", map[string]any{"timeout_secs": 60}, &row); refused != "" {
			t.Errorf("wait_for_message during the restart: %s", refused)
		}
		waited <- row
	}()
	again()
	if row := <-waited; row.Activity != first.Activity {
		t.Errorf("message after the restart: %+v, want the same one", row)
	}

	var status struct{ Status string }
	me.must("send_message_to_user", map[string]any{"message": "done"}, &status)
	p.kill()
	again()
	var popped mcp.Popped
	me.must("inbox_pop", map[string]any{"activity_id": first.Activity}, &popped)
	if got := h.replies("mine"); !popped.Removed || len(got) != 1 || got[0] != "done" {
		t.Errorf("popped: %+v, replies: %q, want done, once", popped, got)
	}
	me.must("wait_for_message", map[string]any{"timeout_secs": 0.1}, &timeout)
	if !timeout.Timeout {
		t.Error("the inbox has a message after inbox_pop")
	}
}

func TestAMessageSentDuringAKillIsSentOnce(t *testing.T) {
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	me := h.mcpClient("mine")
	var row mcp.Row
	if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "mine", "--agent", "inbox", "--detach",
		"one"); code != exitDone {
		t.Fatalf("send: exit code %d: %s", code, stderr)
	}
	me.must("wait_for_message", nil, &row)
	refused := make(chan string)
	go func() {
		var status struct{ Status string }
		refused <- me.call("send_message_to_user", map[string]any{"message": "yes"}, &status)
	}()
	p.kill() // at any point of the call
	h.process(p, "--listen", strings.TrimPrefix(p.url, "http://"))
	why := <-refused
	if why != "" && !strings.HasPrefix(why, "unavailable: ") { // with unavailable the outcome is unknown
		t.Errorf("refused: %s, want unavailable", why)
	}
	var popped mcp.Popped
	me.must("inbox_pop", map[string]any{"activity_id": row.Activity}, &popped)
	if got := h.replies("mine"); len(got) > 1 || why == "" && len(got) != 1 || !popped.Removed {
		t.Errorf("refused: %q, replies: %q, popped: %+v; want one reply, or none if the call was refused", why, got, popped)
	}
}

func TestASenderToAnInboxWaitsForItsReader(t *testing.T) {
	h := newFixture(t, "")
	h.process(&process{})
	me := h.mcpClient("mine")
	var timeout struct{ Timeout bool }
	me.must("wait_for_message", map[string]any{"timeout_secs": 0}, &timeout)
	type end struct {
		code        int
		out, stderr string
	}
	sent := make(chan end)
	go func() {
		var out strings.Builder
		code, stderr := h.run(t.Context(), &out, "send", "--thread", "mine", "anybody there?")
		sent <- end{code, out.String(), stderr}
	}()
	var row mcp.Row
	me.must("wait_for_message", nil, &row)
	var status struct{ Status string }
	me.must("send_message_to_user", map[string]any{"message": "yes, me"}, &status)
	var popped mcp.Popped
	me.must("inbox_pop", map[string]any{"activity_id": row.Activity}, &popped)
	if got := <-sent; got.code != exitDone || got.out != "yes, me\n" {
		t.Errorf("send: exit code %d, %q, want the reply: %s", got.code, got.out, got.stderr)
	}
}

func TestTheToolsStopWhenRequested(t *testing.T) {
	h := newFixture(t, "")
	cmd := exec.Command("mailroom", "mcp")
	cmd.Env = append(os.Environ(), "MAILROOM_DATA="+string(h.dir))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if _, err := io.WriteString(in, hello+"\n"); err != nil {
		t.Fatal(err)
	}
	var answer struct{ ID int }
	if err := json.NewDecoder(out).Decode(&answer); err != nil || answer.ID != 1 {
		t.Errorf("initialize: %+v, %v", answer, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want a clean exit", err)
	}
}

func TestACallOfAnUnknownToolEndsNoProcess(t *testing.T) {
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	over := map[string]*sdk.ClientSession{"over standard streams": h.mcpClient("mine").session}
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	over["over HTTP"], err = sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{
			Endpoint: p.url + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(token)}, MaxRetries: -1,
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, session := range over {
		for range 2 { // the second call checks that the process still runs
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "no_such_tool"})
			if err == nil || !strings.Contains(err.Error(), `unknown tool "no_such_tool"`) {
				t.Errorf("%s: %v, want an unknown tool", name, err)
			}
		}
		if out, err := session.ListTools(t.Context(), nil); err != nil || len(out.Tools) == 0 {
			t.Errorf("%s: ListTools after that: %v, want the tools", name, err)
		}
	}
}

// bearerTransport sends a token with each request.
type bearerTransport string

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
