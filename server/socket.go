package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/server/internal/invalid"
)

// Close codes besides those of RFC 6455.
const (
	closeUnauthenticated = websocket.StatusCode(4401)
	closeTooSlow         = websocket.StatusCode(4408)
	closeTooLarge        = websocket.StatusCode(4413)
)

const (
	// closeWriteTime bounds how long a closing socket waits for the pending write, closeReadTime
	// how long for the peer's close frame.
	closeWriteTime = time.Second
	closeReadTime  = 5 * time.Second
	// maxFirstFrame bounds the first frame of an unauthenticated client, in bytes.
	maxFirstFrame = 16 << 10
)

// registerSocket registers the WebSocket. Each frame becomes an internal request that passes the
// same middleware and handlers.
func (rt router) registerSocket() {
	op := rt.operation(accessPerFrame, "GET /v1/ws", "socket", "Open a WebSocket for submits, decisions and any number of streams")
	op.Description = "Frames are JSON objects with op and id. The token comes in the header Authorization, or in a first frame auth."
	op.Responses["101"] = &huma.Response{Description: "The WebSocket is open."}
	op.Responses["426"] = &huma.Response{Description: "Not a WebSocket handshake.", Content: rt.problemResponse().Content}
	rt.api.OpenAPI().AddOperation(&op)
	rt.server.mux.HandleFunc("GET /v1/ws", rt.server.socket)
}

// socket is one WebSocket.
type socket struct {
	// Set once.
	server  *Server
	upgrade *http.Request // the handshake
	conn    *websocket.Conn
	out     *frameWriter
	meter   *frameMeter
	ctx     context.Context // its cause is a closeError, or the read error of a peer that has gone
	end     context.CancelCauseFunc

	// Owned by the goroutine that reads frames.
	header    string      // Authorization of the frames' requests; "" until authenticated
	grant     *grant      // grant of that header; nil until authenticated
	stopWatch func() bool // stops watching the grant
	release   func()      // releases its slot among the token's sockets
	subs      int64       // number of subscriptions made

	lastRead atomic.Int64 // time of the last read, in Unix nanoseconds
	handling atomic.Bool  // a frame is being handled, so nothing is read

	mu     sync.Mutex
	open   map[string]*subscription // owned by mu
	closed bool                     // owned by mu; refuses new subscriptions
	feeds  sync.WaitGroup           // the subscriptions' goroutines
}

// closeError is the code and reason that the server closes a socket with.
type closeError struct {
	code   websocket.StatusCode
	reason string
}

func (e *closeError) Error() string { return e.reason }

// handshake keeps the hijacked connection, and suppresses the library's plain-text refusals.
type handshake struct {
	*response
	frameLimits *rateLimiter // frame limits per token
	raw         net.Conn
	meter       *frameMeter // wraps raw
	refused     int         // status of the refusal
}

func (h *handshake) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		h.refused = status
		return
	}
	h.response.WriteHeader(status)
}

func (h *handshake) Write(b []byte) (int, error) {
	if h.refused != 0 {
		return len(b), nil
	}
	return h.response.Write(b)
}

func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := h.control.Hijack()
	if err != nil {
		return raw, rw, err
	}
	h.raw, h.meter = raw, newFrameMeter(raw, h.frameLimits)
	early, err := rw.Reader.Peek(rw.Reader.Buffered()) // the library consumes these bytes before it reads from the connection
	h.meter.count(early)
	return h.meter, rw, err
}

// socket upgrades the connection and serves it until it ends.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	release, err := s.addSocket(r)
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	defer release()
	h := &handshake{response: out, frameLimits: &s.frameLimits}
	// checkHostAndOrigin has checked the origin.
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		s.refuse(out, r, invalid.WithStatus(h.refused, &mailroom.Error{
			Code: mailroom.CodeInvalid, Message: "not a WebSocket handshake: " + errors.Unwrap(err).Error(), Cause: err,
		}))
		return
	}
	conn.SetReadLimit(-1) // readFrame enforces the limit with its own close code
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	k := &socket{
		server: s, upgrade: r, conn: conn, meter: h.meter, ctx: ctx, end: end, open: map[string]*subscription{},
		release: func() {},
	}
	k.out = &frameWriter{
		conn: conn, raw: h.raw, timeout: s.options.WriteTimeout, end: end, done: ctx.Done(), backlog: s.backlog,
		pending: &backlogEntry{cut: func() { end(errTooSlow) }}, meter: h.meter,
	}
	k.serve()
	k.release()
	out.bytes = k.out.written()
	if cause := context.Cause(ctx); errors.Is(cause, errTooSlow) {
		out.failed = cause // for the log line
	}
}

// addSocket counts a socket, so that shutdown waits for it.
func (s *Server) addSocket(r *http.Request) (release func(), err error) {
	if err := checkQuery(r.URL.Query(), nil); err != nil {
		return nil, err
	}
	s.socketsMu.Lock()
	defer s.socketsMu.Unlock()
	if s.closing.Err() != nil {
		return nil, errShutdown()
	}
	s.sockets.Add(1)
	return s.sockets.Done, nil
}

// serve blocks until the socket and its goroutines have ended.
func (k *socket) serve() {
	defer context.AfterFunc(k.server.closing, func() {
		defer recovery.Log(k.server.log, "socket close")
		k.end(&closeError{websocket.StatusGoingAway, "the server is shutting down"})
	})()
	k.lastRead.Store(time.Now().UnixNano())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer recovery.Handle(k.server.log, "socket reader", func(p *recovery.Panic) { k.end(p) })
		err := k.recoverError(k.readFrames)
		if errors.Is(err, errFlood) {
			err = floodError()
		}
		k.end(err)
	})
	wg.Go(func() {
		defer recovery.Handle(k.server.log, "socket heartbeat", func(p *recovery.Panic) { k.end(p) })
		k.heartbeat()
	})
	<-k.ctx.Done()
	k.close(context.Cause(k.ctx))
	wg.Wait()
	if k.stopWatch != nil {
		k.stopWatch()
	}
}

