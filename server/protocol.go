package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/internal/recovery"
)

// Protocol is another protocol over the same operations, or a route of one. What it does
// it does with requests of its own, of whoever sent one to it: they go through the
// same gates to the same handlers, so there is one set of rules. A request to a face
// has a token; a body is JSON whose names are the protocol's.
type Protocol struct {
	// Via is the origin of what is submitted over it, such as "mcp".
	Via string
	// Name is that of its operation; "" is Via.
	Name string
	// Public says that it is for anybody, without a token. Then it makes no requests, and
	// its body comes as it was sent: once the face knows who sent it, it checks it with
	// [CheckJSON].
	Public bool
	// Admit, of a face that is Open, looks at path and header alone: it refuses a
	// request before a byte of its body is read, or says how many it reads. nil: it
	// admits all, and bodies as large as the server's.
	Admit func(r *http.Request) (limit int64, err error)
	// Query are the parameters of its URL that it takes.
	Query []string
	// Headers are those of its protocol that pages of trusted origins may send.
	Headers []string
	// Summary says in some words what it is.
	Summary string
	// Status is that of its usual answer; 0 is 200.
	Status int
	// RequestType and Gives are the structs that its body and its usual answer are; nil: any
	// JSON.
	RequestType, ResponseType reflect.Type
	// MaxBody is how many bytes its body may have, where Admit says less than the server.
	MaxBody int
	// Bounds are how many characters the texts of Takes may have, and elements its lists,
	// by type and field: "Inbound.text". The face refuses more.
	Bounds map[string]int
	// Serve answers a request. inside carries out the requests that it makes
	// meanwhile, whatever address they name; they end with it.
	Serve func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper)
	// Answer takes the place of Serve for who makes no requests: it returns the usual
	// answer, or what to refuse the request with.
	Answer func(r *http.Request) (any, error)
}

// registerProtocols registers the faces of Options.
func (rt router) registerProtocols() {
	s := rt.server
	for route, one := range s.options.Protocols {
		rt.describeProtocol(route, one)
		s.mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			out := w.(*response) // ServeHTTP makes no other
			if err := checkQuery(r.URL.Query(), one.Query); err != nil {
				s.refuse(out, r, err)
				return
			}
			if one.Public {
				if err := s.admitPublic(out, r, one); err != nil {
					s.refuse(out, r, err)
					return
				}
			}
			if one.Answer != nil {
				s.serveAnswer(out, r, one)
				return
			}
			one.Serve(out, r, internalTransport{server: s, via: one.Via, outer: r})
		})
	}
}

// admitPublic reads the body of a request to an open face that lets it in.
func (s *Server) admitPublic(out *response, r *http.Request, one Protocol) error {
	limit := int64(s.options.MaxBody)
	if one.Admit != nil {
		most, err := one.Admit(r)
		if err != nil {
			return s.closeAfter(out, err)
		}
		limit = min(limit, most)
	}
	if r.Method != http.MethodPost {
		return nil
	}
	_, err := s.receiveBody(out, r, limit)
	return err
}

// serveAnswer serves a face that only answers.
func (s *Server) serveAnswer(out *response, r *http.Request, one Protocol) {
	given, err := one.Answer(r)
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	raw, err := json.Marshal(given)
	if err != nil { // a mistake in the face's own types
		s.refuse(out, r, fmt.Errorf("encode the answer of %s: %w", one.Via, err))
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(cmp.Or(one.Status, http.StatusOK))
	_, _ = out.Write(raw) // response keeps the error for the log line
}

// describeProtocol says of a face who may ask it, and what it is.
func (rt router) describeProtocol(route string, one Protocol) {
	need := accessPerRequest
	if one.Public {
		need = accessPublic
	}
	op := rt.operation(need, route, cmp.Or(one.Name, one.Via), one.Summary)
	if op.Description = "Each of the requests that it stands for needs its own scope."; one.Public {
		op.Description, op.Security = "", []map[string][]string{}
	}
	op.Path = strings.ReplaceAll(op.Path, "...}", "}")
	body := rt.jsonContent(one.ResponseType, &huma.Schema{})
	if op.Method == http.MethodPost {
		object := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
		op.RequestBody = &huma.RequestBody{Required: true, Content: rt.jsonContent(one.RequestType, object)}
	}
	status := cmp.Or(one.Status, http.StatusOK)
	answer := &huma.Response{Description: http.StatusText(status)}
	if status != http.StatusNoContent {
		answer.Content = body
	}
	op.Responses[strconv.Itoa(status)] = answer
	for _, name := range one.Query {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "query", Schema: anyText()})
	}
	for segment := range strings.SplitSeq(op.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			op.Parameters = append(op.Parameters, &huma.Param{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: anyText()})
		}
	}
	rt.api.OpenAPI().AddOperation(&op)
}

