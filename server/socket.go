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
)

// Close codes beside those of the protocol.
const (
	closeUnauthenticated = websocket.StatusCode(4401)
	closeTooSlow         = websocket.StatusCode(4408)
	closeTooLarge        = websocket.StatusCode(4413)
)

const (
	// closeWriteTime bounds how long a socket that ends waits for the frame that is
	// under way, partingTime how long for its peer's own close frame.
	closeWriteTime = time.Second
	closeReadTime  = 5 * time.Second
	// maxFirstFrame bounds, in bytes, what is read of somebody unknown.
	maxFirstFrame = 16 << 10
)

// registerSocket registers the WebSocket. A frame is a request in another coat: it
// passes the same gates, to the same handlers.
func (rt router) registerSocket() {
	op := rt.operation(accessPerFrame, "GET /v1/ws", "socket", "A WebSocket for submits, decisions and any number of streams")
	op.Description = "Frames are JSON objects with op and id. The token comes in the header Authorization, or in a first frame auth."
	op.Responses["101"] = &huma.Response{Description: "The WebSocket is open."}
	op.Responses["426"] = &huma.Response{Description: "This is no WebSocket handshake.", Content: rt.problemResponse().Content}
	rt.api.OpenAPI().AddOperation(&op)
	rt.server.mux.HandleFunc("GET /v1/ws", rt.server.socket)
}

// socket is one WebSocket.
type socket struct {
	// Set once.
	server  *Server
	upgrade *http.Request // which it began with
	conn    *websocket.Conn
	out     *frameWriter
	meter   *frameMeter
	ctx     context.Context // ends with an ending, or why the peer has gone
	end     context.CancelCauseFunc

	// Owned by the goroutine that reads frames.
	header    string      // Authorization of what the frames ask for; "" until somebody is known
	grant     *grant      // of that header; nil until then
	stopWatch func() bool // ends the watch on grant
	release   func()      // gives back its place among the sockets of the token
	subs      int64       // made so far

	lastRead atomic.Int64 // when something was read last, in Unix nanoseconds
	handling atomic.Bool  // a frame is handled, and nothing is read meanwhile

	mu     sync.Mutex
	open   map[string]*subscription // owned by mu
	closed bool                     // owned by mu; no subscription begins any more
	feeds  sync.WaitGroup           // the subscriptions' goroutines
}

// closeError is why the server ends a socket, as its close frame says it.
type closeError struct {
	code   websocket.StatusCode
	reason string
}

func (e *closeError) Error() string { return e.reason }

// handshake keeps the connection that is taken over, and holds back refusals of
// the library, which does not speak in problems.
type handshake struct {
	*response
	frameLimits *rateLimiter // of frames
	raw         net.Conn
	meter       *frameMeter // of raw
	refused     int         // status
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
	early, err := rw.Reader.Peek(rw.Reader.Buffered()) // the library takes it before it reads the connection
	h.meter.count(early)
	return h.meter, rw, err
}

// socket takes the connection over and serves it until it ends.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	leave, err := s.addSocket(r)
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	defer leave()
	h := &handshake{response: out, frameLimits: &s.frameLimits}
	// The origin was checked at the gate, as for every request.
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		s.refuse(out, r, withStatus(h.refused, &mailroom.Error{
			Code: mailroom.CodeInvalid, Message: "this is for WebSockets: " + errors.Unwrap(err).Error(), Cause: err,
		}))
		return
	}
	conn.SetReadLimit(-1) // readFrame has its own, with another close code
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

