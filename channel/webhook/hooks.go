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

	pathChannel = "channel"
	mostBody    = 2 << 20 // bytes: a text of the most that is taken, and what is around it
	mostWait    = 30 * time.Second
	again       = 2 * time.Second // when to post again what could not be taken
)

// Hooks are where requests come in: it hands each to the channel that its path names.
type Hooks struct {
	// Owned by mu.
	mu   sync.Mutex
	open map[string]*connection // by channel; nil: it is not connected
}

// NewHooks makes one.
func NewHooks() *Hooks { return &Hooks{open: map[string]*connection{}} }

// Expect says that there is a channel, which may not be connected yet.
func (h *Hooks) Expect(name string) { h.enter(name, nil) }

// Protocol is how a server has it, at [Route]. It is for anybody: a request is of who could
// sign it.
func (h *Hooks) Protocol() server.Protocol {
	return server.Protocol{
		Via: Kind, Name: "post-hook", Summary: "Say something on a channel of kind webhook, signed with its secret", Public: true,
		Admit: h.admit, Headers: Headers(), Status: http.StatusAccepted, RequestType: reflect.TypeFor[Inbound](), ResponseType: reflect.TypeFor[Accepted](),
		Answer:  func(r *http.Request) (any, error) { return h.take(r) },
		MaxBody: mostBody, Bounds: bounds(),
	}
}

// enter has the requests for a channel go to c.
func (h *Hooks) enter(name string, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[name] = c
}

// leave ends that, unless they go to another already.
func (h *Hooks) leave(name string, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[name] == c {
		h.open[name] = nil
	}
}

func (h *Hooks) find(name string) (c *connection, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, known = h.open[name]
	return c, known
}

// connected returns the connection of the channel that the path names.
func (h *Hooks) connected(r *http.Request) (*connection, error) {
	c, known := h.find(r.PathValue(pathChannel))
	switch {
	case !known:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel of kind %s has this name", Kind)
	case c == nil:
		return nil, later("the channel is not connected", nil)
	}
	return c, nil
}

// admit refuses, before its body is read, a request that no channel can take: its
// channel is unknown or not connected, or its signature is missing or out of date.
func (h *Hooks) admit(r *http.Request) (limit int64, err error) {
	if _, err := h.connected(r); err != nil {
		return 0, err
	}
	_, err = readSeal(r.Header, time.Now())
	return mostBody, err
}

// Accepted is what a request is answered with once it was taken in.
type Accepted struct {
	Message string `json:"message" doc:"The webhook-id: by it the message is edited and deleted, and answered."`
	Answer  string `json:"answer,omitempty" doc:"What came of a button that was pressed, for who pressed it."`
}

// take takes a request in, and returns when that is durable. A repeat is answered as
// the first one was. Its errors have the codes of [mailroom.Error]: Unauthenticated,
// Invalid, TooLarge, NotFound, and Unavailable if it is to be posted again.
func (h *Hooks) take(r *http.Request) (Accepted, error) {
	c, err := h.connected(r)
	if err != nil {
		return Accepted{}, err
	}
	body, err := io.ReadAll(r.Body) // which the server has bounded as admit said
	if err != nil {
		return Accepted{}, later("the body broke off", err)
	}
	keys, err := c.options.secrets()
	if err != nil {
		c.link.ReportError(err)
		return Accepted{}, later("the channel's secret cannot be read", err)
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
	c.link.Received()
	p := post{taken: make(chan outcome, 1)}
	if p.event, err = read(id, body); err != nil {
		return Accepted{}, err
	}
	answer, err := c.hand(r.Context(), p)
	return Accepted{Message: id, Answer: answer}, err
}

// hand has an event taken by Receive, and waits for what becomes of it.
func (c *connection) hand(ctx context.Context, p post) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	select {
	case c.posts <- p:
	case <-c.life.Done():
		return "", later("the channel is not connected", nil)
	case <-ctx.Done():
		return "", later("others go first", ctx.Err())
	}
	var became outcome
	select {
	case became = <-p.taken:
	case <-ctx.Done():
		became.err = ctx.Err()
	case <-c.life.Done():
		select {
		case became = <-p.taken: // before the end
		default:
			became.err = errors.New("the channel ended meanwhile")
		}
	}
	if became.err != nil {
		return "", later("nobody knows yet whether it was taken: post it again with the same "+headerID, became.err)
	}
	return became.answer, nil
}

// later asks for the same request once more.
func later(why string, cause error) error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: why, RetryAfter: again, Cause: cause}
}
