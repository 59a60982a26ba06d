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

	"github.com/google/uuid"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
)

// requestState collects what the middleware finds out about a request. It belongs to the goroutine that serves the
// request.
type requestState struct {
	id    string
	from  string         // address that it came from
	via   string         // protocol it came over; user is the API itself
	route string         // matched pattern; "" for none
	who   *auth.Token    // the caller; anonymous until its token was checked
	grant *grant         // validity of who
	token string         // secret that the request carried, valid or not; never shown
	body  request.Charge // budget held for its body
	// content is the body of an upload, which its handler reads; nil for other requests.
	content *contentReader
	// parsing is its slot for parsing a large body, released when the handler starts.
	parsing parseSlot
	rest    func(*response, *http.Request) // answers after the handler, see handleLater; nil: it has answered
	code    mailroom.Code                  // code of the problem it was answered with
	cause   error                          // error behind that problem, for the log only
}

// anonymousGrant is the grant of a caller without a token. It permits nothing.
func anonymousGrant() *grant { return newGrant(secretHash{}, &auth.Token{}) }

// setGrant sets the caller of the request.
func (q *requestState) setGrant(g *grant) { q.who, q.grant = g.token, g }

// attach returns the context of the request. The handlers find its caller in it, and the ledger the row of the
// caller's token.
func (q *requestState) attach(ctx context.Context) context.Context {
	ctx = request.WithCaller(context.WithValue(ctx, requestKey{}, q), func() *auth.Token { return q.who })
	return ledger.WithCaller(ctx, func() ledger.Caller {
		c := q.grant.row
		c.Name, c.Kind, c.From = q.who.Name, actorKind(q.who), q.from
		return c
	})
}

// actorKind says what token a caller has, for the audit log.
func actorKind(who *auth.Token) string {
	switch {
	case who.Name == "":
		return ""
	case who.Terms.Kind != auth.KindToken:
		return string(who.Terms.Kind)
	case who.Name == auth.Operator:
		return "operator"
	}
	return "token"
}

type requestKey struct{}

// requestOf returns the request that ctx belongs to.
func requestOf(ctx context.Context) *requestState {
	if q, ok := ctx.Value(requestKey{}).(*requestState); ok {
		return q
	}
	q := &requestState{} // a context outside of ServeHTTP
	q.setGrant(anonymousGrant())
	return q
}

// ServeHTTP assigns a request id, serves the request and writes its log line.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := &requestState{id: requestID(r), via: protocolOf(r.Context()), from: clientAddr(r, s.options.Access.BehindProxy)}
	q.setGrant(s.anonymous)
	r = r.WithContext(q.attach(r.Context()))
	out := newResponse(w, q.id, s.options.Limits.WriteTimeout)
	if r.ProtoMajor > 1 {
		out.setShared()
	}
	defer func() {
		abort := recoverPanic(recover(), out, r)
		out.complete()                             // for an answer without a body
		q.parsing.release()                        // releases the parse slot if no handler did
		_ = q.body.Resize(context.Background(), 0) // shrinking never fails
		s.logRequest(start, out, r)
		s.refused.note(q)
		out.extendDeadline() // gives the buffered data time to be sent
		if abort {
			panic(http.ErrAbortHandler) // the response has started: abort it, so that the client sees it is incomplete
		}
	}()
	if r.ContentLength != 0 {
		// The limit also holds if the request is refused unread, because net/http then drains
		// the body. bodyReceiver lifts it.
		limitReadTime(out, s.options.Limits.BodyTimeout)
	}
	if err := s.runMiddleware(out, r); err != nil {
		if err != errAnswered {
			refuse(out, r, err)
		}
		return
	}
	s.mux.ServeHTTP(out, r)
	if q.rest != nil {
		q.rest(out, r)
	}
	s.bodies.drainRefused(out, r)
}

// recoverPanic answers a panic with code internal. It reports abort if the response has started
// already.
func recoverPanic(p any, out *response, r *http.Request) (abort bool) {
	if p == nil {
		return false
	}
	q := requestOf(r.Context())
	if out.failed == nil && p != http.ErrAbortHandler {
		q.cause = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		if out.status == 0 {
			refuse(out, r, &mailroom.Error{Code: mailroom.CodeInternal, Message: "panic", Cause: q.cause})
			return false
		}
		q.code = mailroom.CodeInternal
	}
	return true
}

// logRequest writes the log line of a request. The line has no content, no token, and no thread or
// run id, because callers choose ids.
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
		slog.String("from", q.from),
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