// addSocket counts a socket in, so that a shutdown waits for it.
func (s *Server) addSocket(r *http.Request) (leave func(), err error) {
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

// serve blocks until the socket has ended, and all that belongs to it.
func (k *socket) serve() {
	defer context.AfterFunc(k.server.closing, func() {
		defer recovery.Log(k.server.log, "the end of a socket")
		k.end(&closeError{websocket.StatusGoingAway, "the server is shutting down"})
	})()
	k.lastRead.Store(time.Now().UnixNano())
	var own sync.WaitGroup
	own.Go(func() {
		defer recovery.Handle(k.server.log, "a reader of frames", func(p *recovery.Panic) { k.end(p) })
		err := k.recoverError(k.readFrames)
		if errors.Is(err, errFlood) {
			err = floodError()
		}
		k.end(err)
	})
	own.Go(func() {
		defer recovery.Handle(k.server.log, "a socket's heartbeat", func(p *recovery.Panic) { k.end(p) })
		k.heartbeat()
	})
	<-k.ctx.Done()
	k.close(context.Cause(k.ctx))
	own.Wait()
	if k.stopWatch != nil {
		k.stopWatch()
	}
}

// close ends the subscriptions, says why if that can still be said, and closes
// the connection.
func (k *socket) close(cause error) {
	k.out.limitWriteTime()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.feeds.Wait()
	why, say := errors.AsType[*closeError](cause)
	switch {
	case say:
	case errors.Is(cause, errTooSlow):
		why, say = &closeError{closeTooSlow, k.cursorSummary()}, true
	case mailroom.CodeOf(cause) == mailroom.CodeUnauthenticated:
		why, say = &closeError{closeUnauthenticated, "the token is no longer good"}, true
	}
	if say {
		_ = k.out.raw.SetReadDeadline(time.Now().Add(closeReadTime)) // a closed connection fails the read
		_ = k.conn.Close(why.code, why.reason)                       // who has gone does not hear it
	}
	_ = k.conn.CloseNow() // it may be closed already
}

// recoverError keeps a panic from taking the process with it.
func (k *socket) recoverError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			q := requestOf(k.upgrade.Context())
			q.code, q.cause = mailroom.CodeInternal, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			err = &closeError{websocket.StatusInternalError, "the server failed"}
		}
	}()
	return f()
}

// readFrames handles one frame after the other, and returns why it ends.
func (k *socket) readFrames() error {
	if header := k.upgrade.Header.Get("Authorization"); header != "" {
		if err := k.setGrant(header, requestOf(k.upgrade.Context()).grant); err != nil {
			return errors.Join(k.refuse(frame{}, err), tooManySockets())
		}
	} else {
		late := time.AfterFunc(k.server.options.HeaderTimeout, func() {
			defer recovery.Log(k.server.log, "the end of a socket")
			k.end(&closeError{closeUnauthenticated, "no token came in time"})
		})
		defer late.Stop()
		if err := k.readAuth(late); err != nil {
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
		_ = charged.resize(context.Background(), 0) // giving back never fails
		if err != nil {
			return err
		}
	}
}

// readAuth reads the frame that says who the client is.
func (k *socket) readAuth(late *time.Timer) error {
	raw, err := k.readFrame(maxFirstFrame, &charge{})
	if err != nil {
		return err
	}
	f, err := raw.parse()
	if err == nil && f.op != "auth" {
		err = mustAuthenticate()
	}
	if err != nil {
		return errors.Join(k.refuse(f, err), &closeError{closeUnauthenticated, "the first frame is no auth"})
	}
	if err := k.auth(f); err != nil {
		return err
	}
	if k.grant == nil {
		return &closeError{closeUnauthenticated, "the first frame has no token"}
	}
	late.Stop()
	return nil
}

// message is what came in one frame.
type message struct {
	kind websocket.MessageType
	data []byte
}

func (m message) parse() (frame, error) {
	if m.kind != websocket.MessageText {
		return frame{}, badRequest("body", "is binary: send text")
	}
	return parseFrame(m.data)
}

// readFrame reads one frame of at most limit bytes, with room from c for what it
// holds. Once it has begun it must come in time, like the body of a request.
func (k *socket) readFrame(limit int, c *charge) (message, error) {
	// No context that ends: with it the library would drop the connection.
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
		return message{}, errors.Join(k.refuse(frame{}, refused), &closeError{websocket.StatusTryAgainLater, "too many large frames are under way"})
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

func (k *socket) recordRead() { k.lastRead.Store(time.Now().UnixNano()) }

// heartbeat pings, and ends the socket when nothing was heard for three beats,
// so when none of two pings was answered. Somebody who has not taken what was sent
// before a ping, or whose frame is being handled, cannot have answered.
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
			k.end(errors.New("the peer is silent"))
			return
		}
		k.ping(every)
	}
}

// ping waits no longer than the next is due. It does not end with the socket: a
// ping that breaks off would take the connection with it.
func (k *socket) ping(every time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), every)
	defer cancel()
	if k.conn.Ping(ctx) == nil {
		k.recordRead()
	}
}
