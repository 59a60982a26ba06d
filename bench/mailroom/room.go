package main

import (
	"context"
	"sync"
)

// room limits the outstanding runs of a load.
type room struct {
	limit int64
	wake  chan struct{} // one slot: a place is free, or the room is empty

	mu        sync.Mutex
	inside    int64 // may be negative: a run can end at another node than the one that submitted it
	elsewhere int64 // outstanding at other nodes
}

func newRoom(limit int) *room { return &room{limit: int64(limit), wake: make(chan struct{}, 1)} }

// enter waits until fewer runs than the limit are outstanding, and adds one.
func (r *room) enter(ctx context.Context) error {
	return r.wait(ctx, func() bool {
		if r.inside+r.elsewhere >= r.limit {
			return false
		}
		r.inside++
		return true
	})
}

// leave removes an outstanding run, at its end.
func (r *room) leave() {
	r.mu.Lock()
	r.inside--
	r.mu.Unlock()
	r.signal()
}

// setElsewhere sets the number of runs that are outstanding at other nodes.
func (r *room) setElsewhere(n int64) {
	r.mu.Lock()
	r.elsewhere = n
	r.mu.Unlock()
	r.signal()
}

// waitEmpty waits until no run of this process is outstanding.
func (r *room) waitEmpty(ctx context.Context) error {
	return r.wait(ctx, func() bool { return r.inside == 0 })
}

// wait waits until done, which is called with mu held, returns true.
func (r *room) wait(ctx context.Context, done func() bool) error {
	for {
		r.mu.Lock()
		ok := done()
		r.mu.Unlock()
		if ok {
			r.signal() // another goroutine may wait
			return nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *room) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
