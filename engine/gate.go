package engine

import "context"

// gate is a mutex whose Lock can be cancelled with a context.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter acquires the gate. It returns the context's cause if the context ends first.
func (g gate) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lock acquires the gate without a context. No holder keeps a gate longer than a lease.
func (g gate) lock() { g <- struct{}{} }

func (g gate) leave() { <-g }
