package main

import (
	"testing"
	"time"
)

func TestMessagesOfSchedulesAreCountedByTheirMinutes(t *testing.T) {
	begin := time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC)
	a := &arrivals{times: map[string][]time.Time{
		"2026-03-07T19:59:00Z s0": {begin.Add(-time.Second)}, // of the warm-up
		"2026-03-07T20:00:00Z s0": {begin.Add(3 * time.Second)},
		"2026-03-07T20:01:00Z s0": {begin.Add(63 * time.Second), begin.Add(64 * time.Second)},
		"2026-03-07T20:00:00Z s1": {begin.Add(3 * time.Second)},
		"2026-03-07T20:02:00Z s1": {begin.Add(121 * time.Second)}, // after the end
	}}
	s := &Schedules{Schedules: 2}
	a.judge(s, begin, begin.Add(2*time.Minute))
	want := Schedules{Schedules: 2, Sent: 4, Lost: 1, Twice: 1,
		PerSecond: Range{Greatest: 2, Mean: 4. / 120}}
	if *s != want {
		t.Errorf("got %+v, want %+v", *s, want)
	}
}
