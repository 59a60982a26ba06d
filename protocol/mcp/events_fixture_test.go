package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/client"
	"mailroom/protocol/mcp"
)

// frame is a JSON-RPC message of a stream of events: a notification or the answer.
type frame struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     any             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
}

// eventClient is a client of the extension that sees each message of the wire.
type eventClient interface {
	// request sends a request and returns its answer.
	request(method string, params map[string]any) frame
	// stream opens a stream. Its frames end with the answer, or when cancel is called.
	stream(params map[string]any) (frames <-chan frame, cancel func())
}

// requestMeta is the metadata of a request of the revision that has the extension.
func requestMeta() map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo":      map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"extensions": map[string]any{"io.modelcontextprotocol/events": map[string]any{}},
		},
	}
}

func body(t *testing.T, id int, method string, params map[string]any) []byte {
	t.Helper()
	all := map[string]any{"_meta": requestMeta()}
	for name, v := range params {
		all[name] = v
	}
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": all})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// webEvents is a client over HTTP.
type webEvents struct {
	t      *testing.T
	url    string
	secret string
	mu     sync.Mutex
	last   int // owned by mu
}

func (c *webEvents) post(ctx context.Context, method string, params map[string]any) (*http.Response, error) {
	c.mu.Lock()
	c.last++
	raw := body(c.t, c.last, method, params)
	c.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	return bearer(c.secret).RoundTrip(r)
}

func (c *webEvents) request(method string, params map[string]any) (f frame) {
	c.t.Helper()
	resp, err := c.post(c.t.Context(), method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		c.t.Fatalf("%s: %v in %d %s", method, err, resp.StatusCode, raw)
	}
	return f
}

func (c *webEvents) stream(params map[string]any) (<-chan frame, func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	resp, err := c.post(ctx, "events/stream", params)
	if err != nil {
		c.t.Fatal(err)
	}
	frames := make(chan frame)
	send := func(raw []byte) bool {
		var f frame
		if err := json.Unmarshal(raw, &f); err != nil {
			c.t.Errorf("%v in %s", err, raw)
		}
		select {
		case frames <- f:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(frames)
		defer resp.Body.Close()
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			raw, _ := io.ReadAll(resp.Body)
			send(raw)
			return
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !send([]byte(data)) {
				return
			}
		}
	}()
	c.t.Cleanup(cancel)
	return frames, cancel
}

// pipeEvents is a client over a connection like that of the command.
type pipeEvents struct {
	t    *testing.T
	conn sdk.Connection
	mu   sync.Mutex
	last int                    // owned by mu
	open map[int64]chan<- frame // owned by mu; by the id of the request
}

func (h *fixture) pipeEvents(secret, thread string, every, life time.Duration) *pipeEvents {
	h.t.Helper()
	api := client.New(h.url, secret)
	ours, theirs := sdk.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- mcp.ServeWith(ctx, mcp.Options{
			Thread: thread, Dial: func() (*client.Client, error) { return api, nil }, RetryUnavailable: true,
		}, ours, every, life)
	}()
	conn, err := theirs.Connect(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &pipeEvents{t: h.t, conn: conn, open: map[int64]chan<- frame{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(ctx)
	}()
	h.t.Cleanup(func() {
		cancel() // ends open streams too
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			h.t.Errorf("serve: %v", err)
		}
		_ = conn.Close() // the other side has closed it
		<-read
	})
	return c
}

// read passes on each message to its request.
func (c *pipeEvents) read(ctx context.Context) {
	for {
		msg, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		raw, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			c.t.Error(err)
			return
		}
		var f frame
		var about struct {
			Params, Result struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		if err := errors.Join(json.Unmarshal(raw, &f), json.Unmarshal(raw, &about)); err != nil {
			c.t.Errorf("%v in %s", err, raw)
			return
		}
		id, _ := f.ID.(float64)
		if f.Method != "" {
			id, _ = about.Params.Meta["io.modelcontextprotocol/subscriptionId"].(float64)
		}
		c.mu.Lock()
		to := c.open[int64(id)]
		c.mu.Unlock()
		if to == nil {
			c.t.Errorf("a message of no request: %s", raw)
			continue
		}
		select {
		case to <- f:
		case <-ctx.Done():
			return
		}
	}
}

func (c *pipeEvents) write(method string, params map[string]any) (id int64, frames <-chan frame) {
	c.t.Helper()
	c.mu.Lock()
	c.last++
	to := make(chan frame, 100)
	c.open[int64(c.last)] = to
	raw := body(c.t, c.last, method, params)
	id = int64(c.last)
	c.mu.Unlock()
	msg, err := jsonrpc.DecodeMessage(raw)
	if err == nil {
		err = c.conn.Write(c.t.Context(), msg)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return id, to
}

func (c *pipeEvents) request(method string, params map[string]any) frame {
	c.t.Helper()
	_, frames := c.write(method, params)
	return <-frames
}

func (c *pipeEvents) stream(params map[string]any) (<-chan frame, func()) {
	c.t.Helper()
	id, frames := c.write("events/stream", params)
	return frames, func() {
		raw, err := json.Marshal(map[string]any{"requestId": id})
		if err == nil {
			err = c.conn.Write(c.t.Context(), &jsonrpc.Request{Method: "notifications/cancelled", Params: raw})
		}
		if err != nil {
			c.t.Error(err)
		}
	}
}

// eventsEverywhere runs f over HTTP and over a connection like that of the command.
func eventsEverywhere(t *testing.T, f func(h *fixture, connect func(secret, thread string) eventClient)) {
	t.Run("over HTTP", func(t *testing.T) {
		h := open(t)
		f(h, func(secret, thread string) eventClient {
			return &webEvents{t: t, url: h.url + "/mcp?thread=" + thread, secret: secret}
		})
	})
	t.Run("with a client of a server", func(t *testing.T) {
		h := open(t)
		f(h, func(secret, thread string) eventClient { return h.pipeEvents(secret, thread, time.Minute, time.Hour) })
	})
}