// close ends the subscriptions, sends a close frame if the cause has one, and closes the
// connection.
func (k *socket) close(cause error) {
	k.out.limitWriteTime()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.feeds.Wait()
	why, known := errors.AsType[*closeError](cause)
	switch {
	case known:
	case errors.Is(cause, errTooSlow):
		why, known = &closeError{closeTooSlow, k.cursorSummary()}, true
	case mailroom.CodeOf(cause) == mailroom.CodeUnauthenticated:
		why, known = &closeError{closeUnauthenticated, "the token was revoked"}, true
	}
	if known {
		_ = k.out.raw.SetReadDeadline(time.Now().Add(closeReadTime)) // a closed connection fails the read
		_ = k.conn.Close(why.code, why.reason)                       // fails if the peer has gone
	}
	_ = k.conn.CloseNow() // it may be closed already
}

// recoverError turns a panic of f into a close error, so that it does not end the process.
func (k *socket) recoverError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			q := requestOf(k.upgrade.Context())
			q.code, q.cause = mailroom.CodeInternal, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			err = &closeError{websocket.StatusInternalError, "internal error"}
		}
	}()
	return f()
}

// readFrames handles frames one after the other. It returns why the socket ends.
func (k *socket) readFrames() error {
	if header := k.upgrade.Header.Get("Authorization"); header != "" {
		if err := k.setGrant(header, requestOf(k.upgrade.Context()).grant); err != nil {
			return errors.Join(k.refuse(frame{}, err), tooManySockets())
		}
	} else {
		timer := time.AfterFunc(k.server.options.HeaderTimeout, func() {
			defer recovery.Log(k.server.log, "socket close")
			k.end(&closeError{closeUnauthenticated, "no token in time"})
		})
		defer timer.Stop()
		if err := k.readAuth(timer); err != nil {
			return err
		}
	}
	for {
		charged := charge{budget: k.server.bodies, owner: k.grant.token.Name}
		raw, err := k.readFrame(k.server.options.MaxFrame, &charged)
		if err == nil {
			k.handling.Store(true)
			err = k.handle(raw)
			k.recordRead()
			k.handling.Store(false)
		}
		_ = charged.resize(context.Background(), 0) // shrinking never fails
		if err != nil {
			return err
		}
	}
}

// readAuth reads the first frame, which must authenticate the client.
func (k *socket) readAuth(timer *time.Timer) error {
	raw, err := k.readFrame(maxFirstFrame, &charge{})
	if err != nil {
		return err
	}
	f, err := raw.parse()
	if err == nil && f.op != "auth" {
		err = mustAuthenticate()
	}
	if err != nil {
		return errors.Join(k.refuse(f, err), &closeError{closeUnauthenticated, "the first frame must be auth"})
	}
	if err := k.auth(f); err != nil {
		return err
	}
	if k.grant == nil {
		return &closeError{closeUnauthenticated, "the first frame must have a valid token"}
	}
	timer.Stop()
	return nil
}

// message is the content of one WebSocket frame.
type message struct {
	kind websocket.MessageType
	data []byte
}

func (m message) parse() (frame, error) {
	if m.kind != websocket.MessageText {
		return frame{}, invalid.Malformed("body", "is binary: send text")
	}
	return parseFrame(m.data)
}

// readFrame reads one frame of at most limit bytes and charges c for it. Once started, a frame must
// arrive within BodyTimeout.
func (k *socket) readFrame(limit int, c *charge) (message, error) {
	// The library drops the connection when this context ends, so it must not.
	kind, r, err := k.conn.Reader(context.Background())
	if err != nil {
		return message{}, err
	}
	_ = k.out.raw.SetReadDeadline(time.Now().Add(k.server.options.BodyTimeout)) // a closed connection fails the read
	data, err := readAll(k.ctx, io.LimitReader(r, int64(limit)+1), -1, c)
	k.recordRead()
	refused, full := errors.AsType[*mailroom.Error](err)
	switch {
	case full:
		return message{}, errors.Join(k.refuse(frame{}, refused), &closeError{websocket.StatusTryAgainLater, "too many large frames at once"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return message{}, &closeError{websocket.StatusPolicyViolation, "a frame did not arrive in time"}
	case err != nil:
		return message{}, err
	case len(data) > limit:
		return message{}, &closeError{closeTooLarge, "a frame is too large"}
	}
	_ = k.out.raw.SetReadDeadline(time.Time{}) // as above
	return message{kind, data}, nil
}

// recordRead notes that the peer is alive.
func (k *socket) recordRead() { k.lastRead.Store(time.Now().UnixNano()) }

// heartbeat pings the peer and ends the socket after three intervals of silence, when two pings are
// unanswered. A peer with an unread write or a frame being handled may be unable to answer and is
// not counted as silent.
func (k *socket) heartbeat() {
	every := k.server.options.Heartbeat
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-ticker.C:
		}
		silent := time.Since(time.Unix(0, k.lastRead.Load()))
		if silent > 3*every-every/2 && !k.handling.Load() && !k.out.writing.Load() {
			k.end(errors.New("the peer does not answer pings"))
			return
		}
		k.ping(every)
	}
}

// ping waits for the answer until the next ping is due. Its context does not end with the socket:
// an interrupted ping would close the connection without a close frame.
func (k *socket) ping(every time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), every)
	defer cancel()
	if k.conn.Ping(ctx) == nil {
		k.recordRead()
	}
}
