package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/internal/proc"
)

// ProgramOptions say how a command-line agent is run. None of them ever comes
// from a message.
type ProgramOptions struct {
	Profile *program.Profile
	Program string // path, or a name that is looked for in our PATH; "" is the profile's

	Model       string       // "" is the program's own choice
	Args        []string     // further arguments
	Permissions program.Mode // "" is the profile's default

	Dir      string   // working directory; "" is ours
	Env      []string // as in Options
	EnvAllow []string // nil is DefaultEnvAllow and what the profile names
	Mark     string   // as in Options

	Isolation *proc.Isolation // as in Options
	Files     string          // as in Options

	// As in Options, but that 0 is a minute for StartTimeout, ten for
	// IdleTimeout and no limit for TotalTimeout, and less than 0 no limit. A
	// sign of life is a line that says more than that there is trouble.
	StartTimeout, IdleTimeout, TotalTimeout time.Duration
	KillGrace                               KillGrace
	MaxOutput                               int64 // 0 is 64 MiB
}

// What a program has unless its options say otherwise.
const (
	DefaultStartTimeout  = time.Minute
	DefaultIdleTimeout   = 10 * time.Minute
	defaultProgramOutput = 64 << 20
)

// NewProgram makes the agent of a command-line agent: one session of the program
// for each thread, its words as the reply, what it does as entries, and its
// questions as tickets. It refuses options that cannot be right; whether the
// program is there and usable is told by Usable, and seen by each run.
func NewProgram(o ProgramOptions) (mailroom.Agent, error) {
	if o.Profile == nil {
		return nil, errors.New("there is no profile; take one of package program")
	}
	name := o.Profile.Name
	mode := cmp.Or(o.Permissions, o.Profile.Modes[0])
	if !o.Profile.Has(mode) {
		return nil, fmt.Errorf("permissions %q is none that %s has; give one of %s", mode, name, modes(o.Profile))
	}
	for i, arg := range append([]string{o.Model}, o.Args...) {
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("model or args[%d] holds a NUL", i-1)
		}
	}
	if o.EnvAllow == nil {
		o.EnvAllow = EnvAllow(o.Profile)
	}
	base, err := newAgent(Options{
		Command: []string{cmp.Or(o.Program, o.Profile.Program)}, Dir: o.Dir, EnvAllow: o.EnvAllow,
		Env: slices.Concat(o.Profile.Env, o.Env), Mark: o.Mark, Isolation: o.Isolation, Files: o.Files,
		StartTimeout: limit(o.StartTimeout, DefaultStartTimeout), IdleTimeout: limit(o.IdleTimeout, DefaultIdleTimeout),
		TotalTimeout: limit(o.TotalTimeout, 0), KillGrace: o.KillGrace, MaxOutput: cmp.Or(o.MaxOutput, defaultProgramOutput),
	})
	if err != nil {
		return nil, err
	}
	base.name = name
	return &programAgent{
		agent: base, profile: o.Profile, turn: program.Turn{Model: o.Model, Mode: mode, Args: slices.Clone(o.Args)},
		lingerTimeout: lingerTimeout,
	}, nil
}

// EnvAllow names the variables of ours that a program may see by default.
func EnvAllow(p *program.Profile) []string { return append(DefaultEnvAllow(), p.EnvAllow...) }

