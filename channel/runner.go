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
	"mailroom/entry"
	"mailroom/internal/recovery"
	"mailroom/store"
)

// Options configure a channel. Name, Connect and Ledger are required.
type Options struct {
	Name      string
	Kind      string // platform kind
	Connect   Connect
	Ledger    Ledger
	Reconnect ReconnectPolicy
	// Jitter returns a number from 0 to 1. The default is random.
	Jitter func() float64
	// Unrecorded leaves state changes out of the channel's log thread. It is for a second runner that works beside
	// the main runner of the channel.
	Unrecorded bool
	// Link returns an address that is appended to a message of the channel itself, given the labels of its delivery;
	// "" appends none. Link is called when the message is sent, because a reader of the address may be able to decide
	// something: it must be neither in the log of the delivery's thread nor in the search index. The same labels give
	// the same address. nil appends none.
	Link func(labels map[string]string) string
	// Ended returns why a message of the channel itself need not be sent any more, given the labels of its delivery;
	// "" if it must be sent. Ended is called when the message is sent, because the message may have waited for the
	// connection. nil: all messages are sent.
	Ended func(ctx context.Context, labels map[string]string) (why string, err error)
	Log   *slog.Logger
}

// Runner runs one channel: it connects, reconnects and reports the channel's state. Channels do
// not wait for each other.
type Runner struct {
	// Set by New.
	options      Options
	log          *slog.Logger
	wakeup       chan struct{} // the supervisor has something to do
	changesReady chan struct{} // state changes wait to be written

	// Owned by mu.
	mu       sync.Mutex
	state    state
	reported State     // the fields of State that state does not have
	instance *instance // the latest adapter, nil at first
	changes  []Change
	dropped  int  // state changes that could not be queued
	closed   bool // no call of Run is in progress

	connected atomic.Bool // mirrors state for the engine, which must not wait for mu
}

// New returns the runner of a channel. It starts nothing.
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
		reported: State{Name: o.Name, Kind: o.Kind, Condition: ConditionStarting}, closed: true,
	}
}

// Name returns the name of the channel.
func (r *Runner) Name() string { return r.options.Name }

// State returns the current state of the channel.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.apply(event{kind: eventTick, at: now}) // so that an expired success is not reported as connected
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

// Connected reports whether the channel is connected, so that its deliveries may start.
func (r *Runner) Connected() bool { return r.connected.Load() }

// Resume retries a disconnected channel now and resets its failure count.
func (r *Runner) Resume() { r.handle(event{kind: eventResume}) }

// ConfigChanged reconnects the channel with its new configuration.
func (r *Runner) ConfigChanged() { r.handle(event{kind: eventConfigChanged}) }

// SecretChanged reports that a file with the channel's credentials has changed. An open connection stays open; a
// disconnected channel tries the new credentials at once.
func (r *Runner) SecretChanged() { r.handle(event{kind: eventSecretChanged}) }

// handle applies an event to the state machine.
func (r *Runner) handle(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.at = time.Now()
	r.apply(e)
}

// apply applies an event and carries out the resulting action. The caller holds mu.
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
		r.log.Error("adapter did not stop in time; abandoned", "adapter", before.adapter, "left_behind", len(after.stranded))
	}
	if after.condition != before.condition {
		r.recordChange(before, after, e.at)
		if r.connected.Store(after.condition == ConditionConnected); r.connected.Load() {
			r.options.Ledger.AskClaimers()
		}
	}
	if act == actionStop || after.condition != before.condition {
		r.logTransition(after, e.kind)
	}
}

// logTransition logs the end of an attempt or a change of condition. The caller holds mu.
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
		r.log.Debug("channel starting", args...)
		return
	case what == eventResume || what == eventConfigChanged:
		r.log.Info("channel reconnecting now", args...)
		return
	}
	switch s.condition {
	case ConditionFailed, ConditionGaveUp:
		text := "channel failed; not retrying"
		if !s.nextTry.IsZero() {
			text = "channel refused; probing now and then"
		}
		r.log.Error(text, args...)
	case ConditionParked:
		r.log.Error("channel parked after repeated failures", args...)
	default:
		r.log.Warn("channel failed; retrying", args...)
	}
}

// maxPendingChanges bounds the state changes that wait to be written.
const maxPendingChanges = 1000

