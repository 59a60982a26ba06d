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
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/server/internal/invalid"
)

// router collects the operations while New registers them.
type router struct {
	server *Server
	api    huma.API
}

// registerRoutes registers every operation and builds the OpenAPI description.
func (s *Server) registerRoutes() {
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
		Transformers:                 []huma.Transformer{s.transformProblem},
	}
	rt := router{server: s, api: humago.New(s.mux, config)}
	rt.registerHealth()
	rt.registerThreads()
	rt.registerMessages()
	rt.registerRuns()
	rt.registerTickets()
	rt.registerAgents()
	rt.registerChannels()
	rt.registerPairings()
	rt.registerProjects()
	rt.registerTokens()
	rt.registerWorkers()
	rt.registerStreams()
	rt.registerSocket()
	rt.registerProtocols()
	rt.refineSchemas()
	rt.applyBounds()
	rt.registerPages()
	// Encoding the description takes longer than the rest of a start, so it waits for the first
	// request.
	description := sync.OnceValues(func() ([]byte, error) { return json.Marshal(rt.api.OpenAPI()) })
	rt.registerPublic("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		raw, err := description()
		if err != nil { // a mistake in this package's own types
			s.refuse(w.(*response), r, fmt.Errorf("describe the API: %w", err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(raw) // response keeps the error for the log line
	})
}

// registerPages registers the static files, which need no token.
func (rt router) registerPages() {
	for path, page := range rt.server.options.Pages {
		if path == "/" {
			path = "/{$}" // without {$} the pattern matches every path
		}
		rt.registerPublic("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := checkQuery(r.URL.Query(), nil); err != nil {
				rt.server.refuse(w.(*response), r, err) // ServeHTTP makes no other
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

// operation describes an operation: its permission, its route such as "GET /v1/threads", its id and
// what it does.
func (rt router) operation(need auth.Permission, route, id, summary string) huma.Operation {
	rt.server.mux.require(route, need)
	method, path, _ := strings.Cut(route, " ")
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		MaxBodyBytes: -1, // readBody bounds it
		Responses:    map[string]*huma.Response{"default": rt.problemResponse()},
	}
}

// problemResponse describes the refusal that every operation may return.
func (rt router) problemResponse() *huma.Response {
	schema := rt.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem")
	return &huma.Response{
		Description: "A refusal. The field code classifies it.",
		Content:     map[string]*huma.MediaType{api.ProblemType: {Schema: schema}},
	}
}

// jsonResponse describes a further JSON response of an operation.
func (rt router) jsonResponse(t reflect.Type, text string) *huma.Response {
	schema := rt.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	return &huma.Response{Description: text, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// handle registers an operation and turns its errors into problems.
func handle[I, O any](rt router, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	huma.Register(rt.api, op, func(ctx context.Context, in *I) (*O, error) {
		requestOf(ctx).parsing.release()
		out, err := h(ctx, in)
		if err != nil {
			return nil, rt.server.problemFor(ctx, err)
		}
		return out, nil
	})
}

// body is a response of one JSON value.
type body[T any] struct{ Body T }

// The input types that operations share are exported only because huma ignores embedded types
// that are not.

// empty is an input or a response without fields.
type empty struct{}

// EmptyBody is the body of operations that take no field. It may be missing or an empty object.
type EmptyBody struct {
	Body *struct{}
}

// ThreadPath is the thread id in a path.
type ThreadPath struct {
	Thread string `path:"thread" doc:"Id of a thread."`
}

// id returns the normalized thread id, or an error with its location.
func (p ThreadPath) id() (string, error) {
	id, err := check.ThreadID(p.Thread)
	return id, invalid.At("path.", err)
}

// RunPath is the run id in a path.
type RunPath struct {
	Run string `path:"run" doc:"Id of a run."`
}

func (rt router) registerHealth() {
	s := rt.server
	open := func(op huma.Operation) huma.Operation {
		op.Security = []map[string][]string{}
		return op
	}
	handle(rt, open(rt.operation(accessPublic, "GET /healthz", "health", "Check that the server responds")), func(context.Context, *empty) (*body[api.Health], error) {
		return &body[api.Health]{api.Health{Status: "ok", Version: s.version()}}, nil
	})
	handle(rt, open(rt.operation(accessPublic, "GET /readyz", "ready", "Check that the server accepts and runs work")), func(context.Context, *empty) (*body[api.Health], error) {
		if s.closing.Err() != nil {
			return nil, errShutdown()
		}
		if err := s.options.Ready(); err != nil {
			return nil, mailroom.Errorf(mailroom.CodeUnavailable, "not ready: %v", err)
		}
		return &body[api.Health]{api.Health{Status: "ok", Version: s.version()}}, nil
	})
}

// checkAgent refuses an agent that is neither declared here nor served by a remote worker, now or
// recently.
func (s *Server) checkAgent(ctx context.Context, name string) error {
	if s.options.Agents == nil {
		return nil
	}
	barred := func() error {
		if d := s.options.DescribeAgent(name); d.Disabled {
			return invalid.Field("body.agent", fmt.Sprintf("agent %q cannot be used: %s", invalid.Truncate(name), d.Problem), name)
		}
		return nil
	}
	known := s.options.Agents()
	if slices.Contains(known, name) {
		return barred()
	}
	elsewhere, err := s.workers.RemoteAgents(ctx)
	if err != nil || slices.Contains(elsewhere, name) {
		return err
	}
	if slices.Contains(s.options.MissingAgents(), name) {
		return barred()
	}
	return invalid.Field("body.agent", fmt.Sprintf("unknown agent %q; use one of %s", invalid.Truncate(name), strings.Join(known, ", ")), name)
}
