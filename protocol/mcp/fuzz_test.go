package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/ledger"
	"mailroom/protocol/mcp"
	"mailroom/server"
	"mailroom/store/memory"
	"mailroom/stream"
)

const peek = `{"jsonrpc":"2.0","id":"next","method":"tools/call","params":{"name":"inbox_peek","arguments":{}}}`

// messages are seeds: regular calls of a client, and invalid ones.
func messages() []string {
	call := func(tool, in string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, in)
	}
	return []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, list, peek,
		call("no_such_tool", `{}`), call("wait_for_message", `{"timeout_secs":20}`), call("inbox_pop", `{"activity_id":"x"}`),
		call("send_message_to_user", `{"text":"hello"}`),
		call("delegate_task", `{"agent":"inbox","thread":"t","text":"do it"}`),
		call("list_tickets", `{"q":"state:open"}`), call("wait_for_message", `{"timeout_secs":-1e309}`),
		call("inbox_peek", `null`), call("inbox_peek", `[]`),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":null}}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":""}`,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `[` + list + `,` + peek + `]`, `[]`, `null`, `{}`, `7`, `"x"`, `{`, ``,
		"{\"id\":\"\xff\"}",
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"!"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"x"}}`, strings.Repeat("[", 10001),
	}
}

// alarm is a log for events that must never happen, such as a recovered panic.
type alarm struct {
	mu   sync.Mutex
	text strings.Builder
}

func (a *alarm) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(b)
}

func (a *alarm) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (a *alarm) silent(t *testing.T, input string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text.Len() > 0 {
		t.Errorf("log after %q: %s", input, a.text.String())
	}
}

// within serves the tools without a network and stops everything when f has returned. Time is
// virtual, so a waiting call costs none.
func within(t *testing.T, log *slog.Logger, f func(t *testing.T, h http.Handler)) {
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(memory.New(), ledger.Options{Log: log})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		f(t, server.New(server.Options{
			Ledger: server.PartsOf(l), Streams: stream.New(l, bus.New()), Log: log,
			Access: server.Access{Token: operator},
			Agents: server.Agents{
				Names:    func() []string { return []string{"inbox"} },
				Describe: func(string) server.AgentInfo { return server.AgentInfo{Kind: "inbox"} },
			},
			Parts: server.Parts{Protocols: map[string]server.Protocol{"POST /mcp": {
				Via: "mcp", Query: []string{mcp.ThreadParam}, Headers: mcp.Headers(), Summary: "tools",
				Serve: mcp.Handler("test", log),
			}}},
		}))
		end()
		if err := <-done; err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
}

func postTo(h http.Handler, thread, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp?"+url.Values{mcp.ThreadParam: {thread}}.Encode(),
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+operator)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// reply is a message of the server.
type reply struct {
	Result *struct {
		IsError bool
		Content []struct{ Text string }
	}
}

// read decodes raw, a message or a batch, and checks that it reveals no internals of the server.
func read(t *testing.T, input, raw string) (all []reply) {
	t.Helper()
	all = make([]reply, 1)
	var into any = &all[0]
	if strings.HasPrefix(raw, "[") {
		into = &all
	}
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		t.Errorf("response to %q: %q: %v", input, raw, err)
	}
	for _, one := range all {
		if r := one.Result; r != nil && r.IsError && (len(r.Content) != 1 ||
			strings.HasPrefix(r.Content[0].Text, string(mailroom.CodeInternal))) {
			t.Errorf("error of %q: %q, want one of its own in one text", input, raw)
		}
	}
	if strings.Contains(raw, operator) && !strings.Contains(input, operator) {
		t.Errorf("response to %q contains the token: %q", input, raw)
	}
	return all
}

// FuzzPost checks that any body of /mcp gets a response without a panic, and that the next request
// works.
func FuzzPost(f *testing.F) {
	for _, body := range messages() {
		f.Add("", []byte(body))
	}
	f.Add("other", []byte(peek))
	f.Add("\x00\xff", []byte(peek))
	f.Add(strings.Repeat("x", 1000), []byte(peek))
	f.Fuzz(func(t *testing.T, thread string, body []byte) {
		var a alarm
		within(t, a.log(), func(t *testing.T, h http.Handler) {
			w := postTo(h, thread, string(body))
			switch kind := w.Header().Get("Content-Type"); {
			case w.Code >= 500:
				t.Errorf("response to %q: %d %s", body, w.Code, w.Body)
			case strings.HasPrefix(kind, "application/json"), strings.HasPrefix(kind, "application/problem+json"):
				read(t, string(body), w.Body.String())
			}
			next := postTo(h, "after", peek)
			if all := read(t, peek, next.Body.String()); next.Code != http.StatusOK || len(all) != 1 || all[0].Result == nil ||
				all[0].Result.IsError {
				t.Errorf("response to the request after %q: %d %s", body, next.Code, next.Body)
			}
		})
		a.silent(t, string(body))
	})
}

// written collects the server's standard output.
type written struct{ strings.Builder }

func (*written) Close() error { return nil }

// FuzzLines checks that any input of a stdio server is answered by one message per line without a
// panic, and that the session ends with the input.
func FuzzLines(f *testing.F) {
	for _, line := range messages() {
		f.Add([]byte(line))
		f.Add([]byte(line + "\r\n" + list))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var a alarm
		within(t, a.log(), func(t *testing.T, h http.Handler) {
			var out written
			c := client.New("http://localhost", operator, client.WithHTTPClient(&http.Client{Transport: direct{h}}),
				client.WithMaxAttempts(1))
			s := mcp.New(mcp.Options{Log: a.log(), Dial: func() (*client.Client, error) { return c, nil }})
			serving, err := s.Connect(t.Context(),
				&sdk.IOTransport{Reader: io.NopCloser(strings.NewReader(string(input) + "\n")), Writer: &out}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = serving.Wait() // the error says how the input ended
			synctest.Wait()    // what was called last
			for line := range strings.Lines(out.String()) {
				read(t, string(input), line)
			}
		})
		a.silent(t, string(input))
	})
}

// direct executes requests without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, in)
	return w.Result(), nil
}