func (r *Runner) recordChange(before, after state, at time.Time) {
	if r.options.Unrecorded {
		return
	}
	c := Change{Channel: r.options.Name, State: after.condition, Was: before.condition, Reason: after.reason,
		Attempts: after.attempts, Adapter: after.adapter, At: at}
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

// onHeartbeat records a success of an adapter.
func (r *Runner) onHeartbeat(adapter int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCurrent(adapter) {
		now := time.Now()
		r.reported.LastSuccess = now
		r.apply(event{kind: eventHeartbeat, at: now, adapter: adapter})
	}
}

// updateReported updates the reported state, unless the adapter was stopped.
func (r *Runner) updateReported(adapter int, f func(*State)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := r.isCurrent(adapter)
	if ok {
		f(&r.reported)
	}
	return ok
}

// isCurrent reports whether an adapter is the latest one and was not asked to stop, so that its reports count. The
// caller holds mu.
func (r *Runner) isCurrent(adapter int) bool {
	return !r.closed && adapter == r.state.adapter && r.state.phase.live()
}

// onFailure handles the end of an adapter's connection.
func (r *Runner) onFailure(adapter int, err error) {
	_, fatal := errors.AsType[*fatalError](err)
	if p, ok := errors.AsType[*panicError](err); ok {
		r.log.Error("adapter panicked", "adapter", adapter, "panic", p.value, "stack", p.stack)
	}
	r.handle(event{kind: eventFailed, adapter: adapter, reason: truncateError(err), fatal: fatal,
		retryAfter: mailroom.AsFailure(err).RetryAfter})
}

// Standby sets the condition to [ConditionStandby] if no call of Run is in progress: the named server runs the
// channel. The reason includes the last condition that the channel's log has.
func (r *Runner) Standby(ctx context.Context, server string) {
	reason := "run by " + server
	if last, err := r.lastChange(ctx); err == nil && last != nil { // without the store, the reason only names the server
		reason += ", where it is " + string(last.State)
		if last.Reason != "" {
			reason += ": " + last.Reason
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.state = r.state.withCondition(ConditionStandby, reason, time.Now())
	}
}

// lastChange returns the newest change in the channel's log, or nil.
func (r *Runner) lastChange(ctx context.Context) (last *Change, err error) {
	err = r.options.Ledger.View(ctx, func(rd store.Reader) error {
		found, err := rd.Entries(store.EntryQuery{
			Thread: LogThreadID(r.options.Name), Kinds: []string{entry.KindChannel}, Backward: true, Limit: 1,
		})
		if err != nil || len(found) == 0 {
			return err
		}
		last = &Change{}
		return json.Unmarshal(found[0].Body, last)
	})
	return last, err
}

// Run runs the channel until ctx ends. It returns within [ReconnectPolicy].CloseTimeout after
// that, even if the adapter hangs. It may be called again after it has returned.
func (r *Runner) Run(ctx context.Context) {
	r.restart()
	var parts sync.WaitGroup
	writing, stop := context.WithCancel(ctx)
	parts.Go(func() {
		defer recovery.Log(r.log, "channel state log")
		r.writeChanges(writing)
	})
	for ctx.Err() == nil {
		err := recovery.Call(r.log, "channel supervisor", func() error { r.supervise(ctx); return nil })
		if err != nil {
			r.recoverSupervisor(ctx, err)
		}
	}
	r.shutdown()
	stop()
	parts.Wait()
}

// restart resets the state that an earlier call of Run left. The numbers of adapters continue.
func (r *Runner) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	r.state = state{adapter: s.adapter, stranded: s.stranded, reconnects: s.reconnects, everConnected: s.everConnected,
		downtime: s.downtime}
	r.closed = false
}

// supervise starts adapters and waits for their deadlines until ctx ends.
func (r *Runner) supervise(ctx context.Context) {
	r.handle(event{kind: eventStart})
	for ctx.Err() == nil {
		r.wait(ctx, r.startDue(ctx))
	}
}

// recoverSupervisor handles a panic of supervise: the channel becomes failed and retries after a
// pause. If handling the panic panics too, recoverSupervisor sleeps, so that a supervisor that
// always panics does not spin.
func (r *Runner) recoverSupervisor(ctx context.Context, why error) {
	err := recovery.Call(r.log, "channel supervisor", func() error {
		r.mu.Lock()
		if r.state.phase == phaseConnecting && (r.instance == nil || r.instance.number != r.state.adapter) {
			r.state.phase, r.state.deadline = phaseNone, time.Time{} // the adapter was never started
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

// startDue starts the adapter that the state asks for. It returns the next deadline.
func (r *Runner) startDue(ctx context.Context) (wake time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.phase == phaseConnecting && (r.instance == nil || r.instance.number != r.state.adapter) {
		r.instance = r.startInstance(ctx, r.state.adapter)
	}
	return r.state.nextWake()
}

// wait waits for a wakeup or a deadline.
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

// shutdown stops the current adapter and waits for its exit, at most CloseTimeout.
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
		r.log.Error("adapter did not stop in time", "adapter", life.number)
	}
}

// writeChanges writes queued state changes to the channel's log thread until ctx ends and none is
// left.
func (r *Runner) writeChanges(ctx context.Context) {
	for {
		r.mu.Lock()
		changes, lost := r.changes, r.dropped
		r.changes, r.dropped = nil, 0
		r.mu.Unlock()
		if lost > 0 {
			r.log.Warn("state changes missing from the channel's log: the store is too slow; messages are unaffected",
				"changes", lost)
		}
		for _, c := range changes {
			if err := recovery.Call(r.log, "channel state change", func() error { return r.writeChange(ctx, c) }); err != nil {
				r.log.Warn("state change missing from the channel's log; messages are unaffected", "state", string(c.State),
					"error", err)
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

// writeChange writes one state change, also during shutdown.
func (r *Runner) writeChange(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode state change: %w", err)
	}
	_, err = r.options.Ledger.AppendEntry(ctx, LogThreadID(c.Channel), entry.KindChannel, body)
	return err
}

// panicError is a panic of an adapter. The stack goes to the log.
type panicError struct{ value, stack string }

func (p *panicError) Error() string { return "panic: " + p.value }

// catchPanic turns a panic into an error, so that it ends one adapter and not the process.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{fmt.Sprint(p), string(debug.Stack())}
		}
	}()
	return f()
}
