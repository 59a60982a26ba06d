package store

import (
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mailroom"
)

func TestEndOfARun(t *testing.T) {
	start := time.Date(2026, 11, 26, 5, 34, 7, 250_000_000, time.UTC)
	minute := time.Date(2026, 11, 26, 5, 35, 0, 0, time.UTC)
	run := func(change func(*mailroom.Run)) *mailroom.Run {
		r := &mailroom.Run{
			Agent: "echo", Status: mailroom.StatusFailed, StartedAt: start, FinishedAt: start.Add(time.Minute),
			StartDelay: 1500 * time.Millisecond, Usage: mailroom.Usage{InputTokens: 10, OutputTokens: 3, CostUSD: 0.1},
		}
		change(r)
		return r
	}
	key := SummaryKey{Step: StepMinute, At: minute, Agent: "echo", Status: mailroom.StatusFailed}
	used := Sums{Runs: 1, Delay: 1_500_000, Ran: 60_000_000, InputTokens: 10, OutputTokens: 3, Cost: 100_000_000,
		Delays: [8]int64{3: 1}}
	for name, c := range map[string]struct {
		run  *mailroom.Run
		want Sums
	}{
		"an ended run": {run(func(*mailroom.Run) {}), used},
		"a time in another zone": {run(func(r *mailroom.Run) {
			r.FinishedAt = r.FinishedAt.In(time.FixedZone("", 20700))
		}), used},
		"a run that never started": {
			run(func(r *mailroom.Run) { r.StartedAt, r.Usage = time.Time{}, mailroom.Usage{} }), Sums{Runs: 1},
		},
		"a clock that stepped back": {
			run(func(r *mailroom.Run) { r.StartedAt, r.Usage = r.FinishedAt.Add(time.Second), mailroom.Usage{} }),
			Sums{Runs: 1, Delay: 1_500_000, Delays: [8]int64{3: 1}},
		},
		"an agent that reports nonsense": {
			run(func(r *mailroom.Run) {
				r.Usage = mailroom.Usage{InputTokens: math.MaxInt64, OutputTokens: -1, CostUSD: math.Inf(1)}
			}),
			Sums{Runs: 1, Delay: 1_500_000, Ran: 60_000_000, InputTokens: maxSummed, Cost: maxSummed, Delays: [8]int64{3: 1}},
		},
		"a run that ended before and was retried": {
			run(func(r *mailroom.Run) {
				r.Counted = mailroom.Counted{At: start, InputTokens: 4, OutputTokens: 3, CostUSD: 0.075}
			}),
			Sums{Runs: 1, Delay: 1_500_000, Ran: 60_000_000, InputTokens: 6, Cost: 25_000_000, Delays: [8]int64{3: 1}},
		},
		"a cost that is not a number": {
			run(func(r *mailroom.Run) { r.Usage = mailroom.Usage{CostUSD: math.NaN()} }),
			Sums{Runs: 1, Delay: 1_500_000, Ran: 60_000_000, Delays: [8]int64{3: 1}},
		},
	} {
		if diff := cmp.Diff(Summary{key, c.want}, EndOf(c.run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestADelayIsCountedUpToItsBound(t *testing.T) {
	r := &mailroom.Run{Status: mailroom.StatusCompleted, StartedAt: time.Unix(1, 0), FinishedAt: time.Unix(2, 0)}
	for i, bound := range DelayBounds() {
		for delay, bucket := range map[time.Duration]int{bound - 1: i, bound: i, bound + 1: i + 1} {
			want := [DelayBuckets]int64{}
			want[bucket] = 1
			r.StartDelay = delay
			if got := EndOf(r).Sums.Delays; got != want {
				t.Errorf("a delay of %s: got %v, want %v", delay, got, want)
			}
		}
	}
	r.StartDelay = -1
	if got := EndOf(r).Sums; got.Delays != [DelayBuckets]int64{} || got.Delay != 0 || got.Ran != 1_000_000 {
		t.Errorf("an unknown delay: got %+v, want none", got)
	}
}

func TestSummariesAddUpExactly(t *testing.T) {
	minute := time.Date(2026, 11, 26, 5, 34, 0, 0, time.UTC)
	var list []Summary
	for i := range 10 {
		r := &mailroom.Run{Agent: "b", Status: mailroom.StatusCompleted,
			FinishedAt: minute.Add(time.Duration(i) * time.Minute), Usage: mailroom.Usage{CostUSD: 0.1}}
		list = append(list, EndOf(r))
		r.Agent, r.Status, r.Usage.CostUSD = "a", mailroom.StatusFailed, 1e12
		list = append(list, EndOf(r))
	}
	completed, failed := Sums{Runs: 10, Cost: 1_000_000_000}, Sums{Runs: 10, Cost: 10 * maxSummed}
	day := minute.Truncate(StepDay)
	want := []Summary{
		{SummaryKey{StepDay, day, "", mailroom.StatusCompleted}, completed}, {SummaryKey{StepDay, day, "", mailroom.StatusFailed}, failed},
		{SummaryKey{StepDay, day, "a", mailroom.StatusFailed}, failed}, {SummaryKey{StepDay, day, "b", mailroom.StatusCompleted}, completed},
	}
	got := SumUp(list)
	if diff := cmp.Diff(want, got[len(got)-4:]); diff != "" {
		t.Errorf("the day (-want +got):\n%s", diff)
	}
	for _, s := range got {
		want := completed
		if s.Key.Status == mailroom.StatusFailed {
			want = failed
		}
		if s.Key.Step == StepMinute { // one of each
			want.Runs, want.Cost = 1, want.Cost/10
		}
		if s.Sums != want || !s.Key.At.Equal(s.Key.At.Truncate(s.Key.Step)) {
			t.Errorf("%+v: got %+v, want %+v", s.Key, s.Sums, want)
		}
	}
	if minutes := 4 * 10; len(got) != minutes+4+4 {
		t.Errorf("got %d rows, want %d", len(got), minutes+8)
	}
}

// TestSummariesAddUpTheSameInAnyOrder: servers add to one minute in any order and in any parts.
func TestSummariesAddUpTheSameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Just(int64(math.MaxInt64)))
		one := rapid.Custom(func(t *rapid.T) Summary {
			s := Summary{
				Key: SummaryKey{
					Step: StepMinute, At: time.Unix(60*rapid.Int64Range(0, 2).Draw(t, "at"), 0).UTC(),
					Agent:  rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"),
					Status: rapid.SampledFrom([]mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed}).Draw(t, "status"),
				},
				Sums: Sums{
					Runs: number.Draw(t, "runs"), Delay: number.Draw(t, "delay"), Ran: number.Draw(t, "ran"),
					InputTokens: number.Draw(t, "input"), OutputTokens: number.Draw(t, "output"), Cost: number.Draw(t, "cost"),
				},
			}
			s.Sums.Delays[rapid.IntRange(0, DelayBuckets-1).Draw(t, "bucket")] = 1
			return s
		})
		list := rapid.SliceOfN(one, 0, 20).Draw(t, "list")
		want := SumUp(list)
		shuffled := slices.Clone(list)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		cut := rapid.IntRange(0, len(list)).Draw(t, "cut")
		if diff := cmp.Diff(want, AddUp(slices.Concat(SumUp(shuffled[:cut]), SumUp(shuffled[cut:])))); diff != "" {
			t.Errorf("in parts (-want +got):\n%s", diff)
		}
		if !slices.IsSortedFunc(want, func(a, b Summary) int { return a.Key.Compare(b.Key) }) {
			t.Errorf("not sorted: %v", want)
		}
	})
}

func TestCoarseSummariesAreKeptLonger(t *testing.T) {
	if minute, hour, day := KeepSummaries(StepMinute), KeepSummaries(StepHour), KeepSummaries(
		StepDay); minute <= StepHour || hour <= minute || day <= hour {
		t.Errorf("minutes are kept for %s, hours for %s, days for %s: want longer ones", minute, hour, day)
	}
}
