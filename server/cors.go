package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// errAnswered ends the middleware of a request that has been answered.
var errAnswered = errors.New("answered")

// handleCORS lets pages of the configured origins read responses, and answers CORS preflight
// requests, which carry no token.
func (s *Server) handleCORS(out *response, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if len(s.options.Access.Origins) == 0 {
		return nil
	}
	out.Header().Add("Vary", "Origin")
	if !slices.ContainsFunc(s.options.Access.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return nil
	}
	out.Header().Set("Access-Control-Allow-Origin", origin)
	out.Header().Set("Access-Control-Expose-Headers", "Retry-After, X-Request-ID")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return nil
	}
	out.Header().Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	allowed := []string{"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-ID"}
	allowed = append(allowed, protocolHeaders(s.options.Parts.Protocols)...)
	out.Header().Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	out.Header().Set("Access-Control-Max-Age", "600")
	out.WriteHeader(http.StatusNoContent)
	return errAnswered
}
