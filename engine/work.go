package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/internal/recovery"
)

// attempt works. A panic outside the agent settles as a failure: it counts, so that one that comes each time ends the
// run. The context that the agent got has ended by then; the slot stays taken until the agent has returned.
func (s *session) attempt() {
	begin := time.Now()
	defer recovery.Handle(s.engine.options.Log, "an attempt", func(p *recovery.Panic) {
		left := s.agentDone != nil
		failure := &mailroom.Failure{Class: mailroom.ClassTransient, Err: fmt.Errorf("the attempt failed outside the agent: %w", p)}
		out := mailroom.Settle{Outcome: mailroom.OutcomeFail, Jitter: rand.Float64(), Failure: failure, Forced: left}
		// Where the settle itself is what panics, what was being written may be the cause: the failure counts without it.
		if recovery.Call(s.engine.options.Log, "the end of an attempt", func() error { s.settle(out, p, begin); return nil }) != nil {
			s.settleBare(out, p, begin)
		}
		if left {
			s.awaitLeft()
		}
	})
	s.work()
}

// work runs the agent once and settles. It returns when the agent has returned,
// which for one that was cut off is after its run went on without it, or when
// the engine's life has ended.
func (s *session) work() {
	defer s.cancel(context.Canceled)
	begin := time.Now()
	defer s.hints.Close()
	agent, unkept := s.engine.options.Agents[s.agent].pinned(s.Run())
	limit := agent.Deadline
	if limit == 0 {
		limit = s.engine.options.Deadline
	}
	unsure := s.heed()
	ctx, cancel := context.WithTimeoutCause(s.ctx, limit, mailroom.ErrDeadline)
	defer cancel()
	if err := cmp.Or(context.Cause(ctx), unsure, unkept); err != nil { // the agent must not be entered
		s.settle(outcome(ctx, err, limit, false), err, begin)
		return
	}
	s.engine.options.Observe.Started(Start{Run: s.Run(), Due: s.taken.Due, Claimed: s.taken.At, Entered: time.Now()})
	done := make(chan error, 1)
	s.agentDone = done
	go func() { // waited for below, as long as the engine lives
		defer recovery.Log(s.engine.options.Log, "an agent")
		err := errors.New("the agent ended its goroutine")
		defer func() { done <- err }()
		err = call(ctx, agent.Agent, s)
	}()
	err, forced := s.await(ctx, limit, done)
	if !forced {
		s.agentDone = nil
	}
	out := outcome(ctx, err, limit, forced)
	if out.Outcome != mailroom.OutcomeRelease && !forced {
		s.parkInstead(&out)
	}
	s.settle(out, err, begin)
	if forced {
		s.awaitLeft()
	}
}

// awaitLeft keeps the slot until an agent that was left behind has returned.
func (s *session) awaitLeft() {
	select {
	case <-s.agentDone:
	case <-s.life.Done():
	}
	s.free()
	s.engine.ledger.Wake()
}

// free gives the slot back, once.
func (s *session) free() {
	if !s.freed.Swap(true) {
		s.engine.slots.give(s.taken)
	}
}

// look reads what became of the run since it was claimed.
func (s *session) look() error {
	r, err := s.engine.ledger.ClaimedRun(s.life, s.claim)
	if err != nil {
		return fmt.Errorf("look at run %s again: %w", s.claim.Run, err)
	}
	if r.Stop != "" {
		s.cancel(mailroom.ErrStopped)
	}
	if len(r.Steers) > 0 {
		s.steered.Store(true)
	}
	return nil
}

// hint reacts to what was committed in the thread while the agent works.
func (s *session) hint(n bus.Notice) {
	for _, e := range n.Entries {
		switch {
		case e.Run != s.claim.Run:
		case e.Kind == mailroom.KindStop:
			s.cancel(mailroom.ErrStopped)
		case e.Kind == mailroom.KindMessage && e.Attempt == 0: // not one that the run wrote
			s.steered.Store(true)
		}
	}
	if s.hints.Lost() {
		if err := s.look(); err != nil {
			s.engine.options.Log.Warn("hints were lost; a stop comes with the next renewal", "run", s.claim.Run, "error", err)
		}
	}
}

// heed finds out what became of the run since it was claimed: the hints tell, if
// no other process writes to the store.
func (s *session) heed() error {
	for {
		select {
		case n := <-s.hints.C:
			s.hint(n)
			continue
		default:
		}
		if s.engine.options.Local {
			return nil
		}
		return s.look()
	}
}

// await waits for the agent. One that does not return in time after a stop or
// its deadline is given up; a claim is given back only after it has returned.
func (s *session) await(ctx context.Context, limit time.Duration, done <-chan error) (err error, forced bool) {
	grace := s.engine.options.StopGrace
	cut := time.NewTimer(limit + grace)
	defer cut.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case err := <-done:
			return err, false
		case n := <-s.hints.C:
			s.hint(n)
		case <-cancelled:
			cancelled = nil
			if errors.Is(context.Cause(ctx), mailroom.ErrStopped) {
				cut.Reset(grace)
			}
		case <-cut.C:
			return context.Cause(ctx), true
		case <-s.life.Done():
			return context.Cause(ctx), true
		}
	}
}

// call enters the agent; a panic is its error, with the stack.
func call(ctx context.Context, a mailroom.Agent, s mailroom.Session) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := recovery.Of(v)
			err = fmt.Errorf("%w\n%s", p, p.Stack)
		}
	}()
	return a.Run(ctx, s)
}

