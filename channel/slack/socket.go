package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
)

const (
	maxFrame     = 16 << 20         // bytes of an envelope
	writeTimeout = 10 * time.Second // timeout of an acknowledgement
)

// socket is a WebSocket of an app, which delivers envelopes.
type socket struct {
	// Set by dial.
	conn             *websocket.Conn
	client           *client
	onReceive        func()
	app              string // app id
	otherConnections int    // open connections of the app besides this one
}

// envelope is a message of the socket.
type envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Payload json.RawMessage `json:"payload"`
	Attempt int             `json:"retry_attempt"` // earlier deliveries
	Reason  string          `json:"reason"`        // reason of a disconnect message

	// The fields below are for messages of type hello.
	Connections int `json:"num_connections"`
	Info        struct {
		App string `json:"app_id"`
	} `json:"connection_info"`
}

// dial opens a socket and waits for hello. After that it calls onReceive for each sign of life.
// onReceive may be nil.
func (c *client) dial(ctx context.Context, onReceive func()) (*socket, error) {
	const op = "open socket"
	var endpoint struct {
		URL string `json:"url"`
	}
	if _, err := c.call(ctx, request{op: op, method: "apps.connections.open", useAppToken: true,
		result: &endpoint}); err != nil {
		return nil, err
	}
	ticket, err := url.Parse(endpoint.URL)
	if err != nil || !c.isTrusted(ticket, "wss", "ws") {
		// the URL is not quoted: it may contain a ticket
		return nil, &httpcall.TransportError{Op: op, Reason: "its URL is not on a Slack host"}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if onReceive == nil {
		onReceive = func() {}
	}
	conn, resp, err := websocket.Dial(ctx, endpoint.URL, &websocket.DialOptions{
		HTTPClient:     c.http.HTTP(),
		OnPingReceived: func(context.Context, []byte) bool { onReceive(); return true },
	})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // err holds the status
	}
	if err != nil {
		e := c.http.TransportError(ctx, op, err, false)
		e.Reason = strings.ReplaceAll(e.Reason, ticket.RawQuery, "(ticket)")
		return nil, e
	}
	conn.SetReadLimit(maxFrame)
	s := &socket{conn: conn, client: c, onReceive: func() {}} // an open socket proves nothing before hello
	if err := s.awaitHello(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.onReceive = onReceive
	return s, nil
}

// awaitHello reads the first envelope, which must be a hello.
func (s *socket) awaitHello(ctx context.Context) error {
	e, err := s.read(ctx)
	if err != nil {
		return err
	}
	if e.Type != "hello" {
		return &httpcall.TransportError{Op: "open socket", Reason: fmt.Sprintf("expected hello, got %q", e.Type)}
	}
	s.app, s.otherConnections = e.Info.App, max(e.Connections-1, 0)
	return nil
}

// read waits for an envelope.
func (s *socket) read(ctx context.Context) (e envelope, err error) {
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		return e, s.wrapError(ctx, "receive", err)
	}
	s.onReceive()
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, &httpcall.TransportError{Op: "receive", Reason: "unreadable envelope: " + s.client.http.Redact(raw)}
	}
	return e, nil
}

// acknowledge acknowledges an envelope.
func (s *socket) acknowledge(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	raw, err := json.Marshal(map[string]string{"envelope_id": id})
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageText, raw)
	}
	if err != nil {
		return s.wrapError(ctx, "acknowledge envelope", err)
	}
	return nil
}

// keepAlive pings at once and then in each interval, until ctx ends. A pong arrives only while
// the socket is read.
func (s *socket) keepAlive(ctx context.Context, every time.Duration) error {
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		if err := s.conn.Ping(ctx); err != nil {
			return s.wrapError(ctx, "ping", err)
		}
		s.onReceive()
		select {
		case <-turn.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wrapError describes an error of the socket.
func (s *socket) wrapError(ctx context.Context, op string, err error) error {
	e := s.client.http.TransportError(ctx, op, err, true)
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		e.Reason = fmt.Sprintf("Slack closed the socket (%d %s)", closed.Code, s.client.http.Redact([]byte(closed.Reason)))
	}
	return e
}

// close closes the socket, so that reads from it fail. It returns nil, because the socket may be closed already,
// which is no error.
func (s *socket) close() error {
	_ = s.conn.CloseNow()
	return nil
}

// isTrusted reports whether a URL is on a Slack host or on the host of the API. The scheme must
// be safe, or plain if the API itself is without TLS.
func (c *client) isTrusted(u *url.URL, safe, plain string) bool {
	if u.User != nil {
		return false
	}
	own := strings.EqualFold(u.Host, c.base.Host)
	if c.base.Scheme == "http" {
		return own && u.Scheme == plain
	}
	return u.Scheme == safe && (own || slackHostPattern().MatchString(strings.ToLower(u.Hostname())))
}

var slackHostPattern = lazyregexp.New(`(^|\.)slack(-gov)?\.com$`)
