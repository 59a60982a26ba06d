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
	// steerPace is how often steered messages are asked for; that reads a flag.
	steerPace = 200 * time.Millisecond
	// farewell is how long a program may take to end after its turn has.
	farewell = 10 * time.Second
)

// live is a program at work on one turn.
type live struct {
	// Set once.
	t      *attempt
	plan   plan
	input  *proc.Input
	cancel context.CancelCauseFunc

	// Of the goroutine that reads what it writes.
	lines    program.Lines
	fold     program.Fold
	heard    bool   // it wrote a line that was understood
	known    bool   // it said its session
	garbage  int    // lines that were not understood
	troubled bool   // nothing but warnings came since the last sign of life
	stopped  string // call that a person is asked about
	end      *program.End
	late     *time.Timer // fires when it should have ended

	guard sync.Mutex // guards what follows, and the attempt's notes and state
	open  bool       // it may be given more

	// Set when it has ended.
	ending  ending
	verdict program.Verdict // of an ending that was its own
}

// take runs the program for one turn, to its end.
func (t *attempt) take(ctx context.Context, p plan) (*live, error) {
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
	l := &live{
		t: t, plan: p, input: proc.NewInput(profile.Prompt(text)), cancel: cancel, open: profile.Talk != nil,
		fold: program.Fold{Prefix: fmt.Sprintf("%d.%d.", t.run.Attempt, t.begun), Hide: hide},
		late: time.AfterFunc(time.Hour, func() { cancel(errLate) }),
	}
	l.late.Stop()
	defer l.late.Stop()
	var steering sync.WaitGroup
	over, quit := context.WithCancel(ctx)
	if l.open {
		steering.Go(func() {
			defer recovery.Handle(nil, "what steers a program", func(p *recovery.Panic) { cancel(p) })
			l.steer(over)
		})
	} else {
		l.input.Close()
	}
	exit, why := child.Converse(ctx, l.input, l.emit)
	quit()
	steering.Wait()
	if rest := l.lines.Rest(); len(rest) > 0 {
		err := finally(ctx, func(ctx context.Context) error { return l.line(ctx, rest) })
		if why == nil && !errors.Is(err, proc.ErrLifeless) {
			why = err
		}
	}
	if l.end != nil && (errors.Is(why, proc.ErrIdle) || errors.Is(why, proc.ErrTotal)) {
		why = errLate // a turn that has ended is not taken again
	}
	l.ending = ending{exit: exit, why: why, stderr: redact(exit.Stderr, t.secrets, maxStderr), limits: t.limits, skipped: l.garbage + l.lines.Skipped}
	l.judge()
	return l, nil
}

