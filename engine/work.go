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
	"mailroom/entry"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// attempt runs work. A panic outside the agent settles as a failure, so that it counts as an
// attempt. The agent's context has ended by then; the slot stays in use until the agent has
// returned.
func (s *session) attempt() {
	begin := time.Now()
	defer recovery.Handle(s.engine.options.Log, "an attempt", func(p *recovery.Panic) {
		left := s.agentDone != nil
		failure := &mailroom.Failure{Class: mailroom.ClassTransient,
			Err: fmt.Errorf("attempt failed outside the agent: %w", p)}
		out := thread.Settle{Outcome: thread.OutcomeFail, Jitter: rand.Float64(), Failure: failure, Forced: left}
		// If the settle itself panics, the partial text may be the cause: settle without it.
		end := func() error { s.settle(out, p, begin); return nil }
		if recovery.Call(s.engine.options.Log, "the end of an attempt", end) != nil {
			s.settleBare(out, p, begin)
		}
		if left {
			s.awaitAbandoned()
		}
	})
	s.work()
}

// work runs the agent once and settles. It returns when the agent has returned, for an abandoned
// agent too, or when the engine ends.
func (s *session) work() {
	defer s.cancel(context.Canceled)
	begin := time.Now()
	defer s.hints.Close()
	agent, unkept := s.engine.options.Agents[s.agent].pinned(s.ctx, s.row.Load())
	limit := cmp.Or(agent.Deadline, s.engine.options.Deadline, s.claimed.Limit, time.Hour)
	unsure := s.drainHints()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	s.deadline = newDeadline(limit, s.engine.options.Log, func() { cancel(mailroom.ErrDeadline) })
	defer s.deadline.stop()
	if err := cmp.Or(context.Cause(ctx), unsure, unkept); err != nil { // the agent must not be entered
		out := s.outcome(ctx, err, false)
		s.releaseInstead(&out)
		s.settle(out, err, begin)
		return
	}
	s.engine.options.Observe.Started(
		Start{Run: s.row.Load(), Due: s.claimed.Due, Claimed: s.claimed.At, Entered: time.Now()})
	done := make(chan error, 1)
	s.agentDone = done
	go func() { // await and awaitAbandoned wait for it while the engine lives
		defer recovery.Log(s.engine.options.Log, "an agent")
		err := errors.New("agent called runtime.Goexit")
		defer func() { done <- err }()
		err = call(ctx, agent.Agent, s)
	}()
	err, forced := s.await(ctx, done)
	if !forced {
		s.agentDone = nil
	}
	out := s.outcome(ctx, err, forced)
	if out.Outcome != thread.OutcomeRelease && !forced {
		s.parkInstead(&out)
	}
	s.releaseInstead(&out)
	out.Entered = out.Outcome == thread.OutcomeRelease && s.row.Load().MaxCrashes() == 0
	s.settle(out, err, begin)
	if forced {
		s.awaitAbandoned()
	}
}

// awaitAbandoned keeps the slot until the agent, whose attempt has ended without it, has returned.
func (s *session) awaitAbandoned() {
	select {
	case <-s.agentDone:
	case <-s.life.Done():
	}
	s.free()
	s.engine.ledger.AskClaimers()
}

// free gives the slot back, once.
func (s *session) free() {
	if !s.freed.Swap(true) {
		s.engine.slots.release(s.claimed)
	}
}

// refresh reads the run's current row and applies stops and steers.
func (s *session) refresh() error {
	r, err := ask(s.life, s, func(ctx context.Context) (*mailroom.Run, error) {
		return s.engine.ledger.ClaimedRun(ctx, s.claim)
	})
	if err != nil {
		return fmt.Errorf("refresh run %s: %w", s.claim.Run, err)
	}
	if r.Stop != "" {
		s.cancel(mailroom.ErrStopped)
	}
	if len(r.Steers) > 0 {
		s.steered.Store(true)
	}
	return nil
}

// onHint handles entries that were committed in the thread during the attempt.
func (s *session) onHint(n *bus.Notice) {
	for _, e := range n.Entries {
		switch {
		case e.Run != s.claim.Run:
		case e.Kind == entry.KindStop:
			s.cancel(mailroom.ErrStopped)
		case e.Kind == entry.KindMessage && e.Attempt == 0: // the run did not write this message
			s.steered.Store(true)
		}
	}
	if s.hints.Lost() {
		if err := s.refresh(); err != nil {
			s.engine.options.Log.Warn("hints lost and refresh failed; stops arrive with the next renewal", "run", s.claim.Run,
				"error", err)
		}
	}
}

