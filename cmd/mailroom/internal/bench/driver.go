package bench

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
)

// driver submits a load and hears of its runs.
type driver struct {
	load
	fixture     *fixture
	producers   int
	threads     int
	created     time.Time
	submitTimes []submitTime // by number, in turn
	slots       chan struct{}

	next      atomic.Int64  // number of the next submit
	submitted atomic.Int64  // answered
	ended     atomic.Int64  // completed, or else
	first     chan struct{} // closed when the first run has ended
	recording atomic.Bool

	submits, starts, dones, urgents histogram
}

// submitTime says when a run was submitted. Numbers come around, so it also says
// which one it was.
type submitTime struct {
	number atomic.Int64
	at     atomic.Int64 // since the driver was made, in ns
}

// urgentPrefix is what the request ids of urgent submits begin with.
const urgentPrefix = "urgent-"

// urgentProducers are few: what they submit is a small part of a load.
const urgentProducers = 4

// schedule says when the next submit of a steady rate is due.
type schedule struct {
	rate  int // a second; 0: at once
	began time.Time
	taken atomic.Int64
}

// wait waits for the next turn.
func (s *schedule) wait(ctx context.Context) error {
	if s.rate == 0 {
		return context.Cause(ctx)
	}
	turn := float64(s.taken.Add(1)) / float64(s.rate)
	return sleepUntil(ctx, s.began.Add(time.Duration(turn*float64(time.Second))))
}

// newDriver opens a file in dir for a load.
func (b *bench) newDriver(ctx context.Context, dir string, l load) (*driver, error) {
	room := l.backlog
	if room == 0 {
		room = maxOutstanding
	}
	d := &driver{
		load: l, producers: b.Producers, threads: b.result.Settings.Threads, created: time.Now(),
		submitTimes: make([]submitTime, 64*maxOutstanding), slots: make(chan struct{}, room), first: make(chan struct{}),
	}
	var err error
	d.fixture, err = newFixture(ctx, dir, b.AgentVersion, d.onRunEnd)
	return d, err
}

// errMeasured ends the producers when all is measured.
var errMeasured = errors.New("measured")

// produce submits, one run after another, until ctx ends.
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

// fill submits so many runs as fast as many producers can.
func (d *driver) fill(ctx context.Context, runs int) error {
	// The first alone: it is the first in every order.
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

// submit submits one run, when there is room for it.
func (d *driver) submit(ctx context.Context, urgent bool) error {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n := d.next.Add(1)
	called := time.Since(d.created)
	m := &d.submitTimes[n%int64(len(d.submitTimes))]
	m.number.Store(n)
	m.at.Store(int64(called))
	in := d.newSubmit(n)
	if urgent {
		now := 0
		in.Priority, in.Thread, in.Origin.RequestID = &now, "urgent-"+in.Thread, urgentPrefix+in.Origin.RequestID
	}
	// Not ctx: a submit that began is waited for, so that all are counted.
	if _, err := d.fixture.ledger.Submit(context.WithoutCancel(ctx), in); err != nil {
		return fmt.Errorf("submit run %d: %w", n, err)
	}
	d.submitted.Add(1)
	if d.recording.Load() {
		d.submits.add(time.Since(d.created) - called)
	}
	return nil
}

// newSubmit is the n-th submit of a load. Its number travels as the request id,
// as one that came over HTTP has it.
func (d *driver) newSubmit(n int64) mailroom.Submit {
	number := strconv.FormatInt(n, 10)
	return mailroom.Submit{
		Thread:   "bench-" + strconv.FormatInt(n%int64(d.threads), 10),
		Messages: []mailroom.NewMessage{{Parts: mailroom.Text("What is the answer to question " + number + "?")}},
		Origin:   mailroom.Origin{Via: "user", Sender: "bench", RequestID: number},
		Sender:   "bench", Owner: "bench",
	}
}

// latency is how long ago the run was submitted. It is not known of runs that
// waited for so long that others took their marks.
func (d *driver) latency(r *mailroom.Run) (took time.Duration, urgent, ok bool) {
	number, urgent := strings.CutPrefix(r.Origin.RequestID, urgentPrefix)
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, urgent, false
	}
	m := &d.submitTimes[n%int64(len(d.submitTimes))]
	at := m.at.Load()
	return time.Since(d.created) - time.Duration(at), urgent, m.number.Load() == n
}

// onAgentStart hears that an agent begins.
func (d *driver) onAgentStart(r *mailroom.Run) {
	took, urgent, ok := d.latency(r)
	switch {
	case !ok || !d.recording.Load():
	case urgent:
		d.urgents.add(took)
	default:
		d.starts.add(took)
	}
}

// onRunEnd hears that a run is durably over.
func (d *driver) onRunEnd(r *mailroom.Run) {
	if took, urgent, ok := d.latency(r); ok && !urgent && d.recording.Load() {
		d.dones.add(took)
	}
	if d.ended.Add(1) == 1 {
		close(d.first)
	}
	<-d.slots // there is one for each run that has not ended
}

// drain waits until every run has ended, and looks whether the store says the
// same of them.
func (d *driver) drain(ctx context.Context) error {
	for range cap(d.slots) { // all the room there is, when nobody else has any
		select {
		case d.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for range cap(d.slots) {
		<-d.slots
	}
	completed := 0
	err := d.fixture.store.View(ctx, func(r mailroom.Reader) (err error) {
		counts, err := r.Count(mailroom.CountQuery{Statuses: []mailroom.Status{mailroom.StatusCompleted}})
		completed = counts.Sum()
		return err
	})
	if err == nil && int64(completed) != d.submitted.Load() {
		err = fmt.Errorf("%d runs were submitted, but %d are completed in the store", d.submitted.Load(), completed)
	}
	return err
}

// sleepUntil waits for a time, and fails when ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at)) // one that has passed fires at once
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
