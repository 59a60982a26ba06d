package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// peer is a queue under measurement. submit is called concurrently, the other methods
// from one goroutine.
type peer interface {
	// open starts the queue in dir with slots concurrent handlers. It must call
	// the functions of observer for each job.
	open(ctx context.Context, dir string, slots int, observer observer) error
	// submit submits one job. The job must be on disk when submit returns nil.
	submit(ctx context.Context, work work) error
	// recorded returns the number of recorded completions, as stored by the
	// queue, or -1 if it stores none. It is called when all jobs have ended.
	recorded(ctx context.Context) (int64, error)
	close() error
}

// work is one job.
type work struct {
	Number int64  `json:"number"`
	Thread string `json:"thread"`
	Text   string `json:"text"`
}

// observer is called when a handler starts a job and when its completion is recorded.
type observer struct{ started, done func(number int64) }

// load is the load of every contender.
type load struct {
	producers int
	slots     int
	rate      int // submits per second; 0: as many as possible
	warmup    time.Duration
	last      time.Duration
}

// The same values as in mailroom bench.
const (
	outstanding = 1_000
	threads     = 10_000
)

// figures are the results of one contender in one round. Times are milliseconds.
type figures struct {
	RunsPerSecond float64 `json:"runs_per_second"`
	SubmitP50     float64 `json:"submit_p50_ms"`
	SubmitP99     float64 `json:"submit_p99_ms"`
	StartP50      float64 `json:"start_p50_ms"`
	StartP99      float64 `json:"start_p99_ms"`
	// CPU is the CPU time of the process with the producers, DatabaseCPU that of its PostgreSQL server or 0 without
	// such a server, both in milliseconds per run.
	CPU         float64 `json:"cpu_ms_per_run"`
	DatabaseCPU float64 `json:"database_cpu_ms_per_run"`
}

// perRun divides a CPU time, which includes that of the warm-up, by the number of runs.
func perRun(cpu time.Duration, f figures, l load) float64 {
	return cpu.Seconds() * 1000 / (f.RunsPerSecond * (l.last + l.warmup).Seconds())
}

// cpuTime returns the CPU time of this process.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// driver puts a load on a peer.
type driver struct {
	load
	peer peer
	made time.Time
	room chan struct{} // one token for each job that has not ended

	next, submitted, ended atomic.Int64
	recording              atomic.Bool
	marks                  []atomic.Int64 // submit times in ns since made, indexed by number modulo the length

	mu              sync.Mutex
	submits, starts []time.Duration // owned by mu
}

// measure opens a peer in dir, measures it, and closes it.
func measure(ctx context.Context, p peer, l load, dir string) (f figures, err error) {
	d := &driver{
		load: l, peer: p, made: time.Now(),
		room: make(chan struct{}, outstanding), marks: make([]atomic.Int64, 64*outstanding),
	}
	if err := p.open(ctx, dir, l.slots, observer{started: d.started, done: d.done}); err != nil {
		return f, errors.Join(err, p.close())
	}
	if f, err = d.run(ctx); err != nil {
		return f, errors.Join(err, p.close())
	}
	if err := errors.Join(d.drain(ctx), p.close()); err != nil {
		return f, err
	}
	if on, ok := p.(interface{ databaseCPU() time.Duration }); ok {
		f.DatabaseCPU = perRun(on.databaseCPU(), f, l)
	}
	return f, nil
}

func (d *driver) run(ctx context.Context) (f figures, err error) {
	producing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	began := time.Now()
	var turns atomic.Int64
	var producers sync.WaitGroup
	for range d.producers {
		producers.Go(func() {
			for {
				if d.rate > 0 {
					turn := float64(turns.Add(1)) / float64(d.rate)
					if until(producing, began.Add(time.Duration(turn*float64(time.Second)))) != nil {
						return
					}
				}
				if err := d.submit(producing); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	defer producers.Wait()
	defer stop(errEnough)
	if err := until(producing, began.Add(d.warmup)); err != nil {
		return f, err
	}
	d.recording.Store(true)
	from, at := d.ended.Load(), time.Now()
	used, err := cpuTime()
	if err != nil {
		return f, err
	}
	if err := until(producing, at.Add(d.last)); err != nil {
		return f, err
	}
	ended := float64(d.ended.Load() - from)
	f.RunsPerSecond = ended / time.Since(at).Seconds()
	now, err := cpuTime()
	if err != nil {
		return f, err
	}
	f.CPU = (now - used).Seconds() * 1000 / max(ended, 1)
	d.recording.Store(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	f.SubmitP50, f.SubmitP99 = percentiles(d.submits)
	f.StartP50, f.StartP99 = percentiles(d.starts)
	return f, nil
}

var errEnough = errors.New("measured")

func (d *driver) submit(ctx context.Context) error {
	select {
	case d.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n := d.next.Add(1)
	called := time.Since(d.made)
	d.marks[n%int64(len(d.marks))].Store(int64(called))
	w := work{
		Number: n, Thread: "bench-" + strconv.FormatInt(n%threads, 10),
		Text: "What is the answer to question " + strconv.FormatInt(n, 10) + "?",
	}
	// The submit does not use ctx, because a submit that has begun must end, so that every job is counted.
	if err := d.peer.submit(context.WithoutCancel(ctx), w); err != nil {
		return fmt.Errorf("submit %d: %w", n, err)
	}
	d.submitted.Add(1)
	d.note(&d.submits, time.Since(d.made)-called)
	return nil
}

func (d *driver) note(times *[]time.Duration, took time.Duration) {
	if !d.recording.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	*times = append(*times, took)
}

func (d *driver) started(n int64) {
	d.note(&d.starts, time.Since(d.made)-time.Duration(d.marks[n%int64(len(d.marks))].Load()))
}

func (d *driver) done(int64) {
	d.ended.Add(1)
	<-d.room
}

// drain waits until all jobs have ended and checks that their completions are recorded.
func (d *driver) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not all jobs ended within a minute"))
	defer cancel()
	for range cap(d.room) {
		select {
		case d.room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// The peer may report a completion shortly before it has recorded the completion.
	for {
		n, err := d.peer.recorded(ctx)
		if err != nil || n < 0 || n == d.submitted.Load() {
			return err
		}
		if until(ctx, time.Now().Add(10*time.Millisecond)) != nil {
			return fmt.Errorf("%d jobs were submitted, but %d completions are recorded", d.submitted.Load(), n)
		}
	}
}

// until waits until the time at. It returns the cause of ctx if that ends first.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// percentiles returns the median and the 99th percentile in milliseconds.
func percentiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		return float64(times[(len(times)-1)*percent/100].Nanoseconds()) / 1e6
	}
	return at(50), at(99)
}
