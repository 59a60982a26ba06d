package node

import "testing"

func TestGarbageIsBoundedOverALargeLiveHeap(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {5 * mib, 400}, {25 * mib, 400}, // usual sizes of a server
		{32 * mib, 300}, {64 * mib, 100}, {80 * mib, 60},
		{86 * mib, 50}, {128 * mib, 50}, {10_000 * mib, 50}, // above the goal, collections do not run back to back
	} {
		if got := gcPercentFor(c.live); got != c.want {
			t.Errorf("with %d MiB kept: %d percent, want %d", c.live/mib, got, c.want)
		}
	}
}
