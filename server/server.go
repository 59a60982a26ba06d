// Package server serves the HTTP API: requests and answers in JSON, streams as
// server-sent events. What it takes and gives are the types of package client.
//
// Each request passes the same gates in the same order: a request id, the Host
// and Origin it names, the form of its path, its token, a route, and its body.
// Whatever a gate or a handler refuses is a problem (RFC 9457) with a code.
package server

import (
	"context"
	"crypto/cipher"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mailroom"
	"mailroom/bus"
	"mailroom/internal/metrics"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/stream"
)

// Ledger is what the server asks of a ledger.
type Ledger interface {
	Messages
	Accounts
	Workers
	Attempts
	Projects
	View(ctx context.Context, f func(mailroom.Reader) error) error
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	CancelTree(ctx context.Context, run string, who *mailroom.Token) (*mailroom.Run, error)
	Interrupt(ctx context.Context, thread string, who *mailroom.Token) (mailroom.Interrupted, error)
	Retry(ctx context.Context, in mailroom.Retry) (*mailroom.Run, error)
	Decide(ctx context.Context, d mailroom.Decision) (*mailroom.Ticket, error)
	PatchThread(ctx context.Context, thread string, p mailroom.ThreadPatch) (*mailroom.Thread, error)
	DeleteThread(ctx context.Context, thread string, who *mailroom.Token) error
}

// Messages is the part of a ledger that is about messages.
type Messages interface {
	Submit(ctx context.Context, in mailroom.Submit) (mailroom.Submitted, error)
	Edit(ctx context.Context, thread, message string, parts []mailroom.Part) (mailroom.Message, error)
	Retract(ctx context.Context, thread, message string) error
	Message(ctx context.Context, thread, message string) (mailroom.Message, error)
	Transcript(ctx context.Context, q ledger.TranscriptQuery) (items []mailroom.Message, next string, err error)
}

// Accounts is the part of a ledger that is about tokens.
type Accounts interface {
	Tokens(ctx context.Context) ([]*mailroom.Token, error)
	CreateToken(ctx context.Context, t mailroom.Token) (*mailroom.Token, error)
	RevokeToken(ctx context.Context, name string) error
	// SetQuotas replaces what a token may have instead of the defaults.
	SetQuotas(ctx context.Context, name string, q mailroom.Quotas) (*mailroom.Token, error)
	TokensUsed(ctx context.Context, used map[string]time.Time) error
}

// Streams is what the server asks of package stream.
type Streams interface {
	Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error
	Ended(ctx context.Context, q stream.Query) (bool, error)
}

