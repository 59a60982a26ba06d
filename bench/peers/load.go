package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// peer is a queue that is measured. open, submit and close come from one
// goroutine, from many, and from one.
type peer interface {
	// open starts everything in dir, with slots handlers at a time. heard
	// must be told of each piece of work, by its number.
	open(ctx context.Context, dir string, slots int, heard heard) error
	// submit hands in one piece of work. When it returns nil the work must be
	// on the disk.
	submit(ctx context.Context, work work) error
	// recorded counts the work whose end is recorded, by looking where it is
	// recorded, or returns -1 if there is nothing to look at. It is called
	// when all has ended.
	recorded(ctx context.Context) (int64, error)
	close() error
}

// work is one piece of it.
type work struct {
	Number int64  `json:"number"`
	Thread string `json:"thread"`
	Text   string `json:"text"`
}

// heard is told when a handler begins a piece of work, and when its end is
// recorded.
type heard struct{ started, done func(number int64) }

// load is what is asked of every contender.
type load struct {
	producers int
	slots     int
	rate      int // submits a second; 0: as many as go
	warmup    time.Duration
	last      time.Duration
}

// The same bound and the same threads as in mailroom bench.
const (
	outstanding = 1_000
	threads     = 10_000
)

// figures are what one round of one contender gave. Times are milliseconds.
type figures struct {
	RunsPerSecond float64 `json:"runs_per_second"`
	SubmitP50     float64 `json:"submit_p50_ms"`
	SubmitP99     float64 `json:"submit_p99_ms"`
	StartP50      float64 `json:"start_p50_ms"`
	StartP99      float64 `json:"start_p99_ms"`
}

// driver puts a load on a peer.
type driver struct {
	load
	peer peer
	made time.Time
	room chan struct{} // one for each piece of work that has not ended

	next, submitted, ended atomic.Int64
	recording              atomic.Bool
	marks                  []atomic.Int64 // when each was submitted, since made, in ns; by number in turn

	mu              sync.Mutex
	submits, starts []time.Duration // owned by mu
}

// measure opens a peer in dir, measures it, and closes it.
func measure(ctx context.Context, p peer, l load, dir string) (f figures, err error) {
	d := &driver{
		load: l, peer: p, made: time.Now(),
		room: make(chan struct{}, outstanding), marks: make([]atomic.Int64, 64*outstanding),
	}
	if err := p.open(ctx, dir, l.slots, heard{started: d.started, done: d.done}); err != nil {
		return f, errors.Join(err, p.close())
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if f, err = d.run(ctx); err != nil {
		return f, err
	}
	return f, d.drain(ctx)
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
	if err := until(producing, at.Add(d.last)); err != nil {
		return f, err
	}
	f.RunsPerSecond = float64(d.ended.Load()-from) / time.Since(at).Seconds()
	d.recording.Store(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	f.SubmitP50, f.SubmitP99 = middleAndTail(d.submits)
	f.StartP50, f.StartP99 = middleAndTail(d.starts)
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
	// Not ctx: what began is waited for, so that all is counted.
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

// drain waits until all has ended, and looks whether it is recorded.
func (d *driver) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not all of the work has ended within a minute"))
	defer cancel()
	for range cap(d.room) {
		select {
		case d.room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// What tells of an end may be a little ahead of the record.
	for {
		n, err := d.peer.recorded(ctx)
		if err != nil || n < 0 || n == d.submitted.Load() {
			return err
		}
		if until(ctx, time.Now().Add(10*time.Millisecond)) != nil {
			return fmt.Errorf("%d pieces of work were handed in, but the ends of %d are recorded", d.submitted.Load(), n)
		}
	}
}

// until waits for a time, and fails when ctx ends before.
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

// middleAndTail are the median and the 99th percentile, in milliseconds.
func middleAndTail(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		return float64(times[(len(times)-1)*percent/100].Nanoseconds()) / 1e6
	}
	return at(50), at(99)
}
