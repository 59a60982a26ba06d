package server

import (
	"net/http"

	"mailroom"
)

// What routes need that need no scope.
const (
	anybody  mailroom.Permission = "anybody"   // no token either
	inFrames mailroom.Permission = "in frames" // a token, which may come later: each frame is a request with its own need
	requests mailroom.Permission = "requests"  // a token; each request that is made for it has its own need
)

// routes is the mux, and what each of its routes needs.
type routes struct {
	*http.ServeMux
	needs map[string]mailroom.Permission // by pattern
}

func newRoutes() *routes {
	return &routes{ServeMux: http.NewServeMux(), needs: map[string]mailroom.Permission{}}
}

// need says what a route needs, before it is handled.
func (m *routes) need(pattern string, p mailroom.Permission) { m.needs[pattern] = p }

// HandleFunc registers a handler. A server with a route of which nobody has said
// who may take it must not start.
func (m *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if m.needs[pattern] == "" {
		panic("route " + pattern + " names no scope that it needs")
	}
	m.ServeMux.HandleFunc(pattern, h)
}

// Handle is HandleFunc for a handler.
func (m *routes) Handle(pattern string, h http.Handler) { m.HandleFunc(pattern, h.ServeHTTP) }

// match finds the route of a request: its handler, which for a request without a
// route tells the mux's reason, and its pattern, "" for none.
func (m *routes) match(r *http.Request) (h http.Handler, pattern string) {
	return m.ServeMux.Handler(r)
}

// open reports whether the path of r is for anybody, also under a method that it
// does not have.
func (m *routes) open(r *http.Request, pattern string) bool {
	if pattern == "" {
		get := *r
		get.Method = http.MethodGet
		_, pattern = m.match(&get)
	}
	return m.needs[pattern] == anybody
}

// public registers what needs no token: static pages, and what tells how the
// server is.
func (f face) public(pattern string, h http.HandlerFunc) {
	f.server.mux.need(pattern, anybody)
	f.server.mux.HandleFunc(pattern, h)
}
