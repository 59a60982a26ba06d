package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"mailroom"
	"mailroom/ledger"
)

// lease is the engine's own view of its lease: it ends for the engine before
// anybody else may judge. Owned by the goroutine of Run.
type lease struct {
	timer    *time.Timer
	again    <-chan time.Time // a failed renewal is tried again
	renewing bool
	sweeping bool
	renewed  time.Time // wall clock at the last success
	started  time.Time
	orphans  time.Time // when orphans were looked for last
	lost     bool      // ended before it was renewed
}

func (l *lease) quiet() bool { return !l.renewing && !l.sweeping }

func (l *lease) end() <-chan time.Time {
	if l.timer == nil {
		return nil
	}
	return l.timer.C
}

// extend moves the end. sent is when the renewal was sent, so that a slow
// answer shortens the lease for us and never lengthens it; a fifth of it is
// kept back as a margin.
func (l *lease) extend(sent time.Time, length time.Duration) {
	l.renewed, l.lost = time.Now().Round(0), false
	left := time.Until(sent.Add(length - length/5))
	if l.timer == nil {
		l.timer = time.NewTimer(left)
		return
	}
	l.timer.Reset(left)
}

func (l *lease) expireNow() {
	if l.timer != nil {
		l.timer.Reset(0)
	}
}

// renewal is the answer to one renewal.
type renewal struct {
	sent time.Time
	out  ledger.Renewed
	err  error
}

// register makes this engine a worker with a new id.
func (e *Engine) register(ctx context.Context) error {
	sent := time.Now()
	id := ledger.NewID()
	_, err := e.ledger.Register(ctx, mailroom.Worker{
		ID: id, Host: e.options.Host, PID: os.Getpid(), Local: e.options.Local, Agents: e.agentNames(),
	})
	if err != nil {
		return fmt.Errorf("register as a worker: %w", err)
	}
	e.worker = id // rounds go on counting: answers to the old id may still come
	if e.lease.started.IsZero() {
		e.lease.started = sent
	}
	e.lease.extend(sent, e.options.Lease)
	return nil
}

// renew sends one renewal for all that is held, unless one is under way.
func (e *Engine) renew(ctx context.Context) {
	if e.lease.renewing {
		return
	}
	e.lease.renewing = true
	in := ledger.Renewal{Worker: e.worker, Round: e.answered}
	for _, s := range e.active {
		if s.worker == e.worker {
			in.Held = append(in.Held, s.claim)
		}
	}
	sent := time.Now()
	go func() { // its answer is waited for by Run
		ctx, cancel := context.WithTimeout(ctx, e.options.Lease)
		defer cancel()
		out, err := e.ledger.Renew(ctx, in)
		e.renewed <- renewal{sent: sent, out: out, err: err}
	}()
}

// onRenewed takes the answer in. A renewal that failed is tried again soon; a
// lease that ended makes this engine a new worker.
func (e *Engine) onRenewed(ctx context.Context, r renewal) error {
	e.lease.renewing = false
	switch {
	case r.err == nil:
		e.lease.extend(r.sent, e.options.Lease)
		e.state.set(nil)
		e.obey(r.out)
		return nil
	case errors.Is(r.err, mailroom.ErrStoreClosed):
		return r.err
	case mailroom.CodeOf(r.err) == mailroom.LeaseLost:
		e.loseAll("the lease was taken away")
		e.stopAsking()
		return e.register(ctx)
	}
	e.options.Log.Warn("renewal failed, trying again", "worker", e.worker, "error", r.err)
	e.lease.again = time.After(e.options.Renew / 10)
	return nil
}

// obey does what a renewal's answer says.
func (e *Engine) obey(out ledger.Renewed) {
	for _, c := range out.Lost {
		if s := e.active[c]; s != nil {
			s.cancel(mailroom.ErrLeaseLost)
		}
	}
	for _, stop := range out.Stops {
		if s := e.byRun[stop.Run]; s != nil {
			s.cancel(mailroom.ErrStopped)
		}
	}
	for _, run := range out.Steer {
		if s := e.byRun[run]; s != nil {
			s.steered.Store(true)
		}
	}
}

// loseAll cancels every run before anybody else may claim it.
func (e *Engine) loseAll(why string) {
	if e.lease.lost {
		return
	}
	e.lease.lost = true
	e.state.set(errors.New(why))
	if len(e.active) > 0 {
		e.options.Log.Error(why, "worker", e.worker, "runs", len(e.active))
	}
	e.cancelAll(mailroom.ErrLeaseLost)
}

// sweep looks for lost workers, after a renewal if ours is old: a machine that
// slept must not judge before it has shown that it lives.
func (e *Engine) sweep(ctx context.Context) {
	if e.lease.sweeping {
		return
	}
	if time.Now().Round(0).Sub(e.lease.renewed) > 2*e.options.Renew {
		e.renew(ctx)
		return
	}
	e.lease.sweeping = true
	orphans := e.judges()
	worker, agents, grace := e.worker, e.agentNames(), e.options.AgentGrace
	go func() { // its end is waited for by Run
		err := e.ledger.Sweep(ctx, worker)
		if err == nil && orphans {
			err = e.ledger.Orphans(ctx, agents, grace)
		}
		e.swept <- err
	}()
}

// judges: it is time to look for agents that nobody serves, and this engine has
// been up long enough for others to have shown themselves.
func (e *Engine) judges() bool {
	now := time.Now()
	if now.Sub(e.lease.started) < e.options.AgentGrace || now.Sub(e.lease.orphans) < e.options.AgentGrace/6 {
		return false
	}
	e.lease.orphans = now
	return true
}

func (e *Engine) onSwept(err error) {
	e.lease.sweeping = false
	if err != nil {
		e.options.Log.Warn("sweep failed", "worker", e.worker, "error", err)
		return
	}
	e.state.hasSwept()
}

// leave gives the lease up.
func (e *Engine) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.Renew)
	defer cancel()
	if err := e.ledger.Leave(ctx, e.worker); err != nil {
		return fmt.Errorf("give up the lease: %w", err)
	}
	return nil
}

// state is what Ready reports.
type state struct {
	mu    sync.Mutex
	why   error // not ready because
	swept bool  // a first sweep is done
	ended bool  // why stays
}

func (s *state) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil && !s.swept {
		return errors.New("starting")
	}
	return s.why
}

func (s *state) set(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.why = why
	}
}

func (s *state) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why, s.ended = why, true
}

func (s *state) hasSwept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = true
}
