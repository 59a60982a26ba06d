package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// Options are one channel. Name, Connect and Ledger are needed.
type Options struct {
	Name      string
	Kind      string // of its platform
	Connect   Connect
	Ledger    Ledger
	Reconnect ReconnectPolicy
	// Jitter returns from 0 to 1; nil is by chance.
	Jitter func() float64
	Log    *slog.Logger
}

// Runner keeps one channel going. It waits for no other.
type Runner struct {
	// Set by New.
	options      Options
	log          *slog.Logger
	wakeup       chan struct{} // there may be something to do
	changesReady chan struct{} // there are changes to be told

	// Owned by mu.
	mu       sync.Mutex
	state    state
	reported State     // what standing does not have
	instance *instance // of the adapter that was made last, nil at first
	changes  []Change
	dropped  int // changes that nobody had the time to keep
	closed   bool

	connected atomic.Bool // as standing says; the engine reads it, and must not wait
}

// New makes the runner of a channel. It starts nothing.
func New(o Options) *Runner {
	o.Reconnect.setDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Runner{
		options: o, log: o.Log.With("channel", o.Name),
		wakeup: make(chan struct{}, 1), changesReady: make(chan struct{}, 1),
		reported: State{Name: o.Name, Kind: o.Kind, Condition: ConditionStarting},
	}
}

// Name is the channel's.
func (r *Runner) Name() string { return r.options.Name }

// State is what is known about the channel now.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.apply(event{kind: eventTick, at: now}) // nothing is claimed that is not so any more
	s, st := r.reported, r.state
	if st.condition == "" {
		return s
	}
	s.Condition, s.Since, s.Reason = st.condition, st.since, st.reason
	if s.Condition == ConditionConnected {
		s.Reason = s.Blocked
	}
	s.Adapter, s.Stranded, s.Attempts = st.adapter, len(st.stranded), st.attempts
	s.NextTry, s.Reconnects, s.ConnectedSince, s.Downtime = st.nextTry, st.reconnects, st.connectedSince, st.downtime
	if !st.downSince.IsZero() {
		s.Downtime += now.Sub(st.downSince)
	}
	return s
}

// Connected reports whether the channel is connected, and so whether its deliveries
// may be started.
func (r *Runner) Connected() bool { return r.connected.Load() }

// Resume has a channel that is not connected tried now, whatever has failed before.
func (r *Runner) Resume() { r.handle(event{kind: eventResume}) }

// ConfigChanged has an adapter made anew: what it is to be made of is another.
func (r *Runner) ConfigChanged() { r.handle(event{kind: eventConfigChanged}) }

// handle takes an event in, now.
func (r *Runner) handle(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.at = time.Now()
	r.apply(e)
}

// apply takes an event in; it is within mu.
func (r *Runner) apply(e event) {
	if r.closed {
		return
	}
	before := r.state
	e.jitter = r.options.Jitter()
	act := actionNone
	r.state, act = r.options.Reconnect.next(before, e)
	if wake := r.state.nextWake(); act != actionNone || e.kind != eventHeartbeat && wake != before.nextWake() {
		signal(r.wakeup)
	}
	if act == actionStop {
		r.instance.cancel()
		r.reported.LastError, r.reported.LastErrorAt = r.state.reason, e.at
	}
	after := r.state
	if len(after.stranded) > len(before.stranded) {
		r.log.Error("the channel's adapter does not end and is left behind", "adapter", before.adapter, "left_behind", len(after.stranded))
	}
	if after.condition != before.condition {
		r.recordChange(before, after, e.at)
		if r.connected.Store(after.condition == ConditionConnected); r.connected.Load() {
			r.options.Ledger.Wake()
		}
	}
	if act == actionStop || after.condition != before.condition {
		r.logTransition(after, e.kind)
	}
}

// logTransition writes the one line about a try that has ended, or a change; within mu.
func (r *Runner) logTransition(s state, what eventKind) {
	args := []any{"state", string(s.condition), "adapter", s.adapter}
	if s.condition == ConditionConnected {
		r.log.Info("channel connected", args...)
		return
	}
	if s.reason != "" {
		args = append(args, "attempts", s.attempts, "error", s.reason)
	}
	if !s.nextTry.IsZero() {
		args = append(args, "next_try", s.nextTry)
	}
	switch {
	case s.condition == ConditionStarting:
		r.log.Debug("channel is starting", args...)
		return
	case what == eventResume || what == eventConfigChanged:
		r.log.Info("channel is tried now", args...)
		return
	}
	switch s.condition {
	case ConditionFailed, ConditionGaveUp:
		text := "channel failed and is not tried again"
		if !s.nextTry.IsZero() { // its supervisor panicked
			text = "channel failed and is tried again"
		}
		r.log.Error(text, args...)
	case ConditionParked:
		r.log.Error("channel keeps failing and needs attention; it is tried now and then", args...)
	default:
		r.log.Warn("channel failed and is tried again", args...)
	}
}

// most changes that wait to be kept.
const maxPendingChanges = 1000