func modes(p *program.Profile) string {
	var names []string
	for _, m := range p.Modes {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func limit(given, standard time.Duration) time.Duration {
	if given < 0 {
		return 0
	}
	return cmp.Or(given, standard)
}

// programAgent has no state of its own: it serves many runs at once.
type programAgent struct {
	*agent
	profile       *program.Profile
	turn          program.Turn // what is the same for all turns
	lingerTimeout time.Duration
}

// Why a program was stopped by us, beside what package proc knows.
var (
	errSessionGone = errors.New("the session is not there")
	errLingered    = errors.New("its turn had ended and it went on")
)

func (a *programAgent) Run(ctx context.Context, s mailroom.Session) (err error) {
	run := s.Run()
	last, err := readCheckpoint(run.Checkpoint)
	if err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	if last.Done {
		return nil
	}
	t := &attempt{agent: a, session: s, run: run, saved: last, inputGiven: last.Session != "", limits: a.limits(ctx)}
	if t.state, err = readState(s.State(), a.profile.Name); err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	if err := t.readDecisions(ctx); err != nil {
		return contextCause(ctx, err)
	}
	if t.input, err = s.Input(ctx); err != nil {
		return contextCause(ctx, err)
	}
	input, giveBack, err := a.copyFiles(t.input)
	if err != nil {
		return err
	}
	defer func() {
		if left := giveBack(); left != nil {
			err = errors.Join(err, left)
		}
	}()
	t.input = input
	if t.killed, err = killEarlierAttempts(ctx, run, last); err != nil {
		return contextCause(ctx, fmt.Errorf("end what an earlier attempt left: %w", err))
	}
	t.env, t.secrets = a.environment(run)
	p, err := t.plan(ctx)
	if err != nil {
		return contextCause(ctx, err)
	}
	l, err := t.runTurn(ctx, p)
	if err == nil && l.verdict.Gone {
		if p, err = t.replaceSession(ctx, p, l.verdict.Message); err == nil {
			l, err = t.runTurn(ctx, p)
		}
	}
	if err != nil {
		return contextCause(ctx, err)
	}
	return t.conclude(ctx, l)
}

// attempt is what one attempt knows. It belongs to its goroutine, but for notes
// and state, which are the guard's of the process that is at work.
type attempt struct {
	agent      *programAgent
	session    mailroom.Session
	run        *mailroom.Run
	limits     limits
	input      []mailroom.Message
	env        []string
	secrets    []secret
	inputGiven bool // an earlier attempt gave the input to a session
	killed     int  // processes that earlier attempts had left
	starts     int  // processes that were started

	saved checkpoint
	state state
}

// readDecisions reads what was decided of the questions that are open. While one still
// is, the run waits, and no process with it.
func (t *attempt) readDecisions(ctx context.Context) error {
	if len(t.saved.Asked) == 0 {
		return nil
	}
	tickets, err := t.session.Wait(ctx, false, asksOf(t.saved.Asked)...)
	if err != nil {
		return err
	}
	for _, q := range t.saved.Asked {
		i := slices.IndexFunc(tickets, func(k mailroom.Ticket) bool { return k.Name == q.Name })
		if i >= 0 {
			t.saved.Decided = append(t.saved.Decided, decisionOf(q, tickets[i]))
		}
	}
	t.saved.Asked = nil
	t.saved.Decided = t.saved.Decided[max(0, len(t.saved.Decided)-maxDecided):]
	return nil
}

func asksOf(questions []question) (all []mailroom.Ask) {
	for _, q := range questions {
		all = append(all, q.ask())
	}
	return all
}

// plan resumes the session of the thread, or begins one.
func (t *attempt) plan(ctx context.Context) (p plan, err error) {
	if t.state.Session != "" {
		return plan{session: t.state.Session, resume: true}, nil
	}
	return t.newSessionPlan(ctx)
}

func (t *attempt) newSessionPlan(ctx context.Context) (p plan, err error) {
	if t.agent.profile.PresetSession {
		p.session = mailroom.DeriveID("session", t.run.ID, fmt.Sprint(t.run.Attempt), fmt.Sprint(t.starts))
	}
	p.history, err = readHistory(ctx, t.session)
	return p, err
}

// replaceSession begins a session in the place of one that is gone.
func (t *attempt) replaceSession(ctx context.Context, old plan, why string) (plan, error) {
	p, err := t.newSessionPlan(ctx)
	p.lost, p.why = old.session, why
	return p, err
}

// prompt is what the program gets for a plan, and notes what it will know then.
func (t *attempt) prompt(ctx context.Context, p plan) (string, error) {
	var news []string
	for i, d := range t.saved.Decided {
		if !d.Delivered || !p.resume { // another session was not told
			news = append(news, d.line())
		}
		t.saved.Decided[i].Delivered = true
	}
	var fresh []mailroom.Message
	if t.agent.profile.Stdin != nil {
		var err error
		if fresh, err = t.session.Steered(ctx); err != nil {
			return "", err
		}
		t.addSteered(fresh)
	}
	steered := t.saved.Steered
	if t.inputGiven && p.resume && len(news) > 0 {
		// It goes on where it asked, and knows all but what is new.
		steered = nil
		if len(fresh) > 0 {
			steered = []string{promptText(fresh)}
		}
	}
	return requestText(p, promptText(t.input), t.inputGiven, news, steered), nil
}

// addSteered notes messages that came in beside the input, so that a later attempt
// gives them again.
func (t *attempt) addSteered(messages []mailroom.Message) {
	if len(messages) > 0 {
		t.saved.Steered = append(t.saved.Steered, promptText(messages))
	}
	for size := totalLen(t.saved.Steered); size > maxSteered && len(t.saved.Steered) > 1; size = totalLen(t.saved.Steered) {
		t.saved.Steered = t.saved.Steered[1:]
	}
}

func totalLen(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

// start starts the program for a plan and commits that, before it gets a word.
func (t *attempt) start(ctx context.Context, p plan) (*proc.Child, error) {
	turn := t.agent.turn
	turn.Session, turn.Resume = p.session, p.resume
	shown, err := t.visibleFiles(ctx)
	if err != nil {
		return nil, err
	}
	spec := t.agent.spec(t.run, t.env, t.secrets, shown)
	spec.Command = append(slices.Clone(spec.Command), t.agent.profile.Args(turn)...)
	spec.Limits.StdoutOnly = true
	spec.Urgent = func(why error) bool { return isLeaseLost(why) || errors.Is(why, errSessionGone) }
	child, err := proc.Start(spec)
	if err != nil {
		return nil, startFailure(err)
	}
	t.starts++
	id := child.ID()
	t.saved.Process = &id
	if p.resume {
		t.saved.Session = p.session
	}
	st, err := newStep(KindStarted, Started{ID: id, Leftovers: t.killed, Program: t.agent.profile.Name, Resumed: p.resume}, nil)
	if err == nil && p.session != "" && !p.resume && p.lost == "" {
		err = t.recordSession(&st, p, p.session)
	}
	if err == nil {
		st.NoProgress = true
		err = t.append(ctx, st)
	}
	if err != nil {
		return nil, contextCause(ctx, errors.Join(err, child.Kill()))
	}
	return child, nil
}

// recordSession puts a session that begins into a step.
func (t *attempt) recordSession(st *mailroom.Step, p plan, id string) error {
	t.state = state{Program: t.agent.profile.Name, Session: id}
	t.saved.Session = id
	entry, err := newStep(KindSession, Session{
		Program: t.state.Program, Session: id, Lost: p.lost, Why: p.why, Messages: p.history.messages, Omitted: p.history.omitted,
	}, nil)
	if err != nil {
		return err
	}
	st.Entries = append(st.Entries, entry.Entries...)
	st.State, err = encode("state", t.state)
	return err
}

// append commits a step together with what is noted.
func (t *attempt) append(ctx context.Context, st mailroom.Step) (err error) {
	if st.Checkpoint == nil {
		if st.Checkpoint, err = encode("checkpoint", t.saved); err != nil {
			return err
		}
	}
	return t.session.Append(ctx, st)
}

// conclude writes how the turn ended, and parks the run if the program asked
// something.
func (t *attempt) conclude(ctx context.Context, l *runningTurn) error {
	used, totals := l.fold.UsageSince(t.state.Totals)
	more := mailroom.Step{Entries: l.fold.Close(unfinishedReason(t.saved.Asked)), Usage: used}
	var err error
	if totals != t.state.Totals && t.state.Session != "" {
		t.state.Totals = totals
		if more.State, err = encode("state", t.state); err != nil {
			return err
		}
	}
	if more.Checkpoint, err = encode("checkpoint", t.saved); err != nil {
		return err
	}
	if len(t.saved.Asked) > 0 && ctx.Err() == nil && !isLeaseLost(l.ending.why) {
		return t.park(ctx, l, more)
	}
	return conclude(ctx, t.session, l.ending, t.verdict(l), more)
}

func unfinishedReason(asked []question) string {
	if len(asked) > 0 {
		return "a person is asked first"
	}
	return "the program ended before it did"
}

// park makes the run wait for the answers. However the program ended its turn,
// it goes on when they are there.
func (t *attempt) park(ctx context.Context, l *runningTurn, more mailroom.Step) error {
	st, err := newStep(KindExited, l.ending.exited(), nil)
	if err != nil {
		return err
	}
	more.Entries = append(more.Entries, st.Entries...)
	more.Internal = true
	if err := t.session.Append(ctx, more); err != nil {
		return contextCause(ctx, err)
	}
	if _, err := t.session.Wait(ctx, false, asksOf(t.saved.Asked)...); err != nil {
		return err
	}
	return &mailroom.Failure{Class: mailroom.ClassTransient, Err: errors.New("what was asked is decided already")}
}

// verdict is what the ending of the program means for the run.
func (t *attempt) verdict(l *runningTurn) error {
	e, v := l.ending, l.verdict
	var left error
	if e.exit.Left != nil {
		left = e.exit.Left
	}
	switch {
	case errors.Is(e.why, proc.ErrIdle) && l.onlyWarnings:
		err := fmt.Errorf("%s did not get on (idle_timeout %v): %s", t.agent.name, e.limits.idle, l.fold.Sanitize(l.fold.LastWarning()))
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.Join(left, err)}
	case e.why != nil && !errors.Is(e.why, errLingered) && !errors.Is(e.why, errSessionGone):
		return t.agent.verdict(e)
	case v.Gone: // the second time
		return &mailroom.Failure{Class: mailroom.ClassTransient, Err: errors.Join(left, e.withStderr(fmt.Errorf("%s began no session: %s", t.agent.name, v.Message)))}
	case v.Class == "":
		return nil
	}
	err := fmt.Errorf("%s %s", t.agent.name, l.fold.Sanitize(v.Message))
	if l.end == nil {
		err = e.withStderr(err)
		if warned := l.fold.LastWarning(); warned != "" {
			err = fmt.Errorf("%w (it said last: %s)", err, l.fold.Sanitize(warned))
		}
	}
	return &mailroom.Failure{Class: v.Class, RetryAfter: v.RetryAfter, Err: errors.Join(left, err)}
}
