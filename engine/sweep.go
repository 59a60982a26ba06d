package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mailroom/internal/recovery"
	"mailroom/thread"
)

// sweep frees the claims of lost workers. If the own lease was not renewed recently it renews
// first: a machine that slept must not expire others before it has proved to be alive.
func (e *Engine) sweep(ctx context.Context) {
	if e.lease.sweeping || e.fatal != nil {
		return
	}
	if !e.lease.holds() || time.Now().Round(0).Sub(e.lease.renewed) > 2*e.options.Renew {
		e.renew(ctx)
		return
	}
	e.lease.sweeping = true
	in := thread.Sweep{Worker: e.lease.worker}
	if e.orphansDue() {
		in.Agents, in.Grace = slices.Concat(e.agentNames(), e.options.Elsewhere), e.options.AgentGrace
	}
	e.wg.Go(func() {
		defer recovery.Handle(e.options.Log, "a sweep", func(p *recovery.Panic) { e.swept <- p })
		e.swept <- e.ledger.SweepFor(ctx, in)
	})
}

// orphansDue reports whether to look for agents without a worker: at intervals, and only after this
// engine has run long enough for other workers to register.
func (e *Engine) orphansDue() bool {
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
		e.options.Log.Warn("sweep of ended leases failed; retrying", "worker", e.lease.worker, "error", err)
	}
}

// takeUnknownLease adopts the worker of a registration that was cut off when the engine ended, so that its lease is
// given up if it has begun. Otherwise a copy or a restore would be refused until the lease ends by itself, because
// a server seems to use the store.
func (e *Engine) takeUnknownLease() {
	select {
	case r := <-e.renewed:
		if e.lease.worker == "" {
			e.lease.worker = r.worker
		}
	default:
	}
}

// deregister gives up the lease.
func (e *Engine) deregister(ctx context.Context) error {
	if e.lease.worker == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Renew)
	defer cancel()
	if err := e.ledger.Deregister(ctx, thread.Leave{Worker: e.lease.worker}); err != nil {
		return fmt.Errorf("give up the lease: %w", err)
	}
	return nil
}
