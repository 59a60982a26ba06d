package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"mailroom"
)

// work runs the agent once and settles. It returns when the agent has returned,
// which for one that was cut off is after its run went on without it.
func (s *session) work() {
	defer s.cancel(context.Canceled)
	begin := time.Now()
	agent, ok := s.engine.options.Agents[s.agent]
	if !ok {
		s.settle(mailroom.Settle{Outcome: mailroom.Release}, nil, begin)
		return
	}
	limit := agent.Deadline
	if limit == 0 {
		limit = s.engine.options.Deadline
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, limit, mailroom.ErrDeadline)
	defer cancel()
	if s.stoppedBefore(ctx) {
		s.settle(mailroom.Settle{Outcome: mailroom.Release}, mailroom.ErrStopped, begin)
		return
	}
	done := make(chan error, 1)
	go func() { done <- call(ctx, agent.Agent, s) }() // waited for below
	err, forced := s.await(ctx, done)
	s.settle(outcome(ctx, err, limit, forced), err, begin)
	if forced {
		<-done // the slot stays taken
	}
}

// stoppedBefore reports whether the run was asked to stop before it began: then
// its agent is not entered at all.
func (s *session) stoppedBefore(ctx context.Context) bool {
	var stop bool
	err := s.engine.ledger.View(ctx, func(r mailroom.Reader) error {
		runs, err := r.Runs(mailroom.RunQuery{IDs: []string{s.claim.Run}})
		for _, run := range runs {
			stop = run.Stop != ""
		}
		return err
	})
	return err != nil || stop
}

// await waits for the agent. One that does not return in time after a stop or
// its deadline is given up.
func (s *session) await(ctx context.Context, done <-chan error) (err error, forced bool) {
	select {
	case err := <-done:
		return err, false
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, mailroom.ErrStopped) && !errors.Is(cause, mailroom.ErrDeadline) {
		return <-done, false // a claim is given back only after the agent has returned
	}
	grace := time.NewTimer(s.engine.options.StopGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err, false
	case <-grace.C:
		return cause, true
	}
}

// call enters the agent; a panic is its error, with the stack.
func call(ctx context.Context, a mailroom.Agent, s mailroom.Session) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return a.Run(ctx, s)
}

// outcome says how an attempt ends whose agent returned err.
func outcome(ctx context.Context, err error, limit time.Duration, forced bool) mailroom.Settle {
	out := mailroom.Settle{Outcome: mailroom.Fail, Jitter: rand.Float64(), Forced: forced}
	switch cause := context.Cause(ctx); {
	case err == nil:
		out.Outcome = mailroom.Complete
	case errors.Is(cause, mailroom.ErrStopped), errors.Is(cause, mailroom.ErrReleased), errors.Is(cause, mailroom.ErrLeaseLost):
		out.Outcome = mailroom.Release
	case errors.Is(cause, mailroom.ErrDeadline):
		out.Failure = &mailroom.Failure{Class: mailroom.Transient, Err: fmt.Errorf("the run deadline of %s has passed", limit)}
	default:
		out.Failure = mailroom.AsFailure(err)
	}
	return out
}

// settle ends the attempt. It is repeated while the outcome is unknown; the
// claim itself says when that is pointless.
func (s *session) settle(in mailroom.Settle, cause error, begin time.Time) {
	ctx := context.WithoutCancel(s.ctx)
	in.Claim = s.claim
	in.Message, in.Number = s.close()
	var run *mailroom.Run
	err := s.repeat(ctx, func() (err error) {
		run, err = s.engine.ledger.Settle(ctx, in)
		return err
	})
	log := s.engine.options.Log.With("run", s.claim.Run, "thread", s.claim.Thread, "agent", s.agent,
		"attempt", s.claim.Attempt, "outcome", in.Outcome, "duration", time.Since(begin))
	switch {
	case err == nil:
		log.Info("attempt ended", "status", run.Status, "cause", cause)
	case mailroom.CodeOf(err) == mailroom.LeaseLost:
		log.Warn("attempt ended without its claim", "cause", cause)
	default:
		log.Error("attempt could not be settled; its claim is freed with the lease", "cause", cause, "error", err)
	}
}

// repeat calls f until its outcome is known, or a lease has passed.
func (s *session) repeat(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.engine.options.Lease)
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		err := f()
		if mailroom.CodeOf(err) != mailroom.Unavailable || errors.Is(err, mailroom.ErrStoreClosed) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, time.Second)
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
