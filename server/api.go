package server

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/server/reference"
	"mailroom/server/workers"
)

// router takes all operations, one by one. This happens twice: New serves requests with the first router, and the
// description is made with another one when a reader asks for it.
type router struct {
	mux         *routeTable
	api         huma.API
	bounds      func() boundTable // of requests; made at the first call
	description *huma.OpenAPI     // nil: the router makes no description
	add         func(*operation)
}

// registerRoutes makes the groups of handlers and registers every operation.
func (s *Server) registerRoutes() {
	o := s.options
	bounds := sync.OnceValue(func() boundTable { return boundsOf(o.Parts.Protocols) })
	register := s.groups()
	rt := router{mux: s.mux, api: humago.New(s.mux, s.apiConfig()), bounds: bounds}
	rt.add = func(op *operation) { rt.api.Adapter().Handle(op.op, op.serve) }
	register(rt)
	rt.pages(o.Parts.Pages)
	rt.reference(&referenceHandlers{
		api: sync.OnceValue(func() *huma.OpenAPI { return s.describe(register, bounds) }), page: o.Parts.Page,
		options: reference.Options{
			URL: o.Access.URL, LimitsRate: func(route string) bool {
				method, _, _ := strings.Cut(route, " ")
				return limitsRate(method, s.mux.permissions[route])
			},
		},
	})
}

// describe makes the OpenAPI description of the operations that register adds to a router. It serves no request.
func (s *Server) describe(register func(router), bounds func() boundTable) *huma.OpenAPI {
	mux := newRouteTable()
	rt := router{mux: mux, api: humago.New(mux, s.apiConfig()), bounds: bounds}
	rt.description = rt.api.OpenAPI()
	rt.add = func(op *operation) { op.describe(rt.description) }
	register(rt)
	refineSchemas(rt.description)
	bounds().describe(rt.description, &s.options)
	return rt.description
}

// apiConfig returns the settings of huma.
func (s *Server) apiConfig() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Mailroom", Version: s.options.Version},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry(refTo, huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token":   {Type: "http", Scheme: "bearer"},
					"session": {Type: "apiKey", In: "cookie", Name: s.cookie, Description: "For pages of this server only."},
				},
			},
			Security: []map[string][]string{{"token": {}}, {"session": {}}},
			Tags:     tags(),
		},
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{transformProblem},
	}
}

// groups makes the groups of handlers, and returns what adds their operations to a router. Each gets its part of the
// ledger.
func (s *Server) groups() func(router) {
	o, find := s.options, s.find
	remote := workers.New(workers.Options{
		Leases: o.Ledger.Leases, Attempts: o.Ledger.Attempts, Bus: o.Bus, Version: o.Version,
		LocalAgents: o.Agents.Names,
		Authorize:   s.life.authorizedContext,
		Content:     contentOf,
		Hold:        func(ctx context.Context) (func(), error) { return s.streamSlots.acquire(requestOf(ctx).who.Name) },
	})
	agents := &agentHandlers{
		ledger: o.Ledger.Pauses, log: s.log, agents: o.Agents, remote: remote.RemoteAgents, find: find,
		alerts: o.Parts.Alerts,
	}
	defaults := auth.Quotas{auth.QuotaStreams: int64(o.Limits.MaxStreams)}
	maps.Copy(defaults, o.Access.Quotas)
	quotas := quotas{defaults: defaults, streams: s.streamSlots, sockets: s.socketSlots, backlog: s.backlog}
	asked := operate.New(operate.Options{
		Ledger: operate.Ledger{
			Viewer: o.Ledger.Viewer, Runs: o.Ledger.Runs, Search: o.Ledger.Search, Tokens: o.Ledger.Accounts,
			Cursors: o.Ledger.Cursors, Subscribers: o.Ledger.Subscribers, Threads: o.Ledger.Threads,
			Budgets: o.Ledger.Budgets,
		},
		Secret: o.Access.Token, Operator: s.tokens.operatorToken(), Quotas: defaults, Metrics: o.Parts.Metrics,
		Meters: quotas, Agents: agents.names,
		Alerts: o.Parts.Alerts, MaxPage: o.Limits.MaxPage, NoSearch: o.Parts.NoSearch, Label: o.Parts.Label, Log: s.log,
	})
	s.push = asked.Push
	sockets := &socketHandlers{sockets: s.newSockets(), life: s.life}
	return func(rt router) {
		rt.health(&healthHandlers{version: o.Version, check: o.Ready, life: s.life})
		rt.threads(&threadHandlers{
			ledger: o.Ledger.Threads, find: find, maxPage: o.Limits.MaxPage, agents: agents, alerts: o.Parts.Alerts,
		})
		rt.messages(&messageHandlers{
			alerts: o.Parts.Alerts, ledger: o.Ledger.Messages, find: find, agents: agents, maxPage: o.Limits.MaxPage,
		})
		runs := &runHandlers{ledger: o.Ledger.Runs, find: find, streams: o.Streams, slots: s.streamSlots, life: s.life}
		rt.runs(runs)
		rt.schedules(&scheduleHandlers{
			messages: o.Ledger.Messages, threads: o.Ledger.Threads, operator: s.tokens.operatorToken(), find: find,
			agents: agents, runs: runs, within: o.Limits.Commands,
		})
		rt.tickets(&ticketHandlers{ledger: o.Ledger.Tickets, find: find})
		rt.agents(agents)
		rt.budgets(&budgetHandlers{ledger: o.Ledger.Budgets, log: s.log})
		rt.lists(asked.Lists)
		rt.bulk(asked.Bulk)
		rt.search(asked.Search)
		rt.stats(asked.Stats, o.Parts.Metrics)
		rt.alerts(asked.Alerts)
		rt.push(asked.Push)
		rt.audit(asked.Audit)
		rt.channels(&channelHandlers{channels: o.Parts.Channels, ledger: o.Ledger.Accounts})
		rt.issues(&issueHandlers{o.Parts.Issues})
		rt.questions(&questionHandlers{
			alerts: o.Parts.Alerts, operator: s.tokens.operatorToken(), ledger: o.Ledger.Tickets, find: find,
		})
		rt.pairings(&pairingHandlers{o.Parts.Pairings})
		rt.projects(&projectHandlers{ledger: o.Ledger.Projects, maxPage: o.Limits.MaxPage})
		tokens := &tokenHandlers{
			ledger: o.Ledger.Accounts, push: asked.Push, cache: s.tokens, quotas: quotas, maxPage: o.Limits.MaxPage,
			log: s.log,
		}
		rt.tokens(tokens)
		rt.sessions(&sessionHandlers{
			ledger: o.Ledger.Accounts, tokens: tokens, find: find, cookie: s.cookie, url: o.Access.URL,
			secure: o.Access.TLS != nil || o.Access.BehindProxy || strings.HasPrefix(o.Access.URL, "https://"),
		})
		rt.workers(remote)
		rt.blobs(remote)
		rt.streams(&streamHandlers{
			streams: o.Streams, bus: o.Bus, find: find, slots: s.streamSlots, life: s.life, backlog: s.backlog,
			heartbeat: o.Limits.Heartbeat, log: s.log,
		})
		rt.socket(sockets)
		rt.protocols(&protocolHandlers{server: s, bodies: s.bodies, log: s.log}, o.Parts.Protocols)
	}
}

