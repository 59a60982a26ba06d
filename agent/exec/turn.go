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
	// steerInterval is the polling interval for steered messages. A poll is cheap, because it only reads a flag.
	steerInterval = 200 * time.Millisecond
	// lingerTimeout is how long a program may keep running after the end of its turn.
	lingerTimeout = 10 * time.Second
)

// runningTurn is a program that works on one turn.
type runningTurn struct {
	// Never changed after the start.
	t        *attempt
	plan     plan
	dialogue program.Dialogue
	input    *proc.Input
	cancel   context.CancelCauseFunc
	leave    func(answered bool) // see Alone

	// Owned by the goroutine that reads the program's output.
	lines        program.Lines
	fold         program.Fold
	sawLine      bool   // a line was decoded
	sessionKnown bool   // the program has reported its session
	garbage      int    // lines that could not be decoded
	onlyWarnings bool   // only warnings came since the last progress
	parkedCall   string // call that waits for a person's approval
	calls        calls  // tool calls without a result
	worked       bool   // the model answered
	elsewhere    bool   // the program is in another session
	notice       string // the last text that the program wrote in place of the model
	limitEnd     time.Time
	end          *program.End
	lingerTimer  *time.Timer // fires when the program has not ended in time

	mu      sync.Mutex // guards the following fields, the dialogue, and the attempt's saved and state
	open    bool       // the program accepts more input
	steered int        // messages that were sent to the program
	unsent  int        // pieces of input that the dialogue demands before the next message

	// Set when the program has ended.
	ending  ending
	verdict program.Verdict // verdict, if the program ended by itself
}

// runTurn runs the program for one turn and waits for its end.
func (t *attempt) runTurn(ctx context.Context, p plan) (*runningTurn, error) {
	prompt, err := t.prompt(ctx, p)
	if err != nil {
		return nil, err
	}
	turn, err := t.programTurn(p)
	if err != nil {
		return nil, err
	}
	dialogue := t.agent.profile.Dialogue(turn, prompt)
	input := proc.NewInput(dialogue.Begin)
	l := &runningTurn{
		t: t, plan: p, dialogue: dialogue, input: input, lines: program.Lines{Max: dialogue.MaxLine},
		open: dialogue.Stdin != nil && dialogue.Stdin.Steer != nil,
	}
	l.leave = t.agent.alone.enter(ctx)
	defer l.leave(false)
	child, err := t.start(ctx, p, turn, l.farewell())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hide := func(s string) string { return redactText(s, t.secrets) }
	l.cancel, l.lingerTimer = cancel, time.AfterFunc(time.Hour, func() { cancel(errLingered) })
	l.fold = program.Fold{Prefix: fmt.Sprintf("%d.%d.", t.run.Attempt, t.starts), Redact: hide}
	l.lingerTimer.Stop()
	defer l.lingerTimer.Stop()
	t.turn = l
	var steering sync.WaitGroup
	over, quit := context.WithCancel(ctx)
	if l.open {
		steering.Go(func() {
			defer recovery.Handle(nil, "steering of a program", func(p *recovery.Panic) { cancel(p) })
			l.pollSteered(over)
		})
	} else if dialogue.Stdin == nil {
		l.input.Close()
	}
	exit, why := child.RunWithInput(ctx, l.input, l.onOutput)
	quit()
	steering.Wait()
	if rest := l.lines.Rest(); len(rest) > 0 {
		err := finalWrite(ctx, func(ctx context.Context) error { return l.onLine(ctx, rest) })
		if why == nil && !errors.Is(err, proc.ErrNoActivity) {
			why = err
		}
	}
	if l.end != nil && (errors.Is(why, proc.ErrIdle) || errors.Is(why, proc.ErrTotal)) || l.isDone() && isStop(why) {
		why = errLingered // a finished turn is not repeated
	}
	l.ending = ending{exit: exit, why: why, stderr: redact(exit.Stderr, t.secrets, maxStderr), limits: t.limits,
		skipped: l.garbage + l.lines.Skipped}
	l.setVerdict()
	return l, nil
}

// isDone reports whether the program has finished its work, and has only to exit: no question is open, and no message
// was sent to it that it may not have read.
func (l *runningTurn) isDone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end != nil && l.end.OK && !l.end.Aborted && len(l.t.saved.Asked) == 0 && len(l.t.saved.Steered) == 0
}

