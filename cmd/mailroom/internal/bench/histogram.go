package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts times in buckets that are at most 1/128 wide. Any number of
// goroutines may add to it, and its size does not depend on how much is added.
type histogram struct {
	counts [buckets]atomic.Int64
	sum    atomic.Int64 // ns
	max    atomic.Int64 // ns
}

const (
	subBucketBits = 7 // bits of a time that are kept below its highest
	buckets       = (64 - subBucketBits) << subBucketBits
)

func (h *histogram) add(d time.Duration) {
	ns := max(d.Nanoseconds(), 0)
	h.counts[bucket(ns)].Add(1)
	h.sum.Add(ns)
	for {
		longest := h.max.Load()
		if ns <= longest || h.max.CompareAndSwap(longest, ns) {
			return
		}
	}
}

func bucket(ns int64) int {
	exponent := bits.Len64(uint64(ns)) - subBucketBits - 1
	if exponent <= 0 {
		return int(ns) // below 2^(fine+1) every number has its own
	}
	return exponent<<subBucketBits + int(ns>>exponent)
}

// middle of a bucket, in ns.
func middle(i int) int64 {
	exponent := i>>subBucketBits - 1
	if exponent <= 0 {
		return int64(i)
	}
	low := int64(i-exponent<<subBucketBits) << exponent
	return low + int64(1)<<exponent/2
}

// Times are the order statistics of many times, in milliseconds.
type Times struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	Mean  float64 `json:"mean_ms"`
}

func (h *histogram) times() Times {
	var t Times
	for i := range h.counts {
		t.Count += h.counts[i].Load()
	}
	if t.Count == 0 {
		return t
	}
	t.P50, t.P99 = h.percentile(t.Count, 50), h.percentile(t.Count, 99)
	t.Max = milliseconds(h.max.Load())
	t.Mean = milliseconds(h.sum.Load()) / float64(t.Count)
	return t
}

// percentile is the smallest time that so many percent are not above.
func (h *histogram) percentile(count, percent int64) float64 {
	rank := (count*percent + 99) / 100
	for i := range h.counts {
		if rank -= h.counts[i].Load(); rank <= 0 {
			return milliseconds(min(middle(i), h.max.Load()))
		}
	}
	return milliseconds(h.max.Load())
}

func milliseconds(ns int64) float64 { return float64(ns) / 1e6 }
