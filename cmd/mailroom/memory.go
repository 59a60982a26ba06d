package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"mailroom/internal/recovery"
)

// A server keeps little and makes much. Garbage of gcPercent of what it keeps costs a few
// tens of megabytes and saves a fifth of its processor time under load. What it keeps
// grows for a moment with large requests, and garbage in proportion to that would be
// hundreds of megabytes: the heap grows to heapGoal only, or to leastPercent more than
// what is kept.
const (
	gcPercent    = 400
	minGCPercent = 50
	maxHeapGoal  = 128 << 20
)

// gcPercentFor returns how much garbage, in percent of live bytes, there may be beside
// them.
func gcPercentFor(live uint64) int {
	if live == 0 {
		return gcPercent
	}
	room := int64(maxHeapGoal) - int64(live)
	return int(min(max(room*100/int64(live), minGCPercent), gcPercent))
}

// tuneGC sets the percentage after each collection by what was kept. An object
// without a reference tells that there was one, so nothing runs in between.
func tuneGC() {
	debug.SetGCPercent(gcPercent)
	retuneAfterGC(gcPercent)
}

// retuneAfterGC has the percentage, which is now, set after the next collection.
func retuneAfterGC(now int) {
	type sentinel struct{ _ *byte } // a pointer keeps it apart from other small objects
	runtime.AddCleanup(&sentinel{}, func(now int) {
		defer recovery.Log(nil, "the pace of collections")
		kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(kept)
		if percent := gcPercentFor(kept[0].Value.Uint64()); percent != now {
			debug.SetGCPercent(percent)
			now = percent
		}
		retuneAfterGC(now)
	}, now)
}
