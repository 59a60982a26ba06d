package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"mailroom"
	"mailroom/server"
)

const (
	// Route is where requests come in, on the server's own address.
	Route = "POST /v1/hooks/{" + pathChannel + "}"

	pathChannel    = "channel"
	maxBody        = 2 << 20 // bytes: a text of the most that is taken, and what is around it
	maxHandlerWait = 30 * time.Second
	retryDelay     = 2 * time.Second // when to post again what could not be taken
)

// Hooks are where requests come in: it hands each to the channel that its path names.
type Hooks struct {
	// Owned by mu.
	mu          sync.Mutex
	connections map[string]*connection // by channel; nil: it is not connected
}

// NewHooks makes one.
func NewHooks() *Hooks { return &Hooks{connections: map[string]*connection{}} }

// Expect says that there is a channel, which may not be connected yet.
func (h *Hooks) Expect(name string) { h.register(name, nil) }

// Protocol is how a server has it, at [Route]. It is for anybody: a request is of who could
// sign it.
func (h *Hooks) Protocol() server.Protocol {
	return server.Protocol{
		Via: Kind, Name: "post-hook", Summary: "Say something on a channel of kind webhook, signed with its secret", Public: true,
		Admit: h.admit, Headers: Headers(), Status: http.StatusAccepted, RequestType: reflect.TypeFor[Inbound](), ResponseType: reflect.TypeFor[Accepted](),
		Answer:  func(r *http.Request) (any, error) { return h.receive(r) },
		MaxBody: maxBody, Bounds: fieldLimits(),
	}
}

// register has the requests for a channel go to c.
func (h *Hooks) register(name string, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connections[name] = c
}

// unregister ends that, unless they go to another already.
func (h *Hooks) unregister(name string, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connections[name] == c {
		h.connections[name] = nil
	}
}

func (h *Hooks) lookup(name string) (c *connection, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, known = h.connections[name]
	return c, known
}

// connectionFor returns the connection of the channel that the path names.
func (h *Hooks) connectionFor(r *http.Request) (*connection, error) {
	c, known := h.lookup(r.PathValue(pathChannel))
	switch {
	case !known:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel of kind %s has this name", Kind)
	case c == nil:
		return nil, unavailableError("the channel is not connected", nil)
	}
	return c, nil
}

// admit refuses, before its body is read, a request that no channel can take: its
// channel is unknown or not connected, or its signature is missing or out of date.
func (h *Hooks) admit(r *http.Request) (limit int64, err error) {
	if _, err := h.connectionFor(r); err != nil {
		return 0, err
	}
	_, err = parseSignatureHeader(r.Header, time.Now())
	return maxBody, err
}

// Accepted is what a request is answered with once it was taken in.
type Accepted struct {
	Message string `json:"message" doc:"The webhook-id: by it the message is edited and deleted, and answered."`
	Answer  string `json:"answer,omitempty" doc:"What came of a button that was pressed, for who pressed it."`
}

// receive takes a request in, and returns when that is durable. A repeat is answered as
// the first one was. Its errors have the codes of [mailroom.Error]: Unauthenticated,
// Invalid, TooLarge, NotFound, and Unavailable if it is to be posted again.
func (h *Hooks) receive(r *http.Request) (Accepted, error) {
	c, err := h.connectionFor(r)
	if err != nil {
		return Accepted{}, err
	}
	body, err := io.ReadAll(r.Body) // which the server has bounded as admit said
	if err != nil {
		return Accepted{}, unavailableError("the body broke off", err)
	}
	keys, err := c.options.secrets()
	if err != nil {
		c.host.ReportError(err)
		return Accepted{}, unavailableError("the channel's secret cannot be read", err)
	}
	id, err := keys.verify(r.Header, body, time.Now())
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

// submit has an event taken by Receive, and waits for what becomes of it.
func (c *connection) submit(ctx context.Context, p inboundPost) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxHandlerWait)
	defer cancel()
	select {
	case c.posts <- p:
	case <-c.ctx.Done():
		return "", unavailableError("the channel is not connected", nil)
	case <-ctx.Done():
		return "", unavailableError("others go first", ctx.Err())
	}
	var became outcome
	select {
	case became = <-p.result:
	case <-ctx.Done():
		became.err = ctx.Err()
	case <-c.ctx.Done():
		select {
		case became = <-p.result: // before the end
		default:
			became.err = errors.New("the channel ended meanwhile")
		}
	}
	if became.err != nil {
		return "", unavailableError("nobody knows yet whether it was taken: post it again with the same "+headerID, became.err)
	}
	return became.answer, nil
}

// unavailableError asks for the same request once more.
func unavailableError(why string, cause error) error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: why, RetryAfter: retryDelay, Cause: cause}
}
