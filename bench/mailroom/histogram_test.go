package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsHoldTheirTimesWithinOnePercent(t *testing.T) {
	for _, ns := range []int64{0, 1, 2, 127, 128, 255, 256, 257, 1000, 999_999, 1 << 20, 1<<40 + 12345, math.MaxInt64} {
		i := bucket(ns)
		if i < 0 || i >= buckets {
			t.Fatalf("bucket of %d ns is %d of %d", ns, i, buckets)
		}
		if got := middle(i); math.Abs(float64(got-ns)) > float64(ns)/100 {
			t.Errorf("%d ns is recorded as %d", ns, got)
		}
	}
}

func TestQuantilesEqualThoseOfTheSortedList(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	var h histogram
	var all []float64
	sum := 0.0
	for range 10_000 {
		d := time.Duration(math.Exp(random.NormFloat64()) * float64(time.Millisecond))
		h.add(d)
		all = append(all, milliseconds(int64(d)))
		sum += milliseconds(int64(d))
	}
	slices.Sort(all)
	got := h.times()
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"count", float64(got.Count), 10_000},
		{"median", got.P50, all[4999]},
		{"99th percentile", got.P99, all[9899]},
		{"longest", got.Max, all[9999]},
		{"mean", got.Mean, sum / 10_000},
	} {
		if math.Abs(c.got-c.want) > c.want/100 {
			t.Errorf("%s is %g, want %g", c.name, c.got, c.want)
		}
	}
	if got := new(histogram).times(); got != (Times{}) {
		t.Errorf("summary without times: %+v", got)
	}
}
