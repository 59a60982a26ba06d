package proc

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAChildThatWaitsOrWorksIsNotIdle lets hours without output pass, and checks after which time and why the child
// is stopped.
func TestAChildThatWaitsOrWorksIsNotIdle(t *testing.T) {
	const idle, busy = 10 * time.Minute, 2 * time.Hour
	never := func() bool { return false }
	always := func() bool { return true }
	until := func(d time.Duration) func() func() bool {
		return func() func() bool {
			begin := time.Now()
			return func() bool { return time.Since(begin) < d }
		}
	}
	is := func(f func() bool) func() func() bool { return func() func() bool { return f } }
	cases := []struct {
		name    string
		limits  Limits
		working func() func() bool
		load    float64 // part of a processor that the tree uses
		want    error
		after   time.Duration // at most
	}{
		{"silent", Limits{Idle: idle, Busy: busy}, is(never), 0, ErrIdle, idle + 30*time.Second},
		{"nearly silent", Limits{Idle: idle, Busy: busy}, is(never), 0.02, ErrIdle, idle + 30*time.Second},
		{"a call is open", Limits{Idle: idle, Busy: busy}, is(always), 0, ErrBusy, busy},
		{"a call is open, without a limit", Limits{Idle: idle}, is(always), 0, nil, 0},
		{"a call is open, no idle limit", Limits{Busy: busy}, is(always), 0, ErrBusy, busy},
		{"no call, no idle limit", Limits{Busy: busy}, is(never), 0, nil, 0},
		{"a shorter limit for calls", Limits{Idle: idle, Busy: time.Minute}, is(always), 0, ErrBusy, time.Minute},
		{"silent, with a shorter limit for calls", Limits{Idle: idle, Busy: time.Minute}, is(never), 0, ErrIdle, idle + 30*time.Second},
		{"a call that is over", Limits{Idle: idle, Busy: busy}, until(25 * time.Minute), 0, ErrIdle, 31 * time.Minute},
		{"its processes work", Limits{Idle: idle, Busy: busy}, is(never), 0.5, ErrBusy, busy + 30*time.Second},
		{"its processes work, but nothing counts calls", Limits{Idle: idle, Busy: busy}, is(nil), 0.5, ErrIdle, idle},
		{"nothing at the start", Limits{Start: time.Minute, Idle: idle, Busy: busy}, is(always), 1, ErrStart, time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				c.limits.Working = c.working()
				s := newSilence(c.limits, func() time.Duration { return time.Duration(c.load * float64(time.Since(begin))) })
				defer s.timer.Stop()
				end := time.After(24 * time.Hour)
				for {
					select {
					case <-s.timer.C:
						why := s.judge()
						if why == nil {
							continue
						}
						if !errors.Is(why, c.want) || time.Since(begin) > c.after {
							t.Errorf("stopped after %v: %v; want %v within %v", time.Since(begin), why, c.want, c.after)
						}
					case <-end:
						if c.want != nil {
							t.Errorf("still runs after a day, want %v", c.want)
						}
					}
					return
				}
			})
		})
	}
}

// TestOutputEndsASilence has a call of 25 minutes twice, each followed by output: no limit of the first counts for
// the second.
func TestOutputEndsASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilence(Limits{Idle: 10 * time.Minute, Busy: 30 * time.Minute, Working: func() bool { return true }}, nil)
		defer s.timer.Stop()
		for range 2 {
			output := time.After(25 * time.Minute)
			for open := true; open; {
				select {
				case <-s.timer.C:
					if why := s.judge(); why != nil {
						t.Fatalf("stopped: %v", why)
					}
				case <-output:
					s.end()
					open = false
				}
			}
		}
	})
}
