// Package fakemodel is a model server for tests. It listens on loopback and
// speaks, over server-sent events, as much of the OpenAI Responses API and of
// the Anthropic Messages API as command-line agents need, so that the real
// programs can be run against it without a network. What it answers is up to
// the test; what it was asked is kept.
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

// The two APIs, as Request.API names them.
const (
	APIResponses = "responses" // POST /v1/responses
	APIMessages  = "messages"  // POST /v1/messages
)

// Answer is what the model does with one request. The parts happen in the order
// of the fields. The zero Answer is an empty one.
type Answer struct {
	// Status is an error to answer with instead of all the rest, such as 429.
	Status int
	// RetryAfter goes with Status, in whole seconds.
	RetryAfter time.Duration
	// Silent never answers, not even with a header.
	Silent bool

	Reasoning string   // a summary of reasoning
	Text      []string // the text, in these pieces
	// Hold, if not nil, keeps the answer there until it is closed.
	Hold  <-chan struct{}
	Calls []Call // the tools to call
	// Hang ends the answer there: it stays open and nothing more comes.
	Hang bool
	// Cut ends the answer there: the connection is closed.
	Cut bool
}

// Text is the answer with this text.
func Reply(pieces ...string) Answer { return Answer{Text: pieces} }

// Call is a call of a tool of the program.
type Call struct {
	ID    string // "" is a fresh one
	Name  string
	Input any // what is passed, encoded as JSON; a string for a Custom one
	// Custom marks a tool of the Responses API whose input is plain text.
	Custom bool
}

// Server is a fake model server.
type Server struct {
	// URL is that of the root, without a slash at the end. The base URL of the
	// Responses API is URL + "/v1", that of the Messages API is URL.
	URL string

	answer func(Request) Answer
	http   *http.Server
	done   chan error
	// stop is closed by Close, so that hanging answers end.
	stop chan struct{}

	mu       sync.Mutex // guards the rest
	requests []Request
	other    []string
	count    int
	changed  chan struct{} // closed and renewed with each request
}

// Start serves on a free port of loopback. play is called for each request of a
// turn, concurrently where requests are; it must not be nil.
func Start(play func(Request) Answer) (*Server, error) {
	return Listen("127.0.0.1:0", play)
}

// Listen is Start on an address.
func Listen(addr string, play func(Request) Answer) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the fake model: %w", err)
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), answer: play,
		done: make(chan error, 1), stop: make(chan struct{}), changed: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.handleTurn(w, r, APIResponses) })
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.handleTurn(w, r, APIMessages) })
	mux.HandleFunc("/", s.handleUnknown)
	s.http = &http.Server{Handler: mux}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Close ends all answers and returns when the server has stopped.
func (s *Server) Close() error {
	close(s.stop)
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Requests returns the requests for a turn so far, in the order they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// OtherRequests returns method and path of all other requests so far.
func (s *Server) OtherRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.other...)
}

// Wait returns the requests as soon as there are n of them.
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
			return got, fmt.Errorf("wait for request %d of the model, %d came: %w", n, len(got), context.Cause(ctx))
		}
	}
}

func (s *Server) handleUnknown(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.other = append(s.other, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	http.Error(w, `{"error":{"message":"the fake model has no such page"}}`, http.StatusNotFound)
}

func (s *Server) handleTurn(w http.ResponseWriter, r *http.Request, api string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the program has gone
	}
	req, err := parseRequest(api, body)
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
	_ = json.NewEncoder(w).Encode(body) // nobody to tell if the program has gone
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

// wait returns when c is closed, or false if the program or the server goes.
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
	if o.gone {
		return
	}
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", kind, err)) // a test's Call.Input is no JSON
	}
	_, err = fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, data)
	if err == nil {
		err = http.NewResponseController(o.w).Flush()
	}
	o.gone = err != nil
}

// finish does what comes after the tools, and says whether the answer ends well.
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
