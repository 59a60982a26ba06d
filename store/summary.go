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
//
// The transaction that ends a run adds to the rows of all three periods, its minute, its hour and
// its day: no job rolls minutes up, a day can be read in place of its hours at any time, and no mark
// says how far a job has come. A batch writes each row once. Minutes are dropped after 3 days and hours after 100, in
// whole hours and days, so that the doctor can add up what is left.
type SummaryKey struct {
	Step   time.Duration   // StepMinute, StepHour, StepDay or a step of labels
	At     time.Time       // start of the period, a multiple of its length since 1970 in UTC; LabelAt for StepLabel
	Agent  string          // "" sums up all agents; in the steps of labels a LabelKey
	Status mailroom.Status // completed, failed or cancelled
}

// Sums are what a row of the summary adds up. All are integers that are not negative, so that
// additions commute exactly. A run that is retried by hand ends, and counts, more than once.
//
// Run.Counted has the last counted end of a run and the usage until then, so the next end adds only
// what came since; an end that it does not have is of an older version, which counts none. Delays
// have a histogram of eight buckets, because averages hide the slow ones.
type Sums struct {
	Runs         int64
	Delay        int64 // microseconds, the sum of Run.StartDelay of the runs that started
	Ran          int64 // microseconds from the first start to the end, waits included
	InputTokens  int64 // used since the previous end of a run that was retried by hand; so too the next two fields
	OutputTokens int64
	Cost         int64               // in billionths of a USD
	Delays       [DelayBuckets]int64 // number of the runs that started, by the bucket of their delay
}

// NumberOfSums is the number of values of Sums.
const NumberOfSums = 6 + DelayBuckets

// Values returns the sums in the order of the fields, for a store that has a column for each.
func (s *Sums) Values() [NumberOfSums]int64 {
	out := [NumberOfSums]int64{s.Runs, s.Delay, s.Ran, s.InputTokens, s.OutputTokens, s.Cost}
	copy(out[NumberOfSums-DelayBuckets:], s.Delays[:])
	return out
}

// SumsOf returns the sums with these values.
func SumsOf(v [NumberOfSums]int64) Sums {
	return Sums{
		Runs: v[0], Delay: v[1], Ran: v[2], InputTokens: v[3], OutputTokens: v[4], Cost: v[5],
		Delays: [DelayBuckets]int64(v[NumberOfSums-DelayBuckets:]),
	}
}

// Summary is a row of the summary of ended runs.
type Summary struct {
	Key  SummaryKey
	Sums Sums
}

// SummedStatuses returns the statuses of the rows.
func SummedStatuses() [3]mailroom.Status {
	return [3]mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled}
}

// Steps returns the lengths of the periods, shortest first.
func Steps() [3]time.Duration { return [3]time.Duration{StepMinute, StepHour, StepDay} }

// DelayBuckets is the number of buckets of delays.
const DelayBuckets = 8

// DelayBounds returns the inclusive upper bounds of the buckets of delays. The last bucket has none.
func DelayBounds() [DelayBuckets - 1]time.Duration {
	return [DelayBuckets - 1]time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second,
		time.Minute, 10 * time.Minute, time.Hour,
	}
}

// maxSummed bounds what one run adds to a sum, so that a million runs of one minute cannot exceed an
// integer of the store, whatever their agents report: 9,223 USD, 106 days, or 9.2 trillion tokens.
const maxSummed = math.MaxInt64 / 1_000_000

// EndOf returns what the end of a run adds to the summary of its minute. It has only the part of the run's usage that
// is not in Run.Counted yet. It has no run time for a run that never started, and no delay for a run whose delay is
// unknown.
func EndOf(r *mailroom.Run) Summary {
	used, before := r.Usage, r.Counted
	out := Summary{
		Key: SummaryKey{Step: StepMinute, At: r.FinishedAt.UTC().Truncate(StepMinute), Agent: r.Agent, Status: r.Status},
		Sums: Sums{
			Runs:         1,
			InputTokens:  bounded(used.InputTokens - before.InputTokens),
			OutputTokens: bounded(used.OutputTokens - before.OutputTokens),
			Cost:         billionths(used.CostUSD - before.CostUSD),
		},
	}
	if r.StartedAt.IsZero() {
		return out
	}
	out.Sums.Ran = bounded(r.FinishedAt.Sub(r.StartedAt).Microseconds())
	if r.StartDelay >= 0 {
		out.Sums.Delay = bounded(r.StartDelay.Microseconds())
		out.Sums.Delays[delayBucket(r.StartDelay)] = 1
	}
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

// SumUp returns the rows that the ends of runs change: the rows of its minute, its hour and its
// day, for its agent and for all agents. A LabelEnd changes the day, and all time, of its value. It sorts them
// by key.
func SumUp(ends []Summary) []Summary {
	sums := map[SummaryKey]Sums{}
	for _, s := range ends {
		if key := s.Key; key.Step == StepLabelDay {
			key.At = key.At.UTC().Truncate(StepDay)
			sums[key] = sums[key].Plus(s.Sums)
			key.Step, key.At = StepLabel, LabelAt()
			sums[key] = sums[key].Plus(s.Sums)
			continue
		}
		for _, step := range Steps() {
			for _, agent := range [2]string{"", s.Key.Agent} {
				key := SummaryKey{Step: step, At: s.Key.At.UTC().Truncate(step), Agent: agent, Status: s.Key.Status}
				sums[key] = sums[key].Plus(s.Sums)
			}
		}
	}
	return sorted(sums)
}

// AddUp adds up the summaries that have the same key, and returns one for each key, sorted by key.
func AddUp(list []Summary) []Summary {
	sums := map[SummaryKey]Sums{}
	for _, s := range list {
		sums[s.Key] = sums[s.Key].Plus(s.Sums)
	}
	return sorted(sums)
}

func sorted(sums map[SummaryKey]Sums) []Summary {
	out := make([]Summary, 0, len(sums))
	for key, sum := range sums {
		out = append(out, Summary{key, sum})
	}
	SortSummaries(out)
	return out
}

// SortSummaries sorts rows by key.
func SortSummaries(list []Summary) {
	slices.SortFunc(list, func(a, b Summary) int { return a.Key.Compare(b.Key) })
}

// Plus adds sums, in any order.
func (s Sums) Plus(t Sums) Sums {
	a, b := s.Values(), t.Values()
	for i := range a {
		a[i] = AddSum(a[i], b[i])
	}
	return SumsOf(a)
}

// Minus subtracts a part of the sums. No result is negative.
func (s Sums) Minus(part Sums) Sums {
	a, b := s.Values(), part.Values()
	for i := range a {
		a[i] = max(a[i]-b[i], 0)
	}
	return SumsOf(a)
}

// AddSum adds numbers that are not negative. A sum beyond the range of an int64 is its maximum.
func AddSum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Compare orders keys by step, agent, time and status.
func (k SummaryKey) Compare(other SummaryKey) int {
	return cmp.Or(
		cmp.Compare(k.Step, other.Step), strings.Compare(k.Agent, other.Agent),
		k.At.Compare(other.At), cmp.Compare(k.Status, other.Status),
	)
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
