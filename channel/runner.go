package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mailroom"
)

// Options are one channel.
type Options struct {
	Name    string
	Kind    string // of its platform
	Adapter Adapter
	Ledger  Ledger
	Fresh   time.Duration // how long a success proves that it is connected; 0 is 30 s
	// FirstPause and LastPause are between two tries: the first, doubled each time
	// up to the last. 0 is 1 s and 60 s. The first success begins anew.
	FirstPause, LastPause time.Duration
	Log                   *slog.Logger
}

// Runner keeps one channel going. It waits for no other.
type Runner struct {
	options Options
	adapter Adapter
	link    *Link
	record  *record
	log     *slog.Logger
}

// New makes the runner of a channel. It starts nothing.
func New(o Options) *Runner {
	if o.Fresh == 0 {
		o.Fresh = 30 * time.Second
	}
	if o.FirstPause == 0 {
		o.FirstPause = time.Second
	}
	if o.LastPause == 0 {
		o.LastPause = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	log := o.Log.With("channel", o.Name)
	r := newRecord(o.Name, o.Kind, o.Fresh)
	return &Runner{
		options: o, adapter: o.Adapter, record: r, log: log,
		link: &Link{name: o.Name, ledger: o.Ledger, record: r, log: log},
	}
}

// Name is the channel's.
func (r *Runner) Name() string { return r.link.name }

// State is what is known about the channel now.
func (r *Runner) State() State { return r.record.at(time.Now()) }

// Agent is the agent of the channel's delivery threads. It works whether Run does
// or not.
func (r *Runner) Agent() mailroom.Agent {
	return mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		d, err := r.link.delivery(ctx, s)
		if err != nil {
			return err
		}
		return r.adapter.Deliver(ctx, r.link, d, s)
	})
}

// longestPause bounds what a platform may ask for.
const longestPause = time.Hour

// Run receives until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beside.Go(func() {
		if err := guarded(func() error { r.adapter.Tend(ctx, r.link); return nil }); err != nil {
			r.log.Error("the channel is not tended any more", "error", err)
		}
	})
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = r.options.FirstPause, r.options.LastPause
	pauses.Multiplier, pauses.RandomizationFactor = 2, 0
	pauses.Reset()
	for {
		before := r.record.successes()
		err := guarded(func() error { return r.adapter.Receive(ctx, r.link) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the platform's adapter stopped receiving")
		}
		if r.record.successes() != before {
			pauses.Reset()
		}
		if isFatal(err) {
			r.record.failed(err, time.Now(), time.Time{})
			r.log.Error("channel failed and is not tried again", "error", err)
			<-ctx.Done() // deliveries go on, and it is tended
			return
		}
		pause := max(pauses.NextBackOff(), min(mailroom.AsFailure(err).RetryAfter, longestPause))
		r.record.failed(err, time.Now(), time.Now().Add(pause))
		r.log.Warn("channel failed and is tried again", "error", short(err), "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// guarded makes a panic an error: one channel's fault ends no other.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
