package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// driver submits a load and observes its runs. The request id of a submit contains the time of the call, so that
// every process that measures the load knows that time.
type driver struct {
	load
	fixture   *fixture
	keys      bool   // submits have idempotency keys
	name      string // makes keys distinct among the drivers of a load
	producers int
	threads   int
	created   time.Time // request ids count from here; the same in all drivers of a load
	room      *room

	next      atomic.Int64  // number of the next submit
	submitted atomic.Int64  // acknowledged
	ended     atomic.Int64  // ended in any status
	first     chan struct{} // closed when the first run has ended
	recording atomic.Bool

	recorded recorded
}

// urgentPrefix is the prefix of the request ids of urgent submits.
const urgentPrefix = "urgent-"

// urgentProducers is small, because urgent submits are a small part of a load.
const urgentProducers = 4

// schedule paces submits at a steady rate.
type schedule struct {
	rate  int // per second; 0: unlimited
	began time.Time
	taken atomic.Int64
}

// wait waits until the next submit is due.
func (s *schedule) wait(ctx context.Context) error {
	if s.rate == 0 {
		return context.Cause(ctx)
	}
	turn := float64(s.taken.Add(1)) / float64(s.rate)
	return sleepUntil(ctx, s.began.Add(time.Duration(turn*float64(time.Second))))
}

// newDriver returns a driver with a new fixture in dir.
func (b *bench) newDriver(ctx context.Context, dir string, l load) (*driver, error) {
	limit := l.backlog
	if limit == 0 {
		limit = maxOutstanding
	}
	d := &driver{
		load: l, keys: b.Keys, producers: b.Producers, threads: b.result.Settings.Threads, created: time.Now(),
		room: newRoom(limit), first: make(chan struct{}),
	}
	open := b.opener()
	if l.limitKeys > 0 {
		d.threads = max(d.threads, l.backlog)
		plain := open
		open = func(ctx context.Context, dir string) (*fixture, error) {
			h, err := plain(ctx, dir)
			if err == nil {
				h.limits = ledger.Limits{Key: thread.Limit{Running: l.keyLimit}}
			}
			return h, err
		}
	}
	var err error
	d.fixture, err = newFixture(ctx, open, dir, b.AgentVersion, d.onRunEnd)
	return d, err
}

// errMeasured is the cause with which the producers are stopped after the measurement.
var errMeasured = errors.New("measured")

// produce submits one run after another until ctx is done.
func (d *driver) produce(ctx context.Context, when *schedule, urgent bool) error {
	for {
		err := when.wait(ctx)
		if err == nil {
			err = d.submit(ctx, urgent)
		}
		if errors.Is(err, errMeasured) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill submits runs as fast as possible.
func (d *driver) fill(ctx context.Context, runs int) error {
	// The first run is submitted alone, so that it is the first in every order.
	if err := d.submit(ctx, false); err != nil {
		return err
	}
	left := atomic.Int64{}
	left.Store(int64(runs) - 1)
	group, ctx := errgroup.WithContext(ctx)
	for range 4 * d.producers {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				if err := d.submit(ctx, false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// submit submits one run as soon as fewer than the maximum are outstanding.
func (d *driver) submit(ctx context.Context, urgent bool) error {
	if err := d.room.enter(ctx); err != nil {
		return err
	}
	called := time.Since(d.created)
	n := d.next.Add(1)
	in := d.newSubmit(n, called)
	if urgent {
		now := 0
		in.Priority, in.Thread, in.Origin.RequestID = &now, "urgent-"+in.Thread, urgentPrefix+in.Origin.RequestID
	}
	// The context is detached from ctx, so that every submit that has begun is counted.
	if _, err := d.fixture.ledger.Submit(context.WithoutCancel(ctx), in); err != nil {
		return fmt.Errorf("submit run %d: %w", n, err)
	}
	d.submitted.Add(1)
	if d.recording.Load() {
		d.recorded.Submits.add(time.Since(d.created) - called)
	}
	return nil
}

// newSubmit returns the n-th submit of a load, called at a time after the driver was created.
func (d *driver) newSubmit(n int64, called time.Duration) thread.Submit {
	number := strconv.FormatInt(n, 10)
	key := ""
	if d.keys {
		key = "question-" + d.name + number
	}
	limitKey := ""
	if d.limitKeys > 0 {
		limitKey = strconv.FormatInt(n/keyBlock%int64(d.limitKeys), 10)
	}
	return thread.Submit{
		Key: key, LimitKey: limitKey,
		Thread:   "bench-" + strconv.FormatInt(n%int64(d.threads), 10),
		Messages: []thread.NewMessage{{Parts: mailroom.Text("What is the answer to question " + number + "?")}},
		Origin:   mailroom.Origin{Via: "user", Sender: "bench", RequestID: strconv.FormatInt(int64(called), 10)},
		Sender:   "bench", Owner: "bench",
	}
}

// latency returns the time since a run of this origin was submitted. ok is false if the load did not submit it.
func (d *driver) latency(of mailroom.Origin) (took time.Duration, urgent, ok bool) {
	called, urgent := strings.CutPrefix(of.RequestID, urgentPrefix)
	ns, err := strconv.ParseInt(called, 10, 64)
	return time.Since(d.created) - time.Duration(ns), urgent, err == nil
}

// onAgentStart records the start of an agent.
func (d *driver) onAgentStart(r mailroom.RunView) {
	took, urgent, ok := d.latency(r.Origin)
	switch {
	case !ok || !d.recording.Load():
	case urgent:
		d.recorded.Urgents.add(took)
	default:
		d.recorded.Starts.add(took)
	}
}

// onRunEnd records the durable end of a run.
func (d *driver) onRunEnd(r *mailroom.Run) {
	if took, urgent, ok := d.latency(r.Origin); ok && !urgent && d.recording.Load() {
		d.recorded.Dones.add(took)
	}
	if d.ended.Add(1) == 1 {
		close(d.first)
	}
	d.room.leave()
}

// drain waits until all runs have ended, and checks that the store lists them as completed.
func (d *driver) drain(ctx context.Context) error {
	if err := d.room.waitEmpty(ctx); err != nil {
		return err
	}
	return checkCompleted(ctx, d.fixture.store, d.submitted.Load())
}

// checkCompleted checks that the store has as many completed runs as were submitted.
func checkCompleted(ctx context.Context, st store.Store, submitted int64) error {
	completed := 0
	err := st.View(ctx, func(r store.Reader) (err error) {
		counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusCompleted}})
		completed = counts.Sum()
		return err
	})
	if err == nil && int64(completed) != submitted {
		err = fmt.Errorf("%d runs were submitted, but %d are completed in the store", submitted, completed)
	}
	return err
}

// sleepUntil waits until the time at. It fails if ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at)) // fires at once if the time has passed
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
