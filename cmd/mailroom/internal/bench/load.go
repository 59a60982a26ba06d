package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
)

// load says how runs are submitted and measured.
type load struct {
	rate    int // submits a second; 0: as many as go
	backlog int // runs that are queued before it begins, and stay queued
}

// outstanding bounds the runs that were submitted and have not ended, so that a
// machine on which submits outrun the runs shows the rate it can sustain, not
// the length of the queue it can build.
const outstanding = 10_000

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

	// CPUPerRun is of the whole process, with the producers, in milliseconds.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	Cores     float64 `json:"cores_used"`

	CommitsPerSecond    float64 `json:"commits_per_second"`
	OperationsPerCommit float64 `json:"operations_per_commit"`
	CommitMean          float64 `json:"commit_mean_ms"`

	Queued      int64   `json:"queued_at_end"` // when it was no longer measured
	BytesPerRun float64 `json:"bytes_per_run"` // of the file, per run that is in it
}

// driver submits a load and hears of its runs.
type driver struct {
	load
	house     *house
	producers int
	threads   int
	marks     []mark // by number, in turn
	room      chan struct{}

	next      atomic.Int64 // number of the next submit
	submitted atomic.Int64 // answered
	ended     atomic.Int64
	first     chan struct{} // closed when the first run has ended
	recording atomic.Bool
	began     time.Time // of the schedule, if there is a rate

	submits, starts, dones histogram
}

// mark says when a run was submitted. Numbers come around, so it also says
// which one it was.
type mark struct {
	number atomic.Int64
	at     atomic.Int64 // since the driver was made, in ns
}

func newDriver(l load, producers, threads int) *driver {
	room := max(outstanding, l.backlog)
	return &driver{
		load: l, producers: producers, threads: threads, began: time.Now(),
		marks: make([]mark, 4*room), room: make(chan struct{}, room), first: make(chan struct{}),
	}
}

// submit submits one run, when its time has come.
func (d *driver) submit(ctx context.Context) error {
	select {
	case d.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n := d.next.Add(1)
	if d.rate > 0 {
		due := d.began.Add(time.Duration(float64(n) / float64(d.rate) * float64(time.Second)))
		if err := until(ctx, due); err != nil {
			return err
		}
	}
	called := time.Since(d.began)
	m := &d.marks[n%int64(len(d.marks))]
	m.number.Store(n)
	m.at.Store(int64(called))
	// Not ctx: a submit that began is waited for, so that all are counted.
	_, err := d.house.ledger.Submit(context.WithoutCancel(ctx), submitOf(n, d.threads, mailroom.DefaultPriority))
	if err != nil {
		return fmt.Errorf("submit run %d: %w", n, err)
	}
	d.submitted.Add(1)
	if d.recording.Load() {
		d.submits.add(time.Since(d.began) - called)
	}
	return nil
}

// submitOf is the n-th submit of a load. Its number travels as the request id,
// as one that came over HTTP has it.
func submitOf(n int64, threads, priority int) mailroom.Submit {
	number := strconv.FormatInt(n, 10)
	return mailroom.Submit{
		Thread:   "bench-" + strconv.FormatInt(n%int64(threads), 10),
		Messages: []mailroom.Draft{{Parts: mailroom.Text("What is the answer to question " + number + "?")}},
		Origin:   mailroom.Origin{Via: "user", Sender: "bench", RequestID: number},
		Sender:   "bench", Owner: "bench", Priority: &priority,
	}
}

// since is how long ago the run was submitted.
func (d *driver) since(r *mailroom.Run) (time.Duration, bool) {
	n, err := strconv.ParseInt(r.Origin.RequestID, 10, 64)
	if err != nil {
		return 0, false
	}
	m := &d.marks[n%int64(len(d.marks))]
	at := m.at.Load()
	return time.Since(d.began) - time.Duration(at), m.number.Load() == n
}

// entered hears that an agent begins.
func (d *driver) entered(r *mailroom.Run) {
	if took, ok := d.since(r); ok && d.recording.Load() {
		d.starts.add(took)
	}
}

// end hears that a run is durably over.
func (d *driver) end(r *mailroom.Run) {
	if took, ok := d.since(r); ok && d.recording.Load() {
		d.dones.add(took)
	}
	if d.ended.Add(1) == 1 {
		close(d.first)
	}
	<-d.room // there is one for each run that has not ended
}

// until waits for a time, and fails when ctx ends before.
func until(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errEnough ends the producers when all is measured.
var errEnough = errors.New("measured")

// measureLoad measures one load on a file of its own, and looks whether all its
// runs have completed.
func (b *bench) measureLoad(ctx context.Context, dir string, l load) (result *Load, err error) {
	d := newDriver(l, b.Producers, b.result.Settings.Threads)
	d.house, err = open(ctx, dir, d.end)
	if err != nil {
		return nil, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, d.house.close())
		}
	}()
	d.house.work(newTimed(d.entered), b.Slots)
	if result, err = b.watch(ctx, d); err != nil {
		return nil, err
	}
	if err := d.drain(ctx); err != nil {
		return nil, err
	}
	closed = true
	if err := d.house.close(); err != nil {
		return nil, err
	}
	size, err := onDisk(dir)
	result.BytesPerRun = float64(size) / float64(d.ended.Load())
	return result, err
}

