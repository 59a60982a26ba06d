package server

import (
	"fmt"
	"net/http"
	"time"

	"mailroom"
	"mailroom/auth"
)

// limitRate refuses writes above the token's rate, before their bodies are read. A worker's writes
// are not counted: its claims bound them.
func (s *Server) limitRate(_ *response, r *http.Request) error {
	q := requestOf(r.Context())
	if s.options.Limits.Submits < 0 || !limitsRate(r.Method, s.mux.permissions[q.route]) {
		return nil
	}
	wait := s.writeLimits.Allow(q.who.Name, time.Now())
	if wait == 0 {
		return nil
	}
	return &mailroom.Error{
		Code: mailroom.CodeRateLimited, RetryAfter: wait,
		Message: fmt.Sprintf(
			"more than %g writes per second by this token: slow down, or ask the operator to raise limits.submits",
			s.writeLimits.PerSecond()),
	}
}

// limitsRate reports whether a request counts towards the rate of its token: a write counts.
func limitsRate(method string, need auth.Permission) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	switch need {
	case accessPublic, accessPerFrame, accessPerRequest, auth.PermissionWork:
		return false // the request has no token yet, or the requests that the protocol makes for it count
	}
	return true
}