// Options configure a Server. Ledger, Streams and Token are needed; the zero
// value of the others works.
type Options struct {
	Ledger  Ledger
	Streams Streams
	// Token is the operator's secret: who has it is [mailroom.Operator]. With
	// "" there are only the tokens of accounts.
	Token string
	// Quotas are what tokens may have that say nothing else, to be shown; the ledger
	// keeps to them.
	Quotas mailroom.Quotas
	// Hosts are the names and addresses, without port, that requests may be
	// addressed to beside the loopback ones. An unspecified address (0.0.0.0
	// or ::) stands for every IP address.
	Hosts []string
	// Origins are the further origins of web pages that may use the API beside
	// the one a request is addressed to, such as https://mail.example.org.
	Origins []string
	// TLS, if not nil, makes it speak https, also HTTP/2.
	TLS *tls.Config
	// BehindProxy lets the log say for whom a proxy forwards a request. Without
	// it nothing that a caller says of itself is logged; decisions never use it.
	BehindProxy bool
	// Agents returns the names of the agents that a submit may ask for. nil
	// allows every name.
	Agents func() []string
	// MissingAgents names the agents that could be here and are not; Describe says why.
	// Workers elsewhere may serve them. nil: there are none.
	MissingAgents func() []string
	// DescribeAgent tells more about an agent that Agents or Absent names.
	DescribeAgent func(name string) AgentInfo
	// Channels are the connections to platforms. nil: there are none.
	Channels Channels
	// Pairings are who may talk through chat platforms. nil: there are none.
	Pairings Pairings
	// Bus carries what is committed and streamed in all threads. nil: there
	// is no stream of everything.
	Bus *bus.Bus
	// Pages are plain files for browsers, by path: GET and HEAD without a token.
	Pages map[string]http.Handler
	// Protocols are other protocols over the same operations, by route: "POST /mcp".
	Protocols map[string]Protocol
	// Metrics are served at /metrics. nil: new ones, that nobody else tells
	// anything.
	Metrics *metrics.Metrics
	// Ready returns why the process does not run work, nil when it does.
	Ready   func() error
	Version string
	Log     *slog.Logger

	// Limits. 0 means the default.

	HeaderTimeout time.Duration // to send a request's header: 5 s
	BodyTimeout   time.Duration // to send a request's body: 30 s
	WriteTimeout  time.Duration // to take each piece of an answer: 15 s
	IdleTimeout   time.Duration // of a connection between requests: 2 min
	Heartbeat     time.Duration // between the comments of a stream: 10 s
	Grace         time.Duration // for requests to finish at shutdown: 10 s
	Connections   int           // open at a time: 4,096
	PerAddress    int           // open at a time from one address: 512; loopback and a proxy (BehindProxy) any number
	Bodies        int           // bytes of all request bodies under way: 64 MiB
	Unread        int           // bytes that readers of streams and sockets have not taken: 64 MiB
	TokenUnread   int           // of them those of one token: 16 MiB
	MaxHeader     int           // bytes of a request's header: 64 KiB
	MaxBody       int           // bytes of a request's body: 4 MiB, which is also the most
	MaxPage       int           // bytes of a page of a list: 4 MiB, unless its first item is larger
	MaxStreams    int           // streams and waits of one token at a time, and sockets: 256
	MaxFrame      int           // bytes of one frame from a WebSocket: MaxBody and 64 KiB
	Submits       float64       // and other writes of one token in a second, on average: 1,000; below 0 any number
	SubmitBurst   int           // of one token at once: 2,000
}

// AgentInfo is what a process knows of an agent that it declares. What is ""
// is not known.
type AgentInfo struct {
	Kind     string
	Version  string
	Program  string // version of the program behind it, in that one's words
	Problem  string // why it cannot run now
	Disabled bool   // submits to it are refused, with the problem
	// Isolation is what keeps its program from the data of this process.
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
		o.Metrics = metrics.New()
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
		{&o.MaxFrame, o.MaxBody + 64<<10}, // a submit and what is around it
		{&o.SubmitBurst, 2000},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
}

// Server is the API as an http.Handler.
type Server struct {
	// Set by New.
	options   Options
	log       *slog.Logger
	started   time.Time
	tokens    *tokenCache
	mux       *routeTable
	anonymous *grant // of who has shown no token
	cursors   cipher.AEAD
	origins   *http.CrossOriginProtection

	// closing ends with close: streams and waits end, and none begins.
	closing context.Context
	close   context.CancelFunc

	bodies       *budget    // of who is known
	publicBodies *budget    // of requests to open faces, which nobody has verified yet
	parseSlots   parseSlots // of large bodies
	backlog      *backlog   // by readers of streams and sockets

	streamSlots slots
	socketSlots slots // sockets, whatever goes on over them
	writeLimits rateLimiter
	frameLimits rateLimiter // control frames and small fragments of sockets

	// socketsMu is held while a socket comes in, and while closing ends: none
	// comes in after that.
	socketsMu sync.Mutex
	sockets   sync.WaitGroup
	rounds    rounds
}

