package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
)

// Protocol mounts another protocol, such as MCP, on a route. It issues internal API requests with
// the caller's credentials, so the same authorization and validation apply. Unless it is Public,
// its requests need a token. A request body is JSON with the protocol's own field names.
type Protocol struct {
	// Via is the origin recorded for submits over the protocol, such as "mcp".
	Via string
	// Name is the operation id in the OpenAPI description. Defaults to Via.
	Name string
	// Public makes the route work without a token. It then makes no internal requests, and receives
	// its body unchecked: once it has authenticated the sender, it checks the body with
	// [CheckJSON].
	Public bool
	// Admit decides from path and headers alone, before the body of a request to a Public protocol
	// is read. It returns a refusal or the largest body to read, in bytes. nil admits every request
	// up to the server's limit.
	Admit func(r *http.Request) (limit int64, err error)
	// Query are the query parameters that the route accepts.
	Query []string
	// Parameters say what the parameters of the path and the query mean, by name. They are for the description.
	Parameters map[string]string
	// Headers are the request headers that pages of trusted origins may send (CORS).
	Headers []string
	// Summary is one line for the OpenAPI description.
	Summary string
	// Status is the status of the usual response. Defaults to 200.
	Status int
	// RequestType and ResponseType are the structs of the request body and of the usual response.
	// nil: any JSON.
	RequestType, ResponseType reflect.Type
	// MaxBody is the size limit of a request body, in bytes, if Admit returns less than the
	// server's limit. It is for the description.
	MaxBody int
	// Bounds are the limits of fields of RequestType, by type and field such as "Inbound.text":
	// characters of a string, elements of a list. They are for the description; the protocol
	// enforces them.
	Bounds map[string]int
	// Serve answers a request. It sends internal requests through inside, which ignores their host;
	// they end with the request.
	Serve func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper)
	// Answer replaces Serve for a protocol that makes no internal requests. It returns the usual
	// response or a refusal.
	Answer func(r *http.Request) (any, error)
}

// protocolHandlers serve the protocols of Options.
type protocolHandlers struct {
	server http.Handler // serves the requests that protocols make
	bodies *bodyReceiver
	log    *slog.Logger
}

// protocols registers the protocols of Options.
func (rt router) protocols(h *protocolHandlers, protocols map[string]Protocol) {
	for route, p := range protocols {
		rt.describeProtocol(route, p)
		rt.mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			out := w.(*response) // ServeHTTP makes no other
			if err := checkQuery(r.URL.Query(), p.Query); err != nil {
				refuse(out, r, err)
				return
			}
			if p.Public {
				if err := h.admitPublic(out, r, p); err != nil {
					refuse(out, r, err)
					return
				}
			}
			if p.Answer != nil {
				serveAnswer(out, r, p)
				return
			}
			p.Serve(out, r, internalTransport{server: h.server, log: h.log, via: p.Via, outer: r})
		})
	}
}

// admitPublic calls Admit and reads the body of a request to a public protocol.
func (h *protocolHandlers) admitPublic(out *response, r *http.Request, p Protocol) error {
	most := int64(h.bodies.max)
	if p.Admit != nil {
		allowed, err := p.Admit(r)
		if err != nil {
			return closeAfter(out, err)
		}
		most = min(most, allowed)
	}
	if r.Method != http.MethodPost {
		return nil
	}
	_, err := h.bodies.receive(out, r, most)
	return err
}

// serveAnswer serves a protocol that has Answer.
func serveAnswer(out *response, r *http.Request, p Protocol) {
	result, err := p.Answer(r)
	if err != nil {
		refuse(out, r, err)
		return
	}
	raw, err := json.Marshal(result)
	if err != nil { // a mistake in the protocol's types
		refuse(out, r, fmt.Errorf("encode response of %s: %w", p.Via, err))
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(cmp.Or(p.Status, http.StatusOK))
	_, _ = out.Write(raw) // response keeps the error for the log line
}

// describeProtocol adds a protocol's route to the OpenAPI description.
func (rt router) describeProtocol(route string, p Protocol) {
	need := accessPerRequest
	if p.Public {
		need = accessPublic
	}
	op := rt.operation(need, route, cmp.Or(p.Name, p.Via), p.Summary)
	if p.Public {
		op.Security = []map[string][]string{}
	}
	op.Path = strings.ReplaceAll(op.Path, "...}", "}")
	body := rt.jsonContent(p.ResponseType, &huma.Schema{})
	if op.Method == http.MethodPost {
		object := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
		op.RequestBody = &huma.RequestBody{Required: true, Content: rt.jsonContent(p.RequestType, object)}
	}
	status := cmp.Or(p.Status, http.StatusOK)
	answer := &huma.Response{Description: http.StatusText(status)}
	if status != http.StatusNoContent {
		answer.Content = body
	}
	op.Responses[strconv.Itoa(status)] = answer
	for _, name := range p.Query {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "query", Schema: anyText(),
			Description: p.Parameters[name]})
	}
	for segment := range strings.SplitSeq(op.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true,
				Schema: anyText(), Description: p.Parameters[name]})
		}
	}
	rt.describe(&op)
}

