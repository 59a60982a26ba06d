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

	minPoll = 2 * time.Millisecond
	maxPoll = 100 * time.Millisecond
)

// SurvivorsError says that processes could not be ended.
type SurvivorsError struct {
	PIDs []int
	Err  error // why, if the system said so
}

func (e *SurvivorsError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("processes %v could not be ended: %v", e.PIDs, e.Err)
	}
	return fmt.Sprintf("processes %v could not be ended", e.PIDs)
}

func (e *SurvivorsError) Unwrap() error { return e.Err }

// stopStage is one step of stopping: a signal, 0 for none, and the time that a tree
// has after it to be gone.
type stopStage struct {
	signal syscall.Signal
	grace  time.Duration
}

func (c *Child) stopStages(why error) []stopStage {
	lim := c.spec.Limits
	kill := stopStage{syscall.SIGKILL, killWait}
	if why == errKilled || why != nil && c.spec.Urgent != nil && c.spec.Urgent(why) {
		return []stopStage{kill}
	}
	terminate := stopStage{syscall.SIGTERM, lim.Terminate}
	if why == nil {
		// Its parent has ended and will not come to collect it. INT is no
		// use: a shell makes what it starts in the background ignore it.
		return []stopStage{{0, lingerTimeout}, terminate, kill}
	}
	return []stopStage{{syscall.SIGINT, lim.Interrupt}, terminate, kill}
}

// stop stops a tree rung by rung until nothing of it lives. Processes that
// appear meanwhile get the signal of the rung too. Once the child has exited,
// what it left gets linger and no more to obey INT, as shells make what they
// start in the background ignore it. climb returns a [SurvivorsError] if some live
// after the last rung, or the cause of ctx.
func (t *tree) stop(ctx context.Context, rungs []stopStage, exited <-chan struct{}) error {
	var live []int
	var err error
	for _, r := range rungs {
		end := time.NewTimer(r.grace)
		defer end.Stop()
		pause := minPoll
		for waiting := true; waiting; pause = min(2*pause, maxPoll) {
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
					end.Reset(min(r.grace, lingerTimeout))
				}
			case <-ctx.Done():
			}
			next.Stop()
		}
	}
	return &SurvivorsError{PIDs: live, Err: err}
}
