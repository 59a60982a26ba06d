package engine

import "context"

// gate lets one goroutine through at a time; unlike with a mutex, waiting for
// it ends with a context.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter returns the context's cause if it ends, or has ended, before.
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

// lock waits as long as it takes. Nobody keeps a gate for longer than a lease.
func (g gate) lock() { g <- struct{}{} }

func (g gate) leave() { <-g }
