package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"mailroom"
	"mailroom/client"
)

// face collects the operations while New registers them.
type face struct {
	server *Server
	api    huma.API
}

// routes registers every operation, and the description of them all.
func (s *Server) routes() {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Mailroom", Version: s.version()},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry(refTo, huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.speak},
	}
	f := face{server: s, api: humago.New(s.mux, config)}
	f.health()
	f.threads()
	f.messages()
	f.runs()
	f.tickets()
	f.fleet()
	f.channels()
	f.pairings()
	f.projects()
	f.tokens()
	f.work()
	f.streams()
	f.sockets()
	f.faces()
	f.honest()
	f.bounded()
	f.pages()
	// Encoding takes longer than all the rest of a start, and few ask.
	description := sync.OnceValues(func() ([]byte, error) { return json.Marshal(f.api.OpenAPI()) })
	f.public("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		raw, err := description()
		if err != nil { // a mistake in this package's own types
			s.refuse(w.(*response), r, fmt.Errorf("describe the API: %w", err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(raw) // response keeps the error for the log line
	})
}

// pages registers the files that browsers get, without a token.
func (f face) pages() {
	for path, page := range f.server.options.Pages {
		if path == "/" {
			path = "/{$}" // this one, not all that begin with it
		}
		f.public("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := onlyKnown(r.URL.Query(), nil); err != nil {
				f.server.refuse(w.(*response), r, err) // ServeHTTP makes no other
				return
			}
			page.ServeHTTP(w, r)
		})
	}
}

func (s *Server) version() string {
	if s.options.Version == "" {
		return "dev"
	}
	return s.options.Version
}

// op describes an operation: the scope that it needs, "GET /v1/threads", and what
// it does.
func (f face) op(need mailroom.Permission, route, id, summary string) huma.Operation {
	f.server.mux.need(route, need)
	method, path, _ := strings.Cut(route, " ")
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		MaxBodyBytes: -1, // readBody has bounded it
		Responses:    map[string]*huma.Response{"default": f.problem()},
	}
}

func (f face) problem() *huma.Response {
	schema := f.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[client.Problem](), true, "Problem")
	return &huma.Response{
		Description: "A refusal; code says what kind.",
		Content:     map[string]*huma.MediaType{client.ProblemType: {Schema: schema}},
	}
}

// answer describes an answer beside the usual one.
func (f face) answer(t reflect.Type, text string) *huma.Response {
	schema := f.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	return &huma.Response{Description: text, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// handle registers an operation whose errors become problems.
func handle[I, O any](f face, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	huma.Register(f.api, op, func(ctx context.Context, in *I) (*O, error) {
		requestOf(ctx).parsing.leave()
		out, err := h(ctx, in)
		if err != nil {
			return nil, f.server.problemFor(ctx, err)
		}
		return out, nil
	})
}

// body is an answer of one JSON value.
type body[T any] struct{ Body T }

// The inputs that several operations have in common are exported only because
// huma does not look into embedded types that are not.

// none is an input or an answer with nothing in it.
type none struct{}

// Nothing is the body of operations that take no field; an empty object will do.
type Nothing struct {
	Body *struct{}
}

// ThreadPath is the thread in a path.
type ThreadPath struct {
	Thread string `path:"thread" doc:"Id of a thread."`
}

// id returns the thread's id as the rules see it.
func (p ThreadPath) id() (string, error) {
	id, err := mailroom.CheckThreadID(p.Thread)
	return id, within("path.", err)
}

// RunPath is the run in a path.
type RunPath struct {
	Run string `path:"run" doc:"Id of a run."`
}

func (f face) health() {
	s := f.server
	open := func(op huma.Operation) huma.Operation {
		op.Security = []map[string][]string{}
		return op
	}
	handle(f, open(f.op(anybody, "GET /healthz", "health", "Whether the server answers")), func(context.Context, *none) (*body[client.Health], error) {
		return &body[client.Health]{client.Health{Status: "ok", Version: s.version()}}, nil
	})
	handle(f, open(f.op(anybody, "GET /readyz", "ready", "Whether the server takes and runs work")), func(context.Context, *none) (*body[client.Health], error) {
		if s.closing.Err() != nil {
			return nil, errShutdown()
		}
		if err := s.options.Ready(); err != nil {
			return nil, mailroom.Errorf(mailroom.CodeUnavailable, "not ready: %v", err)
		}
		return &body[client.Health]{client.Health{Status: "ok", Version: s.version()}}, nil
	})
}

// checkAgent refuses names that nobody has declared and no worker serves, or has
// served lately from elsewhere.
func (s *Server) checkAgent(ctx context.Context, name string) error {
	if s.options.Agents == nil {
		return nil
	}
	barred := func() error {
		if d := s.options.Describe(name); d.Barred {
			return wrong("body.agent", fmt.Sprintf("agent %q cannot be used: %s", short(name), d.Problem), name)
		}
		return nil
	}
	known := s.options.Agents()
	if slices.Contains(known, name) {
		return barred()
	}
	elsewhere, err := s.servedElsewhere(ctx)
	if err != nil || slices.Contains(elsewhere, name) {
		return err
	}
	if slices.Contains(s.options.Absent(), name) {
		return barred()
	}
	return wrong("body.agent", fmt.Sprintf("no agent %q; known: %s", short(name), strings.Join(known, ", ")), name)
}
