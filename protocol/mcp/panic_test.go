package mcp_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/client"
	"mailroom/protocol/mcp"
)

func TestACallOfAnUnknownToolIsRefused(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		if _, err := me.call(h.t.Context(), "no_such_tool", nil); err == nil || !strings.Contains(err.Error(),
			`unknown tool "no_such_tool"`) {
			h.t.Errorf("error %v, want an unknown tool", err)
		}
		if _, refused := me.try("inbox_peek", nil); refused != "" {
			h.t.Errorf("the next call: %s", refused)
		}
	})
}

// bomb panics when it carries out a request.
type bomb struct{}

func (bomb) RoundTrip(*http.Request) (*http.Response, error) { panic("bomb") }

func TestACallThatPanicsIsAnsweredAndLogged(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	answers := map[string]string{}

	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_peek","arguments":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	mcp.Handler("test", log)(w, r, bomb{})
	answers["over HTTP"] = w.Body.String()

	ours, theirs := sdk.NewInMemoryTransports()
	s := mcp.New(mcp.Options{Log: log, Dial: func() (*client.Client, error) { panic("bomb") }})
	serving, err := s.Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serving.Wait() }) // the client has closed it by then
	me := connect(t, theirs)
	for range 2 { // the second finds the session alive
		_, err = me.call(t.Context(), "inbox_peek", nil)
		if err == nil {
			t.Fatal("the call was answered, want an error")
		}
		answers["over a stream"] = err.Error()
	}
	for name, answer := range answers {
		if !strings.Contains(answer, "internal: the call failed") || strings.Contains(answer, "bomb") {
			t.Errorf("%s: %s, want internal without the cause", name, answer)
		}
	}
	if n := strings.Count(logged.String(), `msg="panic recovered" in="a call of MCP" panic=bomb stack=`); n != 3 {
		t.Errorf("logged %d panics, want 3: %s", n, logged.String())
	}
}
