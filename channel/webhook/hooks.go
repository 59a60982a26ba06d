package webhook

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel/httpcall"
	"mailroom/server"
)

const (
	// Route is the endpoint for inbound requests on the server's address.
	Route = "POST /v1/hooks/{" + pathChannel + "}"

	pathChannel    = "channel"
	maxBody        = 2 << 20 // bytes: the longest text and the fields around it
	maxHandlerWait = 30 * time.Second
	retryDelay     = 2 * time.Second // Retry-After of a request that could not be accepted
)

// Hooks routes inbound requests to the channels named in their paths.
type Hooks struct {
	// Owned by mu.
	mu          sync.Mutex
	known       map[string]bool       // channels
	connections map[route]*connection // those that are open
	hints       map[string]Hint       // by the names of channels that take hints only
}

// Hint is what a signed request to a channel that is no webhook does: it says that something has changed, and starts a
// poll. Nothing of its body is used.
type Hint struct {
	Header string // with the signature
	// Check reports whether the value of Header is the signature of the body. An error says that the secret cannot be
	// read now.
	Check func(signature string, body []byte) (bool, error)
	Poll  func()
}

// maxHint bounds the body of a hint, in bytes. An issue is in it up to twice.
const maxHint = 1 << 20

// ExpectHints declares a channel that takes hints.
func (h *Hooks) ExpectHints(name string, hint Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hints[name] = hint
}

// hintOf returns the hint of the channel named in the path.
func (h *Hooks) hintOf(r *http.Request) (hint Hint, takes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hint, takes = h.hints[r.PathValue(pathChannel)]
	return hint, takes
}

// accept starts the poll of a signed hint.
func (hint Hint) accept(r *http.Request) (Accepted, error) {
	body, err := io.ReadAll(r.Body) // the server limits it to maxHint
	if err != nil {
		return Accepted{}, unavailableError("the body is incomplete", err)
	}
	signed, err := hint.Check(r.Header.Get(hint.Header), body)
	switch {
	case err != nil:
		return Accepted{}, unavailableError("cannot read the secret of the webhook", err)
	case !signed:
		return Accepted{}, mailroom.Errorf(mailroom.CodeUnauthenticated, "the signature in %s is wrong", hint.Header)
	}
	hint.Poll()
	return Accepted{}, nil
}

// route names a connection of a channel.
type route struct {
	channel  string
	receiver bool // it only receives, see [Options.DialReceiver]
}

// NewHooks returns Hooks without channels.
func NewHooks() *Hooks {
	return &Hooks{known: map[string]bool{}, connections: map[route]*connection{}, hints: map[string]Hint{}}
}

// Expect declares a channel that may not be connected yet.
func (h *Hooks) Expect(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[name] = true
}

// Protocol returns the endpoint at [Route] for the server. It is public: the signature
// authenticates a request.
func (h *Hooks) Protocol() server.Protocol {
	return server.Protocol{
		Via: Kind, Name: "post-hook", Summary: "Send a message to a webhook channel, signed with its secret", Public: true,
		Admit: h.admit, Headers: httpcall.SignatureHeaders(), Status: http.StatusAccepted,
		RequestType: reflect.TypeFor[Inbound](), ResponseType: reflect.TypeFor[Accepted](),
		Answer:  func(r *http.Request) (any, error) { return h.receive(r) },
		MaxBody: maxBody, Bounds: fieldLimits(),
		Parameters: map[string]string{"channel": "Name of a webhook channel in the configuration of the server."},
	}
}

// register routes the requests of a channel to c.
func (h *Hooks) register(at route, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[at.channel] = true
	h.connections[at] = c
}

// unregister stops routing requests to c.
func (h *Hooks) unregister(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connections[c.route] == c {
		delete(h.connections, c.route)
	}
}

// lookup returns the channel's connection, or else its connection that only receives. c is nil if there is neither.
func (h *Hooks) lookup(name string) (c *connection, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.connections[route{channel: name}], h.connections[route{channel: name, receiver: true}]), h.known[name]
}

// connectionFor returns the connection of the channel named in the path.
func (h *Hooks) connectionFor(r *http.Request) (*connection, error) {
	c, known := h.lookup(r.PathValue(pathChannel))
	switch {
	case !known:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "unknown %s channel", Kind)
	case c == nil:
		return nil, unavailableError("the channel is not connected", nil)
	}
	return c, nil
}

// admit rejects a request before its body is read if the channel is unknown or not connected, or if
// the signature is missing or expired.
func (h *Hooks) admit(r *http.Request) (limit int64, err error) {
	if hint, takes := h.hintOf(r); takes {
		if r.Header.Get(hint.Header) == "" {
			return 0, mailroom.Errorf(mailroom.CodeUnauthenticated, "missing %s: set the secret of the webhook", hint.Header)
		}
		return maxHint, nil
	}
	if _, err := h.connectionFor(r); err != nil {
		return 0, err
	}
	return maxBody, httpcall.CheckSignatureHeader(r.Header, time.Now())
}

// Accepted is the response to an accepted request.
type Accepted struct {
	Message string `json:"message" doc:"The webhook-id. Edits, deletes and replies refer to it."`
	Answer  string `json:"answer,omitempty" doc:"Result of a pressed button, to be shown to the user."`
}

// receive processes a request and returns when the result is durable. A repeated request gets the
// same response. Its errors have the codes Unauthenticated, Invalid, TooLarge, NotFound, and
// Unavailable if the sender should retry.
func (h *Hooks) receive(r *http.Request) (Accepted, error) {
	if hint, takes := h.hintOf(r); takes {
		return hint.accept(r)
	}
	c, err := h.connectionFor(r)
	if err != nil {
		return Accepted{}, err
	}
	body, err := io.ReadAll(r.Body) // the server limits it to what admit returned
	if err != nil {
		return Accepted{}, unavailableError("the body is incomplete", err)
	}
	keys, err := c.options.secrets()
	if err != nil {
		c.host.ReportError(err)
		return Accepted{}, unavailableError("cannot read the channel's secret", err)
	}
	id, err := keys.Verify(r.Header, body, time.Now())
	if err != nil {
		return Accepted{}, err
	}
	if len(body) > 0 {
		if err := server.CheckJSON(body); err != nil {
			return Accepted{}, err
		}
	}
	c.host.Received()
	p := inboundPost{result: make(chan outcome, 1)}
	if p.event, err = parseEvent(id, body); err != nil {
		return Accepted{}, err
	}
	answer, err := c.submit(r.Context(), p)
	return Accepted{Message: id, Answer: answer}, err
}

// submit passes an event to Receive and waits for the result.
func (c *connection) submit(ctx context.Context, p inboundPost) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxHandlerWait)
	defer cancel()
	select {
	case c.posts <- p:
	case <-c.ctx.Done():
		return "", unavailableError("the channel is not connected", nil)
	case <-ctx.Done():
		return "", unavailableError("too many requests are waiting", ctx.Err())
	}
	var result outcome
	select {
	case result = <-p.result:
	case <-ctx.Done():
		result.err = ctx.Err()
	case <-c.ctx.Done():
		select {
		case result = <-p.result: // finished before the channel ended
		default:
			result.err = errors.New("the channel ended")
		}
	}
	if result.err != nil {
		return "", unavailableError("the outcome is unknown: repeat the request with the same "+httpcall.HeaderID, result.err)
	}
	return result.answer, nil
}

// unavailableError asks the sender to repeat the request.
func unavailableError(message string, cause error) error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: message, RetryAfter: retryDelay, Cause: cause}
}
