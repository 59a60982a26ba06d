package engine

import (
	"context"
	"runtime/pprof"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// serveClaims lets the ledger claim for the slots until claiming ends. It does nothing while the
// engine is stopping, served or paused.
func (e *Engine) serveClaims(ctx context.Context) {
	if e.stopping || e.served || e.pause != nil {
		return
	}
	ctx, e.endClaims = context.WithCancel(ctx)
	e.served = true
	leave := e.endClaims
	e.wg.Go(func() {
		defer recovery.Handle(e.options.Log, "claiming", func(p *recovery.Panic) { e.claimsEnded <- p })
		defer leave()
		e.claimsEnded <- e.ledger.ServeClaims(ctx, e.slots)
	})
}

// onClaimsEnded starts the runs that were claimed last. After an error it pauses claiming.
func (e *Engine) onClaimsEnded(ctx context.Context, err error) {
	e.served = false
	e.startAll(ctx)
	if err != nil && !e.stopping && !e.closed(err) {
		e.pauseClaims(err)
	}
}

// pauseClaims stops claiming for a tenth of Options.Renew after an error.
func (e *Engine) pauseClaims(err error) {
	e.slots.forbid()
	e.options.Log.Error("claim failed; retrying; no run starts until a claim succeeds",
		"worker", e.lease.worker, "error", err)
	e.pause = time.After(e.options.Renew / 10)
}

// resumeClaims ends the pause.
func (e *Engine) resumeClaims() {
	e.pause = nil
	e.allow()
}

// allow enables claiming if the engine holds its lease, is not stopping and is not paused.
func (e *Engine) allow() {
	if e.lease.holds() && !e.stopping && e.pause == nil {
		e.slots.allow(e.lease.worker)
		e.ledger.AskClaimers()
	}
}

// startAll starts all runs that the committer has claimed.
func (e *Engine) startAll(life context.Context) {
	for _, c := range e.slots.drain() {
		e.startClaimed(life, c)
	}
}

// startClaimed starts the runs of one claim round. Runs that arrive during shutdown, or for a lease
// that was lost in the meantime, are released without entering the agent.
func (e *Engine) startClaimed(life context.Context, c claimRound) {
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
		e.wg.Go(func() {
			defer recovery.Log(e.options.Log, "reading the input of runs")
			e.read(life, unread)
		})
	}
	if c.err == nil || e.closed(c.err) {
		return
	}
	// The claim may have been committed in spite of the error. A renewal that does not name it
	// releases it, and also finds out whether the lease has ended.
	e.pauseClaims(c.err)
	e.renew(life)
}

func (e *Engine) start(s *session) {
	e.wg.Go(func() {
		defer recovery.Handle(e.options.Log, "a session", func(*recovery.Panic) {
			s.free()
			e.deliver(s) // the next renewal omits the claim of this session, which releases it
		})
		pprof.SetGoroutineLabels(s.ctx) // a crash report names the run, also for goroutines of the agent
		s.attempt()
		e.deliver(s)
	})
}

// deliver hands an ended session to the loop, unless the loop has ended: more sessions can outlive it
// than results has room for.
func (e *Engine) deliver(s *session) {
	select {
	case e.results <- s:
	case <-s.life.Done():
	}
}

// read reads the logged input of all unread sessions in one snapshot, because a snapshot costs more
// than the reads in it, and starts them. After an error each session reads its own input.
func (e *Engine) read(life context.Context, unread []*session) {
	runs := make([]*mailroom.Run, len(unread))
	for i, s := range unread {
		runs[i] = s.row.Load()
	}
	var inputs [][]mailroom.Message
	err := recovery.Call(e.options.Log, "reading the input of runs", func() (err error) {
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

// countUnstarted drains what was claimed after the loop ended, and returns the number of runs.
func (e *Engine) countUnstarted() int {
	n := 0
	for _, c := range e.slots.drain() {
		n += len(c.work)
		for _, h := range c.hints {
			h.Close()
		}
	}
	return n
}
