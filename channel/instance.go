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

// instance is one adapter, from the call of Connect to the return of Close.
type instance struct {
	// Set by begin.
	number int
	host   *Host
	cancel func()        // has it end
	done   chan struct{} // closed when it has

	// Owned by the runner's mu.
	adapter    Adapter        // nil until it is open
	deliveries sync.WaitGroup // none is added once it is to end
}

// startInstance starts the life of an adapter; within mu. The goroutine belongs to the
// runner, which waits for it as long as Reconnect.CloseTimeout.
func (r *Runner) startInstance(ctx context.Context, adapter int) *instance {
	ctx, retire := context.WithCancel(context.WithoutCancel(ctx)) // who retires it says first that nothing more is delivered
	l := &instance{number: adapter, cancel: retire, done: make(chan struct{})}
	l.host = &Host{runner: r, number: adapter, alive: ctx, log: r.log.With("adapter", adapter)}
	go func() {
		defer recovery.Log(r.log, "the end of a channel's adapter")
		defer close(l.done)
		if err := recovery.Call(r.log, "a channel's adapter", func() error { r.runInstance(ctx, l); return nil }); err != nil {
			r.onFailure(adapter, err)
		}
		r.handle(event{kind: eventExited, adapter: adapter})
	}()
	return l
}

// runInstance is the whole life. ctx ends when the adapter is to end.
func (r *Runner) runInstance(ctx context.Context, l *instance) {
	a, err := r.connect(ctx, l.host)
	if err != nil {
		if ctx.Err() == nil {
			r.onFailure(l.number, err)
		}
		return
	}
	r.onConnected(l, a)
	var both sync.WaitGroup
	both.Go(func() {
		defer recovery.Log(r.log, "what receives for a channel")
		err := catchPanic(func() error { return a.Receive(ctx) })
		if err == nil {
			err = errors.New("the platform's adapter stopped receiving")
		}
		r.onError(ctx, l, err)
	})
	both.Go(func() {
		defer recovery.Log(r.log, "what tends a channel")
		if err := catchPanic(func() error { return a.Maintain(ctx) }); err != nil {
			r.onError(ctx, l, err)
		}
	})
	<-ctx.Done()
	r.drainDeliveries(l, r.options.Reconnect.CloseTimeout/2)
	if err := catchPanic(a.Close); err != nil {
		r.log.Warn("the channel's adapter did not close well", "adapter", l.number, "error", truncateError(err))
	}
	both.Wait()
}

// connect makes the adapter. One that comes when nobody waits for it any more is
// closed by live like any other.
func (r *Runner) connect(ctx context.Context, l *Host) (a Adapter, err error) {
	err = catchPanic(func() (err error) {
		a, err = r.options.Connect(ctx, l)
		return err
	})
	if err == nil && a == nil {
		err = errors.New("the platform gave no adapter")
	}
	return a, err
}

// onConnected takes the adapter over, if it comes in time.
func (r *Runner) onConnected(l *instance, a Adapter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.adapter = a
	r.apply(event{kind: eventOpened, at: time.Now(), adapter: l.number})
}

// onError takes an error of an adapter that was not told to end.
func (r *Runner) onError(ctx context.Context, l *instance, err error) {
	if ctx.Err() == nil {
		r.onFailure(l.number, err)
	}
}

// drainDeliveries waits for those under way, no longer than within.
func (r *Runner) drainDeliveries(l *instance, within time.Duration) {
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
		d, err := r.readDelivery(ctx, s)
		if err != nil {
			return err
		}
		l, err := r.acquireInstance()
		if err != nil {
			return err
		}
		defer l.deliveries.Done()
		return l.adapter.Deliver(ctx, d, s)
	})
}

// acquireInstance begins a delivery with the present adapter.
func (r *Runner) acquireInstance() (*instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if !r.closed && s.phase == phaseOpen && r.instance != nil && r.instance.number == s.adapter {
		r.instance.deliveries.Add(1)
		return r.instance, nil
	}
	why := "it is connecting"
	if s.reason != "" {
		why = s.reason
	}
	return nil, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("the channel cannot send: %s", why)}
}
