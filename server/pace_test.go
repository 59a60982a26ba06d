package server

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"mailroom"
)

func newPaces(every rate.Limit, burst int) *paces {
	return &paces{every: every, burst: burst, buckets: map[string]*rate.Limiter{}}
}

func TestASubmitIsTakenAgainWhenItsRefusalSaid(t *testing.T) {
	p, now := newPaces(0.5, 3), time.Unix(1000, 0)
	for i := range 3 {
		if err := p.take("anna", now); err != nil {
			t.Fatalf("submit %d: %v", i+1, err)
		}
	}
	for range 5 { // refusals put nothing off
		err := p.take("anna", now)
		e, ok := errors.AsType[*mailroom.Error](err)
		if !ok || e.Code != mailroom.RateLimited || e.RetryAfter != 2*time.Second {
			t.Fatalf("one too many: %#v, want rate_limited and 2 s", err)
		}
	}
	if err := p.take("ben", now); err != nil {
		t.Errorf("another token: %v", err)
	}
	if err := p.take("anna", now.Add(1900*time.Millisecond)); mailroom.CodeOf(err) != mailroom.RateLimited {
		t.Errorf("before its time: %v, want rate_limited", err)
	}
	if err := p.take("anna", now.Add(2*time.Second)); err != nil {
		t.Errorf("at its time: %v", err)
	}
}

func TestBucketsOfTokensThatRestAreDropped(t *testing.T) {
	p, now := newPaces(1, 2), time.Unix(1000, 0)
	take := func(who string, at time.Time) {
		t.Helper()
		if err := p.take(who, at); err != nil {
			t.Fatal(err)
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
	if err := p.take("busy", now.Add(time.Minute)); mailroom.CodeOf(err) != mailroom.RateLimited {
		t.Errorf("a token that is at its limit was forgotten: %v", err)
	}
}
