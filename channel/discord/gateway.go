package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/coder/websocket"

	"mailroom/channel/httpcall"
)

// Gateway opcodes.
const (
	opEvent     = 0
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
	opReconnect = 7
	opInvalid   = 9
	opHello     = 10
	opAck       = 11
)

// Intents: guilds, guild messages, direct messages, and message content.
const intents = 1<<0 | 1<<9 | 1<<12 | 1<<15

const (
	maxFrame     = 64 << 20 // bytes: a large server is described in one frame
	writeTimeout = 10 * time.Second
	// reservedStarts are the session starts kept back for a day with failures: Discord resets
	// the token of a bot that uses up its limit.
	reservedStarts = 10
	// identifyRetry is the pause after a rejected session: one may start every 5 s.
	identifyRetry = 5 * time.Second
)

// frame is one message of the gateway.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  int64           `json:"s"` // sequence number of an event
	Type string          `json:"t"` // type of an event
}

// gatewayCloseError is a close frame of the gateway.
type gatewayCloseError struct {
	code   int
	reason string // redacted
}

func (e *gatewayCloseError) Error() string {
	return fmt.Sprintf("Discord closed the connection (%d %s)", e.code, e.reason)
}

// startLimitError reports that no session may start for a while.
type startLimitError struct {
	left  int
	after time.Duration
}

// Pause implements [httpcall.Pauser].
func (e *startLimitError) Pause() (time.Duration, bool) { return e.after, false }

func (e *startLimitError) Error() string {
	return fmt.Sprintf("only %d session starts are left until Discord resets the limit", e.left)
}

var (
	errInvalid   = errors.New("the session is no longer valid")
	errReconnect = errors.New("reconnect requested by Discord")
	errZombie    = errors.New("heartbeat not acknowledged by Discord: the connection is dead")
)

// socket is the WebSocket of one connection.
type socket struct {
	conn   *websocket.Conn
	client *client
}

// dial opens a socket to a gateway URL.
func (c *client) dial(ctx context.Context, at string) (*socket, error) {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "wss" && (u.Scheme != "ws" || c.base.Scheme != "http") {
		return nil, &httpcall.TransportError{Op: "connect to gateway",
			Reason: fmt.Sprintf("invalid gateway URL %q", c.http.Redact([]byte(at)))}
	}
	u.RawQuery = "v=10&encoding=json"
	conn, _, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPClient: c.http.HTTP(), HTTPHeader: http.Header{"User-Agent": {c.agent}},
	})
	if err != nil {
		return nil, &httpcall.TransportError{Op: "connect to gateway", Reason: c.http.ErrorText(err), Cause: ctx.Err()}
	}
	conn.SetReadLimit(maxFrame)
	return &socket{conn: conn, client: c}, nil
}

// read waits for a frame. After an error the socket is unusable.
func (s *socket) read(ctx context.Context) (*frame, error) {
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		if end, ok := errors.AsType[websocket.CloseError](err); ok {
			return nil, &gatewayCloseError{code: int(end.Code), reason: s.client.http.Redact([]byte(end.Reason))}
		}
		return nil, &httpcall.TransportError{Op: "connection lost", Reason: s.client.http.ErrorText(err), Cause: ctx.Err()}
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, &httpcall.TransportError{Op: "receive", Reason: "unreadable frame: " + s.client.http.ErrorText(err)}
	}
	return &f, nil
}

