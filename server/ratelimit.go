package server

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mailroom"
	"mailroom/auth"
)

// limitRate refuses writes above the token's rate, before their bodies are read. A worker's writes
// are not counted: its claims bound them.
func (s *Server) limitRate(_ *response, r *http.Request) error {
	q := requestOf(r.Context())
	switch {
	case s.options.Submits < 0, r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return nil
	}
	switch need := s.mux.permissions[q.route]; need {
	case accessPublic, accessPerFrame, accessPerRequest, auth.PermissionWork: // no token yet, or the requests made for it count
		return nil
	}
	wait := s.writeLimits.allow(q.who.Name, time.Now())
	if wait == 0 {
		return nil
	}
	return &mailroom.Error{
		Code: mailroom.CodeRateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("more than %g writes per second by this token: slow down, or ask the operator to raise limits.submits", float64(s.writeLimits.rate)),
	}
}

// rateLimiter limits how often each token does something.
type rateLimiter struct {
	// Set by New.
	rate  rate.Limit // per second
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // owned by mu; by token name
}

// maxBuckets bounds the buckets in memory. Full buckets are evicted: a new one starts full as well.
const maxBuckets = 1024

// allow spends one unit of who's bucket and returns 0. If the bucket is empty, it spends nothing
// and returns how long to wait.
func (p *rateLimiter) allow(who string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	bucket := p.buckets[who]
	if bucket == nil {
		if len(p.buckets) >= maxBuckets {
			p.evictFull(now)
		}
		bucket = rate.NewLimiter(p.rate, p.burst)
		p.buckets[who] = bucket
	}
	next := bucket.ReserveN(now, 1)
	wait := next.DelayFrom(now)
	if wait > 0 {
		next.CancelAt(now) // a refused attempt costs nothing
	}
	return wait
}

// evictFull drops the buckets that are full. The caller holds p.mu.
func (p *rateLimiter) evictFull(now time.Time) {
	for who, bucket := range p.buckets {
		if bucket.TokensAt(now) >= float64(p.burst) {
			delete(p.buckets, who)
		}
	}
}
