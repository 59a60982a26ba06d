package store

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"mailroom"
)

// The lengths of the periods of summaries.
const (
	StepMinute = time.Minute
	StepHour   = time.Hour
	StepDay    = 24 * time.Hour
)

// SummaryKey identifies a row of the summary of ended runs.
type SummaryKey struct {
	Step   time.Duration   // StepMinute, StepHour or StepDay
	At     time.Time       // start of the period, a multiple of Step since 1970 in UTC
	Agent  string          // "" sums up all agents
	Status mailroom.Status // completed, failed or cancelled
	// Gone sums up the runs whose rows no longer say that they ended then: they were retried or
	// deleted. Of each minute, the sums without Gone less those with it are the sums of the rows of
	// runs.
	Gone bool
}

// Sums are what a row of the summary adds up. All are integers that are not negative, so that
// additions commute exactly. The delays and run times of many runs exceed a time.Duration.
type Sums struct {
	Runs         int64
	Delay        int64 // microseconds from when a run could first be claimed to its start, of those that started
	Ran          int64 // microseconds from the first start to the end, waits included
	InputTokens  int64
	OutputTokens int64
	Cost         int64               // in billionths of a USD
	Delays       [DelayBuckets]int64 // number of the runs that started, by the bucket of their delay
}

// Summary is a row of the summary of ended runs.
type Summary struct {
	Key  SummaryKey
	Sums Sums
}

// DelayBuckets is the number of buckets of delays.
const DelayBuckets = 8

// DelayBounds returns the inclusive upper bounds of the buckets of delays. The last bucket has none.
func DelayBounds() [DelayBuckets - 1]time.Duration {
	return [DelayBuckets - 1]time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
	}
}

// maxSummed bounds what one run adds to a sum, so that a million runs of one minute cannot exceed an
// integer of the store, whatever their agents report: 9,223 USD, 106 days, or 9.2 trillion tokens.
const maxSummed = math.MaxInt64 / 1_000_000

// EndOf returns what the end of a run adds to its minute. delay is how long the run could have been
// claimed before it first started; it does not count for a run that never started.
func EndOf(r *mailroom.Run, delay time.Duration) Summary {
	out := Summary{
		Key: SummaryKey{Step: StepMinute, At: r.FinishedAt.UTC().Truncate(StepMinute), Agent: r.Agent, Status: r.Status},
		Sums: Sums{
			Runs: 1, InputTokens: bounded(r.Usage.InputTokens), OutputTokens: bounded(r.Usage.OutputTokens), Cost: billionths(r.Usage.CostUSD),
		},
	}
	if r.StartedAt.IsZero() {
		return out
	}
	out.Sums.Delay = bounded(delay.Microseconds())
	out.Sums.Ran = bounded(r.FinishedAt.Sub(r.StartedAt).Microseconds())
	out.Sums.Delays[delayBucket(delay)] = 1
	return out
}

// GoneOf returns what the retry or the deletion of a run adds to the minute of its end.
func GoneOf(r *mailroom.Run, delay time.Duration) Summary {
	out := EndOf(r, delay)
	out.Key.Gone = true
	return out
}

func delayBucket(delay time.Duration) int {
	bounds := DelayBounds()
	bucket, _ := slices.BinarySearch(bounds[:], delay)
	return bucket
}

// billionths converts USD. A cost that is not a number is 0.
func billionths(usd float64) int64 {
	switch n := math.Round(usd * 1e9); {
	case n >= maxSummed:
		return maxSummed
	case n > 0:
		return int64(n)
	}
	return 0
}

func bounded(n int64) int64 { return min(max(n, 0), maxSummed) }

// SumUp adds up summaries with the same key, adds those of all agents, and sorts them by key. The list
// has no summary of all agents.
func SumUp(list []Summary) []Summary {
	sums := map[SummaryKey]Sums{}
	for _, s := range list {
		all := s.Key
		all.Agent = ""
		sums[s.Key] = sums[s.Key].plus(s.Sums)
		sums[all] = sums[all].plus(s.Sums)
	}
	out := make([]Summary, 0, len(sums))
	for key, sum := range sums {
		out = append(out, Summary{key, sum})
	}
	slices.SortFunc(out, func(a, b Summary) int { return a.Key.compare(b.Key) })
	return out
}

func (s Sums) plus(t Sums) Sums {
	out := Sums{
		Runs: add(s.Runs, t.Runs), Delay: add(s.Delay, t.Delay), Ran: add(s.Ran, t.Ran),
		InputTokens: add(s.InputTokens, t.InputTokens), OutputTokens: add(s.OutputTokens, t.OutputTokens), Cost: add(s.Cost, t.Cost),
	}
	for i := range out.Delays {
		out.Delays[i] = add(s.Delays[i], t.Delays[i])
	}
	return out
}

// add adds numbers that are not negative. A sum beyond the range of an int64 is its maximum.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (k SummaryKey) compare(other SummaryKey) int {
	return cmp.Or(
		cmp.Compare(k.Step, other.Step), k.At.Compare(other.At), strings.Compare(k.Agent, other.Agent),
		strings.Compare(string(k.Status), string(other.Status)), cmp.Compare(rank(k.Gone), rank(other.Gone)),
	)
}

func rank(gone bool) int {
	if gone {
		return 1
	}
	return 0
}

// KeepSummaries returns how long the rows of a step are kept at least.
func KeepSummaries(step time.Duration) time.Duration {
	switch step {
	case StepMinute:
		return 3 * StepDay
	case StepHour:
		return 100 * StepDay
	}
	return math.MaxInt64 // days are kept for ever
}