// write sends a frame.
func (s *socket) write(ctx context.Context, op int, data any) error {
	raw, err := json.Marshal(map[string]any{"op": op, "d": data})
	if err != nil {
		return &httpcall.TransportError{Op: "write to gateway", Reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		return &httpcall.TransportError{Op: "write to gateway", Reason: s.client.http.ErrorText(err), Cause: ctx.Err()}
	}
	return nil
}

// close closes the socket without a closing handshake, which would end the session.
func (s *socket) close() {
	_ = s.conn.CloseNow() // the connection may be closed already
}

// connect resumes the session, or starts one. The session is kept while Discord cannot be
// reached at all.
func (c *connection) connect(ctx context.Context) error {
	if s, ok := c.shared.resumable(c.client.token); ok {
		err := c.handshake(ctx, s.url, opResume, map[string]any{"token": c.client.token, "session_id": s.id, "seq": s.seq})
		if err == nil {
			c.session, c.bot = s, s.bot
			c.lastSeq.Store(s.seq)
			return nil
		}
		if errors.Is(err, errInvalid) || isStaleSession(err) {
			c.shared.invalidate(time.Now())
		} else if !c.shared.giveUpResume() {
			return err
		}
		c.host.Log().Info("session not resumed; starting a new one", "error", err)
	}
	at, err := c.client.gatewayURL(ctx)
	if err != nil {
		return err
	}
	c.shared.dropSession()
	if err := c.shared.awaitIdentify(ctx); err != nil {
		return &httpcall.TransportError{Op: "start session", Reason: "request cancelled", Cause: err}
	}
	err = c.handshake(ctx, at, opIdentify, map[string]any{
		"token": c.client.token, "intents": intents,
		"properties": map[string]string{"os": runtime.GOOS, "browser": "mailroom", "device": "mailroom"},
	})
	if errors.Is(err, errInvalid) {
		return &startLimitError{after: identifyRetry}
	}
	if err != nil {
		return err
	}
	if err := c.onReady(c.firstEvent); err != nil {
		c.socket.close()
		return err
	}
	return nil
}

// isStaleSession reports whether the gateway closed the connection because the session is no
// longer valid.
func isStaleSession(err error) bool {
	e, ok := errors.AsType[*gatewayCloseError](err)
	return ok && (e.code == 4007 || e.code == 4009)
}

// identifyPause returns the pause between an Invalid Session and the next Identify: Discord
// requires "a random amount of time, between 1 and 5 seconds" (Gateway, Resuming, in
// https://github.com/discord/discord-api-docs, docs/topics/Gateway.md). random is from 0 to 1.
func identifyPause(random float64) time.Duration {
	return time.Second + time.Duration(random*float64(4*time.Second))
}

// gatewayURL returns the gateway's URL. It returns a startLimitError if no session may start.
func (c *client) gatewayURL(ctx context.Context) (string, error) {
	var got struct {
		URL   string `json:"url"`
		Limit *struct {
			Total     int     `json:"total"`
			Remaining int     `json:"remaining"`
			Reset     float64 `json:"reset_after"` // milliseconds
		} `json:"session_start_limit"`
	}
	if err := c.call(ctx, request{op: "get gateway", path: "/gateway/bot", result: &got}); err != nil {
		return "", err
	}
	if l := got.Limit; l != nil && l.Remaining <= min(reservedStarts, l.Total/10) {
		return "", &startLimitError{left: l.Remaining, after: max(httpcall.Seconds(l.Reset/1000), identifyRetry)}
	}
	return got.URL, nil
}

// handshake opens a socket and sends Identify or Resume. It returns after the first event,
// which is kept for the loop: READY, or the first missed event.
func (c *connection) handshake(ctx context.Context, at string, op int, payload any) (err error) {
	s, err := c.client.dial(ctx, at)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for identified := false; ; {
		f, err := s.read(ctx)
		if err != nil {
			return err
		}
		switch f.Op {
		case opHello:
			var hello struct {
				Interval float64 `json:"heartbeat_interval"` // milliseconds
			}
			if err := json.Unmarshal(f.Data, &hello); err != nil || hello.Interval <= 0 {
				return &httpcall.TransportError{Op: "connect to gateway", Reason: "unreadable hello frame"}
			}
			c.heartbeatInterval = min(httpcall.Seconds(hello.Interval/1000), c.options.Heartbeat)
			if err := s.write(ctx, op, payload); err != nil {
				return err
			}
			identified = true
		case opHeartbeat:
			if err := s.write(ctx, opHeartbeat, nil); err != nil {
				return err
			}
		case opReconnect:
			return errReconnect
		case opInvalid:
			return errInvalid
		case opEvent:
			if !identified {
				return &httpcall.TransportError{Op: "connect to gateway", Reason: "event before the hello frame"}
			}
			c.socket, c.firstEvent = s, f
			return nil
		}
	}
}

// onReady reads the READY event of a new session.
func (c *connection) onReady(f *frame) error {
	var ready struct {
		User    account `json:"user"`
		ID      string  `json:"session_id"`
		Resume  string  `json:"resume_gateway_url"`
		Servers []struct {
			ID string `json:"id"`
		} `json:"guilds"`
	}
	if err := json.Unmarshal(f.Data, &ready); f.Type != "READY" || err != nil || ready.User.ID == "" || ready.ID == "" {
		return &httpcall.TransportError{Op: "start session", Reason: "the ready event names no bot or no session"}
	}
	c.bot = ready.User
	c.session = session{id: ready.ID, url: ready.Resume, token: c.client.token, bot: ready.User,
		awaitedServers: map[string]bool{}, gaps: map[string]gap{}}
	for _, s := range ready.Servers {
		c.session.awaitedServers[s.ID] = true
	}
	return nil
}
