package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	maxFrame     = 16 << 20         // bytes of an envelope
	writeTimeout = 10 * time.Second // for an acknowledgement
)

// socket is one WebSocket of an app, over which envelopes come.
type socket struct {
	// Set by dial.
	conn             *websocket.Conn
	client           *client
	onReceive        func()
	app              string // id of the app
	otherConnections int    // further connections of it
}

// envelope is what comes over the socket.
type envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Payload json.RawMessage `json:"payload"`
	Attempt int             `json:"retry_attempt"` // times it was sent before
	Reason  string          `json:"reason"`        // of a disconnect

	// Of a hello.
	Connections int `json:"num_connections"`
	Info        struct {
		App string `json:"app_id"`
	} `json:"connection_info"`
}

// dial opens a socket, and waits until the platform says hello. heard is called for
// each sign of life after that; nil for nothing.
func (c *client) dial(ctx context.Context, heard func()) (*socket, error) {
	const what = "open a socket"
	var where struct {
		URL string `json:"url"`
	}
	if _, err := c.call(ctx, request{op: what, method: "apps.connections.open", useAppToken: true, result: &where}); err != nil {
		return nil, err
	}
	ticket, err := url.Parse(where.URL)
	if err != nil || !c.isTrusted(ticket, "wss", "ws") {
		return nil, &transportError{op: what, reason: "the address that it is to be at is not Slack's"} // which may have a ticket in it
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if heard == nil {
		heard = func() {}
	}
	conn, answer, err := websocket.Dial(ctx, where.URL, &websocket.DialOptions{
		HTTPClient:     c.http,
		OnPingReceived: func(context.Context, []byte) bool { heard(); return true },
	})
	if answer != nil && answer.Body != nil {
		_ = answer.Body.Close() // there is nothing in it that is not in err
	}
	if err != nil {
		e := c.newTransportError(ctx, what, err, false)
		e.reason = strings.ReplaceAll(e.reason, ticket.RawQuery, "(ticket)")
		return nil, e
	}
	conn.SetReadLimit(maxFrame)
	s := &socket{conn: conn, client: c, onReceive: func() {}} // that it was opened proves nothing
	if err := s.awaitHello(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.onReceive = heard
	return s, nil
}

// awaitHello waits for the first envelope.
func (s *socket) awaitHello(ctx context.Context) error {
	e, err := s.read(ctx)
	if err != nil {
		return err
	}
	if e.Type != "hello" {
		return &transportError{op: "wait for a hello", reason: fmt.Sprintf("%q came first", e.Type)}
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
		return e, &transportError{op: "receive", reason: "an envelope is not understood: " + s.client.redact(raw)}
	}
	return e, nil
}

// acknowledge tells the platform that an envelope is not needed any more.
func (s *socket) acknowledge(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	raw, err := json.Marshal(map[string]string{"envelope_id": id})
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageText, raw)
	}
	if err != nil {
		return s.wrapError(ctx, "acknowledge an envelope", err)
	}
	return nil
}

// keepAlive pings until ctx ends, at once and then every so often. A pong is heard only
// while somebody reads.
func (s *socket) keepAlive(ctx context.Context, every time.Duration) error {
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		if err := s.conn.Ping(ctx); err != nil {
			return s.wrapError(ctx, "wait for a pong", err)
		}
		s.onReceive()
		select {
		case <-turn.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wrapError is the error of a socket that failed.
func (s *socket) wrapError(ctx context.Context, what string, err error) error {
	e := s.client.newTransportError(ctx, what, err, true)
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		e.reason = fmt.Sprintf("Slack closed the socket (%d %s)", closed.Code, s.client.redact([]byte(closed.Reason)))
	}
	return e
}

// close gives the socket back. Whoever reads from it fails.
func (s *socket) close() error {
	_ = s.conn.CloseNow() // it tells of a socket that was closed before
	return nil
}

// isTrusted reports whether an address is Slack's: one of its hosts, or the API's own.
// The scheme is the safe one but for an API without TLS.
func (c *client) isTrusted(u *url.URL, safe, plain string) bool {
	if u.User != nil {
		return false
	}
	own := strings.EqualFold(u.Host, c.base.Host)
	if c.base.Scheme == "http" {
		return own && u.Scheme == plain
	}
	return u.Scheme == safe && (own || slackHostPattern.MatchString(strings.ToLower(u.Hostname())))
}

var slackHostPattern = regexp.MustCompile(`(^|\.)slack(-gov)?\.com$`)
