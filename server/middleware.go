package server

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/server/internal/request"
)

// runMiddleware runs the checks that every request passes before its handler.
func (s *Server) runMiddleware(out *response, r *http.Request) error {
	for _, gate := range []func(*response, *http.Request) error{
		s.checkHostAndOrigin, s.handleCORS, s.checkPath, s.authenticate, s.checkRoute, s.authorize, s.limitRate, s.readBody,
		s.authorizeAgain,
	} {
		if err := gate(out, r); err != nil {
			return err
		}
	}
	return nil
}

// checkHostAndOrigin refuses cross-origin requests of web pages, and requests to a host name that
// is not configured (DNS rebinding).
func (s *Server) checkHostAndOrigin(_ *response, r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return mailroom.Errorf(mailroom.CodeForbidden,
			"unknown host %q: use localhost, or add the name to hosts", request.Truncate(r.Host))
	}
	if origin := r.Header.Get("Origin"); !s.originAllowed(r.Host, origin) {
		return mailroom.Errorf(mailroom.CodeForbidden,
			"unknown origin %q: add it to origins to allow requests from its pages", request.Truncate(origin))
	}
	if err := s.origins.Check(r); err != nil {
		return &mailroom.Error{Code: mailroom.CodeForbidden, Message: "cross-origin requests of web pages are refused",
			Cause: err}
	}
	return nil
}

// originAllowed reports whether pages of origin may send requests to host. It applies to every
// method, because a WebSocket handshake is a GET that can write.
func (s *Server) originAllowed(host, origin string) bool {
	if origin == "" || slices.ContainsFunc(s.options.Access.Origins, func(o string) bool {
		return strings.EqualFold(o, origin)
	}) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// hostAllowed reports whether the server answers requests with this Host header.
func (s *Server) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || slices.ContainsFunc(s.options.Access.Hosts, func(h string) bool {
		return strings.EqualFold(h, host)
	}) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.IsLoopback() || slices.ContainsFunc(s.options.Access.Hosts, func(h string) bool {
		listen, err := netip.ParseAddr(h)
		return err == nil && listen.IsUnspecified()
	})
}

// unclean is what is wrong with text that not every store can look up.
const unclean = "has a NUL or bytes that are not UTF-8: check its percent-encoding"

// checkPath refuses malformed queries, text that not every store can look up, and paths that the mux would
// redirect: a submit to the thread ".." must not become a submit to a new thread.
func (s *Server) checkPath(_ *response, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return request.Malformed("query", "is malformed: check its percent-encoding")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) { // the same answer each time
		if !check.IsClean(name) {
			return request.Invalid("query", unclean, nil)
		}
		if slices.ContainsFunc(query[name], func(v string) bool { return !check.IsClean(v) }) {
			return request.Invalid("query."+request.Truncate(name), unclean, nil)
		}
	}
	if !check.IsClean(r.URL.Path) {
		location := "path"
		id, inThreads := strings.CutPrefix(r.URL.Path, "/v1/threads/")
		if id, _, _ = strings.Cut(id, "/"); inThreads && !check.IsClean(id) {
			location = "path.thread"
		}
		return request.Invalid(location, unclean, nil)
	}
	path, inThreads := strings.CutPrefix(r.URL.EscapedPath(), "/v1/threads/")
	if path == "/" || path == "*" || path == "/docs/" { // the first page of the manual
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

// authenticate finds the token of a request in the header Authorization: a token, or the page's half of the session
// of a browser. Public routes need none.
func (s *Server) authenticate(out *response, r *http.Request) error {
	q := requestOf(r.Context())
	_, q.route = s.mux.match(r)
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	q.token = strings.TrimSpace(token)
	if s.mux.isPublic(r, q.route) {
		return nil
	}
	if s.mux.permissions[q.route] == accessPerFrame && header == "" {
		return nil // browsers cannot set the header; the first frame has the token
	}
	if strings.EqualFold(scheme, schemeSession) {
		g, err := s.session(r, q.token)
		switch {
		case err != nil:
			return err
		case g == nil:
			return mailroom.Errorf(mailroom.CodeUnauthenticated, "the session has ended: sign in again")
		}
		q.setGrant(g)
		return nil
	}
	if strings.EqualFold(scheme, "Bearer") && q.token != "" {
		g, err := s.tokens.find(r.Context(), sha256.Sum256([]byte(q.token)))
		if err != nil {
			return err
		}
		if g != nil && isBearer(g.token) {
			q.setGrant(g)
			return nil
		}
	}
	out.Header().Set("WWW-Authenticate", "Bearer")
	if q.token != "" && strings.EqualFold(scheme, "Bearer") {
		return mailroom.Errorf(mailroom.CodeUnauthenticated, "unknown, expired or revoked token")
	}
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "missing token: send the header Authorization: Bearer TOKEN")
}

// checkRoute answers requests without a route with a problem, in place of the mux's plain text.
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
	return request.WithStatus(http.StatusMethodNotAllowed, mailroom.Errorf(mailroom.CodeInvalid,
		"method %s is not allowed here: use %s", request.Truncate(r.Method), allow))
}

// authorize checks that the token has the permission of the route.
func (s *Server) authorize(_ *response, r *http.Request) error {
	q := requestOf(r.Context())
	if err := checkTerms(q.who, q.route); err != nil {
		return err
	}
	switch need := s.mux.permissions[q.route]; need {
	case accessPublic, accessPerFrame, accessPerRequest, accessAnyToken:
		return nil
	default:
		return q.who.Require(need)
	}
}

// authorizeAgain checks the token once more when the body has arrived, which a caller may send as slowly as the server
// waits for it. The write that follows checks it in its transaction, see [ledger.WithCaller].
func (s *Server) authorizeAgain(out *response, r *http.Request) error {
	q := requestOf(r.Context())
	if r.ContentLength == 0 || q.grant == s.anonymous {
		return nil
	}
	g, err := s.tokens.find(r.Context(), q.grant.hash)
	switch {
	case err != nil:
		return err
	case g == nil:
		return request.ErrRevoked()
	case g == q.grant:
		return nil
	}
	q.setGrant(g) // the rights of the token have changed
	return s.authorize(out, r)
}

// probe records the status and header that the mux answers with.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func noRoute(r *http.Request) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no route %q: see /openapi.json", request.Truncate(r.URL.Path))
}
