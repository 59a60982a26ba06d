package server

import (
	"net/http"

	"mailroom"
)

// What routes need that need no scope.
const (
	accessPublic     mailroom.Permission = "anybody"   // no token either
	accessPerFrame   mailroom.Permission = "in frames" // a token, which may come later: each frame is a request with its own need
	accessPerRequest mailroom.Permission = "requests"  // a token; each request that is made for it has its own need
)

// routeTable is the mux, and what each of its routes needs.
type routeTable struct {
	*http.ServeMux
	permissions map[string]mailroom.Permission // by pattern
}

func newRouteTable() *routeTable {
	return &routeTable{ServeMux: http.NewServeMux(), permissions: map[string]mailroom.Permission{}}
}

// require says what a route needs, before it is handled.
func (m *routeTable) require(pattern string, p mailroom.Permission) { m.permissions[pattern] = p }

// HandleFunc registers a handler. A server with a route of which nobody has said
// who may take it must not start.
func (m *routeTable) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if m.permissions[pattern] == "" {
		panic("route " + pattern + " names no scope that it needs")
	}
	m.ServeMux.HandleFunc(pattern, h)
}

// Handle is HandleFunc for a handler.
func (m *routeTable) Handle(pattern string, h http.Handler) { m.HandleFunc(pattern, h.ServeHTTP) }

// match finds the route of a request: its handler, which for a request without a
// route tells the mux's reason, and its pattern, "" for none.
func (m *routeTable) match(r *http.Request) (h http.Handler, pattern string) {
	return m.ServeMux.Handler(r)
}

// isPublic reports whether the path of r is for anybody, also under a method that it
// does not have.
func (m *routeTable) isPublic(r *http.Request, pattern string) bool {
	if pattern == "" {
		get := *r
		get.Method = http.MethodGet
		_, pattern = m.match(&get)
	}
	return m.permissions[pattern] == accessPublic
}

// registerPublic registers what needs no token: static pages, and what tells how the
// server is.
func (rt router) registerPublic(pattern string, h http.HandlerFunc) {
	rt.server.mux.require(pattern, accessPublic)
	rt.server.mux.HandleFunc(pattern, h)
}
