package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/internal/display"
)

// isEventStream reports whether a request opens a stream of events. The revision 2026-07-28 requires the header
// Mcp-Method. The handler of the library gets all other requests, and refuses what has headers that do not fit.
func isEventStream(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return r.Method == http.MethodPost && r.Header.Get("Mcp-Method") == methodEventsStream &&
		r.Header.Get("Mcp-Protocol-Version") >= eventsRevision &&
		(strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "*/*"))
}

// serveEventStream serves one request for events/stream. The library's handler answers a call with one JSON value, and
// sends notifications of its own methods only, so the request is a connection of its own here: the library reads it,
// checks it and calls the handler, and each message that it writes is a frame of the response.
func serveEventStream(w http.ResponseWriter, r *http.Request, o Options) {
	raw, err := io.ReadAll(r.Body) // the server has bounded it
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	q, err := streamRequest(raw, r.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := &requestConn{request: q, w: w, flush: http.NewResponseController(w).Flush, done: make(chan struct{})}
	_ = Serve(r.Context(), o, c) // an error is the end of the connection
	_ = c.Close()                // never fails; nothing is written to w after this
}

// streamRequest reads a request whose headers must say the same as its body.
func streamRequest(raw []byte, h http.Header) (*jsonrpc.Request, error) {
	msg, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("malformed payload: %w", err)
	}
	q, ok := msg.(*jsonrpc.Request)
	if !ok || !q.IsCall() || q.Method != methodEventsStream {
		return nil, fmt.Errorf("the header Mcp-Method is %s, and the body is no such request", methodEventsStream)
	}
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var revision string
	if json.Unmarshal(q.Params, &params) != nil ||
		json.Unmarshal(params.Meta[sdk.MetaKeyProtocolVersion], &revision) != nil ||
		revision != h.Get("Mcp-Protocol-Version") {
		return nil, fmt.Errorf("the header Mcp-Protocol-Version is %q, and %s in _meta is another",
			display.Cut(h.Get("Mcp-Protocol-Version"), maxQuoted), sdk.MetaKeyProtocolVersion)
	}
	return q, nil
}

// requestConn is a connection that has one request. What is written to it before the answer makes the answer a stream.
type requestConn struct {
	request *jsonrpc.Request // the reader's; nil after it was read
	flush   func() error

	// mu is held while w is written: two writes may not run at once, and none after the handler has returned, so Close
	// waits for one. The server's deadline for each piece of an answer bounds that.
	mu      sync.Mutex
	w       http.ResponseWriter // owned by mu
	started bool                // owned by mu
	ended   bool                // owned by mu; nothing may be written any more
	done    chan struct{}       // closed with ended
}

// Connect returns the connection itself.
func (c *requestConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// Read returns the request, and after the answer io.EOF.
func (c *requestConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	if q := c.request; q != nil {
		c.request = nil
		return q, nil
	}
	select {
	case <-c.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Write writes a notification or the answer, which is the last message.
func (c *requestConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, isAnswer := msg.(*jsonrpc.Response)
	switch {
	case c.ended:
		return io.ErrClosedPipe
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isAnswer && !c.started:
		c.w.Header().Set("Content-Type", "application/json")
		_, err = c.w.Write(append(raw, '\n'))
	default:
		if !c.started {
			c.started = true
			c.w.Header().Set("Content-Type", "text/event-stream")
			c.w.WriteHeader(http.StatusOK)
		}
		_, err = fmt.Fprintf(c.w, "event: message\ndata: %s\n\n", raw)
	}
	if err == nil {
		err = c.flush()
	}
	if isAnswer {
		c.end()
	}
	return err
}

// end is called with mu.
func (c *requestConn) end() {
	if !c.ended {
		c.ended = true
		close(c.done)
	}
}

// Close ends the connection.
func (c *requestConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	return nil
}

// SessionID returns "": there are no sessions.
func (c *requestConn) SessionID() string { return "" }
