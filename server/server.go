// Package server serves the HTTP API: JSON requests and responses, server-sent event streams and
// WebSockets. Package api has the types of the request and response bodies.
//
// Every request passes the same middleware in the same order: request id, Host and Origin, path,
// token, route, permission, rate limit and body. A refusal by middleware or a handler is a problem
// (RFC 9457) with an error code.
//
// The handlers here read or change one thread, run, ticket, token or project. Package operate has those that are about
// all threads, and packages workers and ws have the two protocols that are more than requests.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/time/rate"

	"mailroom/auth"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/server/workers"
)

// Ledger has the parts of a ledger that the server uses, one for each group of handlers. [PartsOf] returns all parts
// of one ledger.
type Ledger struct {
	Viewer      request.Viewer
	Threads     operate.Threads
	Subscribers operate.Subscribers
	Messages    Messages
	Search      operate.Searcher
	Runs        Runs
	Tickets     Tickets
	Accounts    Accounts
	Projects    Projects
	Pauses      Pauses
	Budgets     Budgets
	Cursors     operate.Cursors
	Leases      workers.Leases
	Attempts    workers.Attempts
}

// PartsOf returns the parts of l.
func PartsOf(l *ledger.Ledger) Ledger {
	return Ledger{
		Viewer: l, Threads: l, Subscribers: ledger.GroupsOf(l), Messages: l, Search: l, Runs: l, Tickets: l,
		Accounts: l.Accounts(), Projects: l.Projects(), Pauses: l, Cursors: l, Budgets: ledger.PeriodBudgets{Ledger: l},
		Leases: l.Workers(), Attempts: l.Workers(),
	}
}

// Server is the API as an http.Handler: its middleware, and its life from Serve to shutdown. The
// handlers of each group of routes are a type of their own.
type Server struct {
	// Set by New.
	options   Options
	log       *slog.Logger
	tokens    *tokenCache
	cookie    string // name of the cookie of sessions
	mux       *routeTable
	anonymous *grant // the caller without a valid token
	origins   *http.CrossOriginProtection
	find      request.Lookup
	push      *operate.PushHandlers

	life        *lifecycle
	bodies      *bodyReceiver
	parseSlots  parseSlots       // bounds the parsing of large bodies
	backlog     *request.Backlog // unread bytes of streams and sockets
	streamSlots *slots           // streams and waits
	socketSlots *slots
	writeLimits *request.Rates
	refused     refusals
}

// New makes a Server. It starts no goroutine.
func New(o Options) *Server {
	o.fill()
	l := o.Limits
	s := &Server{
		options: o, log: o.Log, cookie: cookieName(o.Access.Token),
		tokens: newTokenCache(o.Ledger.Accounts, o.Access.Token, o.Log),
		mux:    newRouteTable(), anonymous: anonymousGrant(), origins: http.NewCrossOriginProtection(),
		find: request.Lookup{Ledger: o.Ledger.Viewer},
		life: newLifecycle(), refused: refusals{wake: make(chan struct{}, 1)},
		bodies: &bodyReceiver{
			budget: request.NewBudget(int64(l.Bodies), max(workBody, int64(l.MaxFrame))),
			public: request.NewBudget(int64(l.Bodies)/8, defaultBody),
			max:    l.MaxBody, timeout: l.BodyTimeout, behindProxy: o.Access.BehindProxy,
		},
		parseSlots: newParseSlots(), backlog: request.NewBacklog(l.Unread, l.TokenUnread),
		writeLimits: request.NewRates(rate.Limit(l.Submits), l.SubmitBurst),
	}
	s.tokens.shared = o.Shared
	maxStreams := func(name string) int64 {
		return s.tokens.quota(name, auth.QuotaStreams, int64(l.MaxStreams))
	}
	s.streamSlots, s.socketSlots = newSlots("streams and waits", maxStreams), newSlots("sockets", maxStreams)
	for _, origin := range o.Access.Origins {
		// An invalid origin matches nothing; originAllowed checks again.
		_ = s.origins.AddTrustedOrigin(origin)
	}
	s.registerRoutes()
	return s
}