// drainHints applies what happened to the run since its claim. A remote worker subscribes some time
// after the claim was committed, so it reads the row. The process that commits the claim subscribes at
// once; what another server commits in between arrives with the next renewal, like any lost hint.
func (s *session) drainHints() error {
	for {
		select {
		case n := <-s.hints.C:
			s.onHint(n)
			continue
		default:
		}
		if s.engine.options.Local || s.engine.options.Node != "" {
			return nil
		}
		return s.refresh()
	}
}

// await waits for the agent. It abandons one that does not return within StopGrace after a stop or
// its deadline. Other claims are released only after the agent has returned.
func (s *session) await(ctx context.Context, done <-chan error) (err error, forced bool) {
	var cut <-chan time.Time
	cancelled := ctx.Done()
	for {
		select {
		case err := <-done:
			return err, false
		case n := <-s.hints.C:
			s.onHint(n)
		case <-cancelled:
			cancelled = nil
			left := time.Duration(0)
			if !errors.Is(context.Cause(ctx), mailroom.ErrStopped) {
				left = max(0, time.Until(s.deadline.at()))
			}
			cut = time.After(left + s.engine.options.StopGrace)
		case <-cut:
			return context.Cause(ctx), true
		case <-s.life.Done():
			return context.Cause(ctx), true
		}
	}
}

// call enters the agent. A panic becomes its error, with the stack.
func call(ctx context.Context, a mailroom.Agent, s mailroom.Session) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := recovery.NewPanic(v)
			err = fmt.Errorf("%w\n%s", p, p.Stack)
		}
	}()
	return a.Run(ctx, s)
}

// outcome returns the settle of an attempt whose agent returned err.
func (s *session) outcome(ctx context.Context, err error, forced bool) thread.Settle {
	out := thread.Settle{Outcome: thread.OutcomeFail, Jitter: rand.Float64(), Forced: forced}
	cause := context.Cause(ctx)
	stopped := errors.Is(cause, mailroom.ErrStopped)
	way, passes := errors.AsType[*thread.GiveWay](err)
	taken := errors.Is(cause, mailroom.ErrReleased) || errors.Is(cause, mailroom.ErrLeaseLost)
	switch {
	case err == nil:
		out.Outcome = thread.OutcomeComplete
	case cause == nil && passes:
		out.Outcome, out.GiveWay = thread.OutcomeRelease, way.To
	case stopped && !forced && failureOf(err).Class == mailroom.ClassPermanent: // a raised budget would change nothing
		out.Failure = failureOf(err)
	case stopped, taken && !forced:
		out.Outcome = thread.OutcomeRelease
	case forced, errors.Is(cause, mailroom.ErrDeadline):
		out.Failure = &mailroom.Failure{Class: mailroom.ClassTransient,
			Err: fmt.Errorf("the run deadline of %s has passed", s.deadline.at().Sub(s.deadline.begin))}
	default:
		out.Failure = failureOf(err)
	}
	return out
}

// failureOf returns the failure of an agent that returned err. What was refused as invalid, too large or in conflict is
// refused again, so the run fails for good, unless a Failure in err's tree says otherwise. Every other error is
// transient, also unserved: the worker of that agent may start later.
func failureOf(err error) *mailroom.Failure {
	f := mailroom.AsFailure(err)
	if _, classified := errors.AsType[*mailroom.Failure](err); classified {
		return f
	}
	switch mailroom.CodeOf(err) {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeConflict:
		f.Class = mailroom.ClassPermanent
	}
	return f
}

// parkInstead makes the settle a park if the agent called Wait, whatever it returned.
func (s *session) parkInstead(out *thread.Settle) {
	s.turn.lock()
	defer s.turn.leave()
	if s.parked != nil {
		out.Outcome, out.Failure, out.Wait, out.Asks = thread.OutcomePark, nil, s.parked, s.asks
	}
}

// releaseInstead makes the settle a release if the attempt failed after the store gave no answer: the
// agent cannot help that.
func (s *session) releaseInstead(out *thread.Settle) {
	if out.Outcome == thread.OutcomeFail && !out.Forced && s.unanswered.Load() {
		out.Outcome, out.Failure = thread.OutcomeRelease, nil
	}
}

