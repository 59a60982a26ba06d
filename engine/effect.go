package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
)

// effect is the state of one named effect of the run. It begins as the log has it, and this attempt changes it.
type effect struct {
	busy  gate // allows one call at a time
	state entry.EffectState
}

// Do calls f once per name and stores its result; see [mailroom.Session].
func (s *session) Do(ctx context.Context, e mailroom.Effect,
	f func(ctx context.Context, key string) (json.RawMessage, error)) (json.RawMessage, error) {
	body, err := entry.NewEffect(s.claim.Run, e)
	if err != nil {
		return nil, err
	}
	eff, err := s.effect(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	if err := eff.busy.enter(ctx); err != nil {
		return nil, s.refused(err)
	}
	defer eff.busy.leave()
	if eff.state.Last == "" {
		eff.state.EffectEntry = body
	}
	if !eff.state.BeganWith(e, body) {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "effect %q was started with different input", e.Name)
	}
	for {
		switch {
		case eff.state.Last == entry.KindEffectSettled && !eff.state.Failed():
			if eff.state.Cut {
				return nil, withoutValue(eff, "return a reference")
			}
			return eff.state.Result, nil
		case e.Memo:
			return s.memoize(ctx, eff, f)
		case eff.state.Last == entry.KindEffectIntended, eff.state.Last == entry.KindEffectUnknown:
			again, err := s.resolve(ctx, e, eff)
			if err != nil {
				return nil, err
			}
			if !again {
				continue
			}
		}
		if value, err := s.call(ctx, eff, f); !errors.Is(err, mailroom.ErrUnknown) || e.Idempotent || e.Reconcile != nil {
			return value, err
		}
	}
}

// memoize calls f and records its value, if it has one. Unlike an intention, a call that is lost needs no entry: it is
// made again.
func (s *session) memoize(ctx context.Context, eff *effect,
	f func(context.Context, string) (json.RawMessage, error)) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	value, err := f(ctx, eff.state.Key)
	if err != nil {
		return nil, err
	}
	return s.keep(eff, value, true)
}

// keep records the value of a call. If the value cannot be kept, keep records only that the call was made, so that no
// attempt repeats it, and returns a permanent failure. A memo is not recorded then: its call may be repeated.
func (s *session) keep(eff *effect, value json.RawMessage, memo bool) (json.RawMessage, error) {
	why := ""
	switch {
	case len(value) > mailroom.MaxEffect:
		why = fmt.Sprintf("it has %d bytes, more than %d", len(value), mailroom.MaxEffect)
	case len(value) > 0 && (!json.Valid(value) || !utf8.Valid(value)):
		why = "it cannot be encoded as JSON"
	}
	if why == "" || !memo {
		if err := s.record(eff, entry.KindEffectSettled, value, why != "", nil); err != nil {
			return nil, err
		}
	}
	if why != "" {
		return nil, withoutValue(eff, why)
	}
	return value, nil
}

// withoutValue returns the failure of a call that was made and whose value the log does not have.
func withoutValue(eff *effect, why string) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent,
		Err: fmt.Errorf("effect %q was called, but its value could not be kept: %s", eff.state.Name, why)}
}

// effect returns the state of a named effect. The log is read once per attempt.
func (s *session) effect(ctx context.Context, name string) (*effect, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	if s.effects == nil {
		states, err := ask(ctx, s, func(ctx context.Context) (map[string]*entry.EffectState, error) {
			return s.engine.ledger.Effects(ctx, s.row.Load())
		})
		if err != nil {
			return nil, err
		}
		s.effects = map[string]*effect{}
		for n, state := range states {
			s.effects[n] = &effect{busy: newGate(), state: *state}
		}
	}
	eff := s.effects[name]
	if eff == nil {
		eff = &effect{busy: newGate()}
		s.effects[name] = eff
	}
	return eff, nil
}

// resolve settles an effect with an unknown outcome. It reports again if the effect must be called
// again.
func (s *session) resolve(ctx context.Context, e mailroom.Effect, eff *effect) (again bool, err error) {
	if eff.state.Last == entry.KindEffectIntended {
		if err := s.record(eff, entry.KindEffectUnknown, nil, false, nil); err != nil {
			return false, err
		}
	}
	if e.Idempotent {
		return true, nil
	}
	if e.Reconcile != nil {
		value, done, err := e.Reconcile(ctx, eff.state.Key)
		if err != nil || !done {
			return err == nil, err
		}
		_, err = s.keep(eff, value, false)
		return false, err
	}
	return s.askAbout(ctx, e, eff)
}

// askAbout opens a ticket that asks for the outcome of an unknown effect.
func (s *session) askAbout(ctx context.Context, e mailroom.Effect, eff *effect) (again bool, err error) {
	tickets, err := s.waitInTurn(ctx, eff.state.AskOutcome(e.Input))
	if err != nil {
		return false, err
	}
	switch k := tickets[0]; k.Decision {
	case mailroom.VerdictApprove:
		return true, nil
	case mailroom.VerdictAnswer:
		return false, s.record(eff, entry.KindEffectSettled, k.Answer, false, nil)
	}
	return false, &mailroom.Failure{Class: mailroom.ClassPermanent,
		Err: fmt.Errorf("the outcome of effect %q is unknown, and repeating it was denied", e.Name)}
}

// waitInTurn waits for the answer to one ticket, and holds the session's turn for it.
func (s *session) waitInTurn(ctx context.Context, ask mailroom.Ask) ([]mailroom.Ticket, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	return s.wait(ctx, false, []mailroom.Ask{ask})
}

// call records the intent, calls f, and records the result. It records the result also when the
// attempt was cancelled during the call.
func (s *session) call(ctx context.Context, eff *effect,
	f func(context.Context, string) (json.RawMessage, error)) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := s.record(eff, entry.KindEffectIntended, nil, false, nil); err != nil {
		return nil, err
	}
	value, err := f(ctx, eff.state.Key)
	switch {
	case err == nil:
		return s.keep(eff, value, false)
	case errors.Is(err, mailroom.ErrUnknown), ctx.Err() != nil:
		return nil, errors.Join(err, s.record(eff, entry.KindEffectUnknown, nil, false, nil))
	}
	return nil, errors.Join(err, s.record(eff, entry.KindEffectSettled, nil, false, err))
}

// record appends an entry of an effect, without its value if that is cut. It also works when the attempt is parked or
// stopped: the outcome of a started call must be recorded.
func (s *session) record(eff *effect, kind string, value json.RawMessage, cut bool, failed error) error {
	s.flushing.lock()
	defer s.flushing.leave()
	s.turn.lock()
	defer s.turn.leave()
	if s.closed.Load() {
		return s.ended()
	}
	body := eff.state.EffectEntry
	body.Result, body.Cut, body.Error = value, cut, ""
	if body.Cut {
		body.Result = nil
	}
	if failed != nil {
		body.Error = failed.Error()
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode effect %q: %w", body.Name, err)
	}
	// A failed call is no progress: it does not end a series of failures.
	step := mailroom.Step{NoProgress: kind != entry.KindEffectSettled || failed != nil}
	if err := s.append(step, []mailroom.AgentEntry{{Kind: kind, Body: raw}}, nil); err != nil {
		return err
	}
	eff.state.EffectEntry, eff.state.Last = body, kind
	if kind == entry.KindEffectIntended {
		eff.state.Tries++
		eff.state.Attempt = s.claim.Attempt
	}
	return nil
}
