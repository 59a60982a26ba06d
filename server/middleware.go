package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mailroom"
)

// runMiddleware lets a request through to its handler, or says why not.
func (s *Server) runMiddleware(out *response, r *http.Request) error {
	for _, gate := range []func(*response, *http.Request) error{
		s.checkHostAndOrigin, s.handleCORS, s.checkPath, s.authenticate, s.checkRoute, s.authorize, s.limitRate, s.readBody,
	} {
		if err := gate(out, r); err != nil {
			return err
		}
	}
	return nil
}

// checkHostAndOrigin refuses requests that a web page makes in its reader's name: from
// another origin, or to a name that a foreign DNS server points at us.
func (s *Server) checkHostAndOrigin(_ *response, r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return mailroom.Errorf(mailroom.CodeForbidden, "this server is not addressed as %q: use localhost, or configure the host it listens on", truncate(r.Host))
	}
	if origin := r.Header.Get("Origin"); !s.originAllowed(r.Host, origin) {
		return mailroom.Errorf(mailroom.CodeForbidden, "requests from web pages of the origin %q are refused", truncate(origin))
	}
	if err := s.origins.Check(r); err != nil {
		return &mailroom.Error{Code: mailroom.CodeForbidden, Message: "requests from web pages of another origin are refused", Cause: err}
	}
	return nil
}

// originAllowed reports whether pages of origin may send requests to host, whatever
// their method: the handshake of a WebSocket is a GET that does more than look.
func (s *Server) originAllowed(host, origin string) bool {
	if origin == "" || slices.ContainsFunc(s.options.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

func (s *Server) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || slices.ContainsFunc(s.options.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.IsLoopback() || slices.ContainsFunc(s.options.Hosts, func(h string) bool {
		listen, err := netip.ParseAddr(h)
		return err == nil && listen.IsUnspecified()
	})
}

// checkPath refuses paths that the mux would answer with a redirect to another
// one: a submit to the thread ".." must not become a submit to a new thread.
func (s *Server) checkPath(_ *response, r *http.Request) error {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return badRequest("query", "is not a query: check its escapes")
	}
	path, inThreads := strings.CutPrefix(r.URL.EscapedPath(), "/v1/threads/")
	if path == "/" || path == "*" {
		return nil
	}
	if !inThreads {
		path = strings.TrimPrefix(path, "/")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" && segment != "." && segment != ".." {
			continue
		}
		if inThreads && path != "" {
			return &mailroom.Error{
				Code: mailroom.CodeInvalid, Message: fmt.Sprintf("%q is not a thread id", segment),
				Fields: []mailroom.Field{{Location: "path.thread", Message: "is not a thread id", Value: segment}},
			}
		}
		return noRoute(r)
	}
	return nil
}

// authenticate finds out whose the token is. What is for anybody needs none.
func (s *Server) authenticate(out *response, r *http.Request) error {
	q := requestOf(r.Context())
	_, q.route = s.mux.match(r)
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	q.token = strings.TrimSpace(token)
	if s.mux.isPublic(r, q.route) {
		return nil
	}
	if s.mux.permissions[q.route] == accessPerFrame && r.Header.Get("Authorization") == "" {
		return nil // a web page cannot send it: it comes as the first frame
	}
	if g := s.tokens.lookup(q.token); g != nil && strings.EqualFold(scheme, "Bearer") {
		q.setGrant(g)
		return nil
	}
	out.Header().Set("WWW-Authenticate", "Bearer")
	if q.token != "" && strings.EqualFold(scheme, "Bearer") {
		return mailroom.Errorf(mailroom.CodeUnauthenticated, "the token is wrong, or was revoked")
	}
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "send the token as header Authorization: Bearer TOKEN")
}

// checkRoute answers for the mux when it knows no handler, because the mux does not
// speak in problems.
func (s *Server) checkRoute(out *response, r *http.Request) error {
	if requestOf(r.Context()).route != "" {
		return nil
	}
	h, _ := s.mux.match(r)
	answer := &probe{header: http.Header{}}
	h.ServeHTTP(answer, r)
	if answer.status != http.StatusMethodNotAllowed {
		return noRoute(r)
	}
	allow := answer.header.Get("Allow")
	out.Header().Set("Allow", allow)
	return withStatus(http.StatusMethodNotAllowed, mailroom.Errorf(mailroom.CodeInvalid, "method %s is not for this path: use %s", truncate(r.Method), allow))
}

// authorize refuses who lacks the scope that the route names.
func (s *Server) authorize(_ *response, r *http.Request) error {
	q := requestOf(r.Context())
	if need := s.mux.permissions[q.route]; need != accessPublic && need != accessPerFrame && need != accessPerRequest {
		return q.who.Need(need)
	}
	return nil
}

// probe takes the mux's own answer, to be said in other words.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func noRoute(r *http.Request) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "there is nothing at %q: see /openapi.json", truncate(r.URL.Path))
}

// truncate cuts what a caller chose before it comes back in a message.
func truncate(s string) string {
	const most = 100
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// withStatus answers err with another status than its code's own.
func withStatus(status int, err error) error { return &statusError{status: status, err: err} }

// badRequest is the refusal of what cannot be parsed at all.
func badRequest(location, message string) error {
	return withStatus(http.StatusBadRequest, &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: location + " " + message,
		Fields: []mailroom.Field{{Location: location, Message: message}},
	})
}

type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func statusOf(err error) (int, bool) {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status, true
	}
	return 0, false
}
