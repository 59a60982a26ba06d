package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// load describes how runs are submitted and measured.
type load struct {
	rate    int  // submits per second; 0: full load
	backlog int  // runs that are queued at the start and stay queued
	urgent  int  // submits per second at the highest priority, each on its own thread
	apart   bool // the first of several nodes submits, and the others run
	// Concurrency keys of the runs, and how many runs of one key may run at once; 0: the runs have no key. Each run is on
	// a thread of its own then, as long as the backlog is, and keyBlock runs with the same key follow one another.
	limitKeys, keyLimit int
}

// keyBlock is so large that the next due threads have the same key, and most of them go to its gate.
const keyBlock = 64

// maxOutstanding limits the outstanding runs, so that the result is the sustainable rate even if
// submits are faster than runs. It is small enough to be reached during the warm-up.
const maxOutstanding = 1_000

// Load is the result of a load of complete runs. A run includes a submit, a claim, the start
// of the agent, its reply and its completion.
type Load struct {
	Rate          int     `json:"rate"` // requested; 0: full load
	Seconds       float64 `json:"seconds"`
	Runs          int64   `json:"runs"` // runs that ended during the measurement
	RunsPerSecond float64 `json:"runs_per_second"`
	// SlowestSecond is the runs per second in the slowest second, or in the slower half of a short measurement.
	SlowestSecond float64 `json:"slowest_second"`
	// FirstHalf and SecondHalf are the runs per second in each half of the measurement. If they are equal, the server
	// can sustain the rate.
	FirstHalf  float64 `json:"first_half"`
	SecondHalf float64 `json:"second_half"`

	Submit Times `json:"submit"`
	Start  Times `json:"start"`
	Done   Times `json:"done"`
	Urgent Times `json:"urgent_start"` // times to the start of urgent runs, if there are any

	// CPUPerRun is the CPU time of the whole process, producers included, in milliseconds.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	Cores     float64 `json:"cores_used"`
	// WorkerCPUPerRun is the CPU time of the worker in milliseconds, if the worker is a process of its own. CPUPerRun
	// is then the CPU time of the server.
	WorkerCPUPerRun float64 `json:"worker_cpu_ms_per_run,omitempty"`

	CommitsPerSecond    float64 `json:"commits_per_second"`
	OperationsPerCommit float64 `json:"operations_per_commit"`
	CommitMean          float64 `json:"commit_mean_ms"`
	// For PostgreSQL: the round trips per transaction, and the share of transactions that ran again after a conflict.
	TripsPerCommit float64 `json:"trips_per_commit,omitempty"`
	RanAgain       float64 `json:"ran_again,omitempty"`

	// CommitsPerRun is also the number of syncs to disk per run, without the syncs of checkpoints. The next two fields
	// are set for SQLite only.
	CommitsPerRun    float64 `json:"commits_per_run"`
	StatementsPerRun float64 `json:"statements_per_run,omitempty"`
	PagesPerRun      float64 `json:"pages_per_run,omitempty"` // written to the log

	Queued      int64   `json:"queued_at_end"` // queued runs at the end of the measurement
	FileBytes   int64   `json:"file_bytes"`    // size of the files after the store is closed
	BytesPerRun float64 `json:"bytes_per_run"` // FileBytes per run in the file
}