// Serve accepts connections on ln until ctx ends and then closes ln. At shutdown, streams and waits
// end first; other requests have Limits.Grace to finish, and Serve returns nil. It returns an
// error if it stops for any other reason. Call Serve once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	switch err := s.tokens.refresh(ctx); {
	case err != nil && ctx.Err() != nil: // stopped before it accepted a connection
		return ln.Close()
	case err != nil:
		return errors.Join(fmt.Errorf("read tokens: %w", err), ln.Close())
	}
	if !s.options.Shared && s.tokens.operator != nil {
		if err := s.options.Ledger.Accounts.EndReplaced(ctx, s.tokens.operatorToken()); err != nil && ctx.Err() == nil {
			return errors.Join(fmt.Errorf("end the tokens that former tokens of the operator made: %w", err), ln.Close())
		}
	}
	if err := s.push.Adopt(ctx); err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("name the operator's token in its subscriptions: %w", err), ln.Close())
	}
	refreshCtx, stop := context.WithCancel(ctx)
	refreshed := make(chan struct{})
	go func() {
		defer recovery.Log(s.log, "token cache")
		defer close(refreshed)
		s.tokens.run(refreshCtx)
	}()
	recorded := make(chan struct{})
	go func() {
		defer recovery.Log(s.log, "record of refusals")
		defer close(recorded)
		s.recordRefusals(refreshCtx)
	}()
	defer func() { stop(); <-refreshed; <-recorded }()
	return s.serve(ctx, ln)
}

func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	hs := s.http()
	ln = newConnLimiter(ln, s.options.Limits.Connections, s.options.Limits.PerAddress, s.options.Access.BehindProxy)
	defer s.life.close()
	served := make(chan error, 1)
	go func() {
		defer recovery.Handle(s.log, "listener", func(p *recovery.Panic) { served <- p })
		if hs.TLSConfig != nil {
			served <- hs.ServeTLS(ln, "", "")
			return
		}
		served <- hs.Serve(ln)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.life.shutDown()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Limits.Grace)
	defer cancel()
	err := hs.Shutdown(grace)
	if !s.life.waitForSockets(grace, s.log) {
		s.log.WarnContext(grace, "sockets cut off at shutdown")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "requests cut off at shutdown", "grace", s.options.Limits.Grace)
		err = hs.Close()
	}
	if closed := <-served; err == nil && !errors.Is(closed, http.ErrServerClosed) {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("stop serving %s: %w", ln.Addr(), err)
	}
	return nil
}

// http makes the http.Server. It has no WriteTimeout because each write sets its own deadline. Over
// HTTP/2 requests share a connection, so http2 adds a write timeout of the connection.
func (s *Server) http() *http.Server {
	return &http.Server{
		Handler:           s,
		TLSConfig:         s.options.Access.TLS,
		ReadHeaderTimeout: s.options.Limits.HeaderTimeout,
		IdleTimeout:       s.options.Limits.IdleTimeout,
		MaxHeaderBytes:    s.options.Limits.MaxHeader,
		HTTP2:             s.http2(),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// http2 returns the limits of an HTTP/2 connection. net/http bounds queued pings, settings and
// resets, and the continuations of a header.
func (s *Server) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          128,
		MaxDecoderHeaderTableSize:     4 << 10,
		MaxEncoderHeaderTableSize:     4 << 10,
		MaxReadFrameSize:              64 << 10,
		MaxReceiveBufferPerConnection: 1 << 20,
		MaxReceiveBufferPerStream:     256 << 10,
		WriteByteTimeout:              s.options.Limits.WriteTimeout,
		SendPingTimeout:               s.options.Limits.IdleTimeout,
		PingTimeout:                   s.options.Limits.WriteTimeout,
	}
}