func (r *Runner) recordChange(before, after state, at time.Time) {
	c := Change{Channel: r.options.Name, State: after.condition, Was: before.condition, Reason: after.reason, Attempts: after.attempts, Adapter: after.adapter, At: at}
	if due := after.nextTry; !due.IsZero() {
		c.NextTry = &due
	}
	if len(r.changes) >= maxPendingChanges {
		r.changes = r.changes[1:]
		r.dropped++
	}
	r.changes = append(r.changes, c)
	signal(r.changesReady)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// onHeartbeat takes evidence of an adapter.
func (r *Runner) onHeartbeat(adapter int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCurrent(adapter) {
		now := time.Now()
		r.reported.LastSuccess = now
		r.apply(event{kind: eventHeartbeat, at: now, adapter: adapter})
	}
}

// updateReported changes what is shown, if the adapter may still report.
func (r *Runner) updateReported(adapter int, f func(*State)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := r.isCurrent(adapter)
	if ok {
		f(&r.reported)
	}
	return ok
}

// isCurrent tells whether what an adapter says counts; within mu.
func (r *Runner) isCurrent(adapter int) bool {
	return !r.closed && adapter == r.state.adapter && r.state.phase.live()
}

// onFailure takes the end of what an adapter was there for.
func (r *Runner) onFailure(adapter int, err error) {
	_, fatal := errors.AsType[*fatalError](err)
	if p, ok := errors.AsType[*panicError](err); ok {
		r.log.Error("the channel's adapter panicked", "adapter", adapter, "panic", p.value, "stack", p.stack)
	}
	r.handle(event{kind: eventFailed, adapter: adapter, reason: truncateError(err), fatal: fatal, retryAfter: mailroom.AsFailure(err).RetryAfter})
}

// Run keeps the channel going until ctx ends. It returns within [ReconnectPolicy].Close after
// that, whatever the adapter does.
func (r *Runner) Run(ctx context.Context) {
	var parts sync.WaitGroup
	keeping, enough := context.WithCancel(ctx)
	parts.Go(func() {
		defer recovery.Log(r.log, "what keeps a channel's changes")
		r.writeChanges(keeping)
	})
	for ctx.Err() == nil {
		err := recovery.Call(r.log, "a channel's supervisor", func() error { r.supervise(ctx); return nil })
		if err != nil {
			r.recoverSupervisor(ctx, err)
		}
	}
	r.shutdown()
	enough()
	parts.Wait()
}

// supervise keeps the channel going until ctx ends.
func (r *Runner) supervise(ctx context.Context) {
	r.handle(event{kind: eventStart})
	for ctx.Err() == nil {
		r.wait(ctx, r.startDue(ctx))
	}
}

// recoverSupervisor notes a panic of supervise, so that the channel shows as failed and its next
// adapter comes after a pause. If that panics as well, it is the pause itself: a
// supervisor that always panics must not take a whole processor.
func (r *Runner) recoverSupervisor(ctx context.Context, why error) {
	err := recovery.Call(r.log, "a channel's supervisor", func() error {
		r.mu.Lock()
		if r.state.phase == phaseConnecting && (r.instance == nil || r.instance.number != r.state.adapter) {
			r.state.phase, r.state.deadline = phaseNone, time.Time{} // it was never begun
		}
		r.mu.Unlock()
		r.handle(event{kind: eventCrashed, reason: "the channel's supervisor failed: " + truncateError(why)})
		return nil
	})
	if err == nil {
		return
	}
	pause := time.NewTimer(r.options.Reconnect.InitialDelay)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// startDue begins a new adapter if it is time for one, and returns when something is to be done next.
func (r *Runner) startDue(ctx context.Context) (wake time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.phase == phaseConnecting && (r.instance == nil || r.instance.number != r.state.adapter) {
		r.instance = r.startInstance(ctx, r.state.adapter)
	}
	return r.state.nextWake()
}

// wait waits until there is something to do, or a moment comes.
func (r *Runner) wait(ctx context.Context, wake time.Time) {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer := time.NewTimer(time.Until(wake))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-r.wakeup:
	case <-alarm:
		r.handle(event{kind: eventTick})
	}
}

// shutdown ends the adapter that is there, if it does.
func (r *Runner) shutdown() {
	r.mu.Lock()
	r.closed = true
	r.connected.Store(false)
	life := r.instance
	r.mu.Unlock()
	if life == nil {
		return
	}
	life.cancel()
	select {
	case <-life.done:
	case <-time.After(r.options.Reconnect.CloseTimeout):
		r.log.Error("the channel's adapter does not end", "adapter", life.number)
	}
}

// writeChanges has the changes kept, one after the other, until ctx ends and there are none.
func (r *Runner) writeChanges(ctx context.Context) {
	for {
		r.mu.Lock()
		changes, lost := r.changes, r.dropped
		r.changes, r.dropped = nil, 0
		r.mu.Unlock()
		if lost > 0 {
			r.log.Warn("changes of the channel are not in its log: they came faster than they were written", "changes", lost)
		}
		for _, c := range changes {
			if err := recovery.Call(r.log, "a change of a channel", func() error { return r.writeChange(ctx, c) }); err != nil {
				r.log.Warn("a change of the channel is not in its log", "state", string(c.State), "error", err)
				if ctx.Err() != nil {
					return
				}
			}
		}
		if len(changes) > 0 {
			continue
		}
		select {
		case <-r.changesReady:
		case <-ctx.Done():
			return
		}
	}
}

// writeChange has one kept, also while everything ends.
func (r *Runner) writeChange(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a change of a channel: %w", err)
	}
	_, err = r.options.Ledger.AppendEntry(ctx, LogThreadID(c.Channel), mailroom.KindChannel, body)
	return err
}

// panicError is a panic of an adapter. Where it happened is for the log.
type panicError struct{ value, stack string }

func (p *panicError) Error() string { return "panic: " + p.value }

// catchPanic makes a panic an error: one channel's fault ends no other.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{fmt.Sprint(p), string(debug.Stack())}
		}
	}()
	return f()
}
