// Package server serves the HTTP API: JSON requests and responses, server-sent event streams and
// WebSockets. Package api has the types of the request and response bodies.
//
// Every request passes the same middleware in the same order: request id, Host and Origin, path,
// token, route, permission, rate limit and body. A refusal by middleware or a handler is a problem
// (RFC 9457) with an error code.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/server/workers"
)

// Ledger is what the server uses of a ledger: a part for each group of handlers. [PartsOf] returns
// all parts of one ledger.
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
	Cursors     operate.Cursors
	Leases      workers.Leases
	Attempts    workers.Attempts
}

// PartsOf returns the parts of l.
func PartsOf(l *ledger.Ledger) Ledger {
	return Ledger{
		Viewer: l, Threads: l, Subscribers: ledger.GroupsOf(l), Messages: l, Search: l, Runs: l, Tickets: l, Accounts: l.Accounts(), Projects: l.Projects(), Pauses: l, Cursors: l, Leases: l.Workers(), Attempts: l.Workers(),
	}
}

// Options configure a Server. Ledger, Streams and Token are required; the zero value of any other
// field means its default.
type Options struct {
	Ledger  Ledger // see PartsOf
	Streams Streams
	// Token is the operator's secret: its bearer acts as [auth.Operator]. With "" only the
	// tokens of accounts work.
	Token string
	// Shared: other servers may use the store at the same time.
	Shared bool
	// Quotas are the default quotas of tokens, for display. The ledger enforces them.
	Quotas auth.Quotas
	// Hosts are the names and addresses, without port, that the Host header may have besides
	// loopback ones. An unspecified address (0.0.0.0 or ::) allows every IP address.
	Hosts []string
	// Origins are the web origins, besides the server's own, that may use the API, such as
	// https://mail.example.org.
	Origins []string
	// URL is the address under which browsers reach the server, "" if it is unknown. With https,
	// cookies are for connections with TLS only.
	URL string
	// TLS, if not nil, makes the server speak HTTPS, including HTTP/2.
	TLS *tls.Config
	// BehindProxy makes the log, and the per-address limit on public request bodies, use the client
	// address in X-Forwarded-For. Without it the server ignores that header.
	BehindProxy bool
	// Agents returns the names of the agents that a submit may name. nil allows every name.
	Agents func() []string
	// MissingAgents returns the names of agents that this process knows but cannot run;
	// DescribeAgent gives the reason. Remote workers may serve them. nil: none.
	MissingAgents func() []string
	// DescribeAgent returns details of an agent that Agents or MissingAgents names.
	DescribeAgent func(name string) AgentInfo
	// Channels are the connections to chat and other platforms. nil: none.
	Channels Channels
	// Pairings are the users that may use chat channels. nil: none.
	Pairings Pairings
	// Alerts are the targets and rules of alerts. nil: none.
	Alerts *operate.Alerts
	// Bus carries the commits and live text of all threads. nil disables the stream of all threads.
	Bus *bus.Bus
	// Pages are static files for browsers, by path. GET and HEAD need no token.
	Pages map[string]http.Handler
	// Protocols are further protocols over the same operations, by route such as "POST /mcp".
	Protocols map[string]Protocol
	// Metrics are served at /metrics. nil: a private set that only the server updates.
	Metrics *operate.Metrics
	// Issues returns the issues of the tracker. nil: there is none.
	Issues   func(context.Context) (api.IssueBoard, error)
	NoSearch bool // messages are not indexed, so a search is refused
	// Ready returns an error while the process cannot run work.
	Ready   func() error
	Version string
	Log     *slog.Logger

	// Limits. 0 means the default.

	HeaderTimeout time.Duration // for a client to send a request's header: 5 s
	BodyTimeout   time.Duration // for a client to send a request's body: 30 s
	WriteTimeout  time.Duration // for a client to read each piece of a response: 15 s
	IdleTimeout   time.Duration // of a connection between two requests: 2 min
	Heartbeat     time.Duration // interval of a stream's comments and a socket's pings: 10 s
	Grace         time.Duration // for requests to finish at shutdown: 10 s
	Connections   int           // open connections: 4,096
	PerAddress    int           // open connections from one address: 512; no limit for loopback and with BehindProxy
	Bodies        int           // bytes of all request bodies in memory: 64 MiB
	Unread        int           // bytes sent to streams and sockets and not read yet: 64 MiB
	TokenUnread   int           // the same for one token: 16 MiB
	MaxHeader     int           // bytes of a request's header: 64 KiB
	MaxBody       int           // bytes of a request's body: 4 MiB; a larger value is reduced to that
	MaxPage       int           // bytes of a page of a list: 4 MiB; a larger first item is returned alone
	MaxStreams    int           // open streams and waits of one token, and as many sockets: 256
	MaxFrame      int           // bytes of one WebSocket frame from a client: MaxBody and 64 KiB
	Submits       float64       // submits and other writes of one token per second: 1,000; negative: no limit
	SubmitBurst   int           // burst above that rate: 2,000
}

