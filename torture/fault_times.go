package main

import (
	"slices"
	"sync"
	"time"
)

// faultTimes are the times of the kills and other faults so far.
type faultTimes struct {
	mu   sync.Mutex
	list []span // owned by mu, in order; a kill has no length
}

type span struct{ begin, end time.Time }

// addKill adds a kill or a stop that happens now.
func (f *faultTimes) addKill() {
	now := time.Now()
	f.add(span{now, now})
}

// begin adds a fault that lasts until end is called.
func (f *faultTimes) begin() {
	now := time.Now()
	f.add(span{now, now.Add(time.Hour)})
}

func (f *faultTimes) add(s span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, s)
}

// end ends the last fault.
func (f *faultTimes) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list[len(f.list)-1].end = time.Now()
}

// near reports whether a server had a fault at a time, or within some time before or after it.
func (f *faultTimes) near(at time.Time, within time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.list, func(s span) bool {
		return !s.begin.After(at.Add(within)) && !s.end.Before(at.Add(-within))
	})
}
