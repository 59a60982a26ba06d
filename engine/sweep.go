package engine

import (
	"context"
	"fmt"
	"time"

	"mailroom/internal/recovery"
)

// sweep looks for lost workers, after a renewal if ours is old: a machine that
// slept must not judge before it has shown that it lives.
func (e *Engine) sweep(ctx context.Context) {
	if e.lease.sweeping || e.fatal != nil {
		return
	}
	if !e.lease.holds() || time.Now().Round(0).Sub(e.lease.renewed) > 2*e.options.Renew {
		e.renew(ctx)
		return
	}
	e.lease.sweeping = true
	orphans := e.judges()
	worker, agents, grace := e.lease.worker, e.agentNames(), e.options.AgentGrace
	e.crew.Go(func() {
		defer recovery.Handle(e.options.Log, "a sweep", func(p *recovery.Panic) { e.swept <- p })
		err := e.ledger.Sweep(ctx, worker)
		if err == nil && orphans {
			err = e.ledger.FailOrphans(ctx, agents, grace)
		}
		e.swept <- err
	})
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
	switch {
	case err == nil:
		e.state.hasSwept()
	case !e.closed(err):
		e.options.Log.Warn("sweep failed", "worker", e.lease.worker, "error", err)
	}
}

// retire gives the lease up.
func (e *Engine) retire(ctx context.Context) error {
	if e.lease.worker == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Renew)
	defer cancel()
	if err := e.ledger.Deregister(ctx, e.lease.worker); err != nil {
		return fmt.Errorf("give up the lease: %w", err)
	}
	return nil
}