// clientAddr is the address that a request came from: behind a proxy the last one in
// X-Forwarded-For, which the proxy adds, else the peer's.
func clientAddr(r *http.Request, behindProxy bool) string {
	if behindProxy {
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
		return "" // only tests have other addresses
	}
	return at.Addr().String()
}

// logMethod returns a method for the log. Unknown methods are caller-supplied text and become
// "other".
func logMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "other"
}

// requestID returns the caller's X-Request-ID if it is a short plain word and not a secret, and
// otherwise a new id.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	if id == "" || len(id) > 64 || strings.Contains(r.Header.Get("Authorization"), id) && len(id) >= minSecretLength ||
		secretPattern().MatchString(id) {
		return uuid.Must(uuid.NewV7()).String()
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return uuid.Must(uuid.NewV7()).String()
		}
	}
	return id
}

// response counts what is written and extends the write deadline for each piece, so that a client
// that stops reading is cut off.
type response struct {
	http.ResponseWriter
	id      string // of the request
	control *http.ResponseController
	timeout time.Duration
	shared  bool        // the connection serves other requests too (HTTP/2)
	cut     atomic.Bool // cutOff was called

	// Owned by the writing goroutine; a stream guards them with its own lock.
	status int
	bytes  int64
	failed error     // error of a failed write
	ends   time.Time // write deadline; zero: none, or unknown
}

func newResponse(w http.ResponseWriter, id string, timeout time.Duration) *response {
	out := &response{ResponseWriter: w, id: id, control: http.NewResponseController(w), timeout: timeout}
	out.extendDeadline() // the previous request on the connection may have left an expired deadline
	return out
}

// setShared is for HTTP/2, where an expired deadline also ends an idle response. The deadline is
// set only during writes.
func (out *response) setShared() {
	out.shared = true
	out.clearDeadline()
}

// cutOff ends the pending write and makes later ones fail. It may be called from another goroutine
// than the writer's.
func (out *response) cutOff() {
	out.cut.Store(true)
	_ = out.control.SetWriteDeadline(time.Now()) // errors as in extendDeadline
}

// clearDeadline removes the deadline between writes on a shared connection.
func (out *response) clearDeadline() {
	if out.shared && !out.cut.Load() {
		out.ends = time.Time{}
		_ = out.control.SetWriteDeadline(time.Time{}) // errors as in extendDeadline
	}
}

// extendDeadline gives the next write its full time, or at least seven eighths of it: the writes of a short answer
// follow each other within the rest, and share a deadline.
func (out *response) extendDeadline() {
	now := time.Now()
	if out.ends.Sub(now) >= out.timeout-out.timeout/8 {
		return
	}
	out.ends = now.Add(out.timeout)
	// An error needs no handling: only test writers lack deadlines, and writing to a closed
	// connection fails.
	_ = out.control.SetWriteDeadline(out.ends)
	if out.cut.Load() { // cutOff may have run since
		_ = out.control.SetWriteDeadline(time.Now()) // an error needs no handling here either
	}
}

// noDelay asks proxies to hold back no event of a stream. nginx buffers, unless X-Accel-Buffering forbids it. A proxy
// that compresses keeps text until a block is full, unless it may not transform (RFC 9111, 5.2.2.6). Caddy 2.6, which
// Debian 12 has, ignores no-transform, but does not compress a response that has a Content-Encoding, so noDelay sets
// the encoding identity. RFC 9110, 8.4.1, says that a server should omit identity; clients accept it.
func noDelay(h http.Header) {
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("Content-Encoding", "identity")
}

// complete adds the headers that every response has, unless the handler has set others. It is called when the header
// is about to be written, because the header of a request that waits is smaller without them.
func (out *response) complete() {
	if out.status != 0 {
		return
	}
	h := out.Header()
	for _, always := range [...][2]string{
		{"X-Request-Id", out.id}, {"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"},
	} {
		if _, ok := h[always[0]]; !ok {
			h[always[0]] = []string{always[1]}
		}
	}
}

func (out *response) WriteHeader(status int) {
	out.complete()
	if out.status == 0 {
		out.status = status
	}
	if h := out.Header(); strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") { // an event stream of any handler
		noDelay(h)
	}
	out.extendDeadline()
	out.ResponseWriter.WriteHeader(status)
	out.clearDeadline()
}

func (out *response) Write(b []byte) (int, error) {
	if out.status == 0 {
		out.complete()
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

// FlushError flushes. http.ResponseController calls it.
func (out *response) FlushError() error {
	out.complete()
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
