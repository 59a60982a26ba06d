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
	switch {
	case s.options.Limits.Submits < 0, r.Method == http.MethodGet, r.Method == http.MethodHead,
		r.Method == http.MethodOptions:
		return nil
	}
	switch need := s.mux.permissions[q.route]; need {
	case accessPublic, accessPerFrame, accessPerRequest, auth.PermissionWork: // no token yet, or the requests made for it count
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
