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

// instance is the lifetime of one adapter, from the call of Connect to the return of Close.
type instance struct {
	// Set by startInstance.
	number int
	host   *Host
	cancel func()        // makes the adapter stop
	done   chan struct{} // closed when the adapter has exited

	// Owned by the runner's mu.
	adapter    Adapter        // nil until the channel is connected
	deliveries sync.WaitGroup // grows only until the adapter has to stop
}

// startInstance starts an adapter and the goroutine that runs it. The runner waits for that goroutine at most
// Reconnect.CloseTimeout. The caller holds mu.
func (r *Runner) startInstance(ctx context.Context, adapter int) *instance {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // canceled only after new deliveries are refused
	inst := &instance{number: adapter, cancel: cancel, done: make(chan struct{})}
	inst.host = &Host{runner: r, number: adapter, alive: ctx, log: r.log.With("adapter", adapter)}
	go func() {
		defer recovery.Log(r.log, "channel adapter exit")
		defer close(inst.done)
		if err := recovery.Call(r.log, "channel adapter", func() error { r.runInstance(ctx, inst); return nil }); err != nil {
			r.onFailure(adapter, err)
		}
		r.handle(event{kind: eventExited, adapter: adapter})
	}()
	return inst
}

// runInstance runs an adapter until ctx ends and closes it.
func (r *Runner) runInstance(ctx context.Context, inst *instance) {
	a, err := r.connect(ctx, inst.host)
	if err != nil {
		if ctx.Err() == nil {
			r.onFailure(inst.number, err)
		}
		return
	}
	r.onConnected(inst, a)
	var both sync.WaitGroup
	both.Go(func() {
		defer recovery.Log(r.log, "channel receive")
		err := catchPanic(func() error { return a.Receive(ctx) })
		if err == nil {
			err = errors.New("adapter stopped receiving")
		}
		r.onError(ctx, inst, err)
	})
	both.Go(func() {
		defer recovery.Log(r.log, "channel maintain")
		if err := catchPanic(func() error { return a.Maintain(ctx) }); err != nil {
			r.onError(ctx, inst, err)
		}
	})
	<-ctx.Done()
	r.drainDeliveries(inst, r.options.Reconnect.CloseTimeout/2)
	if err := catchPanic(a.Close); err != nil {
		r.log.Warn("adapter close failed", "adapter", inst.number, "error", truncateError(err))
	}
	both.Wait()
}

// connect calls Connect. runInstance also closes an adapter that Connect returns too late.
func (r *Runner) connect(ctx context.Context, h *Host) (a Adapter, err error) {
	err = catchPanic(func() (err error) {
		a, err = r.options.Connect(ctx, h)
		return err
	})
	if err == nil && a == nil {
		err = errors.New("Connect returned no adapter")
	}
	return a, err
}

// onConnected stores the connected adapter.
func (r *Runner) onConnected(inst *instance, a Adapter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inst.adapter = a
	r.apply(event{kind: eventOpened, at: time.Now(), adapter: inst.number})
}

// onError reports an error of an adapter, unless the runner has stopped it.
func (r *Runner) onError(ctx context.Context, inst *instance, err error) {
	if ctx.Err() == nil {
		r.onFailure(inst.number, err)
	}
}

// drainDeliveries waits until the deliveries in progress have ended, or until the time within has passed.
func (r *Runner) drainDeliveries(inst *instance, within time.Duration) {
	done := make(chan struct{})
	go func() { // ends with the deliveries, which the engine ends
		defer recovery.Log(r.log, "channel delivery drain")
		inst.deliveries.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
	}
}

// Agent returns the agent of the channel's delivery threads. The engine must start its runs only
// while [Runner.Connected] reports true: so deliveries stay queued during an outage and start
// when the channel reconnects. A run that starts just after a disconnect fails as
// [mailroom.ClassUnavailable].
//
// Deliveries that are not ready stay due, so a connection changes nothing in the store: the engine
// wakes, and its next claim gets them. A killed process leaves nothing behind, and of two processes
// over one store the connected one gets the runs. The alternative, deliveries that fail and back
// off until an operation makes them due again, would need a new entry, a query, a bound on repeats,
// and one lost attempt for each probe of a platform that is known to be down.
//
// A delivery that fails because its connection breaks is an outage as usual. Its backoff grows no
// faster than the backoff of the channel, which also protects an unstable platform. The Retry-After
// of the platform is on the run, and nothing shortens it.
func (r *Runner) Agent() mailroom.Agent {
	return mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		d, err := r.readDelivery(ctx, s)
		if err != nil {
			return err
		}
		inst, err := r.acquireInstance()
		if err != nil {
			return err
		}
		defer inst.deliveries.Done()
		return inst.adapter.Deliver(ctx, d, s)
	})
}

// acquireInstance counts a delivery on the current adapter.
func (r *Runner) acquireInstance() (*instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if !r.closed && s.phase == phaseOpen && r.instance != nil && r.instance.number == s.adapter {
		r.instance.deliveries.Add(1)
		return r.instance, nil
	}
	why := "connecting"
	if s.reason != "" {
		why = s.reason
	}
	return nil, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("channel cannot send: %s", why)}
}