// jsonContent describes JSON of a type, and if that is nil, what else it is.
func (rt router) jsonContent(t reflect.Type, other *huma.Schema) map[string]*huma.MediaType {
	if t != nil {
		other = rt.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	}
	return map[string]*huma.MediaType{"application/json": {Schema: other}}
}

// protocolHeaders are the headers of all protocols.
func (s *Server) protocolHeaders() (names []string) {
	for _, one := range s.options.Protocols {
		names = append(names, one.Headers...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// internalTransport carries out the requests of a face without a network.
type internalTransport struct {
	server *Server
	via    string
	outer  *http.Request // whose sender they are of
}

type viaKey struct{}

// protocolOf is by which face the request of ctx comes.
func protocolOf(ctx context.Context) string {
	if via, ok := ctx.Value(viaKey{}).(string); ok {
		return via
	}
	return "user"
}

// RoundTrip serves r like any other request. It returns as soon as the answer
// has begun; the answer's Close ends what is left of it, and waits for that.
func (i internalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithValue(context.WithValue(r.Context(), viaKey{}, i.via), chargedKey{}, true))
	gone := context.AfterFunc(i.outer.Context(), cancel)
	reader, writer := io.Pipe()
	a := &pipeResponse{header: http.Header{}, started: make(chan struct{}), body: writer}
	served := make(chan struct{})
	go func() {
		defer recovery.Handle(i.server.log, "a request of a face", func(*recovery.Panic) {
			a.WriteHeader(http.StatusInternalServerError)
			a.finish(io.ErrUnexpectedEOF)
		})
		defer close(served)
		defer gone()
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

// withCaller is r as it would have come from whoever sent the outer one.
func (i internalTransport) withCaller(ctx context.Context, r *http.Request) *http.Request {
	in := r.Clone(ctx)
	in.Host, in.RemoteAddr = i.outer.Host, i.outer.RemoteAddr
	if in.Body == nil {
		in.Body = http.NoBody
	}
	for _, name := range []string{"Authorization", "X-Forwarded-For"} { // the second for the log
		in.Header.Del(name)
		if given := i.outer.Header[name]; given != nil {
			in.Header[name] = slices.Clone(given)
		}
	}
	in.Header.Set("X-Request-ID", requestOf(i.outer.Context()).id)
	return in
}

// serve serves a request to its end. An error says that the answer is cut.
func (i internalTransport) serve(a *pipeResponse, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // it was answered in part, and is logged
			err = io.ErrUnexpectedEOF
		default:
			panic(p)
		}
	}()
	i.server.ServeHTTP(a, r)
	return r.Body.Close()
}

// pipeResponse is the answer to an inner request, as its handler writes it.
type pipeResponse struct {
	// Owned by the handler's goroutine; read by the other once begun is closed.
	header     http.Header
	status     int
	sentHeader http.Header // as it was when the answer began

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

// Flush does nothing: what is written is there at once.
func (a *pipeResponse) Flush() {}

func (a *pipeResponse) finish(err error) {
	a.WriteHeader(http.StatusOK)
	_ = a.body.CloseWithError(err) // it never fails
}

// pipeBody is the body of an answer.
type pipeBody struct {
	io.Reader
	close func() error
}

func (h *pipeBody) Close() error { return h.close() }
