package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
	"mailroom/server/ws"
)

// registerSocket registers the WebSocket. Each frame becomes an internal request that passes the
// same middleware and handlers.
func (rt router) registerSocket() {
	op := rt.operation(accessPerFrame, "GET /v1/ws", "socket", "Open a WebSocket for submits, decisions and any number of streams")
	op.Description = "Frames are JSON objects with op and id. The token comes in the header Authorization, or in a first frame auth."
	op.Responses["101"] = &huma.Response{Description: "The WebSocket is open."}
	op.Responses["426"] = &huma.Response{Description: "Not a WebSocket handshake.", Content: rt.problemResponse().Content}
	rt.api.OpenAPI().AddOperation(&op)
	rt.server.mux.HandleFunc("GET /v1/ws", rt.server.socket)
}

// socket upgrades the connection and serves it until it ends.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	release, err := s.addSocket(r)
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	defer release()
	served, err := s.ws.Serve(out, r)
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	out.bytes = served.Bytes
	if served.TooSlow != nil {
		out.failed = served.TooSlow // for the log line
	}
}

// addSocket counts a socket, so that shutdown waits for it.
func (s *Server) addSocket(r *http.Request) (release func(), err error) {
	if err := checkQuery(r.URL.Query(), nil); err != nil {
		return nil, err
	}
	s.socketsMu.Lock()
	defer s.socketsMu.Unlock()
	if s.closing.Err() != nil {
		return nil, errShutdown()
	}
	s.sockets.Add(1)
	return s.sockets.Done, nil
}

func (s *Server) newSockets() *ws.Sockets {
	o := s.options
	return ws.New(ws.Options{
		Host: socketHost{s}, Closing: s.closing, Bodies: s.bodies, Backlog: s.backlog, Log: s.log,
		HeaderTimeout: o.HeaderTimeout, BodyTimeout: o.BodyTimeout, WriteTimeout: o.WriteTimeout, Heartbeat: o.Heartbeat, MaxFrame: o.MaxFrame,
	})
}

// socketHost is the server as its sockets see it.
type socketHost struct{ server *Server }

func (h socketHost) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.server.ServeHTTP(w, r) }

func (h socketHost) Caller(ctx context.Context) *ws.Grant {
	g := requestOf(ctx).grant
	return &ws.Grant{Token: g.token, Valid: g.ctx}
}

// frameRequest is the handshake's request for a frame: it has the same id, and a caller of its own.
func (h socketHost) frameRequest(upgrade *http.Request) (*http.Request, *request) {
	q := &request{id: requestOf(upgrade.Context()).id}
	q.setGrant(h.server.anonymous)
	return upgrade.Clone(context.WithValue(upgrade.Context(), requestKey{}, q)), q
}

func (h socketHost) Authenticate(upgrade *http.Request, header string) (*ws.Grant, error) {
	r, q := h.frameRequest(upgrade)
	r.Header.Set("Authorization", header)
	err := h.server.authenticate(newResponse(&probe{header: http.Header{}}, 0), r)
	return &ws.Grant{Token: q.grant.token, Valid: q.grant.ctx}, err
}

func (h socketHost) Authorize(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.server.authorizedContext(ctx)
}

func (h socketHost) Hold(token string) (release func(), err error) {
	return h.server.socketSlots.acquire(token)
}

func (h socketHost) Refuse(w http.ResponseWriter, upgrade *http.Request, caller *ws.Grant, err error) {
	r, q := h.frameRequest(upgrade)
	if caller != nil {
		q.who = caller.Token
	}
	h.server.refuse(newResponse(w, 0), r, err)
}

func (h socketHost) Problem(ctx context.Context, err error) (p api.Problem, retryAfter int) {
	made := h.server.problemFor(ctx, err)
	return made.Problem, made.retryAfter
}

func (h socketHost) RecordPanic(ctx context.Context, cause error) {
	q := requestOf(ctx)
	q.code, q.cause = mailroom.CodeInternal, cause
}

func (h socketHost) Run(ctx context.Context, id string) (api.Run, error) {
	run, _, err := h.server.readRun(ctx, id)
	return run, err
}
