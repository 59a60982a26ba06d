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
	maxFrame  = 16 << 20         // bytes of an envelope
	writeTime = 10 * time.Second // for an acknowledgement
)

// socket is one WebSocket of an app, over which envelopes come.
type socket struct {
	// Set by dial.
	conn   *websocket.Conn
	client *client
	heard  func()
	app    string // id of the app
	others int    // further connections of it
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
	if _, err := c.call(ctx, call{what: what, method: "apps.connections.open", app: true, out: &where}); err != nil {
		return nil, err
	}
	ticket, err := url.Parse(where.URL)
	if err != nil || !c.trusts(ticket, "wss", "ws") {
		return nil, &lost{what: what, why: "the address that it is to be at is not Slack's"} // which may have a ticket in it
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
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
		e := c.away(ctx, what, err, false)
		e.why = strings.ReplaceAll(e.why, ticket.RawQuery, "(ticket)")
		return nil, e
	}
	conn.SetReadLimit(maxFrame)
	s := &socket{conn: conn, client: c, heard: func() {}} // that it was opened proves nothing
	if err := s.hello(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.heard = heard
	return s, nil
}

// hello waits for the first envelope.
func (s *socket) hello(ctx context.Context) error {
	e, err := s.read(ctx)
	if err != nil {
		return err
	}
	if e.Type != "hello" {
		return &lost{what: "wait for a hello", why: fmt.Sprintf("%q came first", e.Type)}
	}
	s.app, s.others = e.Info.App, max(e.Connections-1, 0)
	return nil
}

// read waits for an envelope.
func (s *socket) read(ctx context.Context) (e envelope, err error) {
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		return e, s.failed(ctx, "receive", err)
	}
	s.heard()
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, &lost{what: "receive", why: "an envelope is not understood: " + s.client.quote(raw)}
	}
	return e, nil
}

// acknowledge tells the platform that an envelope is not needed any more.
func (s *socket) acknowledge(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	raw, err := json.Marshal(map[string]string{"envelope_id": id})
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageText, raw)
	}
	if err != nil {
		return s.failed(ctx, "acknowledge an envelope", err)
	}
	return nil
}

// ask pings until ctx ends, at once and then every so often. A pong is heard only
// while somebody reads.
func (s *socket) ask(ctx context.Context, every time.Duration) error {
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		if err := s.conn.Ping(ctx); err != nil {
			return s.failed(ctx, "wait for a pong", err)
		}
		s.heard()
		select {
		case <-turn.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failed is the error of a socket that failed.
func (s *socket) failed(ctx context.Context, what string, err error) error {
	e := s.client.away(ctx, what, err, true)
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		e.why = fmt.Sprintf("Slack closed the socket (%d %s)", closed.Code, s.client.quote([]byte(closed.Reason)))
	}
	return e
}

// close gives the socket back. Whoever reads from it fails.
func (s *socket) close() error {
	_ = s.conn.CloseNow() // it tells of a socket that was closed before
	return nil
}

// trusts reports whether an address is Slack's: one of its hosts, or the API's own.
// The scheme is the safe one but for an API without TLS.
func (c *client) trusts(u *url.URL, safe, plain string) bool {
	if u.User != nil {
		return false
	}
	own := strings.EqualFold(u.Host, c.base.Host)
	if c.base.Scheme == "http" {
		return own && u.Scheme == plain
	}
	return u.Scheme == safe && (own || slackHost.MatchString(strings.ToLower(u.Hostname())))
}

var slackHost = regexp.MustCompile(`(^|\.)slack(-gov)?\.com$`)
