package discord

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// rateLimits are what the platform has said of how soon it may be asked again. Calls that
// it would refuse are not made: too many of them, and it takes none from this address.
type rateLimits struct {
	// Owned by mu.
	mu          sync.Mutex
	routes      map[string]time.Time // used up until then
	globalUntil time.Time            // nothing is asked before
}

// maxRoutes are remembered before those that are open again are forgotten.
const maxRoutes = 1000

// routeOf names what a limit is of: a kind of call about one channel, whatever message
// it is about.
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

// wait is how long a route must be left alone at now.
func (l *rateLimits) wait(route string, now time.Time) (wait time.Duration, global bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = l.routes[route].Sub(now)
	if all := l.globalUntil.Sub(now); all > wait {
		return all, true
	}
	return max(wait, 0), false
}

// update reads what an answer says of its route.
func (l *rateLimits) update(route string, h http.Header, now time.Time) {
	if h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	if after := seconds(parseNumber(h.Get("X-RateLimit-Reset-After"))); after > 0 {
		l.block(route, now.Add(after), now)
	}
}

// onRejected notes that a call came too early.
func (l *rateLimits) onRejected(route string, e *apiError, now time.Time) {
	if e.global {
		l.mu.Lock()
		defer l.mu.Unlock()
		if until := now.Add(e.retryAfter); until.After(l.globalUntil) {
			l.globalUntil = until
		}
		return
	}
	l.block(route, now.Add(e.retryAfter), now)
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
