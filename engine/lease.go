package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/ledger"
)

// lease is the engine's own view of its lease: it ends for the engine before
// anybody else may judge. Owned by the goroutine of Run.
type lease struct {
	worker   string // id under which the engine is registered, "" while it is not
	timer    *time.Timer
	again    <-chan time.Time // a failed renewal is tried again
	renewing bool
	sweeping bool
	renewed  time.Time // wall clock at the last success
	started  time.Time // of the first
	orphans  time.Time // when orphans were looked for last
	lost     bool      // ended before it was renewed
}

// holds reports whether claims may be made under the lease.
func (l *lease) holds() bool { return l.worker != "" && !l.lost }

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
		l.started = time.Now()
		l.timer = time.NewTimer(left)
		return
	}
	l.timer.Reset(left)
}

func (l *lease) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// renewal is the answer to one renewal, or to the registration that comes
// before the first.
type renewal struct {
	worker string
	sent   time.Time
	out    ledger.Renewed
	err    error
}

// renew sends one renewal for all that is held, unless one is under way. An
// engine without a lease registers, as a worker with a new id.
func (e *Engine) renew(ctx context.Context) {
	if e.lease.renewing || e.fatal != nil || e.lease.worker == "" && e.stopping {
		return
	}
	e.lease.renewing, e.lease.again = true, nil
	call, worker := e.renewal(), e.lease.worker
	if worker == "" {
		call = e.registration()
	}
	sent := time.Now()
	e.crew.Go(func() {
		defer recovery.Handle(e.options.Log, "a renewal", func(p *recovery.Panic) {
			e.renewed <- renewal{worker: worker, sent: sent, err: p}
		})
		ctx, cancel := context.WithTimeout(ctx, e.options.Lease)
		defer cancel()
		r := call(ctx)
		r.sent = sent
		e.renewed <- r
	})
}

func (e *Engine) registration() func(context.Context) renewal {
	row := mailroom.Worker{
		ID: ledger.NewID(), Host: e.options.Host, PID: os.Getpid(),
		Local: e.options.Local, Agents: e.agentNames(),
	}
	return func(ctx context.Context) renewal {
		_, err := e.ledger.Register(ctx, row)
		return renewal{worker: row.ID, err: err}
	}
}

func (e *Engine) renewal() func(context.Context) renewal {
	in := ledger.Renewal{Worker: e.lease.worker, Round: e.answered}
	for _, s := range e.active {
		if s.worker == in.Worker {
			in.Held = append(in.Held, s.claim)
		}
	}
	return func(ctx context.Context) renewal {
		out, err := e.ledger.Renew(ctx, in)
		return renewal{worker: in.Worker, out: out, err: err}
	}
}

// onRenewed takes the answer in. What failed is tried again soon; a lease that
// was taken away makes this engine a new worker.
func (e *Engine) onRenewed(ctx context.Context, r renewal) {
	e.lease.renewing = false
	e.options.Observe.Renewal(r.err)
	switch {
	case r.err == nil:
		first := e.lease.worker != r.worker
		e.lease.worker = r.worker // rounds go on counting: answers to an old id may still come
		e.lease.extend(r.sent, e.options.Lease)
		e.state.set(nil)
		e.allow()
		e.obey(r.out)
		if first {
			e.sweep(ctx)
		}
	case e.closed(r.err):
	case mailroom.CodeOf(r.err) == mailroom.CodeLeaseLost:
		e.lose("the lease was taken away")
		e.lease.worker = ""
		e.renew(ctx)
	default:
		e.options.Log.Warn("renewal failed, trying again", "worker", r.worker, "error", r.err)
		e.lease.again = time.After(e.options.Renew / 10)
	}
}

// obey does what a renewal's answer says.
func (e *Engine) obey(out ledger.Renewed) {
	for _, c := range out.Lost {
		if s := e.active[c]; s != nil {
			s.cancel(mailroom.ErrLeaseLost)
		}
	}
	stops, steers := map[string]bool{}, map[string]bool{}
	for _, stop := range out.Stops {
		stops[stop.Run] = true
	}
	for _, run := range out.Steer {
		steers[run] = true
	}
	for c, s := range e.active {
		if stops[c.Run] {
			s.cancel(mailroom.ErrStopped)
		}
		if steers[c.Run] {
			s.steered.Store(true)
		}
	}
}

// lose cancels every run before anybody else may claim it, and claims no more
// until the lease is renewed.
func (e *Engine) lose(why string) {
	if e.lease.lost {
		return
	}
	e.lease.lost = true
	e.state.set(errors.New(why))
	if len(e.active) > 0 {
		e.options.Log.Error(why, "worker", e.lease.worker, "runs", len(e.active))
	}
	e.slots.forbid()
	e.cancelAll(mailroom.ErrLeaseLost)
}