// outcome says how an attempt ends whose agent returned err.
func outcome(ctx context.Context, err error, limit time.Duration, forced bool) mailroom.Settle {
	out := mailroom.Settle{Outcome: mailroom.OutcomeFail, Jitter: rand.Float64(), Forced: forced}
	cause := context.Cause(ctx)
	stopped := errors.Is(cause, mailroom.ErrStopped)
	taken := errors.Is(cause, mailroom.ErrReleased) || errors.Is(cause, mailroom.ErrLeaseLost)
	switch {
	case err == nil:
		out.Outcome = mailroom.OutcomeComplete
	case stopped, taken && !forced:
		out.Outcome = mailroom.OutcomeRelease
	case forced, errors.Is(cause, mailroom.ErrDeadline):
		out.Failure = &mailroom.Failure{Class: mailroom.ClassTransient, Err: fmt.Errorf("the run deadline of %s has passed", limit)}
	default:
		out.Failure = mailroom.AsFailure(err)
	}
	return out
}

// parkInstead makes the end of an attempt that called Wait a park, whatever its
// agent returned.
func (s *session) parkInstead(out *mailroom.Settle) {
	s.turn.lock()
	defer s.turn.leave()
	if s.parked != nil {
		out.Outcome, out.Failure, out.Wait, out.Asks = mailroom.OutcomePark, nil, s.parked, s.asks
	}
}

// settle ends the attempt. It is repeated while the outcome is unknown; the
// claim itself says when that is pointless. An end that the store refuses
// becomes a failure, so that it is counted and seen.
func (s *session) settle(in mailroom.Settle, cause error, begin time.Time) {
	in.Message, in.Number = s.close()
	s.settleAs(in, cause, begin)
}

// settleBare settles without the message that was being written; what was flushed of it is kept.
func (s *session) settleBare(in mailroom.Settle, cause error, begin time.Time) {
	s.turn.lock()
	in.Number = s.step + 1
	s.turn.leave()
	s.settleAs(in, cause, begin)
}

func (s *session) settleAs(in mailroom.Settle, cause error, begin time.Time) {
	in.Claim = s.claim
	if !in.Forced {
		defer s.free() // also if no batch took it
	}
	run, err := s.end(in)
	if refused(err) {
		refusal := &mailroom.Failure{Class: mailroom.ClassTransient, Err: fmt.Errorf("the end of the attempt was refused: %w", err)}
		in.Outcome, in.Failure, in.Asks, in.Wait = mailroom.OutcomeFail, refusal, nil, nil
		if run, err = s.end(in); refused(err) {
			in.Message = nil // then it is what cannot be written; what was flushed is kept
			run, err = s.end(in)
		}
	}
	s.report(in, run, cause, err, time.Since(begin))
}

// report counts and logs the end of an attempt. err is that of its settle.
func (s *session) report(in mailroom.Settle, run *mailroom.Run, cause, err error, took time.Duration) {
	level, text, counted := slog.LevelInfo, "attempt ended", string(in.Outcome)
	switch {
	case err == nil:
	case mailroom.CodeOf(err) == mailroom.CodeLeaseLost:
		level, text, counted = slog.LevelWarn, "attempt ended without its claim", WithoutClaim
	default:
		level, text, counted = slog.LevelError, "attempt could not be settled; its claim is freed with the lease", Unsettled
	}
	s.engine.options.Observe.Attempt(s.agent, counted)
	log := s.engine.options.Log
	if !log.Enabled(s.life, level) && in.Failure == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("run", s.claim.Run), slog.String("thread", s.claim.Thread), slog.String("agent", s.agent),
		slog.Int("attempt", s.claim.Attempt), slog.String("outcome", string(in.Outcome)), slog.Duration("duration", took),
	}
	if in.Failure != nil {
		attrs = append(attrs, slog.Any("class", in.Failure.Class))
		// The error may quote what the agent said.
		log.LogAttrs(s.life, slog.LevelDebug, "agent failed", append(attrs[:len(attrs):len(attrs)], slog.Any("error", cause))...)
	}
	switch level {
	case slog.LevelInfo:
		attrs = append(attrs, slog.Any("status", run.Status))
	case slog.LevelError:
		attrs = append(attrs, slog.Any("error", err))
	}
	log.LogAttrs(s.life, level, text, attrs...)
}

// refused reports that a settle will never be taken as it is.
func refused(err error) bool {
	code := mailroom.CodeOf(err)
	return err != nil && code != mailroom.CodeLeaseLost && code != mailroom.CodeUnavailable
}

func (s *session) end(in mailroom.Settle) (run *mailroom.Run, err error) {
	free := s.free
	if in.Forced {
		free = nil // its agent has not returned
	}
	err = s.repeat(func(ctx context.Context) error {
		run, err = s.engine.ledger.SettleWith(ctx, in, free)
		return err
	})
	return run, err
}

// repeat calls f until its outcome is known, or a lease has passed: then it is
// Unavailable, also if f was still waiting for its turn. Who had no time has not
// been refused. It does not end with the attempt.
func (s *session) repeat(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.life, s.engine.options.Lease)
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		err := f(ctx)
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) && mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			return mailroom.Errorf(mailroom.CodeUnavailable, "the store had no time for it: %w", err)
		}
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable || errors.Is(err, mailroom.ErrStoreClosed) {
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
