package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// killWait bounds the wait for a killed process to disappear. A process that
	// takes longer hangs in the kernel or belongs to another user.
	killWait = 10 * time.Second

	// farewellTime is how long a child that was asked to end has until it gets INT. With the default times of the
	// signals, it ends within the 10 s that the engine gives a stopped run.
	farewellTime = 2 * time.Second

	// minPoll and maxPoll bound the pause between two scans of the tree.
	minPoll = 2 * time.Millisecond
	maxPoll = 100 * time.Millisecond
)

// SurvivorsError reports processes that could not be stopped.
type SurvivorsError struct {
	PIDs []int
	Err  error // the system's error, or nil
}

func (e *SurvivorsError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("processes %v could not be stopped: %v", e.PIDs, e.Err)
	}
	return fmt.Sprintf("processes %v could not be stopped", e.PIDs)
}

func (e *SurvivorsError) Unwrap() error { return e.Err }

// stopStage is one stage of stopping a tree: send signal, or none if it is 0, then wait up to grace for the tree to
// end.
type stopStage struct {
	signal syscall.Signal
	grace  time.Duration
}

// stopStages returns the stages in which the tree is stopped. why is nil if the child has exited by itself.
func (c *Child) stopStages(why error) []stopStage {
	lim := c.spec.Limits
	kill := stopStage{syscall.SIGKILL, killWait}
	if why == errKilled || why != nil && c.spec.Urgent != nil && c.spec.Urgent(why) {
		return []stopStage{kill}
	}
	terminate := stopStage{syscall.SIGTERM, lim.Terminate}
	if why == nil {
		// The child has exited. INT would not end the processes that it left, because a shell makes its background
		// processes ignore INT.
		return []stopStage{{0, lingerTimeout}, terminate, kill}
	}
	stages := []stopStage{{syscall.SIGINT, lim.Interrupt}, terminate, kill}
	if c.spec.Farewell != nil && c.spec.Farewell() {
		return append([]stopStage{{0, farewellTime}}, stages...)
	}
	return stages
}

// stop runs stages until no process of the tree lives. New processes get the
// signal of the current stage too. Once the child has exited, its descendants have only
// lingerTimeout left to obey INT, because shells make their background processes ignore it. stop
// returns a [SurvivorsError] if processes live after the last stage, or the cause of ctx.
func (t *tree) stop(ctx context.Context, stages []stopStage, exited <-chan struct{}) error {
	var live []int
	var err error
	for _, r := range stages {
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
