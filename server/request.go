package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/ledger"
)

// request is what the gates learn about a request. It belongs to the goroutine
// that serves it.
type request struct {
	id    string
	via   string          // by which face it comes: user is the API itself
	route string          // the pattern it was matched to, "" for none
	who   *mailroom.Token // who sends it; nobody until its token was checked
	grant *grant          // what who is good for, and how long
	token string          // the secret that it came with, good or not: to be told to nobody
	body  charge          // for the bytes of its body
	// parsing is its turn to have a large body parsed, until the handler begins.
	parsing parseSlot
	code    mailroom.Code // of the problem it was answered with
	cause   error         // behind that problem, for the log only
}

// anonymousGrant may do nothing and sees nothing.
func anonymousGrant() *grant { return newGrant(secretHash{}, &mailroom.Token{}) }

// clientAddr says whose the request is.
func (q *request) setGrant(g *grant) { q.who, q.grant = g.token, g }

type requestKey struct{}

// requestOf returns what is known about the request that ctx belongs to.
func requestOf(ctx context.Context) *request {
	if q, ok := ctx.Value(requestKey{}).(*request); ok {
		return q
	}
	q := &request{} // not under ServeHTTP: nobody reads it
	q.setGrant(anonymousGrant())
	return q
}

// ServeHTTP gives the request its id, serves it, and writes its line of log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := &request{id: requestID(r), via: protocolOf(r.Context())}
	q.setGrant(s.anonymous)
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
	out := newResponse(w, s.options.WriteTimeout)
	if r.ProtoMajor > 1 {
		out.setShared()
	}
	out.Header().Set("X-Request-ID", q.id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	defer func() {
		abort := s.recoverPanic(recover(), out, r)
		q.parsing.release()                        // also if no handler was reached
		_ = q.body.resize(context.Background(), 0) // giving back never fails
		s.logRequest(start, out, r)
		out.extendDeadline() // for what is still on its way
		if abort {
			panic(http.ErrAbortHandler) // the answer has begun: cut it, so that nobody takes it for whole
		}
	}()
	if r.ContentLength != 0 {
		// Also for a request that is refused unread: what follows of it is taken
		// off the connection, for the next one. readBody ends the hurry.
		s.limitReadTime(out, s.options.BodyTimeout)
	}
	if err := s.runMiddleware(out, r); err != nil {
		if err != errAnswered {
			s.refuse(out, r, err)
		}
		return
	}
	s.mux.ServeHTTP(out, r)
}

// recoverPanic makes a panic an answer of code internal, or asks to abort when it
// is too late for one.
func (s *Server) recoverPanic(p any, out *response, r *http.Request) (abort bool) {
	if p == nil {
		return false
	}
	q := requestOf(r.Context())
	if out.failed == nil && p != http.ErrAbortHandler {
		q.cause = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		if out.status == 0 {
			s.refuse(out, r, &mailroom.Error{Code: mailroom.CodeInternal, Message: "panic", Cause: q.cause})
			return false
		}
		q.code = mailroom.CodeInternal
	}
	return true
}

// logRequest writes the one line about a request. It holds no content, no token and
// no thread or run id, which callers choose freely.
func (s *Server) logRequest(start time.Time, out *response, r *http.Request) {
	q := requestOf(r.Context())
	_, pattern, _ := strings.Cut(q.route, " ")
	attrs := []slog.Attr{
		slog.String("method", logMethod(r.Method)),
		slog.String("path", pattern),
		slog.Int("status", out.status),
		slog.Duration("duration", time.Since(start)),
		slog.Int64("bytes", out.bytes),
		slog.String("request_id", q.id),
		slog.String("from", s.clientAddr(r)),
	}
	if q.code != "" {
		attrs = append(attrs, slog.String("code", string(q.code)))
	}
	level := slog.LevelDebug
	switch {
	case q.code == mailroom.CodeInternal:
		level = slog.LevelError
	case q.code == mailroom.CodeUnavailable:
		level = slog.LevelWarn
	}
	if q.cause != nil && level > slog.LevelDebug {
		attrs = append(attrs, slog.String("error", q.hide(q.cause.Error())))
	}
	if out.failed != nil {
		attrs = append(attrs, slog.Bool("cut", true), slog.Any("error", out.failed))
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// clientAddr is the address a request came from: as our own proxy says, which puts it
// last, or the one at the other end of the connection.
func (s *Server) clientAddr(r *http.Request) string {
	if s.options.BehindProxy {
		given := r.Header.Values("X-Forwarded-For")
		if len(given) > 0 {
			last := given[len(given)-1]
			last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
			if ip, err := netip.ParseAddr(last); err == nil {
				return ip.String()
			}
		}
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "" // a test's
	}
	return at.Addr().String()
}

// logMethod is a method as it may go into a log: what is none is a text of the
// caller's choice.
func logMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// requestID takes the caller's id if it is a plain word and no secret, so that it
// is safe in logs and headers, and else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	if id == "" || len(id) > 64 || strings.Contains(r.Header.Get("Authorization"), id) && len(id) >= minSecretLength || secretPattern.MatchString(id) {
		return ledger.NewID()
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return ledger.NewID()
		}
	}
	return id
}

// response counts what is answered, and gives the reader a new deadline for
// each piece, so that one who stops reading is cut off.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	shared  bool        // the connection is, with other requests
	cut     atomic.Bool // there is no time left for what is written

	// Owned by whoever writes; a stream has its own lock around it.
	status int
	bytes  int64
	failed error // a write failed: the reader has gone or was cut off
}

func newResponse(w http.ResponseWriter, timeout time.Duration) *response {
	out := &response{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
	out.extendDeadline() // the deadline of the connection's previous request may have passed
	return out
}

// setShared is for HTTP/2, where a deadline that passes ends the answer also when
// nothing is being written: there is one only during a write.
func (out *response) setShared() {
	out.shared = true
	out.clearDeadline()
}

// cutOff ends the write that is under way, and those to come. It may be called by another
// goroutine than the one that writes.
func (out *response) cutOff() {
	out.cut.Store(true)
	_ = out.control.SetWriteDeadline(time.Now()) // as in extend
}

func (out *response) clearDeadline() {
	if out.shared && !out.cut.Load() {
		_ = out.control.SetWriteDeadline(time.Time{}) // as in extend
	}
}

func (out *response) extendDeadline() {
	// A writer without deadlines is a test's; a closed connection fails the write.
	_ = out.control.SetWriteDeadline(time.Now().Add(out.timeout))
	if out.cut.Load() { // also since a moment ago
		_ = out.control.SetWriteDeadline(time.Now()) // as above
	}
}

func (out *response) WriteHeader(status int) {
	if out.status == 0 {
		out.status = status
	}
	out.extendDeadline()
	out.ResponseWriter.WriteHeader(status)
	out.clearDeadline()
}

func (out *response) Write(b []byte) (int, error) {
	if out.status == 0 {
		out.status = http.StatusOK
	}
	out.extendDeadline()
	n, err := out.ResponseWriter.Write(b)
	out.clearDeadline()
	out.bytes += int64(n)
	if err != nil {
		out.failed = err
	}
	return n, err
}

// FlushError sends what was written. http.ResponseController finds it.
func (out *response) FlushError() error {
	out.extendDeadline()
	err := out.control.Flush()
	out.clearDeadline()
	if err != nil {
		out.failed = err
	}
	return err
}

// Unwrap lets http.ResponseController set deadlines.
func (out *response) Unwrap() http.ResponseWriter { return out.ResponseWriter }
