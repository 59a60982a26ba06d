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
	options Options
	log     *slog.Logger
	kick    chan struct{} // there may be something to do
	news    chan struct{} // there are changes to be told

	// Owned by mu.
	mu       sync.Mutex
	standing standing
	shown    State // what standing does not have
	life     *life // of the adapter that was made last, nil at first
	changes  []Change
	lost     int // changes that nobody had the time to keep
	over     bool

	connected atomic.Bool // as standing says; the engine reads it, and must not wait
}

// New makes the runner of a channel. It starts nothing.
func New(o Options) *Runner {
	o.Reconnect.fill()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Runner{
		options: o, log: o.Log.With("channel", o.Name),
		kick: make(chan struct{}, 1), news: make(chan struct{}, 1),
		shown: State{Name: o.Name, Kind: o.Kind, Condition: ConditionStarting},
	}
}

// Name is the channel's.
func (r *Runner) Name() string { return r.options.Name }

// State is what is known about the channel now.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.step(event{what: ticked, at: now}) // nothing is claimed that is not so any more
	s, st := r.shown, r.standing
	if st.condition == "" {
		return s
	}
	s.Condition, s.Since, s.Reason = st.condition, st.since, st.reason
	if s.Condition == ConditionConnected {
		s.Reason = s.Blocked
	}
	s.Adapter, s.Stranded, s.Attempts = st.adapter, len(st.stranded), st.attempts
	s.NextTry, s.Reconnects, s.ConnectedSince, s.Downtime = st.due, st.reconnects, st.connected, st.down
	if !st.downSince.IsZero() {
		s.Downtime += now.Sub(st.downSince)
	}
	return s
}

// Connected reports whether the channel is connected, and so whether its deliveries
// may be started.
func (r *Runner) Connected() bool { return r.connected.Load() }

// Resume has a channel that is not connected tried now, whatever has failed before.
func (r *Runner) Resume() { r.tell(event{what: resumed}) }

// ConfigChanged has an adapter made anew: what it is to be made of is another.
func (r *Runner) ConfigChanged() { r.tell(event{what: changed}) }

// tell takes an event in, now.
func (r *Runner) tell(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.at = time.Now()
	r.step(e)
}

// step takes an event in; it is within mu.
func (r *Runner) step(e event) {
	if r.over {
		return
	}
	before := r.standing
	e.jitter = r.options.Jitter()
	act := nothing
	r.standing, act = r.options.Reconnect.next(before, e)
	if wake := r.standing.wake(); act != nothing || e.what != heard && wake != before.wake() {
		signal(r.kick)
	}
	if act == closeIt {
		r.life.retire()
		r.shown.LastError, r.shown.LastErrorAt = r.standing.reason, e.at
	}
	after := r.standing
	if len(after.stranded) > len(before.stranded) {
		r.log.Error("the channel's adapter does not end and is left behind", "adapter", before.adapter, "left_behind", len(after.stranded))
	}
	if after.condition != before.condition {
		r.change(before, after, e.at)
		if r.connected.Store(after.condition == ConditionConnected); r.connected.Load() {
			r.options.Ledger.Wake()
		}
	}
	if act == closeIt || after.condition != before.condition {
		r.logged(after, e.what)
	}
}

