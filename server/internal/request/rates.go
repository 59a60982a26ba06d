package request

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates bound how often each token does something.
type Rates struct {
	// Set by NewRates.
	rate  rate.Limit // per second
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // owned by mu; by token name
}

// NewRates makes limits of perSecond units a second, and burst at once.
func NewRates(perSecond rate.Limit, burst int) *Rates {
	return &Rates{rate: perSecond, burst: burst, buckets: map[string]*rate.Limiter{}}
}

// PerSecond is the rate of a token.
func (p *Rates) PerSecond() float64 { return float64(p.rate) }

// maxBuckets bounds the buckets in memory. Full buckets are evicted: a new one starts full as well.
const maxBuckets = 1024

// Allow spends one unit of who's bucket and returns 0. If the bucket is empty, it spends nothing
// and returns how long to wait.
func (p *Rates) Allow(who string, now time.Time) time.Duration {
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
func (p *Rates) evictFull(now time.Time) {
	for who, bucket := range p.buckets {
		if bucket.TokensAt(now) >= float64(p.burst) {
			delete(p.buckets, who)
		}
	}
}
