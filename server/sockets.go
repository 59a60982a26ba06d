package server

import (
	"context"
	"net/http"

	"mailroom"
	"mailroom/api"
	"mailroom/server/ws"
)

// socketHandlers serve WebSockets.
type socketHandlers struct {
	sockets *ws.Sockets
	life    *lifecycle
}

// open counts a socket, so that shutdown waits for it.
func (h *socketHandlers) open(r *http.Request) (release func(), err error) {
	if err := checkQuery(r.URL.Query(), nil); err != nil {
		return nil, err
	}
	return h.life.addSocket()
}

// socket upgrades the connection and serves it until it ends.
func (h *socketHandlers) socket(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	release, err := h.open(r)
	if err != nil {
		refuse(out, r, err)
		return
	}
	defer release()
	served, err := h.sockets.Serve(out, r)
	if err != nil {
		refuse(out, r, err)
		return
	}
	out.bytes = served.Bytes
	if served.TooSlow != nil {
		out.failed = served.TooSlow // the log line of the request shows the reason
	}
}

func (s *Server) newSockets() *ws.Sockets {
	l := s.options.Limits
	return ws.New(ws.Options{
		Host: socketHost{s}, Closing: s.life.closing, Bodies: s.bodies.budget, Backlog: s.backlog, Log: s.log,
		HeaderTimeout: l.HeaderTimeout, BodyTimeout: l.BodyTimeout, WriteTimeout: l.WriteTimeout,
		Heartbeat: l.Heartbeat, MaxFrame: l.MaxFrame,
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
func (h socketHost) frameRequest(upgrade *http.Request) (*http.Request, *requestState) {
	q := &requestState{id: requestOf(upgrade.Context()).id}
	q.setGrant(h.server.anonymous)
	return upgrade.Clone(q.attach(upgrade.Context())), q
}

func (h socketHost) Authenticate(upgrade *http.Request, header string) (*ws.Grant, error) {
	r, q := h.frameRequest(upgrade)
	r.Header.Set("Authorization", header)
	err := h.server.authenticate(newResponse(&probe{header: http.Header{}}, "", 0), r)
	return &ws.Grant{Token: q.grant.token, Valid: q.grant.ctx}, err
}

func (h socketHost) Authorize(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.server.life.authorizedContext(ctx)
}

func (h socketHost) Hold(token string) (release func(), err error) {
	return h.server.socketSlots.acquire(token)
}

func (h socketHost) Refuse(w http.ResponseWriter, upgrade *http.Request, caller *ws.Grant, err error) {
	r, q := h.frameRequest(upgrade)
	if caller != nil {
		q.who = caller.Token
	}
	refuse(newResponse(w, requestOf(r.Context()).id, 0), r, err)
}

func (h socketHost) Problem(ctx context.Context, err error) (p api.Problem, retryAfter int) {
	made := problemFor(ctx, err)
	return made.Problem, made.retryAfter
}

func (h socketHost) RecordPanic(ctx context.Context, cause error) {
	q := requestOf(ctx)
	q.code, q.cause = mailroom.CodeInternal, cause
}

func (h socketHost) Run(ctx context.Context, id string) (api.Run, error) {
	return h.server.find.ShownRun(ctx, id)
}
