package server

import (
	"net/http"

	"mailroom/auth"
)

// Access of routes that require no scope.
const (
	accessPublic auth.Permission = "public" // no token is needed
	// a token, possibly in the first frame; each frame needs its own scope
	accessPerFrame auth.Permission = "per frame"
	// a token; each request made on the caller's behalf needs its own scope
	accessPerRequest auth.Permission = "per request"
	accessAnyToken   auth.Permission = "any token" // a token, whatever its scopes are
)

// routeTable is a mux that knows the permission each route requires.
type routeTable struct {
	*http.ServeMux
	permissions map[string]auth.Permission // permission that each pattern needs
}

func newRouteTable() *routeTable {
	return &routeTable{ServeMux: http.NewServeMux(), permissions: map[string]auth.Permission{}}
}

// require sets the permission of a route. Call it before HandleFunc.
func (m *routeTable) require(pattern string, p auth.Permission) { m.permissions[pattern] = p }

// HandleFunc registers a handler. It panics if the route declares no permission.
func (m *routeTable) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if m.permissions[pattern] == "" {
		panic("route " + pattern + " declares no permission")
	}
	m.ServeMux.HandleFunc(pattern, h)
}

// Handle is HandleFunc for an http.Handler.
func (m *routeTable) Handle(pattern string, h http.Handler) { m.HandleFunc(pattern, h.ServeHTTP) }

// match finds the handler and pattern of a request. Without a matching route, pattern is "" and h
// writes the mux's own refusal.
func (m *routeTable) match(r *http.Request) (h http.Handler, pattern string) {
	return m.ServeMux.Handler(r)
}

// isPublic reports whether the path of r needs no token. It also holds for a method that the path
// does not support.
func (m *routeTable) isPublic(r *http.Request, pattern string) bool {
	if pattern == "" {
		get := *r
		get.Method = http.MethodGet
		_, pattern = m.match(&get)
	}
	return m.permissions[pattern] == accessPublic
}
