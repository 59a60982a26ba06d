package ledger

import (
	"slices"
	"testing"
	"time"

	"mailroom/store/memory"
)

// partSizes returns the number of operations in each batch, for operations of these sizes.
func partSizes(sizes ...int) []int {
	l := newCommitter(memory.New(), Options{})
	for _, n := range sizes {
		l.queue = append(l.queue, &op{rank: rankPlain, size: n})
	}
	var batches []int
	for {
		ops := l.nextBatch(time.Now()).ops
		if len(ops) == 0 {
			return batches
		}
		batches = append(batches, len(ops))
	}
}

func TestABatchHoldsAtMost256OperationsAnd8MiB(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		sizes, want []int
	}{
		{make([]int, 256), []int{256}},
		{make([]int, 257), []int{256, 1}},
		{make([]int, 600), []int{256, 256, 88}},
		{slices.Repeat([]int{200 << 10}, 50), []int{40, 10}},
		{[]int{mib, mib, mib}, []int{2, 1}}, // 2 MiB of large ones
		{[]int{4 * mib, 4 * mib}, []int{1, 1}},
		{[]int{4 * mib, 4 * mib, 1}, []int{2, 1}},
		{[]int{9 * mib, 1, 9 * mib}, []int{1, 1, 1}},
	} {
		got := partSizes(c.sizes...)
		if len(got) != len(c.want) {
			t.Errorf("%d operations: got batches of %v, want %v", len(c.sizes), got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%d operations: got batches of %v, want %v", len(c.sizes), got, c.want)
			}
		}
	}
}

func TestASmallOperationWaitsForOneLargeBatchAtMost(t *testing.T) {
	const large = 4 << 20
	l := newCommitter(memory.New(), Options{})
	add := func(name string, size int, threads ...string) {
		l.queue = append(l.queue, &op{name: name, rank: rankPlain, size: size, threads: threads})
	}
	take := func(want ...string) {
		t.Helper()
		ops := l.nextBatch(time.Now()).ops
		var got []string
		for _, o := range ops {
			got = append(got, o.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got a batch of %q, want %q", got, want)
		}
	}
	for _, name := range []string{"A", "B", "C", "D"} {
		add(name, large, "of "+name)
	}
	take("A")
	add("b", 1, "of B")
	add("x", 1, "of x")
	take("x") // b must not overtake earlier operations of its thread
	add("y", 1, "of y")
	take("B", "b", "y")
	take("C") // the queue has no other operation
	add("d", 1, "of D")
	take("D", "d") // no operation may overtake it
	take()
}

func TestAPurgeRunsLastAndAlone(t *testing.T) {
	l := newCommitter(memory.New(), Options{})
	now := time.Now()
	for _, rank := range []int{rankPurge, rankPlain, rankPurge, rankClaim, rankRenew} {
		l.queue = append(l.queue, &op{rank: rank, queued: now})
	}
	wantRanks(t, l, now, []int{rankRenew, rankPlain, rankClaim}, []int{rankPurge}, []int{rankPurge}, nil)
}

// wantRanks forms batches and compares the ranks of their operations.
func wantRanks(t *testing.T, l *committer, now time.Time, batches ...[]int) {
	t.Helper()
	for i, want := range batches {
		ops := l.nextBatch(now).ops
		var got []int
		for _, o := range ops {
			got = append(got, o.rank)
		}
		if !slices.Equal(got, want) {
			t.Errorf("batch %d: got ranks %v, want %v", i, got, want)
		}
	}
}

// A server whose queue is never empty still drops what is older than its retention.
func TestAPurgeThatHasWaitedHasItsTurn(t *testing.T) {
	l := newCommitter(memory.New(), Options{})
	began := time.Now()
	now := began.Add(2 * purgePatience)
	l.queue = []*op{{rank: rankPlain, queued: began}, {rank: rankPurge, queued: began}, {rank: rankPurge, queued: now},
		{rank: rankPlain, queued: now}, {rank: rankRenew, queued: now}}
	wantRanks(t, l, now, []int{rankRenew, rankPlain}, []int{rankPurge}, []int{rankPlain}, []int{rankPurge}, nil)
}