// emit takes a piece of what the program writes.
func (l *live) emit(ctx context.Context, piece []byte) error {
	lines := l.lines.Add(piece)
	alive := len(lines) == 0 // more of a line
	for _, line := range lines {
		switch err := l.line(ctx, line); {
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

// line takes one line. ErrLifeless is one that shows no life.
func (l *live) line(ctx context.Context, line []byte) error {
	if len(strings.TrimSpace(string(line))) == 0 {
		return proc.ErrLifeless
	}
	facts, err := l.t.agent.profile.Decode(line)
	if err != nil {
		l.garbage++
		return proc.ErrLifeless
	}
	l.heard = true
	for _, f := range facts {
		if err := l.take(ctx, f); err != nil {
			return err
		}
	}
	if l.troubled = !program.Alive(facts); l.troubled {
		return proc.ErrLifeless
	}
	return nil
}

func (l *live) take(ctx context.Context, fact program.Fact) error {
	talk := l.t.agent.profile.Talk
	switch f := fact.(type) {
	case program.Session:
		l.goOn()
		return l.check(ctx, f.ID)
	case program.Question:
		l.asked(f)
		return nil
	case program.Request:
		if talk != nil {
			l.input.Write(talk.Refuse(f))
		}
		return nil
	case program.Begin, program.Text, program.Said, program.ToolStarted:
		l.goOn()
	case program.ToolFinished:
		if f.Call == l.stopped {
			f.Summary = unfinished(l.t.notes.Asked) // not what it was told to make it stop
		}
		fact = f
	case program.End:
		l.ended(f)
	}
	for _, w := range l.fold.Take(fact) {
		if err := l.write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (l *live) write(ctx context.Context, w program.Write) error {
	if w.Step == nil {
		return l.t.session.Stream(ctx, w.Text)
	}
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.t.append(ctx, *w.Step)
}

// check compares the session that the program is in with the one that it was to
// be in, and commits one that begins.
func (l *live) check(ctx context.Context, id string) error {
	p := l.plan
	switch {
	case l.known && id == l.t.state.Session:
		return nil
	case l.known: // it was told to begin another one
		p = plan{lost: l.t.state.Session, why: "the program went on in another session"}
	case p.session != "" && id != p.session, id == "":
		return errGone
	}
	l.known = true
	l.guard.Lock()
	defer l.guard.Unlock()
	if id == l.t.state.Session {
		return nil // it was committed with the process, or earlier
	}
	var st mailroom.Step
	if err := l.t.found(&st, p, id); err != nil {
		return err
	}
	st.NoProgress = true
	return l.t.append(ctx, st)
}

// ended closes the conversation behind the end of a turn. A message that was
// handed over before that becomes one more turn, which the program takes before
// it ends.
func (l *live) ended(e program.End) {
	l.guard.Lock()
	l.open = false
	l.guard.Unlock()
	l.input.Close()
	l.end = &e
	l.late.Reset(l.t.agent.farewell)
}

// goOn takes note that there is one more turn.
func (l *live) goOn() {
	if l.end != nil {
		l.end = nil
		l.late.Stop()
	}
}

// asked answers a question as it was decided, or has the program end its turn
// while a person is asked.
func (l *live) asked(q program.Question) {
	talk := l.t.agent.profile.Talk
	if talk == nil {
		return
	}
	l.guard.Lock()
	defer l.guard.Unlock()
	ask := questionOf(l.t.agent.profile.Name, q, &l.fold)
	for _, d := range l.t.notes.Decided {
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
	if len(l.t.notes.Asked) < maxAsked {
		l.t.notes.Asked = append(l.t.notes.Asked, ask)
	}
	l.open, l.stopped = false, q.Call
	l.input.Write(talk.Ask(q))
}

// steer hands steered messages to the program, until ctx ends.
func (l *live) steer(ctx context.Context) {
	pace := time.NewTicker(steerPace)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if err := l.hand(ctx); err != nil {
			if ctx.Err() == nil {
				l.cancel(err)
			}
			return
		}
	}
}

// hand gives the program what is new, unless it takes nothing any more: what is
// not read becomes a run.
func (l *live) hand(ctx context.Context) error {
	l.guard.Lock()
	defer l.guard.Unlock()
	if !l.open {
		return nil
	}
	messages, err := l.t.session.Steered(ctx)
	if err != nil || len(messages) == 0 {
		return err
	}
	l.t.steered(messages)
	if err := l.t.append(ctx, mailroom.Step{NoProgress: true}); err != nil {
		return err
	}
	l.input.Write(l.t.agent.profile.Talk.Steer(prompt(messages)))
	return nil
}

// judge says what the ending means, if it was the program's own.
func (l *live) judge() {
	why := l.ending.why
	switch {
	case errors.Is(why, errGone):
		l.verdict = program.Verdict{Gone: true, Message: "the program is in another session"}
	case why == nil, errors.Is(why, errLate):
		l.verdict = l.t.agent.profile.Judge(program.Ending{
			End: l.end, Resumed: l.plan.resume, Heard: l.heard, Code: l.ending.exit.Code, Signal: l.ending.exit.Signal,
			Late: why != nil, Stderr: l.ending.stderr,
		})
	}
}