// AgentInfo describes an agent that this process declares. Empty fields are unknown.
type AgentInfo struct {
	Kind     string
	Version  string
	Program  string // version that the agent's program reports
	Problem  string // why the agent cannot run now
	Disabled bool   // submits to the agent are refused with Problem
	Retry    *api.AgentRetry
	// Isolation names the mechanism that keeps the agent's program from the data of this process.
	Isolation string
}

func (o *Options) fill() {
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.MissingAgents == nil {
		o.MissingAgents = func() []string { return nil }
	}
	if o.DescribeAgent == nil {
		o.DescribeAgent = func(string) AgentInfo { return AgentInfo{} }
	}
	if o.Metrics == nil {
		o.Metrics = operate.NewMetrics()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&o.HeaderTimeout, 5 * time.Second},
		{&o.BodyTimeout, 30 * time.Second},
		{&o.WriteTimeout, 15 * time.Second},
		{&o.IdleTimeout, 2 * time.Minute},
		{&o.Heartbeat, 10 * time.Second},
		{&o.Grace, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	if o.Submits == 0 {
		o.Submits = 1000
	}
	if o.MaxBody == 0 || o.MaxBody > defaultBody {
		o.MaxBody = defaultBody
	}
	for _, d := range []struct {
		value *int
		unset int
	}{
		{&o.Connections, 4096},
		{&o.PerAddress, 512},
		{&o.Bodies, 64 << 20},
		{&o.Unread, 64 << 20},
		{&o.TokenUnread, 16 << 20},
		{&o.MaxHeader, 64 << 10},
		{&o.MaxPage, mailroom.MaxPage},
		{&o.MaxStreams, 256},
		{&o.MaxFrame, o.MaxBody + 64<<10}, // a submit and its envelope
		{&o.SubmitBurst, 2000},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
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
	parseSlots  parseSlots       // for large bodies
	backlog     *request.Backlog // unread bytes of streams and sockets
	streamSlots *slots           // streams and waits
	socketSlots *slots
	writeLimits *request.Rates
}

// New makes a Server. It starts no goroutine.
func New(o Options) *Server {
	o.fill()
	s := &Server{
		options: o, log: o.Log, tokens: newTokenCache(o.Ledger.Accounts, o.Token, o.Log), cookie: cookieName(o.Token),
		mux: newRouteTable(), anonymous: anonymousGrant(), origins: http.NewCrossOriginProtection(), find: request.Lookup{Ledger: o.Ledger.Viewer},
		life: newLifecycle(),
		bodies: &bodyReceiver{
			budget: request.NewBudget(int64(o.Bodies), max(workBody, int64(o.MaxFrame))), public: request.NewBudget(int64(o.Bodies)/8, defaultBody),
			max: o.MaxBody, timeout: o.BodyTimeout, behindProxy: o.BehindProxy,
		},
		parseSlots: newParseSlots(), backlog: request.NewBacklog(o.Unread, o.TokenUnread),
		writeLimits: request.NewRates(rate.Limit(o.Submits), o.SubmitBurst),
	}
	s.tokens.shared = o.Shared
	maxStreams := func(name string) int64 {
		return s.tokens.quota(name, auth.QuotaStreams, int64(o.MaxStreams))
	}
	s.streamSlots, s.socketSlots = newSlots("streams and waits", maxStreams), newSlots("sockets", maxStreams)
	for _, origin := range o.Origins {
		// An invalid origin matches nothing; originAllowed checks again.
		_ = s.origins.AddTrustedOrigin(origin)
	}
	s.registerRoutes()
	return s
}

// Serve accepts connections on ln until ctx ends and then closes ln. At shutdown, streams and waits
// end first; other requests have Options.Grace to finish, and Serve returns nil. It returns an
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
			return errors.Join(fmt.Errorf("end what former tokens of the operator made: %w", err), ln.Close())
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
	defer func() { stop(); <-refreshed }()
	return s.serve(ctx, ln)
}

func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	hs := s.http()
	ln = newConnLimiter(ln, s.options.Connections, s.options.PerAddress, s.options.BehindProxy)
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
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Grace)
	defer cancel()
	err := hs.Shutdown(grace)
	if !s.life.waitForSockets(grace, s.log) {
		s.log.WarnContext(grace, "sockets cut off at shutdown")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "requests cut off at shutdown", "grace", s.options.Grace)
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
		TLSConfig:         s.options.TLS,
		ReadHeaderTimeout: s.options.HeaderTimeout,
		IdleTimeout:       s.options.IdleTimeout,
		MaxHeaderBytes:    s.options.MaxHeader,
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
		WriteByteTimeout:              s.options.WriteTimeout,
		SendPingTimeout:               s.options.IdleTimeout,
		PingTimeout:                   s.options.WriteTimeout,
	}
}
