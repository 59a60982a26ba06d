package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// load describes how runs are submitted and measured.
type load struct {
	rate    int // submits per second; 0: full load
	backlog int // runs that are queued at the start and stay queued
	urgent  int // submits per second at the highest priority, each on its own thread
}

// maxOutstanding limits the outstanding runs, so that the result is the sustainable rate even if
// submits are faster than runs. It is small enough to be reached during the warm-up.
const maxOutstanding = 1_000

// Load is the result of a load of complete runs. A run includes a submit, a claim, the start
// of the agent, its reply and its completion.
type Load struct {
	Rate          int     `json:"rate"` // requested; 0: full load
	Seconds       float64 `json:"seconds"`
	Runs          int64   `json:"runs"` // that ended during the measurement
	RunsPerSecond float64 `json:"runs_per_second"`
	SlowestSecond float64 `json:"slowest_second"` // runs per second in the slowest second (or half, if the measurement was short)
	// FirstHalf and SecondHalf are runs per second. They are equal for a sustainable rate.
	FirstHalf  float64 `json:"first_half"`
	SecondHalf float64 `json:"second_half"`

	Submit Times `json:"submit"`
	Start  Times `json:"start"`
	Done   Times `json:"done"`
	Urgent Times `json:"urgent_start"` // of urgent runs, if there are any

	// CPUPerRun is the CPU time of the whole process, producers included, in milliseconds.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	Cores     float64 `json:"cores_used"`

	CommitsPerSecond    float64 `json:"commits_per_second"`
	OperationsPerCommit float64 `json:"operations_per_commit"`
	CommitMean          float64 `json:"commit_mean_ms"`

	Queued      int64   `json:"queued_at_end"` // at the end of the measurement
	FileBytes   int64   `json:"file_bytes"`    // after closing
	BytesPerRun float64 `json:"bytes_per_run"` // FileBytes per run in the file
}

// measureLoad measures one load on a new store.
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

// runLoad measures a load and, without a backlog, checks that all its runs have completed.
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

// produceAndRecord runs the producers for the warm-up and the measurement. It returns when all
// producers have stopped.
func (b *bench) produceAndRecord(ctx context.Context, d *driver) (result *Load, err error) {
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancelCause(ctx)
	began := time.Now()
	plain, urgent := &schedule{rate: d.rate, began: began}, &schedule{rate: d.urgent, began: began}
	producers := d.producers
	if d.backlog > 0 {
		producers *= 4 // otherwise runs end faster than they are submitted, and the queue shrinks
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

// snapshot holds the counters of a load at one time.
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

// record measures the load while the producers run.
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
	// Slices of about a second, the same number in each half.
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

// rate returns the runs per second between two snapshots.
func rate(from, to snapshot) float64 {
	return float64(to.ended-from.ended) / to.at.Sub(from.at).Seconds()
}
