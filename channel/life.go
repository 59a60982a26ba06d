package channel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// life is one adapter, from the call of Connect to the return of Close.
type life struct {
	// Set by begin.
	adapter int
	link    *Host
	retire  func()        // has it end
	ended   chan struct{} // closed when it has

	// Owned by the runner's mu.
	made       Adapter        // nil until it is open
	deliveries sync.WaitGroup // none is added once it is to end
}

// begin starts the life of an adapter; within mu. The goroutine belongs to the
// runner, which waits for it as long as Reconnect.CloseTimeout.
func (r *Runner) begin(ctx context.Context, adapter int) *life {
	ctx, retire := context.WithCancel(context.WithoutCancel(ctx)) // who retires it says first that nothing more is delivered
	l := &life{adapter: adapter, retire: retire, ended: make(chan struct{})}
	l.link = &Host{runner: r, adapter: adapter, life: ctx, log: r.log.With("adapter", adapter)}
	go func() {
		defer recovery.Log(r.log, "the end of a channel's adapter")
		defer close(l.ended)
		if err := recovery.Call(r.log, "a channel's adapter", func() error { r.live(ctx, l); return nil }); err != nil {
			r.broke(adapter, err)
		}
		r.tell(event{what: ended, adapter: adapter})
	}()
	return l
}

// live is the whole life. ctx ends when the adapter is to end.
func (r *Runner) live(ctx context.Context, l *life) {
	a, err := r.connect(ctx, l.link)
	if err != nil {
		if ctx.Err() == nil {
			r.broke(l.adapter, err)
		}
		return
	}
	r.opened(l, a)
	var both sync.WaitGroup
	both.Go(func() {
		defer recovery.Log(r.log, "what receives for a channel")
		err := guarded(func() error { return a.Receive(ctx) })
		if err == nil {
			err = errors.New("the platform's adapter stopped receiving")
		}
		r.ends(ctx, l, err)
	})
	both.Go(func() {
		defer recovery.Log(r.log, "what tends a channel")
		if err := guarded(func() error { return a.Maintain(ctx) }); err != nil {
			r.ends(ctx, l, err)
		}
	})
	<-ctx.Done()
	r.lastDeliveries(l, r.options.Reconnect.CloseTimeout/2)
	if err := guarded(a.Close); err != nil {
		r.log.Warn("the channel's adapter did not close well", "adapter", l.adapter, "error", short(err))
	}
	both.Wait()
}

// connect makes the adapter. One that comes when nobody waits for it any more is
// closed by live like any other.
func (r *Runner) connect(ctx context.Context, l *Host) (a Adapter, err error) {
	err = guarded(func() (err error) {
		a, err = r.options.Connect(ctx, l)
		return err
	})
	if err == nil && a == nil {
		err = errors.New("the platform gave no adapter")
	}
	return a, err
}

// opened takes the adapter over, if it comes in time.
func (r *Runner) opened(l *life, a Adapter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.made = a
	r.step(event{what: opened, at: time.Now(), adapter: l.adapter})
}

// ends takes an error of an adapter that was not told to end.
func (r *Runner) ends(ctx context.Context, l *life, err error) {
	if ctx.Err() == nil {
		r.broke(l.adapter, err)
	}
}

// lastDeliveries waits for those under way, no longer than within.
func (r *Runner) lastDeliveries(l *life, within time.Duration) {
	done := make(chan struct{})
	go func() { // ends with the deliveries, which their engine ends
		defer recovery.Log(r.log, "the wait for deliveries")
		l.deliveries.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
	}
}

// Agent is the agent of the channel's delivery threads. It is to be asked only while
// the channel is [Runner.Connected]: so deliveries wait for a connection as they are,
// and go out at once when there is one. One that comes when it has just ended is put
// off as an [mailroom.ClassUnavailable], and says why.
func (r *Runner) Agent() mailroom.Agent {
	return mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		d, err := r.delivery(ctx, s)
		if err != nil {
			return err
		}
		l, err := r.enter()
		if err != nil {
			return err
		}
		defer l.deliveries.Done()
		return l.made.Deliver(ctx, d, s)
	})
}

// enter begins a delivery with the present adapter.
func (r *Runner) enter() (*life, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.standing
	if !r.over && s.phase == open && r.life != nil && r.life.adapter == s.adapter {
		r.life.deliveries.Add(1)
		return r.life, nil
	}
	why := "it is connecting"
	if s.reason != "" {
		why = s.reason
	}
	return nil, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("the channel cannot send: %s", why)}
}