// operation describes an operation: its permission, its route such as "GET /v1/threads", its id and
// what it does.
func (rt router) operation(need auth.Permission, route, id, summary string) huma.Operation {
	rt.mux.require(route, need)
	method, path, _ := strings.Cut(route, " ")
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: describeAccess(need),
		Tags:         []string{tagOf(path)},
		MaxBodyBytes: -1, // readBody bounds it
		Responses:    map[string]*huma.Response{"default": rt.problemResponse()},
	}
}

// describe adds an operation to the description that the router makes.
func (rt router) describe(op *huma.Operation) {
	if rt.description != nil {
		rt.description.AddOperation(op)
	}
}

// schema returns a reference to the schema of a type, or nil if the router makes no description.
func (rt router) schema(t reflect.Type, name string) *huma.Schema {
	if rt.description == nil {
		return nil
	}
	return rt.description.Components.Schemas.Schema(t, true, name)
}

// problemResponse describes the refusal that every operation may return.
func (rt router) problemResponse() *huma.Response {
	return &huma.Response{
		Description: "A refusal. The field code classifies it.",
		Content: map[string]*huma.MediaType{
			api.ProblemType: {Schema: rt.schema(reflect.TypeFor[api.Problem](), "Problem")},
		},
	}
}

// jsonResponse describes a further JSON response of an operation.
func (rt router) jsonResponse(t reflect.Type, text string) *huma.Response {
	return &huma.Response{Description: text, Content: rt.jsonContent(t, nil)}
}

// route registers an operation. See [router.operation].
func route[I, O any](
	rt router, need auth.Permission, pattern, id, summary string, h func(context.Context, *I) (*O, error),
) {
	handle(rt, rt.operation(need, pattern, id, summary), h)
}

// withStatus returns op with another status of its usual response.
func withStatus(status int, op huma.Operation) huma.Operation {
	op.DefaultStatus = status
	return op
}

// handle registers an operation. Little is here, because each pair of types compiles it again.
func handle[I, O any](rt router, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	rt.register(&op, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		return h(ctx, in.(*I))
	})
}

// handleLater registers an operation whose handler returns the rest of its work, which answers with status 200 and a
// JSON value. The rest runs when the handler and huma have returned: their frames are more than half of the stack of
// a request that waits, and a stack is as large as the power of two above it.
func handleLater[I, O any](rt router, op huma.Operation, h func(context.Context, *I) (func() (*O, error), error)) {
	op.Responses["200"] = rt.jsonResponse(reflect.TypeFor[O](), "OK")
	rt.registerLater(&op, reflect.TypeFor[I](), func(ctx context.Context, in any) (func() (any, error), error) {
		rest, err := h(ctx, in.(*I))
		if err != nil {
			return nil, err
		}
		return func() (any, error) { return rest() }, nil
	})
}

// later is the output of an operation that answers when its handler has returned.
type later struct{ Body func(huma.Context) }

// registerLater is [router.register] for handleLater.
func (rt router) registerLater(
	op *huma.Operation, input reflect.Type, handle func(context.Context, any) (func() (any, error), error),
) {
	rt.register(op, input, reflect.TypeFor[later](), func(ctx context.Context, in any) (any, error) {
		rest, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		requestOf(ctx).rest = func(out *response, r *http.Request) {
			value, err := rest()
			if err != nil {
				refuse(out, r, err)
				return
			}
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(http.StatusOK)
			_ = rt.api.Marshal(out, "application/json", value) // response keeps the error for the log line
		}
		return &later{Body: func(huma.Context) {}}, nil
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
	return id, request.Locate("path.", err)
}

// RunPath is the run id in a path.
type RunPath struct {
	Run string `path:"run" doc:"Id of a run."`
}