// watch runs the producers for the warm-up and the time that is measured. It
// returns when no producer submits any more.
func (b *bench) watch(ctx context.Context, d *driver) (result *Load, err error) {
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancelCause(ctx)
	d.began = time.Now()
	for range d.producers {
		group.Go(func() error {
			for {
				if err := d.submit(producing); err != nil {
					if errors.Is(err, errEnough) {
						return nil
					}
					return err
				}
			}
		})
	}
	group.Go(func() error {
		defer stop(errEnough)
		var err error
		result, err = b.record(ctx, d)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// reading is where the counters of a load stand.
type reading struct {
	at                              time.Time
	ended                           int64
	cpu                             time.Duration
	commits, operations, committing int64
}

func (d *driver) read() reading {
	h := d.house
	return reading{
		at: time.Now(), ended: d.ended.Load(), cpu: cpuTime(),
		commits: h.commits.Load(), operations: h.operations.Load(), committing: h.committing.Load(),
	}
}

// record measures a load that others produce.
func (b *bench) record(ctx context.Context, d *driver) (*Load, error) {
	select {
	case <-d.first:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := until(ctx, time.Now().Add(b.warmup())); err != nil {
		return nil, err
	}
	d.recording.Store(true)
	defer d.recording.Store(false)
	// Slices of about a second, the same number in both halves.
	slices := 2 * max(1, int(b.For/(2*time.Second)))
	readings := []reading{d.read()}
	for i := range slices {
		if err := until(ctx, readings[0].at.Add(b.For*time.Duration(i+1)/time.Duration(slices))); err != nil {
			return nil, err
		}
		readings = append(readings, d.read())
		b.Tell("  %s of %s: %.0f runs/s", time.Since(readings[0].at).Round(time.Second/10), b.For, rate(readings[i], readings[i+1]))
	}
	first, half, last := readings[0], readings[slices/2], readings[slices]
	r := &Load{
		Rate: d.rate, Seconds: last.at.Sub(first.at).Seconds(), Runs: last.ended - first.ended,
		RunsPerSecond: rate(first, last), FirstHalf: rate(first, half), SecondHalf: rate(half, last),
		SlowestSecond: rate(first, readings[1]),
		Submit:        d.submits.times(), Start: d.starts.times(), Done: d.dones.times(),
		Cores:  (last.cpu - first.cpu).Seconds() / last.at.Sub(first.at).Seconds(),
		Queued: d.next.Load() - d.ended.Load() + int64(d.backlog),
	}
	for i := range slices {
		r.SlowestSecond = min(r.SlowestSecond, rate(readings[i], readings[i+1]))
	}
	if r.Runs == 0 {
		return nil, fmt.Errorf("no run ended within %s", b.For)
	}
	commits := float64(max(1, last.commits-first.commits))
	r.CPUPerRun = float64((last.cpu - first.cpu).Milliseconds()) / float64(r.Runs)
	r.CommitsPerSecond = commits / r.Seconds
	r.OperationsPerCommit = float64(last.operations-first.operations) / commits
	r.CommitMean = milliseconds(last.committing-first.committing) / commits
	return r, nil
}

// rate is the runs a second between two readings.
func rate(from, to reading) float64 {
	return float64(to.ended-from.ended) / to.at.Sub(from.at).Seconds()
}

// drain waits until every run has ended, and looks whether the store says the
// same of them.
func (d *driver) drain(ctx context.Context) error {
	for range cap(d.room) {
		select {
		case d.room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	completed := 0
	err := d.house.store.View(ctx, func(r mailroom.Reader) (err error) {
		completed, err = r.CountRuns(mailroom.RunQuery{Statuses: []mailroom.Status{mailroom.Completed}})
		return err
	})
	if err == nil && int64(completed) != d.submitted.Load() {
		err = fmt.Errorf("%d runs were submitted, but %d are completed in the store", d.submitted.Load(), completed)
	}
	return err
}
