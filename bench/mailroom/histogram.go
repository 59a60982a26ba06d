package main

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts times in buckets with a relative width of at most 1/128. It has a fixed
// size and is safe for concurrent use.
type histogram struct {
	counts [buckets]atomic.Int64
	sum    atomic.Int64 // ns
	max    atomic.Int64 // ns
}

const (
	subBucketBits = 7 // bits kept below the highest bit of a time
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

// merge adds the times of another histogram.
func (h *histogram) merge(o *histogram) {
	for i := range o.counts {
		h.counts[i].Add(o.counts[i].Load())
	}
	h.sum.Add(o.sum.Load())
	h.max.Store(max(h.max.Load(), o.max.Load()))
}

// histogramJSON is the encoded form of a histogram, with the buckets that are not empty.
type histogramJSON struct {
	Counts map[int]int64 `json:"counts"`
	Sum    int64         `json:"sum_ns"`
	Max    int64         `json:"max_ns"`
}

// MarshalJSON implements [json.Marshaler].
func (h *histogram) MarshalJSON() ([]byte, error) {
	out := histogramJSON{Counts: map[int]int64{}, Sum: h.sum.Load(), Max: h.max.Load()}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			out.Counts[i] = n
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *histogram) UnmarshalJSON(b []byte) error {
	var in histogramJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for i, n := range in.Counts {
		if i < 0 || i >= buckets {
			return fmt.Errorf("unknown bucket %d", i)
		}
		h.counts[i].Store(n)
	}
	h.sum.Store(in.Sum)
	h.max.Store(in.Max)
	return nil
}

func bucket(ns int64) int {
	exponent := bits.Len64(uint64(ns)) - subBucketBits - 1
	if exponent <= 0 {
		return int(ns) // below 2^(subBucketBits+1) every value has its own bucket
	}
	return exponent<<subBucketBits + int(ns>>exponent)
}

// middle returns the middle of a bucket, in ns.
func middle(i int) int64 {
	exponent := i>>subBucketBits - 1
	if exponent <= 0 {
		return int64(i)
	}
	low := int64(i-exponent<<subBucketBits) << exponent
	return low + int64(1)<<exponent/2
}

// Times summarizes a distribution of times, in milliseconds.
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

// percentile returns the smallest time that is not exceeded by the given percentage of
// times.
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