// jsonContent describes JSON of type t, or of the schema other if t is nil.
func (rt router) jsonContent(t reflect.Type, other *huma.Schema) map[string]*huma.MediaType {
	if t != nil {
		other = rt.schema(t, t.Name())
	}
	return map[string]*huma.MediaType{"application/json": {Schema: other}}
}

// protocolHeaders are the CORS headers of all protocols.
func protocolHeaders(protocols map[string]Protocol) (names []string) {
	for _, p := range protocols {
		names = append(names, p.Headers...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// internalTransport serves a protocol's requests in-process.
type internalTransport struct {
	server http.Handler
	log    *slog.Logger
	via    string
	outer  *http.Request // the request whose caller the internal requests act for
}

type viaKey struct{}

// protocolOf returns the protocol that the request of ctx came over; "user" is the API itself.
func protocolOf(ctx context.Context) string {
	if via, ok := ctx.Value(viaKey{}).(string); ok {
		return via
	}
	return "user"
}

// RoundTrip serves r like any other request. It returns once the response has started. Closing the
// response body cancels the rest and waits for the handler.
func (i internalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.WithCharged(context.WithValue(r.Context(), viaKey{}, i.via)))
	stop := context.AfterFunc(i.outer.Context(), cancel)
	reader, writer := io.Pipe()
	a := &pipeResponse{header: http.Header{}, started: make(chan struct{}), body: writer}
	served := make(chan struct{})
	go func() {
		defer recovery.Handle(i.log, "internal request", func(*recovery.Panic) {
			a.WriteHeader(http.StatusInternalServerError)
			a.finish(io.ErrUnexpectedEOF)
		})
		defer close(served)
		defer stop()
		a.finish(i.serve(a, i.withCaller(ctx, r)))
	}()
	answer := &pipeBody{Reader: reader, close: func() error {
		cancel()
		err := reader.Close()
		<-served
		return err
	}}
	<-a.started
	if err := r.Context().Err(); err != nil {
		return nil, errors.Join(context.Cause(r.Context()), answer.Close())
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sentHeader, Body: answer, ContentLength: -1, Request: r,
	}, nil
}

// withCaller returns r with the host, address and credentials of the outer request.
func (i internalTransport) withCaller(ctx context.Context, r *http.Request) *http.Request {
	in := r.Clone(ctx)
	in.Host, in.RemoteAddr = i.outer.Host, i.outer.RemoteAddr
	if in.Body == nil {
		in.Body = http.NoBody
	}
	for _, name := range []string{"Authorization", "X-Forwarded-For"} { // X-Forwarded-For for the log
		in.Header.Del(name)
		if given := i.outer.Header[name]; given != nil {
			in.Header[name] = slices.Clone(given)
		}
	}
	in.Header.Set("X-Request-ID", requestOf(i.outer.Context()).id)
	return in
}

// serve runs the handler to its end. An error means that the response is truncated.
func (i internalTransport) serve(a *pipeResponse, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // answered in part, and logged
			err = io.ErrUnexpectedEOF
		default:
			panic(p)
		}
	}()
	i.server.ServeHTTP(a, r)
	return r.Body.Close()
}

// pipeResponse is the ResponseWriter of an internal request.
type pipeResponse struct {
	// Owned by the handler's goroutine; RoundTrip reads them once started is closed.
	header     http.Header
	status     int
	sentHeader http.Header // copy of header at WriteHeader

	started chan struct{}
	body    *io.PipeWriter
}

func (a *pipeResponse) Header() http.Header { return a.header }

func (a *pipeResponse) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sentHeader = status, a.header.Clone()
		close(a.started)
	}
}

func (a *pipeResponse) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// Flush does nothing: the pipe does not buffer.
func (a *pipeResponse) Flush() {}

func (a *pipeResponse) finish(err error) {
	a.WriteHeader(http.StatusOK)
	_ = a.body.CloseWithError(err) // never fails
}

// pipeBody is the body of an internal response.
type pipeBody struct {
	io.Reader
	close func() error
}

func (h *pipeBody) Close() error { return h.close() }
