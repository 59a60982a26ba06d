package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/server/operate"
)

// Options configure a Server. Ledger, Streams and Access.Token are required; the zero value of any other
// field means its default.
type Options struct {
	Ledger  Ledger // see PartsOf
	Streams Streams
	// Bus carries the commits and live text of all threads. nil disables the stream of all threads.
	Bus *bus.Bus
	// Shared says that other servers may use the store at the same time.
	Shared bool

	Access Access
	Agents Agents
	Parts  Parts
	Limits Limits

	// Ready returns an error while the process cannot run work.
	Ready   func() error
	Version string
	Log     *slog.Logger
}

// Access says who may use a server, and how clients reach it.
type Access struct {
	// Token is the operator's secret: its bearer acts as [auth.Operator]. With "" only the
	// tokens of accounts work.
	Token string
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
}

// Agents say which agents a process knows. Remote workers may serve further ones.
type Agents struct {
	// Names returns the names of the agents that a submit may name. nil allows every name.
	Names func() []string
	// Missing returns the names of agents that this process knows but cannot run; Describe gives the reason. Remote
	// workers may serve them. If it is nil, there are no such agents.
	Missing func() []string
	// Describe returns details of an agent that Names or Missing names.
	Describe func(name string) AgentInfo
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

// Parts are the parts that a server may have or lack.
type Parts struct {
	// Channels are the connections to chat and other platforms. nil: none.
	Channels Channels
	// Pairings are the users that may use chat channels. nil: none.
	Pairings Pairings
	// Alerts are the targets and rules of alerts. nil: none.
	Alerts *operate.Alerts
	// Issues returns the issues of the tracker. nil: no tracker.
	Issues func(context.Context) (api.IssueBoard, error)
	// NoSearch says that messages are not indexed, so the server refuses a search.
	NoSearch bool
	// Label is the metadata key by whose values the ledger sums up ended runs; "": none.
	Label string
	// Metrics are served at /metrics. nil: a private set that only the server updates.
	Metrics *operate.Metrics
	// Pages are static files for browsers, by path. GET and HEAD need no token.
	Pages map[string]http.Handler
	// Page returns the handler of a page that is rendered here, as Pages serve theirs. nil: there is no /docs/api.
	Page func(html []byte) http.Handler
	// Protocols are further protocols over the same operations, by route such as "POST /mcp".
	Protocols map[string]Protocol
}

// Limits bound what connections, requests and tokens take. 0 means the default.
type Limits struct {
	HeaderTimeout time.Duration // for a client to send a request's header: 5 s
	BodyTimeout   time.Duration // for a client to send a request's body: 30 s
	WriteTimeout  time.Duration // for a client to read each piece of a response: 15 s
	IdleTimeout   time.Duration // of a connection between two requests: 2 min
	Heartbeat     time.Duration // interval of a stream's comments and a socket's pings: 10 s
	Grace         time.Duration // for requests to finish at shutdown: 10 s
	Commands      time.Duration // for an agent of the server to carry out a request: 10 s
	Connections   int           // open connections: 4,096
	PerAddress    int           // open connections from one address: 512; no limit for loopback and with BehindProxy
	Bodies        int           // bytes of all request bodies in memory: 64 MiB
	Unread        int           // bytes sent to streams and sockets and not read yet: 64 MiB
	TokenUnread   int           // bytes of Unread for one token: 16 MiB
	MaxHeader     int           // bytes of a request's header: 64 KiB
	MaxBody       int           // bytes of a request's body: 4 MiB, which is also the largest value
	MaxPage       int           // bytes of a page of a list: 4 MiB; a larger first item is returned alone
	MaxStreams    int           // open streams and waits of one token, and as many sockets: 256
	MaxFrame      int           // bytes of one WebSocket frame from a client: MaxBody and 64 KiB
	Submits       float64       // submits and other writes of one token per second: 1,000; negative: no limit
	SubmitBurst   int           // writes that a token may make at once, above the rate Submits: 2,000
}

func (o *Options) fill() {
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Agents.Missing == nil {
		o.Agents.Missing = func() []string { return nil }
	}
	if o.Agents.Describe == nil {
		o.Agents.Describe = func(string) AgentInfo { return AgentInfo{} }
	}
	if o.Parts.Metrics == nil {
		o.Parts.Metrics = operate.NewMetrics()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits.fill()
}

func (l *Limits) fill() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&l.HeaderTimeout, 5 * time.Second},
		{&l.BodyTimeout, 30 * time.Second},
		{&l.WriteTimeout, 15 * time.Second},
		{&l.IdleTimeout, 2 * time.Minute},
		{&l.Heartbeat, 10 * time.Second},
		{&l.Grace, 10 * time.Second},
		{&l.Commands, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	if l.Submits == 0 {
		l.Submits = 1000
	}
	if l.MaxBody == 0 || l.MaxBody > defaultBody {
		l.MaxBody = defaultBody
	}
	for _, d := range []struct {
		value *int
		unset int
	}{
		{&l.Connections, 4096},
		{&l.PerAddress, 512},
		{&l.Bodies, 64 << 20},
		{&l.Unread, 64 << 20},
		{&l.TokenUnread, 16 << 20},
		{&l.MaxHeader, 64 << 10},
		{&l.MaxPage, mailroom.MaxPage},
		{&l.MaxStreams, 256},
		{&l.MaxFrame, l.MaxBody + 64<<10}, // a submit and its envelope
		{&l.SubmitBurst, 2000},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
}
