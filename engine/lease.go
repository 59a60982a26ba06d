package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// lease is the engine's own view of its lease. It ends earlier than the other workers' view of it.
// Owned by the goroutine of Run.
type lease struct {
	worker   string // id of the registered worker, "" before registration
	timer    *time.Timer
	again    <-chan time.Time // fires when a failed renewal must be retried
	renewing bool
	sweeping bool
	renewed  time.Time // wall clock at the last success
	started  time.Time // when the first lease began
	orphans  time.Time // when the engine last looked for orphaned runs
	lost     bool      // ended before it was renewed
}

// holds reports whether the lease permits claims.
func (l *lease) holds() bool { return l.worker != "" && !l.lost }

func (l *lease) end() <-chan time.Time {
	if l.timer == nil {
		return nil
	}
	return l.timer.C
}

// extend moves the end of the lease. It counts from sent, when the renewal was sent, so that a slow
// answer shortens the lease and never lengthens it. A fifth of the length is a safety margin.
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

// renewal is the result of one renewal, or of the registration before the first one.
type renewal struct {
	worker string
	sent   time.Time
	held   []mailroom.Claim // what the renewal named
	out    thread.Renewed
	err    error
}

// renew sends one renewal for all active claims, unless one is in flight. An engine without a
// worker id registers with a new one.
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
	e.wg.Go(func() {
		defer recovery.Handle(e.options.Log, "a renewal", func(p *recovery.Panic) {
			e.renewed <- renewal{worker: worker, sent: sent, err: p}
		})
		ctx, cancel := context.WithTimeout(ctx, e.options.Lease)
		defer cancel()
		r := call(ctx)
		// A renewal whose time is over is not answered, whatever code the store gave to that.
		if r.err != nil && errors.Is(r.err, ctx.Err()) {
			r.err = ctx.Err()
		}
		r.sent = sent
		e.renewed <- r
	})
}

func (e *Engine) registration() func(context.Context) renewal {
	row := store.Worker{
		ID: uuid.Must(uuid.NewV7()).String(), Host: e.options.Host, PID: os.Getpid(),
		Local: e.options.Local, Node: e.options.Node, Version: e.options.Program, Tables: e.options.Tables,
		Agents: e.agentNames(),
	}
	return func(ctx context.Context) renewal {
		_, err := e.ledger.Register(ctx, row)
		return renewal{worker: row.ID, err: err}
	}
}

func (e *Engine) renewal() func(context.Context) renewal {
	in := thread.Renewal{Worker: e.lease.worker, Round: e.answered, WaitsOn: map[mailroom.Claim]string{}}
	for _, s := range e.active {
		if s.worker != in.Worker {
			continue
		}
		in.Held = append(in.Held, s.claim)
		if text := s.waitsOn.Load(); text != nil {
			in.WaitsOn[s.claim] = *text
		}
	}
	return func(ctx context.Context) renewal {
		out, err := e.ledger.Renew(ctx, in)
		return renewal{worker: in.Worker, held: in.Held, out: out, err: err}
	}
}

// onRenewed handles the result of a renewal. It retries a failed renewal soon. If the lease was
// taken away, the engine registers as a new worker.
func (e *Engine) onRenewed(ctx context.Context, r renewal) {
	e.lease.renewing = false
	e.options.Observe.Renewal(r.err)
	switch {
	case r.err == nil:
		first := e.lease.worker != r.worker
		e.lease.worker = r.worker // rounds are not reset: answers for an old id may still arrive
		e.lease.extend(r.sent, e.options.Lease)
		e.state.set(nil)
		e.state.setLease(r.worker)
		e.allow()
		e.obey(r.held, r.out)
		if first {
			e.sweep(ctx)
		}
	case e.closed(r.err):
	case mailroom.CodeOf(r.err) == mailroom.CodeLeaseLost:
		e.dropLease("lease expired")
		e.lease.worker = ""
		e.renew(ctx)
	default:
		e.options.Log.Warn("lease renewal failed; retrying; runs go on until the lease ends",
			"worker", r.worker, "error", r.err)
		e.lease.again = time.After(e.options.Renew / 10)
	}
}

// obey applies what a renewal of held claims returned: lost claims, stops and steers. A stop is for the attempt that
// the renewal named. The run may have ended since, and a retry of it may have begun.
func (e *Engine) obey(held []mailroom.Claim, out thread.Renewed) {
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
	for _, c := range held {
		s := e.active[c]
		if s == nil {
			continue
		}
		if stops[c.Run] {
			s.cancel(mailroom.ErrStopped)
		}
		if steers[c.Run] {
			s.steered.Store(true)
		}
	}
}

// dropLease cancels every run before another worker may claim it. Claiming is off until the lease
// is renewed.
func (e *Engine) dropLease(why string) {
	if e.lease.lost {
		return
	}
	e.lease.lost = true
	e.state.set(errors.New(why))
	e.state.dropLease()
	if len(e.active) > 0 {
		e.options.Log.Error(why, "worker", e.lease.worker, "runs", len(e.active))
	}
	e.slots.forbid()
	e.cancelAll(mailroom.ErrLeaseLost)
}
