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
	leastPercent = 50
	heapGoal     = 128 << 20
)

// percentFor returns how much garbage, in percent of live bytes, there may be beside
// them.
func percentFor(live uint64) int {
	if live == 0 {
		return gcPercent
	}
	room := int64(heapGoal) - int64(live)
	return int(min(max(room*100/int64(live), leastPercent), gcPercent))
}

// paceCollections sets the percentage after each collection by what was kept. An object
// without a reference tells that there was one, so nothing runs in between.
func paceCollections() {
	debug.SetGCPercent(gcPercent)
	watchCollection(gcPercent)
}

// watchCollection has the percentage, which is now, set after the next collection.
func watchCollection(now int) {
	type sentinel struct{ _ *byte } // a pointer keeps it apart from other small objects
	runtime.AddCleanup(&sentinel{}, func(now int) {
		defer recovery.Log(nil, "the pace of collections")
		kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(kept)
		if percent := percentFor(kept[0].Value.Uint64()); percent != now {
			debug.SetGCPercent(percent)
			now = percent
		}
		watchCollection(now)
	}, now)
}