// New makes a Server. It starts nothing.
func New(o Options) *Server {
	o.fill()
	closing, closeAll := context.WithCancel(context.Background())
	s := &Server{
		options: o, log: o.Log, started: time.Now().UTC(), tokens: newTokenCache(o.Ledger, o.Token, o.Log),
		mux: newRouteTable(), anonymous: anonymousGrant(), cursors: newCursorCipher(o.Token), origins: http.NewCrossOriginProtection(),
		closing: closing, close: closeAll,
		bodies: newBudget(int64(o.Bodies), max(workBody, int64(o.MaxFrame))), publicBodies: newBudget(int64(o.Bodies)/8, defaultBody),
		streamSlots: slots{what: "streams and waits", open: map[string]int{}},
		socketSlots: slots{what: "sockets", open: map[string]int{}},
		parseSlots:  newParseSlots(), backlog: newBacklog(o.Unread, o.TokenUnread),
		rounds:      rounds{pending: map[string]*pendingClaim{}},
		writeLimits: rateLimiter{rate: rate.Limit(o.Submits), burst: o.SubmitBurst, buckets: map[string]*rate.Limiter{}},
		frameLimits: rateLimiter{rate: tokenFrames, burst: tokenBurst, buckets: map[string]*rate.Limiter{}},
	}
	s.streamSlots.limit, s.socketSlots.limit = s.maxStreams, s.maxStreams
	for _, origin := range o.Origins {
		// What is no origin matches none: welcome has the last word anyway.
		_ = s.origins.AddTrustedOrigin(origin)
	}
	s.registerRoutes()
	return s
}

// Serve accepts connections until ctx ends; then streams and waits end first,
// other requests may finish within Options.Grace, and it returns nil. Any other
// reason to stop is an error. It closes ln, and is called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	switch err := s.tokens.refresh(ctx); {
	case err != nil && ctx.Err() != nil: // it was told to stop before it served anybody
		return ln.Close()
	case err != nil:
		return errors.Join(fmt.Errorf("read the tokens: %w", err), ln.Close())
	}
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer recovery.Log(s.log, "the keeper of tokens")
		defer close(kept)
		s.tokens.run(keeping)
	}()
	defer func() { stop(); <-kept }()
	return s.serve(ctx, ln)
}

func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	hs := s.http()
	ln = newConnLimiter(ln, s.options.Connections, s.options.PerAddress, s.options.BehindProxy)
	defer s.close()
	served := make(chan error, 1)
	go func() {
		defer recovery.Handle(s.log, "the listener", func(p *recovery.Panic) { served <- p })
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
	s.socketsMu.Lock()
	s.close()
	s.socketsMu.Unlock()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Grace)
	defer cancel()
	err := hs.Shutdown(grace)
	s.waitForSockets(grace)
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

// waitForSockets waits for the sockets, of which the http.Server knows nothing any
// more. They have begun to end, and only a request that hangs can take long.
func (s *Server) waitForSockets(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer recovery.Log(s.log, "the wait for sockets")
		s.sockets.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.log.WarnContext(ctx, "sockets cut off at shutdown")
	}
}

// http is the server of the protocol. Over HTTP/2 many requests share one
// connection, so a connection that takes nothing more has its own limit there.
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

// http2 has the limits of a connection over HTTP/2. What it queues of pings,
// settings and resets, and how many continuations a header has, net/http bounds.
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

// authorizedContext is the context of a request, which also ends when the server begins
// to shut down, and when the token of the request is no longer good: its cause
// tells. Whatever waits or goes on does so under it.
func (s *Server) authorizedContext(ctx context.Context) (context.Context, context.CancelFunc) {
	grant := requestOf(ctx).grant
	ctx, cancel := context.WithCancelCause(ctx)
	closing := context.AfterFunc(s.closing, func() { cancel(errShutdown()) })
	revoked := context.AfterFunc(grant.ctx, func() { cancel(context.Cause(grant.ctx)) })
	return ctx, func() { closing(); revoked(); cancel(nil) }
}

func errShutdown() error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the server is shutting down", RetryAfter: time.Second}
}