// measureLoad measures one load on a new store.
func (b *bench) measureLoad(ctx context.Context, dir string, l load) (result *Load, err error) {
	if b.Nodes > 1 {
		return b.measureNodes(ctx, l)
	}
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

// runLoad measures a load. If the load has no backlog, runLoad then waits for all its runs and checks that they have
// completed.
func (b *bench) runLoad(ctx context.Context, d *driver) (*Load, error) {
	if d.backlog > 0 {
		b.Progress("  queueing %d runs", d.backlog)
		if err := d.fill(ctx, d.backlog); err != nil {
			return nil, err
		}
	}
	d.fixture.startEngine(newTimedAgent(d.onAgentStart), b.Slots)
	var result *Load
	err := d.produceWhile(ctx, func(ctx context.Context) (err error) {
		result, err = b.record(ctx, d, d.rate)
		return err
	})
	if err != nil || d.backlog > 0 {
		return result, err
	}
	return result, d.drain(ctx)
}

// produceWhile runs the producers until f returns. It returns when all producers have stopped.
func (d *driver) produceWhile(ctx context.Context, f func(ctx context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancelCause(ctx)
	began := time.Now()
	plain, urgent := &schedule{rate: d.rate, began: began}, &schedule{rate: d.urgent, began: began}
	producers := d.producers
	if d.backlog > 0 {
		producers *= 4 // more producers, because with few the queue shrinks
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
		return f(ctx)
	})
	return group.Wait()
}

// system is the system under load: this process, or several nodes.
type system interface {
	// started waits until the first run has ended.
	started(ctx context.Context) error
	// setRecording starts and stops the recording of times.
	setRecording(ctx context.Context, on bool) error
	// wait waits until a time.
	wait(ctx context.Context, at time.Time) error
	snapshot(ctx context.Context) (snapshot, error)
	// times returns the recorded times.
	times(ctx context.Context) (*recorded, error)
}

// snapshot holds the counters of a load at one time.
type snapshot struct {
	At         time.Time
	Submitted  int64
	Ended      int64
	CPU        time.Duration
	Commits    int64
	Operations int64
	Committing int64 // ns
	Traffic    postgres.Traffic
	SQLite     sqlite.Traffic // zero for nodes, which share a PostgreSQL
	Worker     time.Duration  // CPU time of a worker in another process
}

// add adds the counters of another node.
func (s *snapshot) add(o snapshot) {
	s.Submitted += o.Submitted
	s.Ended += o.Ended
	s.CPU += o.CPU
	s.Worker += o.Worker
	s.Commits += o.Commits
	s.Operations += o.Operations
	s.Committing += o.Committing
	s.Traffic = s.Traffic.Plus(o.Traffic)
}

// recorded are the times of a load.
type recorded struct{ Submits, Starts, Dones, Urgents histogram }

func (d *driver) snapshot(context.Context) (snapshot, error) {
	h := d.fixture
	sum := snapshot{
		At: time.Now(), Submitted: d.submitted.Load(), Ended: d.ended.Load(), CPU: cpuTime(),
		Commits: h.commits.Load(), Operations: h.operations.Load(), Committing: h.commitNanos.Load(), Traffic: h.traffic(),
	}
	if s, ok := h.store.(*sqlite.Store); ok {
		sum.SQLite = s.Traffic()
	}
	return sum, nil
}

func (d *driver) started(ctx context.Context) error {
	select {
	case <-d.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *driver) setRecording(_ context.Context, on bool) error {
	d.recording.Store(on)
	return nil
}

func (d *driver) wait(ctx context.Context, at time.Time) error { return sleepUntil(ctx, at) }

func (d *driver) times(context.Context) (*recorded, error) { return &d.recorded, nil }

// record measures the load while the producers run.
func (b *bench) record(ctx context.Context, s system, perSecond int) (*Load, error) {
	if err := s.started(ctx); err != nil {
		return nil, err
	}
	if err := s.wait(ctx, time.Now().Add(b.warmup())); err != nil {
		return nil, err
	}
	if err := s.setRecording(ctx, true); err != nil {
		return nil, err
	}
	// The measurement has slices of about a second, the same number in each half.
	slices := 2 * max(1, int(b.For/(2*time.Second)))
	first, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	readings := []snapshot{first}
	for i := range slices {
		if err := s.wait(ctx, first.At.Add(b.For*time.Duration(i+1)/time.Duration(slices))); err != nil {
			return nil, err
		}
		now, err := s.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		readings = append(readings, now)
		b.Progress("  %s of %s: %.0f runs/s", now.At.Sub(first.At).Round(time.Second/10), b.For, rate(readings[i], now))
	}
	if err := s.setRecording(ctx, false); err != nil {
		return nil, err
	}
	times, err := s.times(ctx)
	if err != nil {
		return nil, err
	}
	return summarize(readings, times, perSecond), nil
}

// summarize returns the result of a load from its snapshots. Their number is odd, so one is in the middle.
func summarize(readings []snapshot, times *recorded, perSecond int) *Load {
	slices := len(readings) - 1
	first, half, last := readings[0], readings[slices/2], readings[slices]
	r := &Load{
		Rate: perSecond, Seconds: last.At.Sub(first.At).Seconds(), Runs: last.Ended - first.Ended,
		RunsPerSecond: rate(first, last), FirstHalf: rate(first, half), SecondHalf: rate(half, last),
		SlowestSecond: rate(first, readings[1]),
		Submit:        times.Submits.times(), Start: times.Starts.times(), Done: times.Dones.times(),
		Urgent: times.Urgents.times(),
		Cores:  (last.CPU - first.CPU).Seconds() / last.At.Sub(first.At).Seconds(),
		Queued: max(0, last.Submitted-last.Ended),
	}
	for i := range slices {
		r.SlowestSecond = min(r.SlowestSecond, rate(readings[i], readings[i+1]))
	}
	commits := float64(max(1, last.Commits-first.Commits))
	r.CPUPerRun = ratio(milliseconds(int64(last.CPU-first.CPU)), float64(r.Runs))
	r.WorkerCPUPerRun = ratio(milliseconds(int64(last.Worker-first.Worker)), float64(r.Runs))
	r.CommitsPerSecond = commits / r.Seconds
	r.OperationsPerCommit = float64(last.Operations-first.Operations) / commits
	r.CommitsPerRun = ratio(commits, float64(r.Runs))
	r.StatementsPerRun = ratio(float64(last.SQLite.Statements-first.SQLite.Statements), float64(r.Runs))
	r.PagesPerRun = ratio(float64(last.SQLite.Pages-first.SQLite.Pages), float64(r.Runs))
	r.CommitMean = milliseconds(last.Committing-first.Committing) / commits
	updates := float64(last.Traffic.Updates - first.Traffic.Updates)
	r.TripsPerCommit = ratio(float64(last.Traffic.Trips-first.Traffic.Trips), updates)
	r.RanAgain = ratio(float64(last.Traffic.Tries-first.Traffic.Tries)-updates, updates)
	return r
}

// rate returns the runs per second between two snapshots.
func rate(from, to snapshot) float64 {
	return float64(to.Ended-from.Ended) / to.At.Sub(from.At).Seconds()
}