// isStop reports whether the attempt was asked to end, and still has its claim.
func isStop(why error) bool {
	return errors.Is(why, mailroom.ErrStopped) || errors.Is(why, mailroom.ErrReleased) ||
		errors.Is(why, mailroom.ErrDeadline)
}

// farewell returns what asks the program to end its turn before it gets a signal, or nil if only signals can stop it.
func (l *runningTurn) farewell() func() bool {
	if l.dialogue.Stop == nil {
		return nil
	}
	return func() bool {
		if !l.mu.TryLock() { // a store that does not answer must not delay the signals
			return false
		}
		defer l.mu.Unlock()
		text := l.dialogue.Stop()
		l.input.Write(text)
		return text != ""
	}
}

// decode returns the events of a line. At the end of a turn the program accepts no more messages, and no message can
// come between the two.
func (l *runningTurn) decode(line []byte) ([]program.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, err := l.dialogue.Decode(line)
	for _, e := range events {
		switch e.(type) {
		case program.End:
			l.open = false
		case program.Send:
			l.unsent++
		}
	}
	return events, err
}

// onOutput handles a chunk of the program's output.
func (l *runningTurn) onOutput(ctx context.Context, piece []byte) error {
	lines := l.lines.Add(piece)
	if l.lines.Skipped > 0 && l.dialogue.MaxLine > 0 {
		return errLongLine
	}
	alive := len(lines) == 0 // part of a line
	for _, line := range lines {
		switch err := l.onLine(ctx, line); {
		case errors.Is(err, proc.ErrNoActivity):
		case err != nil:
			return err
		default:
			alive = true
		}
	}
	if !alive {
		return proc.ErrNoActivity
	}
	return nil
}

// onLine handles one line of the program's output. It returns ErrNoActivity for a line that shows no progress.
func (l *runningTurn) onLine(ctx context.Context, line []byte) error {
	if l.elsewhere { // the program is being stopped: it works in a session without this thread's messages
		return errSessionGone
	}
	if len(strings.TrimSpace(string(line))) == 0 {
		return proc.ErrNoActivity
	}
	events, err := l.decode(line)
	if err != nil {
		l.garbage++
		return proc.ErrNoActivity
	}
	l.sawLine = true
	l.leave(true)
	for _, f := range events {
		if err := l.onEvent(ctx, f); err != nil {
			return err
		}
	}
	if l.onlyWarnings = !program.ShowsProgress(events); l.onlyWarnings {
		return proc.ErrNoActivity
	}
	return nil
}

func (l *runningTurn) onEvent(ctx context.Context, event program.Event) error {
	stdin := l.dialogue.Stdin
	l.worked = l.worked || program.Works(event)
	l.calls.apply(event)
	switch f := event.(type) {
	case program.Session:
		l.resumeTurn()
		return l.checkSession(ctx, f.ID)
	case program.Question:
		l.onQuestion(f)
		return nil
	case program.Request:
		if stdin != nil {
			l.input.Write(stdin.Refuse(f))
		}
		return nil
	case program.Send:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unsent--
		l.input.Write(f.Text)
		return nil
	case program.MessageStarted, program.Text, program.Passage, program.ToolStarted:
		l.resumeTurn()
	case program.Notice:
		l.notice = f.Text
	case program.Limit:
		l.limitEnd = f.End
	case program.Thinking:
		return l.think(ctx, f.Text)
	case program.ToolFinished:
		if f.Call == l.parkedCall {
			f.Summary = unfinishedReason(l.t.saved.Asked) // replaces the text that made the program stop
		}
		event = f
	case program.End:
		l.onTurnEnd(f)
	}
	for _, w := range l.fold.Apply(event) {
		if err := l.write(ctx, w); err != nil {
			return err
		}
	}
	switch event.(type) {
	case program.ToolStarted, program.ToolFinished:
		if text := l.calls.waitsOn(); text != "" {
			return l.t.session.Show(ctx, mailroom.Live{WaitsOn: text})
		}
	}
	return nil
}

// think shows what the program thinks. As in the reply, secrets are not redacted.
func (l *runningTurn) think(ctx context.Context, text string) error {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd")
	return l.t.session.Show(ctx, mailroom.Live{Text: text})
}

