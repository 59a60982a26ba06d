package engine

import (
	"context"
	"runtime/pprof"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// stand has the ledger serve the slots until the claiming ends.
func (e *Engine) stand(ctx context.Context) {
	if e.stopping || e.standing || e.pause != nil {
		return
	}
	ctx, e.leave = context.WithCancel(ctx)
	e.standing = true
	leave := e.leave
	e.crew.Go(func() {
		defer recovery.Handle(e.options.Log, "the standing claim", func(p *recovery.Panic) { e.stood <- p })
		defer leave()
		e.stood <- e.ledger.Subscribe(ctx, e.slots)
	})
}

// onStood takes what was claimed last, and notes why nothing more will be.
func (e *Engine) onStood(ctx context.Context, err error) {
	e.standing = false
	e.takeAll(ctx)
	if err != nil && !e.stopping && !e.closed(err) {
		e.rest(err)
	}
}

// rest claims nothing for a while after an error.
func (e *Engine) rest(err error) {
	e.slots.forbid()
	e.options.Log.Error("claim failed", "worker", e.lease.worker, "error", err)
	e.pause = time.After(e.options.Renew / 10)
}

// rested ends the rest.
func (e *Engine) rested() {
	e.pause = nil
	e.allow()
}

// allow claims if nothing forbids it: there is a lease, the engine is not
// stopping, and it does not rest.
func (e *Engine) allow() {
	if e.lease.holds() && !e.stopping && e.pause == nil {
		e.slots.allow(e.lease.worker)
		e.ledger.Wake()
	}
}

// takeAll takes what the ledger left.
func (e *Engine) takeAll(life context.Context) {
	for _, c := range e.slots.take() {
		e.take(life, c)
	}
}

// take starts what was claimed. What comes while shutting down, or for a lease
// that is lost meanwhile, is given back without entering the agent.
func (e *Engine) take(life context.Context, c claimed) {
	e.answered = c.round
	var unread []*session
	for i, w := range c.work {
		s := e.newSession(life, c.worker, w, c.hints[i])
		e.active[s.claim] = s
		switch {
		case c.worker != e.lease.worker || e.lease.lost:
			s.cancel(mailroom.ErrLeaseLost)
		case e.stopping:
			s.cancel(mailroom.ErrReleased)
		}
		if w.Input == nil {
			unread = append(unread, s)
			continue
		}
		e.start(s)
	}
	if len(unread) > 0 {
		e.crew.Go(func() {
			defer recovery.Log(e.options.Log, "what reads the input of runs")
			e.read(life, unread)
		})
	}
	if c.err == nil || e.closed(c.err) {
		return
	}
	// A claim with this error may have been made all the same: a renewal,
	// which does not name it, releases it. It also finds out that the lease
	// has ended.
	e.rest(c.err)
	e.renew(life)
}

func (e *Engine) start(s *session) {
	e.crew.Go(func() {
		defer recovery.Handle(e.options.Log, "the end of a run", func(*recovery.Panic) {
			s.free()
			e.results <- s // the next renewal does not name its claim, which releases it
		})
		pprof.SetGoroutineLabels(s.ctx) // a crash of it, or of what it starts, is the run's
		s.attempt()
		e.results <- s
	})
}

// read starts sessions whose input is in the log, after it has read it for all
// of them at once: a snapshot costs more than what is read from it. A session
// that goes without reads for itself.
func (e *Engine) read(life context.Context, unread []*session) {
	runs := make([]*mailroom.Run, len(unread))
	for i, s := range unread {
		runs[i] = s.Run()
	}
	var inputs [][]mailroom.Message
	err := recovery.Call(e.options.Log, "what reads the input of runs", func() (err error) {
		inputs, err = e.ledger.Inputs(life, runs)
		return err
	})
	for i, s := range unread {
		if err == nil {
			s.input = inputs[i]
		}
		e.start(s)
	}
}

// tooLate counts what was claimed after the loop had ended.
func (e *Engine) tooLate() int {
	n := 0
	for _, c := range e.slots.take() {
		n += len(c.work)
		for _, h := range c.hints {
			h.Close()
		}
	}
	return n
}
