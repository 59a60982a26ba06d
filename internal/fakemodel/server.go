// Package fakemodel is a model server for tests. It listens on loopback and serves,
// over server-sent events, the parts of the OpenAI Responses API, the Anthropic
// Messages API and the Gemini API that command-line agents use, so tests can run the
// real programs without a network. The test supplies the answers; the server records the requests.
package fakemodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Values of Request.API.
const (
	APIResponses = "responses" // POST /v1/responses
	APIMessages  = "messages"  // POST /v1/messages
	APIGemini    = "gemini"    // POST /v1beta/models/MODEL:streamGenerateContent and :generateContent
)

// Answer is the model's answer to one request. The parts are sent in the order of the
// fields. The zero Answer is an empty answer.
type Answer struct {
	// Status, if not 0, is an HTTP error such as 429, sent instead of everything else.
	Status int
	// RetryAfter is sent with Status, in whole seconds.
	RetryAfter time.Duration
	// Silent sends nothing, not even a header.
	Silent bool

	Reasoning string   // a summary of reasoning
	Text      []string // the text, one delta for each element
	// Hold, if not nil, pauses the answer here until the channel is closed.
	Hold  <-chan struct{}
	Calls []Call // the tools to call
	// Hang sends nothing more and keeps the connection open.
	Hang bool
	// Cut closes the connection without the end of the answer.
	Cut bool
}

// Reply is the answer with this text.
func Reply(pieces ...string) Answer { return Answer{Text: pieces} }

// Call is a tool call.
type Call struct {
	ID    string // id of the call; "": a generated id
	Name  string
	Input any // encoded as JSON; a string if Custom
	// Namespace has the tool, in the Responses API: codex puts the tools of an MCP server into one.
	Namespace string
	// Custom marks a custom tool of the Responses API, whose input is plain text.
	Custom bool
}

// Server is a fake model server.
type Server struct {
	// URL is the root, without a trailing slash. The base URL of the
	// Responses API is URL + "/v1", that of the Messages API is URL itself.
	URL string

	answer func(Request) Answer
	http   *http.Server
	done   chan error
	// stop is closed by Close to end hanging answers.
	stop chan struct{}

	mu       sync.Mutex // guards the rest
	requests []Request
	other    []string
	count    int
	changed  chan struct{} // closed and renewed with each request
}

// Start serves on a free loopback port. It calls answer for each model request,
// concurrently for concurrent requests. answer must not be nil.
func Start(answer func(Request) Answer) (*Server, error) {
	return Listen("127.0.0.1:0", answer)
}

// Listen is Start on the given address.
func Listen(addr string, answer func(Request) Answer) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the fake model: %w", err)
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), answer: answer,
		done: make(chan error, 1), stop: make(chan struct{}), changed: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.handleTurn(w, r, APIResponses) })
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.handleTurn(w, r, APIMessages) })
	mux.HandleFunc("POST /v1beta/models/{call}", s.handleGemini)
	mux.HandleFunc("/", s.handleUnknown)
	s.http = &http.Server{Handler: mux}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Close ends all answers and waits until the server has stopped.
func (s *Server) Close() error {
	close(s.stop)
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Requests returns the model requests so far, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// OtherRequests returns the method and path of all other requests so far.
func (s *Server) OtherRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.other...)
}

// Wait waits until n model requests have arrived and returns all of them.
func (s *Server) Wait(ctx context.Context, n int) ([]Request, error) {
	for {
		s.mu.Lock()
		got, changed := append([]Request(nil), s.requests...), s.changed
		s.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("wait for model request %d, got %d: %w", n, len(got), context.Cause(ctx))
		}
	}
}

func (s *Server) handleUnknown(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.other = append(s.other, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	http.Error(w, `{"error":{"message":"the fake model has no such endpoint"}}`, http.StatusNotFound)
}

func (s *Server) handleTurn(w http.ResponseWriter, r *http.Request, api string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	parse := func() (Request, error) { return parseRequest(api, body) }
	if api == APIGemini {
		parse = func() (Request, error) { return parseGemini(r.PathValue("call"), body) }
	}
	req, err := parse()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Header = r.Header.Clone()
	s.mu.Lock()
	s.count++
	id := s.count
	s.requests = append(s.requests, req)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()

	a := s.answer(req)
	out := stream{w: w, id: id, model: req.Model, ctx: r.Context(), stop: s.stop}
	switch {
	case a.Silent:
		out.wait(nil)
	case a.Status != 0:
		writeError(w, api, a)
	case api == APIResponses:
		out.responses(a)
	case api == APIGemini:
		out.gemini(a, strings.HasSuffix(r.PathValue("call"), ":streamGenerateContent"))
	default:
		out.messages(a)
	}
}

func writeError(w http.ResponseWriter, api string, a Answer) {
	kind := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		429: "rate_limit_error", 500: "api_error", 503: "api_error", 529: "overloaded_error",
	}[a.Status]
	text := fmt.Sprintf("the fake model answers %d", a.Status)
	var body any = map[string]any{"error": map[string]any{"type": kind, "message": text}}
	if api == APIMessages {
		body = map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": text}}
	}
	w.Header().Set("Content-Type", "application/json")
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(a.RetryAfter/time.Second)))
	}
	w.WriteHeader(a.Status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client closed the connection
}

// stream writes one answer.
type stream struct {
	w     http.ResponseWriter
	id    int
	model string
	ctx   context.Context
	stop  <-chan struct{}
	gone  bool
}

// wait waits until c is closed. It returns false if the client or the server stops first.
func (o *stream) wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-o.ctx.Done():
	case <-o.stop:
	}
	o.gone = true
	return false
}

func (o *stream) event(kind string, fields map[string]any) {
	fields["type"] = kind
	o.send("event: "+kind+"\n", fields)
}

// send writes a server-sent event. head is its first lines, "" for none.
func (o *stream) send(head string, data map[string]any) {
	if o.gone {
		return
	}
	_, err := fmt.Fprintf(o.w, "%sdata: %s\n\n", head, encode(data))
	if err == nil {
		err = http.NewResponseController(o.w).Flush()
	}
	o.gone = err != nil
}

// finish handles Hang and Cut. It reports whether to complete the answer.
func (o *stream) finish(a Answer) bool {
	if a.Hang {
		o.wait(nil)
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	return !o.gone
}

func (o *stream) writeHeader() {
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-cache")
	o.w.WriteHeader(http.StatusOK)
}

func (c Call) id(prefix string, answer, n int) string {
	if c.ID != "" {
		return c.ID
	}
	return fmt.Sprintf("%s_%d_%d", prefix, answer, n)
}

func join(pieces []string) string { return strings.Join(pieces, "") }
