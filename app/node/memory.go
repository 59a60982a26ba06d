package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"mailroom/internal/recovery"
)

// A server has a small live heap and a high allocation rate. A GOGC of gcPercent costs a
// few tens of megabytes and saves a fifth of the CPU time under load. Large requests let
// the live heap grow for a moment, and garbage in proportion to it would be hundreds of
// megabytes. So the heap goal is limited to maxHeapGoal, or to minGCPercent above the
// live heap.
const (
	gcPercent    = 400
	minGCPercent = 50
	maxHeapGoal  = 128 << 20
)

// gcPercentFor returns the value of GOGC for a live heap of live bytes.
func gcPercentFor(live uint64) int {
	if live == 0 {
		return gcPercent
	}
	room := int64(maxHeapGoal) - int64(live)
	return int(min(max(room*100/int64(live), minGCPercent), gcPercent))
}

// TuneGC sets GOGC, and adjusts it after each collection to the size of the live heap. The runtime calls the cleanup
// of an unreachable object after each collection, so no goroutine polls in between.
func TuneGC() {
	debug.SetGCPercent(gcPercent)
	retuneAfterGC(gcPercent)
}

// retuneAfterGC sets the percentage again after the next collection. now is the percentage at present.
func retuneAfterGC(now int) {
	type sentinel struct{ _ *byte } // the pointer keeps it out of the allocator's shared tiny blocks
	runtime.AddCleanup(&sentinel{}, func(now int) {
		defer recovery.Log(nil, "GC tuning")
		kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(kept)
		if percent := gcPercentFor(kept[0].Value.Uint64()); percent != now {
			debug.SetGCPercent(percent)
			now = percent
		}
		retuneAfterGC(now)
	}, now)
}
