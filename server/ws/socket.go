package ws

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

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
)

// Close codes besides the codes of RFC 6455.
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

// socket is one WebSocket.
type socket struct {
	// Set once.
	host    *Options
	upgrade *http.Request // the handshake
	conn    *websocket.Conn
	out     *frameWriter
	meter   *frameMeter
	ctx     context.Context // its cause is a closeError, or the read error of a peer that has gone
	end     context.CancelCauseFunc

	// Owned by the goroutine that reads frames.
	header    string      // Authorization of the frames' requests; "" until authenticated
	grant     *Grant      // grant of that header; nil until authenticated
	stopWatch func() bool // stops watching the grant
	release   func()      // releases its slot among the token's sockets
	subs      int64       // number of subscriptions made

	lastRead atomic.Int64 // time of the last read, in Unix nanoseconds
	handling atomic.Bool  // a frame is being handled, so nothing is read

	mu     sync.Mutex
	open   map[string]*Subscription // owned by mu
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
	http.ResponseWriter
	frames  *request.Rates // frame limits per token
	raw     net.Conn
	meter   *frameMeter // wraps raw
	refused int         // status of the refusal
}

func (h *handshake) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		h.refused = status
		return
	}
	h.ResponseWriter.WriteHeader(status)
}

func (h *handshake) Write(b []byte) (int, error) {
	if h.refused != 0 {
		return len(b), nil
	}
	return h.ResponseWriter.Write(b)
}

func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return raw, rw, err
	}
	h.raw, h.meter = raw, newFrameMeter(raw, h.frames)
	// the library consumes these bytes before it reads from the connection
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	h.meter.count(early)
	return h.meter, rw, err
}

// Served describes a socket that has ended.
type Served struct {
	Bytes   int64 // bytes of the frames sent
	TooSlow error // the error that ended a reader that was too slow, or nil
}

// Serve upgrades the connection of a request whose host and origin have been checked, and serves
// the socket until it ends. An error is a refusal of the handshake.
func (s *Sockets) Serve(w http.ResponseWriter, r *http.Request) (Served, error) {
	h := &handshake{ResponseWriter: w, frames: s.frames}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin has been checked
	if err != nil {
		return Served{}, request.WithStatus(h.refused, &mailroom.Error{
			Code: mailroom.CodeInvalid, Message: "not a WebSocket handshake: " + errors.Unwrap(err).Error(), Cause: err,
		})
	}
	conn.SetReadLimit(-1) // readFrame enforces the limit with its own close code
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	k := &socket{
		host: &s.options, upgrade: r, conn: conn, meter: h.meter, ctx: ctx, end: end, open: map[string]*Subscription{},
		release: func() {},
	}
	k.out = &frameWriter{
		conn: conn, raw: h.raw, timeout: s.options.WriteTimeout, end: end, done: ctx.Done(), backlog: s.options.Backlog,
		pending: &request.Unread{Cut: func() { end(request.ErrTooSlow) }}, meter: h.meter,
	}
	k.serve()
	k.release()
	served := Served{Bytes: k.out.written()}
	if cause := context.Cause(ctx); errors.Is(cause, request.ErrTooSlow) {
		served.TooSlow = cause
	}
	return served, nil
}

// serve blocks until the socket and its goroutines have ended.
func (k *socket) serve() {
	defer context.AfterFunc(k.host.Closing, func() {
		defer recovery.Log(k.host.Log, "socket close")
		k.end(&closeError{websocket.StatusGoingAway, "the server is shutting down"})
	})()
	k.lastRead.Store(time.Now().UnixNano())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer recovery.Handle(k.host.Log, "socket reader", func(p *recovery.Panic) { k.end(p) })
		err := k.recoverError(k.readFrames)
		if errors.Is(err, errFlood) {
			err = floodError()
		}
		k.end(err)
	})
	wg.Go(func() {
		defer recovery.Handle(k.host.Log, "socket heartbeat", func(p *recovery.Panic) { k.end(p) })
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
	case errors.Is(cause, request.ErrTooSlow):
		why, known = &closeError{closeTooSlow, k.cursorSummary()}, true
	case mailroom.CodeOf(cause) == mailroom.CodeUnauthenticated:
		why, known = &closeError{closeUnauthenticated, "the token was revoked"}, true
	}
	if known {
		_ = k.out.raw.SetReadDeadline(time.Now().Add(closeReadTime)) // a closed connection fails the read
		_ = k.conn.Close(why.code, why.reason)                       // fails if the peer has gone
	}
	_ = k.conn.CloseNow() // the connection may be closed already
}

// recoverError turns a panic of f into a close error, so that it does not end the process.
func (k *socket) recoverError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			k.host.Host.RecordPanic(k.upgrade.Context(), fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			err = &closeError{websocket.StatusInternalError, "internal error"}
		}
	}()
	return f()
}

// readFrames handles frames one after the other. It returns why the socket ends.
func (k *socket) readFrames() error {
	if header := k.upgrade.Header.Get("Authorization"); header != "" {
		if err := k.setGrant(header, k.host.Host.Caller(k.upgrade.Context())); err != nil {
			return errors.Join(k.refuse(frame{}, err), tooManySockets())
		}
	} else {
		timer := time.AfterFunc(k.host.HeaderTimeout, func() {
			defer recovery.Log(k.host.Log, "socket close")
			k.end(&closeError{closeUnauthenticated, "no token in time"})
		})
		defer timer.Stop()
		if err := k.readAuth(timer); err != nil {
			return err
		}
	}
	for {
		charged := request.NewCharge(k.host.Bodies, k.grant.Token.Name)
		raw, err := k.readFrame(k.host.MaxFrame, &charged)
		if err == nil {
			k.handling.Store(true)
			err = k.handle(raw)
			k.recordRead()
			k.handling.Store(false)
		}
		_ = charged.Resize(context.Background(), 0) // shrinking never fails
		if err != nil {
			return err
		}
	}
}

// readAuth reads the first frame, which must authenticate the client.
func (k *socket) readAuth(timer *time.Timer) error {
	raw, err := k.readFrame(maxFirstFrame, &request.Charge{})
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
		return frame{}, request.Malformed("body", "is binary: send text")
	}
	return parseFrame(m.data)
}

// readFrame reads one frame of up to most bytes and charges c for it. Once started, a frame must arrive within
// BodyTimeout.
func (k *socket) readFrame(most int, c *request.Charge) (message, error) {
	// The library drops the connection when this context ends, so it must not.
	kind, r, err := k.conn.Reader(context.Background())
	if err != nil {
		return message{}, err
	}
	_ = k.out.raw.SetReadDeadline(time.Now().Add(k.host.BodyTimeout)) // a closed connection fails the read
	data, err := request.ReadAll(k.ctx, io.LimitReader(r, int64(most)+1), -1, c)
	k.recordRead()
	refused, full := errors.AsType[*mailroom.Error](err)
	switch {
	case full:
		return message{}, errors.Join(k.refuse(frame{}, refused),
			&closeError{websocket.StatusTryAgainLater, "too many large frames at once"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return message{}, &closeError{websocket.StatusPolicyViolation, "a frame did not arrive in time"}
	case err != nil:
		return message{}, err
	case len(data) > most:
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
	every := k.host.Heartbeat
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
