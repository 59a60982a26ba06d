package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// killWait is how long a killed process may take to disappear. One that
	// takes longer hangs in the kernel, or is not ours to kill.
	killWait = 10 * time.Second

	firstLook = 2 * time.Millisecond
	slowest   = 100 * time.Millisecond
)

// LeftError says that processes could not be ended.
type LeftError struct {
	PIDs []int
	Err  error // why, if the system said so
}

func (e *LeftError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("processes %v could not be ended: %v", e.PIDs, e.Err)
	}
	return fmt.Sprintf("processes %v could not be ended", e.PIDs)
}

func (e *LeftError) Unwrap() error { return e.Err }

// rung is one step of stopping: a signal, 0 for none, and the time that a tree
// has after it to be gone.
type rung struct {
	signal syscall.Signal
	grace  time.Duration
}

func (c *Child) ladder(why error) []rung {
	lim := c.spec.Limits
	kill := rung{syscall.SIGKILL, killWait}
	if why == errKilled || why != nil && c.spec.Urgent != nil && c.spec.Urgent(why) {
		return []rung{kill}
	}
	terminate := rung{syscall.SIGTERM, lim.Terminate}
	if why == nil {
		// Its parent has ended and will not come to collect it. INT is no
		// use: a shell makes what it starts in the background ignore it.
		return []rung{{0, linger}, terminate, kill}
	}
	return []rung{{syscall.SIGINT, lim.Interrupt}, terminate, kill}
}

// climb stops a tree rung by rung until nothing of it lives. Processes that
// appear meanwhile get the signal of the rung too. Once the child has exited,
// what it left gets linger and no more to obey INT, as shells make what they
// start in the background ignore it. climb returns a [LeftError] if some live
// after the last rung, or the cause of ctx.
func (t *tree) climb(ctx context.Context, rungs []rung, exited <-chan struct{}) error {
	var live []int
	var err error
	for _, r := range rungs {
		end := time.NewTimer(r.grace)
		defer end.Stop()
		pause := firstLook
		for waiting := true; waiting; pause = min(2*pause, slowest) {
			if live, err = t.signal(r.signal); len(live) == 0 && err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			next := time.NewTimer(pause)
			select {
			case <-next.C:
			case <-end.C:
				waiting = false
			case <-exited:
				exited = nil
				if r.signal == syscall.SIGINT {
					end.Reset(min(r.grace, linger))
				}
			case <-ctx.Done():
			}
			next.Stop()
		}
	}
	return &LeftError{PIDs: live, Err: err}
}
