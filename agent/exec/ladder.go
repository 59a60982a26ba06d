package exec

import (
	"context"
	"errors"
	"fmt"

	"mailroom/internal/proc"
)

// The ladder decides what the next turn does after a turn that failed: continue the same session, start a new session
// with the thread's transcript, or nothing. The decision depends on two counts. The doubts about the session are kept
// in the state of the thread, because the next turn may belong to another run. The trials of the run are kept in the
// run's checkpoint.

// trials counts the turns of a run that failed, by how they failed.
type trials struct {
	// Silent is the number of turns that a time limit ended before they did anything. Cut is the number of turns that
	// ended because a tool call reached the time limit of calls without output, and Call is the tool of the last such
	// call.
	Silent int    `json:"silent,omitempty"`
	Cut    int    `json:"cut,omitempty"`
	Call   string `json:"call,omitempty"`
	// Replaced is how many sessions of the run were replaced. Lost is the session that the next turn has to replace,
	// and Why is the reason; both are "" if it need not replace any.
	Replaced int    `json:"replaced,omitempty"`
	Lost     string `json:"lost,omitempty"`
	Why      string `json:"why,omitempty"`
}

const (
	// maxDoubts is the number of doubtful turns after which a session counts as lost. With this bound, a cause that
	// passes by itself costs one repeat, and a session that can never answer costs two turns.
	maxDoubts = 2
	// maxSilent is how many silent turns, and how many turns with a call that was cut off, a run may have. The bounds
	// are low because each such turn lasts until a time limit.
	maxSilent = 3
	maxCut    = 2
	// maxReplaced bounds the sessions of a run that are replaced. Without a bound, a run that fills each new session
	// with its own work would never end.
	maxReplaced = 2
)

// climb records how a turn ended. It returns why the turn's session has to be replaced in the same attempt, or "" if
// it stays.
func (t *attempt) climb(l *runningTurn) string {
	c, v := &t.saved.Trials, l.verdict
	silent := (errors.Is(l.ending.why, proc.ErrIdle) || errors.Is(l.ending.why, proc.ErrStart)) && !l.onlyWarnings
	switch {
	case errors.Is(l.ending.why, proc.ErrBusy):
		t.state.Doubts, c.Cut, c.Call = 0, c.Cut+1, l.fold.Sanitize(l.calls.except(l.parkedCall))
		return ""
	case l.worked:
		t.state.Doubts, c.Silent = 0, 0
		if v.Stuck {
			c.Replaced, c.Lost, c.Why = c.Replaced+1, t.state.Session, v.Message
			t.state = state{Program: t.agent.profile.Name}
		}
		return ""
	case v.Gone:
		t.state.Doubts = 0
		return v.Message
	case v.Doubtful, silent:
		t.state.Doubts++
		if silent {
			c.Silent++
		}
	}
	if t.state.Doubts < maxDoubts || !l.plan.resume {
		return ""
	}
	t.state.Doubts = 0
	if silent {
		return fmt.Sprintf("it did not answer in %d turns: %v", maxDoubts, l.ending.why)
	}
	return fmt.Sprintf("it failed %d times without doing anything: %s", maxDoubts, l.fold.Sanitize(v.Message))
}

// repeats runs the turn of a plan. If its session cannot answer, it runs the turn once more with a new session.
func (t *attempt) repeats(ctx context.Context, p plan) (*runningTurn, error) {
	l, err := t.runTurn(ctx, p)
	if err != nil {
		return nil, err
	}
	why := t.climb(l)
	if why == "" || ctx.Err() != nil {
		return l, nil
	}
	known := l.verdict.Gone // the program itself said that the session is gone
	if p, err = t.replaceSession(ctx, p, why); err != nil {
		return nil, err
	}
	old := t.state
	if l, err = t.runTurn(ctx, p); err != nil {
		return nil, err
	}
	t.climb(l)
	if !known && !l.worked && l.verdict.Class != "" {
		// The new session failed too, so the session was not the cause. The old session has the conversation, so it
		// stays.
		t.state, t.restored = old, true
	}
	return l, nil
}

// hopeless returns why a turn that failed is not repeated, or nil.
func (t *attempt) hopeless(l *runningTurn) error {
	c, name := t.saved.Trials, t.agent.name
	switch {
	case errors.Is(l.ending.why, proc.ErrBusy) && c.Cut >= maxCut:
		return fmt.Errorf(
			"%s was stopped %d times, because a call of %s wrote nothing for %v (call_timeout); raise call_timeout, or make the tool write something", name, c.Cut, c.Call, t.agent.callTimeout)
	case c.Silent >= maxSilent && !l.worked:
		return fmt.Errorf("%s did not answer in %d turns, also in a new session: %w", name, c.Silent, l.ending.why)
	case l.verdict.Stuck && c.Replaced > maxReplaced:
		return fmt.Errorf("%s filled %d sessions with this request: %s", name, c.Replaced, l.fold.Sanitize(l.verdict.Message))
	}
	return nil
}

// cutNote returns a note to the program about a tool call that was cut off, so that the program does not repeat the
// call unchanged.
func (c trials) cutNote() string {
	if c.Call == "" {
		return ""
	}
	return fmt.Sprintf(
		"Your last call of %s was stopped, because it wrote nothing for too long. Do not repeat it unchanged: "+
			"split it, limit its time, or let it write its progress.", c.Call)
}