// settle ends the attempt. It repeats the call while the outcome is unknown. A settle that the
// store refuses becomes a failure, so that it is counted and visible.
func (s *session) settle(in thread.Settle, cause error, begin time.Time) {
	in.Message, in.Number = s.close()
	s.settleAs(in, cause, begin)
}

// settleBare settles without the partial text. The part that was flushed is kept.
func (s *session) settleBare(in thread.Settle, cause error, begin time.Time) {
	s.turn.lock()
	in.Number = s.step + 1
	s.turn.leave()
	s.settleAs(in, cause, begin)
}

func (s *session) settleAs(in thread.Settle, cause error, begin time.Time) {
	in.Claim = s.claim
	if !in.Forced {
		defer s.free() // frees the slot also if no batch contained the settle
	}
	run, err := s.end(in)
	if refused(err) {
		refusal := &mailroom.Failure{Class: mailroom.ClassTransient, Err: fmt.Errorf("settle refused: %w", err)}
		in.Outcome, in.Failure, in.Asks, in.Wait = thread.OutcomeFail, refusal, nil, nil
		if run, err = s.end(in); refused(err) {
			in.Message = nil // the message is probably the partial text, and the flushed part is kept
			run, err = s.end(in)
		}
	}
	s.report(in, run, cause, err, time.Since(begin))
}

// report logs the end of an attempt. err is the error of its settle. A first attempt that completes is the usual case
// and says nothing that its run does not; its line would be most of the log.
func (s *session) report(in thread.Settle, run *mailroom.Run, cause, err error, took time.Duration) {
	level, text := slog.LevelInfo, "attempt ended"
	switch {
	case err == nil && in.Outcome == thread.OutcomeComplete && s.claim.Attempt == 1:
		level = slog.LevelDebug
	case err == nil:
	case mailroom.CodeOf(err) == mailroom.CodeLeaseLost:
		level, text = slog.LevelWarn, "attempt ended without its claim"
	default:
		level, text = slog.LevelError, "attempt could not be settled; its claim ends with the lease"
	}
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
		// The error may quote the agent's output.
		log.LogAttrs(s.life, slog.LevelDebug, "agent failed",
			append(attrs[:len(attrs):len(attrs)], slog.Any("error", cause))...)
	}
	switch level {
	case slog.LevelDebug, slog.LevelInfo:
		attrs = append(attrs, slog.Any("status", run.Status))
	case slog.LevelError:
		attrs = append(attrs, slog.Any("error", err))
	}
	log.LogAttrs(s.life, level, text, attrs...)
}

// refused reports whether err refuses a settle for good.
func refused(err error) bool {
	code := mailroom.CodeOf(err)
	return err != nil && code != mailroom.CodeLeaseLost && code != mailroom.CodeUnavailable
}

func (s *session) end(in thread.Settle) (run *mailroom.Run, err error) {
	free := s.free
	if in.Forced {
		free = nil // the agent of the run has not returned
	}
	err = s.repeat(s.life, func(ctx context.Context) error {
		run, err = s.engine.ledger.SettleWith(ctx, in, free)
		return err
	})
	return run, err
}

// ask calls f as repeat does, and returns its result. A store that does not answer for a moment is no
// failure of the agent.
func ask[T any](ctx context.Context, s *session, f func(ctx context.Context) (T, error)) (out T, err error) {
	err = s.repeat(ctx, func(ctx context.Context) (err error) {
		out, err = f(ctx)
		return err
	})
	return out, err
}

// repeat calls f until its outcome is known, for at most the duration of a lease, and until ctx ends.
// Then it returns Unavailable, also if f was still queued: a call without an answer was not refused.
func (s *session) repeat(ctx context.Context, f func(ctx context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, s.engine.options.Lease)
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		err := f(within)
		if ended := within.Err(); ended != nil && errors.Is(err, ended) && mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			err = mailroom.Errorf(mailroom.CodeUnavailable, "no answer from the store in time: %w", err)
		}
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable || errors.Is(err, store.ErrClosed) {
			return err
		}
		if !backOff(within, &pause) {
			if ctx.Err() == nil {
				s.unanswered.Store(true)
			}
			return err
		}
	}
}

// backOff waits for the pause before another call, and doubles it, up to a second. It reports whether ctx goes on.
func backOff(ctx context.Context, pause *time.Duration) bool {
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		*pause = min(2**pause, time.Second)
		return true
	case <-ctx.Done():
		return false
	}
}
