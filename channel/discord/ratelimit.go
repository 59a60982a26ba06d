package discord

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"mailroom/channel/httpcall"
)

// rateLimits records the rate limits that Discord reported. Calls that Discord would reject are
// not made: too many rejected calls block the IP address.
type rateLimits struct {
	// Owned by mu.
	mu          sync.Mutex
	routes      map[string]time.Time // used up until
	globalUntil time.Time            // time before which no call is made
}

// maxRoutes bounds the recorded routes; expired ones are removed first.
const maxRoutes = 1000

// routeOf names what a rate limit applies to: a method and path with the channel's id, without
// the ids of messages.
func routeOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i := 3; i < len(words); i++ {
		if snowflake(words[i]) != 0 {
			words[i] = "*"
		}
	}
	return method + " " + strings.Join(words, "/")
}

// wait returns how long a route is blocked, and whether that is due to the global limit.
func (l *rateLimits) wait(route string, now time.Time) (wait time.Duration, global bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = l.routes[route].Sub(now)
	if all := l.globalUntil.Sub(now); all > wait {
		return all, true
	}
	return max(wait, 0), false
}

// update records the limit that a response reports for its route.
func (l *rateLimits) update(route string, h http.Header, now time.Time) {
	if h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	if after := httpcall.ParseRetryAfter(h.Get("X-RateLimit-Reset-After"), now); after > 0 {
		l.block(route, now.Add(after), now)
	}
}

// onRejected records a 429 response.
func (l *rateLimits) onRejected(route string, e *httpcall.Refusal, now time.Time) {
	if e.Everywhere {
		l.mu.Lock()
		defer l.mu.Unlock()
		if until := now.Add(e.RetryAfter); until.After(l.globalUntil) {
			l.globalUntil = until
		}
		return
	}
	l.block(route, now.Add(e.RetryAfter), now)
}

func (l *rateLimits) block(route string, until, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.routes == nil {
		l.routes = map[string]time.Time{}
	}
	if len(l.routes) >= maxRoutes {
		for r, t := range l.routes {
			if !t.After(now) {
				delete(l.routes, r)
			}
		}
	}
	if until.After(l.routes[route]) {
		l.routes[route] = until
	}
}