func (l *runningTurn) write(ctx context.Context, w program.Write) error {
	if w.Step == nil {
		return l.t.session.Stream(ctx, w.Text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.t.append(ctx, *w.Step)
}

// checkSession compares the session that the program reports with the expected one, and commits a
// new session.
//
// The id of the session is in the state of the thread, from the first entry of a run that can know the id. It is
// compared each time that the program reports an id, because a program that lost its session begins a new one without
// an error, and would answer without knowing the conversation.
func (l *runningTurn) checkSession(ctx context.Context, id string) error {
	p := l.plan
	switch {
	case l.sessionKnown && id == l.t.state.Session:
		return nil
	case l.sessionKnown: // the program started another session
		p = plan{lost: l.t.state.Session, why: "the program went on in another session"}
	case p.session != "" && id != p.session, id == "":
		l.elsewhere = true
		return errSessionGone
	}
	l.sessionKnown = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == l.t.state.Session {
		return nil // committed when the process started, or earlier
	}
	var st mailroom.Step
	if err := l.t.recordSession(&st, p, id); err != nil {
		return err
	}
	st.NoProgress = true
	return l.t.append(ctx, st)
}

// onTurnEnd closes the program's stdin. If a message was sent to the program before, the program takes it as one more
// turn before it exits.
func (l *runningTurn) onTurnEnd(e program.End) {
	l.input.Close()
	l.end = &e
	l.lingerTimer.Reset(l.t.agent.lingerTimeout)
}

// resumeTurn records that the program has begun another turn.
func (l *runningTurn) resumeTurn() {
	if l.end != nil {
		l.end = nil
		l.lingerTimer.Stop()
	}
}

// onQuestion answers a question of the program if a person has decided it. Otherwise it makes the program end its
// turn, so that the run can wait for a person.
//
// The program learns that a person was asked, and ends its turn. The run parks like any other, holds no process for
// as long as the answer takes, and continues in the same session. The rejected alternative is a process that waits
// for the answer: it would hold a slot for days, and a restart would lose the question.
func (l *runningTurn) onQuestion(q program.Question) {
	stdin := l.dialogue.Stdin
	if stdin == nil {
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
			q.Choice = d.Choice
			l.input.Write(stdin.Allow(q))
		} else {
			l.input.Write(stdin.Deny(q, d.Why))
		}
		return
	}
	if len(l.t.saved.Asked) < maxAsked {
		l.t.saved.Asked = append(l.t.saved.Asked, ask)
	}
	l.open, l.parkedCall = false, q.Call
	l.input.Write(stdin.Ask(q))
	if l.dialogue.Stop != nil { // it was asked to end its turn, and drops what it had not read
		l.t.saved.Unread = l.steered
		l.lingerTimer.Reset(l.t.agent.lingerTimeout)
	}
}

// pollSteered passes steered messages to the program until ctx ends.
func (l *runningTurn) pollSteered(ctx context.Context) {
	ticker := time.NewTicker(steerInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := l.sendSteered(ctx); err != nil {
			if ctx.Err() == nil {
				l.cancel(err)
			}
			return
		}
	}
}

// sendSteered passes new messages to the program while it accepts input. Messages that the program did not read
// become runs of their own.
func (l *runningTurn) sendSteered(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.unsent > 0 || l.dialogue.CanSteer != nil && !l.dialogue.CanSteer() {
		return nil
	}
	messages, err := l.t.session.Steered(ctx)
	if err != nil || len(messages) == 0 {
		return err
	}
	l.t.addSteered(messages)
	texts, err := l.t.files.texts(ctx, []string{promptText(messages)}, l.t.saved.SteeredFiles)
	if err != nil {
		return err
	}
	if err := l.t.append(ctx, mailroom.Step{NoProgress: true}); err != nil {
		return err
	}
	l.steered++
	l.input.Write(l.dialogue.Stdin.Steer(texts[0]))
	return nil
}

// setVerdict classifies the end of a program that ended by itself.
func (l *runningTurn) setVerdict() {
	used, _ := l.fold.UsageSince(l.t.state.Totals)
	why := l.ending.why
	switch {
	case errors.Is(why, errSessionGone):
		l.verdict = program.Verdict{Gone: true, Message: "the program is in another session"}
	case why == nil, errors.Is(why, errLingered):
		l.verdict = l.t.agent.profile.Judge(program.Ending{
			End: l.end, Resumed: l.plan.resume, SawLine: l.sawLine, Code: l.ending.exit.Code, Signal: l.ending.exit.Signal,
			Lingered: why != nil, Stderr: l.ending.stderr, Worked: l.worked, Used: used.OutputTokens > 0, Notice: l.notice,
			Limit: l.limitEnd, Now: time.Now(),
		})
	}
}