// logged writes the one line about a try that has ended, or a change; within mu.
func (r *Runner) logged(s standing, what occasion) {
	args := []any{"state", string(s.condition), "adapter", s.adapter}
	if s.condition == ConditionConnected {
		r.log.Info("channel connected", args...)
		return
	}
	if s.reason != "" {
		args = append(args, "attempts", s.attempts, "error", s.reason)
	}
	if !s.due.IsZero() {
		args = append(args, "next_try", s.due)
	}
	switch {
	case s.condition == ConditionStarting:
		r.log.Debug("channel is starting", args...)
		return
	case what == resumed || what == changed:
		r.log.Info("channel is tried now", args...)
		return
	}
	switch s.condition {
	case ConditionFailed, ConditionGaveUp:
		text := "channel failed and is not tried again"
		if !s.due.IsZero() { // its supervisor panicked
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
const mostChanges = 1000

func (r *Runner) change(before, after standing, at time.Time) {
	c := Change{Channel: r.options.Name, State: after.condition, Was: before.condition, Reason: after.reason, Attempts: after.attempts, Adapter: after.adapter, At: at}
	if due := after.due; !due.IsZero() {
		c.NextTry = &due
	}
	if len(r.changes) >= mostChanges {
		r.changes = r.changes[1:]
		r.lost++
	}
	r.changes = append(r.changes, c)
	signal(r.news)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hear takes evidence of an adapter.
func (r *Runner) hear(adapter int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reports(adapter) {
		now := time.Now()
		r.shown.LastSuccess = now
		r.step(event{what: heard, at: now, adapter: adapter})
	}
}

// note changes what is shown, if the adapter may still report.
func (r *Runner) note(adapter int, f func(*State)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := r.reports(adapter)
	if ok {
		f(&r.shown)
	}
	return ok
}

// reports tells whether what an adapter says counts; within mu.
func (r *Runner) reports(adapter int) bool {
	return !r.over && adapter == r.standing.adapter && r.standing.phase.live()
}

// broke takes the end of what an adapter was there for.
func (r *Runner) broke(adapter int, err error) {
	_, fatal := errors.AsType[*fatalError](err)
	if p, ok := errors.AsType[*panicked](err); ok {
		r.log.Error("the channel's adapter panicked", "adapter", adapter, "panic", p.value, "stack", p.stack)
	}
	r.tell(event{what: broke, adapter: adapter, reason: short(err), fatal: fatal, after: mailroom.AsFailure(err).RetryAfter})
}

// Run keeps the channel going until ctx ends. It returns within [ReconnectPolicy].Close after
// that, whatever the adapter does.
func (r *Runner) Run(ctx context.Context) {
	var parts sync.WaitGroup
	keeping, enough := context.WithCancel(ctx)
	parts.Go(func() {
		defer recovery.Log(r.log, "what keeps a channel's changes")
		r.keep(keeping)
	})
	for ctx.Err() == nil {
		err := recovery.Call(r.log, "a channel's supervisor", func() error { r.supervise(ctx); return nil })
		if err != nil {
			r.restart(ctx, err)
		}
	}
	r.finish()
	enough()
	parts.Wait()
}

// supervise keeps the channel going until ctx ends.
func (r *Runner) supervise(ctx context.Context) {
	r.tell(event{what: begun})
	for ctx.Err() == nil {
		r.wait(ctx, r.turn(ctx))
	}
}

// restart notes a panic of supervise, so that the channel shows as failed and its next
// adapter comes after a pause. If that panics as well, it is the pause itself: a
// supervisor that always panics must not take a whole processor.
func (r *Runner) restart(ctx context.Context, why error) {
	err := recovery.Call(r.log, "a channel's supervisor", func() error {
		r.mu.Lock()
		if r.standing.phase == opening && (r.life == nil || r.life.adapter != r.standing.adapter) {
			r.standing.phase, r.standing.by = absent, time.Time{} // it was never begun
		}
		r.mu.Unlock()
		r.tell(event{what: crashed, reason: "the channel's supervisor failed: " + short(why)})
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

// turn begins a new adapter if it is time for one, and returns when something is to be done next.
func (r *Runner) turn(ctx context.Context) (wake time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.standing.phase == opening && (r.life == nil || r.life.adapter != r.standing.adapter) {
		r.life = r.begin(ctx, r.standing.adapter)
	}
	return r.standing.wake()
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
	case <-r.kick:
	case <-alarm:
		r.tell(event{what: ticked})
	}
}

// finish ends the adapter that is there, if it does.
func (r *Runner) finish() {
	r.mu.Lock()
	r.over = true
	r.connected.Store(false)
	life := r.life
	r.mu.Unlock()
	if life == nil {
		return
	}
	life.retire()
	select {
	case <-life.ended:
	case <-time.After(r.options.Reconnect.CloseTimeout):
		r.log.Error("the channel's adapter does not end", "adapter", life.adapter)
	}
}

// keep has the changes kept, one after the other, until ctx ends and there are none.
func (r *Runner) keep(ctx context.Context) {
	for {
		r.mu.Lock()
		changes, lost := r.changes, r.lost
		r.changes, r.lost = nil, 0
		r.mu.Unlock()
		if lost > 0 {
			r.log.Warn("changes of the channel are not in its log: they came faster than they were written", "changes", lost)
		}
		for _, c := range changes {
			if err := recovery.Call(r.log, "a change of a channel", func() error { return r.kept(ctx, c) }); err != nil {
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
		case <-r.news:
		case <-ctx.Done():
			return
		}
	}
}

// kept has one kept, also while everything ends.
func (r *Runner) kept(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a change of a channel: %w", err)
	}
	_, err = r.options.Ledger.AppendEntry(ctx, LogThreadID(c.Channel), mailroom.KindChannel, body)
	return err
}

// panicked is a panic of an adapter. Where it happened is for the log.
type panicked struct{ value, stack string }

func (p *panicked) Error() string { return "panic: " + p.value }

// guarded makes a panic an error: one channel's fault ends no other.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{fmt.Sprint(p), string(debug.Stack())}
		}
	}()
	return f()
}
