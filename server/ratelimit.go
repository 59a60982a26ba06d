package server

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mailroom"
)

// limitRate refuses writes of a token that writes more often than it may, before
// anything of them is read. What a worker does for the runs that it holds is bounded
// by the runs.
func (s *Server) limitRate(_ *response, r *http.Request) error {
	q := requestOf(r.Context())
	switch {
	case s.options.Submits < 0, r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return nil
	}
	switch need := s.mux.permissions[q.route]; need {
	case accessPublic, accessPerFrame, accessPerRequest, mailroom.PermissionWork: // nobody's yet, or counted with what it asks for
		return nil
	}
	wait := s.writeLimits.allow(q.who.Name, time.Now())
	if wait == 0 {
		return nil
	}
	return &mailroom.Error{
		Code: mailroom.CodeRateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("this token writes more than %g times a second: slow down, or let the operator raise limits.submits", float64(s.writeLimits.rate)),
	}
}

// rateLimiter bounds how often each token does something.
type rateLimiter struct {
	// set by New
	rate  rate.Limit // times a second
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // owned by mu, by the token's name
}

// maxBuckets is how many may rest: a token that was not used lately has a full
// bucket, which is as good as none.
const maxBuckets = 1024

// allow counts one more and returns 0, or counts nothing and returns how long it is too
// early.
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
		next.CancelAt(now) // what is refused costs nothing
	}
	return wait
}

// evictFull drops what is full. p.mu is held.
func (p *rateLimiter) evictFull(now time.Time) {
	for who, bucket := range p.buckets {
		if bucket.TokensAt(now) >= float64(p.burst) {
			delete(p.buckets, who)
		}
	}
}
