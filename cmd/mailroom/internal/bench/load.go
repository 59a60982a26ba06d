package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// load says how runs are submitted and measured.
type load struct {
	rate    int // submits a second; 0: as many as go
	backlog int // runs that are queued before it begins, and stay queued
	urgent  int // submits a second that go before the others, each on a thread of its own
}

// maxOutstanding bounds the runs that were submitted and have not ended, so that a
// machine on which submits outrun the runs shows the rate it can sustain, not
// the length of the queue it can build. It is small enough to be met within the
// warm-up.
const maxOutstanding = 1_000

// Load is what a load of complete runs measured. Of a run are counted a submit,
// a claim, the agent's entering, its reply, and its completion.
type Load struct {
	Rate          int     `json:"rate"` // asked for; 0: as many as go
	Seconds       float64 `json:"seconds"`
	Runs          int64   `json:"runs"` // that ended in that time
	RunsPerSecond float64 `json:"runs_per_second"`
	SlowestSecond float64 `json:"slowest_second"` // runs a second in the slowest of them (of its halves, if it was short)
	// FirstHalf and SecondHalf are runs a second too: what lasts does not
	// differ between them.
	FirstHalf  float64 `json:"first_half"`
	SecondHalf float64 `json:"second_half"`

	Submit Times `json:"submit"`
	Start  Times `json:"start"`
	Done   Times `json:"done"`
	Urgent Times `json:"urgent_start"` // of those that go before the others, where there are

	// CPUPerRun is of the whole process, with the producers, in milliseconds.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	Cores     float64 `json:"cores_used"`

	CommitsPerSecond    float64 `json:"commits_per_second"`
	OperationsPerCommit float64 `json:"operations_per_commit"`
	CommitMean          float64 `json:"commit_mean_ms"`

	Queued      int64   `json:"queued_at_end"` // when it was no longer measured
	FileBytes   int64   `json:"file_bytes"`    // when it is closed
	BytesPerRun float64 `json:"bytes_per_run"` // of that, per run that is in it
}

// measureLoad measures one load on a file of its own.
func (b *bench) measureLoad(ctx context.Context, dir string, l load) (result *Load, err error) {
	d, err := b.newDriver(ctx, dir, l)
	if err != nil {
		return nil, err
	}
	if result, err = b.runLoad(ctx, d); err != nil {
		return nil, errors.Join(err, d.fixture.close())
	}
	if err := d.fixture.close(); err != nil {
		return nil, err
	}
	size, err := diskUsage(dir)
	result.FileBytes = size
	result.BytesPerRun = float64(size) / float64(d.submitted.Load())
	return result, err
}

// runLoad measures a load, and looks whether all its runs have completed,
// unless they are too many to wait for.
func (b *bench) runLoad(ctx context.Context, d *driver) (*Load, error) {
	if d.backlog > 0 {
		b.Progress("  queueing %d runs", d.backlog)
		if err := d.fill(ctx, d.backlog); err != nil {
			return nil, err
		}
	}
	d.fixture.startEngine(newTimedAgent(d.onAgentStart), b.Slots)
	result, err := b.produceAndRecord(ctx, d)
	if err != nil || d.backlog > 0 {
		return result, err
	}
	return result, d.drain(ctx)
}

// produceAndRecord runs the producers for the warm-up and the time that is measured. It
// returns when no producer submits any more.
func (b *bench) produceAndRecord(ctx context.Context, d *driver) (result *Load, err error) {
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancelCause(ctx)
	began := time.Now()
	plain, urgent := &schedule{rate: d.rate, began: began}, &schedule{rate: d.urgent, began: began}
	producers := d.producers
	if d.backlog > 0 {
		producers *= 4 // else the runs end faster than they are submitted, and the queue gets short
	}
	for range producers {
		group.Go(func() error { return d.produce(producing, plain, false) })
	}
	if d.urgent > 0 {
		for range urgentProducers {
			group.Go(func() error { return d.produce(producing, urgent, true) })
		}
	}
	group.Go(func() error {
		defer stop(errMeasured)
		var err error
		result, err = b.record(ctx, d)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// snapshot is where the counters of a load stand.
type snapshot struct {
	at                              time.Time
	ended                           int64
	cpu                             time.Duration
	commits, operations, committing int64
}

func (d *driver) snapshot() snapshot {
	h := d.fixture
	return snapshot{
		at: time.Now(), ended: d.ended.Load(), cpu: cpuTime(),
		commits: h.commits.Load(), operations: h.operations.Load(), committing: h.commitNanos.Load(),
	}
}

// record measures a load that others produce.
func (b *bench) record(ctx context.Context, d *driver) (*Load, error) {
	select {
	case <-d.first:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := sleepUntil(ctx, time.Now().Add(b.warmup())); err != nil {
		return nil, err
	}
	d.recording.Store(true)
	defer d.recording.Store(false)
	// Slices of about a second, the same number in both halves.
	slices := 2 * max(1, int(b.For/(2*time.Second)))
	readings := []snapshot{d.snapshot()}
	for i := range slices {
		if err := sleepUntil(ctx, readings[0].at.Add(b.For*time.Duration(i+1)/time.Duration(slices))); err != nil {
			return nil, err
		}
		readings = append(readings, d.snapshot())
		b.Progress("  %s of %s: %.0f runs/s", time.Since(readings[0].at).Round(time.Second/10), b.For, rate(readings[i], readings[i+1]))
	}
	first, half, last := readings[0], readings[slices/2], readings[slices]
	r := &Load{
		Rate: d.rate, Seconds: last.at.Sub(first.at).Seconds(), Runs: last.ended - first.ended,
		RunsPerSecond: rate(first, last), FirstHalf: rate(first, half), SecondHalf: rate(half, last),
		SlowestSecond: rate(first, readings[1]),
		Submit:        d.submits.times(), Start: d.starts.times(), Done: d.dones.times(), Urgent: d.urgents.times(),
		Cores:  (last.cpu - first.cpu).Seconds() / last.at.Sub(first.at).Seconds(),
		Queued: max(0, d.submitted.Load()-d.ended.Load()),
	}
	for i := range slices {
		r.SlowestSecond = min(r.SlowestSecond, rate(readings[i], readings[i+1]))
	}
	commits := float64(max(1, last.commits-first.commits))
	r.CPUPerRun = ratio(milliseconds(int64(last.cpu-first.cpu)), float64(r.Runs))
	r.CommitsPerSecond = commits / r.Seconds
	r.OperationsPerCommit = float64(last.operations-first.operations) / commits
	r.CommitMean = milliseconds(last.committing-first.committing) / commits
	return r, nil
}

// rate is the runs a second between two readings.
func rate(from, to snapshot) float64 {
	return float64(to.ended-from.ended) / to.at.Sub(from.at).Seconds()
}
