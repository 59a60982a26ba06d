// Package ws serves WebSockets. A frame becomes a request to the server's own handlers, and a
// subscription is a stream of the server whose events go to the socket, so a socket follows the
// same rules as a request. It is a package of its own because it has a protocol with frames, limits and a life of its
// own, and needs of the server only what [Host] has.
package ws

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/stream"
)

// Host is the part of a server that its sockets use.
type Host interface {
	http.Handler // serves the requests that frames stand for
	// Caller returns the grant of the request that ctx belongs to.
	Caller(ctx context.Context) *Grant
	// Authenticate returns the grant of the token in a header Authorization, for a socket that
	// upgrade opened.
	Authenticate(upgrade *http.Request, header string) (*Grant, error)
	// Authorize derives a context that also ends when the server shuts down and when the caller's
	// token is revoked. context.Cause returns which.
	Authorize(ctx context.Context) (context.Context, context.CancelFunc)
	// Hold counts a socket of a token, or refuses it.
	Hold(token string) (release func(), err error)
	// Refuse writes the refusal of a frame. caller is nil before the socket is authenticated.
	Refuse(w http.ResponseWriter, upgrade *http.Request, caller *Grant, err error)
	// Problem makes the problem for an error and records both for the log line of the request.
	// retryAfter is in seconds; 0: none.
	Problem(ctx context.Context, err error) (p api.Problem, retryAfter int)
	// RecordPanic records a panic for the log line of the request that ctx belongs to.
	RecordPanic(ctx context.Context, cause error)
	// Run returns a run that is visible to the caller.
	Run(ctx context.Context, id string) (api.Run, error)
}

// Grant is a valid token.
type Grant struct {
	Token *auth.Token
	Valid context.Context // ends when the token is revoked; its cause says so
}

// Options configure Sockets. All are required.
type Options struct {
	Host    Host
	Closing context.Context // ends when the server shuts down
	Bodies  *request.Budget // budget of the frames in memory
	Backlog *request.Backlog
	Log     *slog.Logger

	HeaderTimeout time.Duration // longest time for a client to send its token
	BodyTimeout   time.Duration // longest time for a client to send a frame
	WriteTimeout  time.Duration // longest time for a client to read a frame
	Heartbeat     time.Duration // interval of pings
	MaxFrame      int           // bytes of a frame from a client
}

// Sockets serves the sockets of a server.
type Sockets struct {
	options Options
	frames  *request.Rates // control frames and small fragments, per token
}

// New makes Sockets. It starts no goroutine.
func New(o Options) *Sockets {
	return &Sockets{options: o, frames: request.NewRates(tokenFrames, tokenBurst)}
}

// Sink receives the events of a stream: the response to a client, or a subscription.
type Sink interface {
	// SendEvent sends one event of a thread.
	SendEvent(stream.Event) error
	// SendAll sends one event of the stream of all threads.
	SendAll(stream.AllEvent) error
}

// Start says where a stream begins.
type Start struct {
	Query stream.Query // zero for the stream of all threads
	After string       // the reader's position
	Ack   bool         // the acknowledgement of a subscription has After, which the client does not know
}
