package request

import (
	"fmt"
	"testing"
	"time"
)

func TestASubmitIsAcceptedAfterItsRetryAfter(t *testing.T) {
	p, now := NewRates(0.5, 3), time.Unix(1000, 0)
	for i := range 3 {
		if wait := p.Allow("anna", now); wait != 0 {
			t.Fatalf("submit %d: wait %s", i+1, wait)
		}
	}
	for range 5 { // refusals do not count
		if wait := p.Allow("anna", now); wait != 2*time.Second {
			t.Fatalf("one too many: wait %s, want 2 s", wait)
		}
	}
	if wait := p.Allow("ben", now); wait != 0 {
		t.Errorf("another token: wait %s", wait)
	}
	if wait := p.Allow("anna", now.Add(1900*time.Millisecond)); wait != 100*time.Millisecond {
		t.Errorf("before its time: wait %s, want 100 ms", wait)
	}
	if wait := p.Allow("anna", now.Add(2*time.Second)); wait != 0 {
		t.Errorf("after the wait: wait %s", wait)
	}
}

func TestFullBucketsAreEvicted(t *testing.T) {
	p, now := NewRates(1, 2), time.Unix(1000, 0)
	take := func(who string, at time.Time) {
		t.Helper()
		if wait := p.Allow(who, at); wait != 0 {
			t.Fatalf("wait of %s is %s", who, wait)
		}
	}
	for i := range maxBuckets {
		take(fmt.Sprint(i), now)
	}
	take("busy", now.Add(time.Minute))
	take("busy", now.Add(time.Minute))
	for i := range maxBuckets {
		take(fmt.Sprintf("later %d", i), now.Add(time.Minute))
	}
	if got := len(p.buckets); got > maxBuckets+1 {
		t.Errorf("%d buckets are kept, want about %d", got, maxBuckets)
	}
	if wait := p.Allow("busy", now.Add(time.Minute)); wait == 0 {
		t.Error("a token at its limit was evicted")
	}
}
