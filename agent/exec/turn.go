package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/internal/proc"
	"mailroom/internal/recovery"
)

const (
	// steerInterval is how often steered messages are asked for; that reads a flag.
	steerInterval = 200 * time.Millisecond
	// lingerTimeout is how long a program may take to end after its turn has.
	lingerTimeout = 10 * time.Second
)

// runningTurn is a program at work on one turn.
type runningTurn struct {
	// Set once.
	t      *attempt
	plan   plan
	input  *proc.Input
	cancel context.CancelCauseFunc

	// Of the goroutine that reads what it writes.
	lines        program.Lines
	fold         program.Fold
	sawLine      bool   // it wrote a line that was understood
	sessionKnown bool   // it said its session
	garbage      int    // lines that were not understood
	onlyWarnings bool   // nothing but warnings came since the last sign of life
	parkedCall   string // call that a person is asked about
	end          *program.End
	lingerTimer  *time.Timer // fires when it should have ended

	mu   sync.Mutex // guards what follows, and the attempt's notes and state
	open bool       // it may be given more

	// Set when it has ended.
	ending  ending
	verdict program.Verdict // of an ending that was its own
}

// onEvent runs the program for one turn, to its end.
func (t *attempt) runTurn(ctx context.Context, p plan) (*runningTurn, error) {
	text, err := t.prompt(ctx, p)
	if err != nil {
		return nil, err
	}
	child, err := t.start(ctx, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	profile := t.agent.profile
	hide := func(s string) string { return redactText(s, t.secrets) }
	l := &runningTurn{
		t: t, plan: p, input: proc.NewInput(profile.Prompt(text)), cancel: cancel, open: profile.Stdin != nil,
		fold:        program.Fold{Prefix: fmt.Sprintf("%d.%d.", t.run.Attempt, t.starts), Redact: hide},
		lingerTimer: time.AfterFunc(time.Hour, func() { cancel(errLingered) }),
	}
	l.lingerTimer.Stop()
	defer l.lingerTimer.Stop()
	var steering sync.WaitGroup
	over, quit := context.WithCancel(ctx)
	if l.open {
		steering.Go(func() {
			defer recovery.Handle(nil, "what steers a program", func(p *recovery.Panic) { cancel(p) })
			l.pollSteered(over)
		})
	} else {
		l.input.Close()
	}
	exit, why := child.Converse(ctx, l.input, l.onOutput)
	quit()
	steering.Wait()
	if rest := l.lines.Rest(); len(rest) > 0 {
		err := finalWrite(ctx, func(ctx context.Context) error { return l.onLine(ctx, rest) })
		if why == nil && !errors.Is(err, proc.ErrLifeless) {
			why = err
		}
	}
	if l.end != nil && (errors.Is(why, proc.ErrIdle) || errors.Is(why, proc.ErrTotal)) {
		why = errLingered // a turn that has ended is not taken again
	}
	l.ending = ending{exit: exit, why: why, stderr: redact(exit.Stderr, t.secrets, maxStderr), limits: t.limits, skipped: l.garbage + l.lines.Skipped}
	l.setVerdict()
	return l, nil
}

// onOutput takes a piece of what the program writes.
func (l *runningTurn) onOutput(ctx context.Context, piece []byte) error {
	lines := l.lines.Add(piece)
	alive := len(lines) == 0 // more of a line
	for _, line := range lines {
		switch err := l.onLine(ctx, line); {
		case errors.Is(err, proc.ErrLifeless):
		case err != nil:
			return err
		default:
			alive = true
		}
	}
	if !alive {
		return proc.ErrLifeless
	}
	return nil
}

// onLine takes one line. ErrLifeless is one that shows no life.
func (l *runningTurn) onLine(ctx context.Context, line []byte) error {
	if len(strings.TrimSpace(string(line))) == 0 {
		return proc.ErrLifeless
	}
	facts, err := l.t.agent.profile.Decode(line)
	if err != nil {
		l.garbage++
		return proc.ErrLifeless
	}
	l.sawLine = true
	for _, f := range facts {
		if err := l.onEvent(ctx, f); err != nil {
			return err
		}
	}
	if l.onlyWarnings = !program.ShowsProgress(facts); l.onlyWarnings {
		return proc.ErrLifeless
	}
	return nil
}

func (l *runningTurn) onEvent(ctx context.Context, fact program.Event) error {
	talk := l.t.agent.profile.Stdin
	switch f := fact.(type) {
	case program.Session:
		l.resumeTurn()
		return l.checkSession(ctx, f.ID)
	case program.Question:
		l.onQuestion(f)
		return nil
	case program.Request:
		if talk != nil {
			l.input.Write(talk.Refuse(f))
		}
		return nil
	case program.MessageStarted, program.Text, program.Passage, program.ToolStarted:
		l.resumeTurn()
	case program.ToolFinished:
		if f.Call == l.parkedCall {
			f.Summary = unfinishedReason(l.t.saved.Asked) // not what it was told to make it stop
		}
		fact = f
	case program.End:
		l.onTurnEnd(f)
	}
	for _, w := range l.fold.Apply(fact) {
		if err := l.write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (l *runningTurn) write(ctx context.Context, w program.Write) error {
	if w.Step == nil {
		return l.t.session.Stream(ctx, w.Text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.t.append(ctx, *w.Step)
}

// checkSession compares the session that the program is in with the one that it was to
// be in, and commits one that begins.
func (l *runningTurn) checkSession(ctx context.Context, id string) error {
	p := l.plan
	switch {
	case l.sessionKnown && id == l.t.state.Session:
		return nil
	case l.sessionKnown: // it was told to begin another one
		p = plan{lost: l.t.state.Session, why: "the program went on in another session"}
	case p.session != "" && id != p.session, id == "":
		return errSessionGone
	}
	l.sessionKnown = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == l.t.state.Session {
		return nil // it was committed with the process, or earlier
	}
	var st mailroom.Step
	if err := l.t.recordSession(&st, p, id); err != nil {
		return err
	}
	st.NoProgress = true
	return l.t.append(ctx, st)
}

// onTurnEnd closes the conversation behind the end of a turn. A message that was
// handed over before that becomes one more turn, which the program takes before
// it ends.
func (l *runningTurn) onTurnEnd(e program.End) {
	l.mu.Lock()
	l.open = false
	l.mu.Unlock()
	l.input.Close()
	l.end = &e
	l.lingerTimer.Reset(l.t.agent.lingerTimeout)
}

// resumeTurn takes note that there is one more turn.
func (l *runningTurn) resumeTurn() {
	if l.end != nil {
		l.end = nil
		l.lingerTimer.Stop()
	}
}

// onQuestion answers a question as it was decided, or has the program end its turn
// while a person is asked.
func (l *runningTurn) onQuestion(q program.Question) {
	talk := l.t.agent.profile.Stdin
	if talk == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ask := questionOf(l.t.agent.profile.Name, q, &l.fold)
	for _, d := range l.t.saved.Decided {
		if d.Name != ask.Name {
			continue
		}
		if d.Allowed {
			l.input.Write(talk.Allow(q))
		} else {
			l.input.Write(talk.Deny(q, d.Why))
		}
		return
	}
	if len(l.t.saved.Asked) < maxAsked {
		l.t.saved.Asked = append(l.t.saved.Asked, ask)
	}
	l.open, l.parkedCall = false, q.Call
	l.input.Write(talk.Ask(q))
}

// pollSteered hands steered messages to the program, until ctx ends.
func (l *runningTurn) pollSteered(ctx context.Context) {
	pace := time.NewTicker(steerInterval)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if err := l.sendSteered(ctx); err != nil {
			if ctx.Err() == nil {
				l.cancel(err)
			}
			return
		}
	}
}

// sendSteered gives the program what is new, unless it takes nothing any more: what is
// not read becomes a run.
func (l *runningTurn) sendSteered(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return nil
	}
	messages, err := l.t.session.Steered(ctx)
	if err != nil || len(messages) == 0 {
		return err
	}
	l.t.addSteered(messages)
	if err := l.t.append(ctx, mailroom.Step{NoProgress: true}); err != nil {
		return err
	}
	l.input.Write(l.t.agent.profile.Stdin.Steer(promptText(messages)))
	return nil
}

// setVerdict says what the ending means, if it was the program's own.
func (l *runningTurn) setVerdict() {
	why := l.ending.why
	switch {
	case errors.Is(why, errSessionGone):
		l.verdict = program.Verdict{Gone: true, Message: "the program is in another session"}
	case why == nil, errors.Is(why, errLingered):
		l.verdict = l.t.agent.profile.Judge(program.Ending{
			End: l.end, Resumed: l.plan.resume, SawLine: l.sawLine, Code: l.ending.exit.Code, Signal: l.ending.exit.Signal,
			Lingered: why != nil, Stderr: l.ending.stderr,
		})
	}
}
