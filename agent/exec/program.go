package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/internal/digest"
	"mailroom/internal/proc"
)

// ProgramOptions configure a command-line agent. None of them comes from a message.
type ProgramOptions struct {
	Profile *program.Profile
	Program string // path, or a name that is looked up in PATH; "" is the profile's

	Model       string       // "" is the program's default
	Args        []string     // further arguments
	Permissions program.Mode // "" is the profile's default

	Dir       string     // see Options
	Worktrees *Worktrees // see Options
	Alone     *Alone     // shared by all agents of the program; nil: its processes start at any time

	Env      []string // see Options
	EnvAllow []string // nil: DefaultEnvAllow and the names in the profile
	Mark     string   // see Options

	Isolation *proc.Isolation // see Options
	Files     string          // see Options
	Source    FileSource      // see Options

	// TakesOptions names the options of a submit that the program takes. Any other option fails the run. OptionModel
	// is the only option today. nil means that the program takes none.
	TakesOptions []string

	// As in [Options], but 0 means one minute for StartTimeout, ten minutes for IdleTimeout and no limit for
	// TotalTimeout, and a negative value means no limit. Only lines other than warnings count as output.
	StartTimeout, IdleTimeout, TotalTimeout time.Duration
	// CallTimeout replaces IdleTimeout while a call of a tool is open, or while the program's processes use the
	// processor. 0 means two hours; negative means no limit.
	CallTimeout time.Duration
	KillGrace   KillGrace
	MaxOutput   int64 // see Options
}

// Defaults of ProgramOptions.
const (
	DefaultStartTimeout = time.Minute
	DefaultIdleTimeout  = 10 * time.Minute
	DefaultCallTimeout  = 2 * time.Hour
)

// NewProgram returns the agent of a command-line program. Each thread is one session of the
// program; its text is the reply, its tool calls are entries, and its questions are tickets. It
// returns an error for invalid options. Whether the program is installed and usable is checked by
// Usable, and by each run.
func NewProgram(o ProgramOptions) (mailroom.Agent, error) {
	if o.Profile == nil {
		return nil, errors.New("missing profile; use one of package program")
	}
	name := o.Profile.Name
	mode := cmp.Or(o.Permissions, o.Profile.Modes[0])
	if !o.Profile.Has(mode) {
		return nil, fmt.Errorf("unknown permissions %q for %s; use one of %s", mode, name, modes(o.Profile))
	}
	for i, arg := range append([]string{o.Model}, o.Args...) {
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("model or args[%d] contains a NUL byte", i-1)
		}
	}
	if o.EnvAllow == nil {
		o.EnvAllow = EnvAllow(o.Profile)
	}
	base, err := newAgent(Options{
		Command: []string{cmp.Or(o.Program, o.Profile.Program)}, Dir: o.Dir, Worktrees: o.Worktrees, EnvAllow: o.EnvAllow,
		Env: slices.Concat(o.Profile.Env, o.Env), Mark: o.Mark, Isolation: o.Isolation, Files: o.Files, Source: o.Source,
		StartTimeout: limit(o.StartTimeout, DefaultStartTimeout), IdleTimeout: limit(o.IdleTimeout, DefaultIdleTimeout),
		TotalTimeout: limit(o.TotalTimeout, 0), KillGrace: o.KillGrace, MaxOutput: o.MaxOutput,
		PermanentExits: []int{}, UnavailableExits: []int{}, TakesOptions: append([]string{}, o.TakesOptions...),
	})
	if err != nil {
		return nil, err
	}
	base.name = name
	return &programAgent{
		agent: base, profile: o.Profile, turn: program.Turn{Model: o.Model, Mode: mode, Args: slices.Clone(o.Args)},
		lingerTimeout: lingerTimeout, callTimeout: limit(o.CallTimeout, DefaultCallTimeout), alone: o.Alone,
	}, nil
}

// EnvAllow returns the names of the server's variables that a program gets by default.
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

// programAgent is stateless and serves many runs concurrently.
type programAgent struct {
	*agent
	profile       *program.Profile
	turn          program.Turn // fields that are the same for all turns
	lingerTimeout time.Duration
	callTimeout   time.Duration // longest time of one call; 0: no limit
	alone         *Alone
}

// Reasons why the server stops a program, in addition to the reasons of package proc.
var (
	errSessionGone = errors.New("the session does not exist")
	errLingered    = errors.New("it kept running after the end of its turn")
	errLongLine    = errors.New("it wrote a line that is too long")
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
	if last.Conflict != nil {
		return a.settleConflict(ctx, s, last.Conflict)
	}
	model, err := a.model(run)
	if err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	t := &attempt{agent: a, session: s, run: run, saved: last, inputGiven: last.Session != "" && !last.NotBegun,
		limits: a.programLimits(run), files: a.localFiles(), model: model}
	if t.state, err = readState(s.State(), a.profile.Name); err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	t.doubts = t.state.Doubts
	if err := t.readDecisions(ctx); err != nil {
		return contextCause(ctx, err)
	}
	if t.input, err = s.Input(ctx); err != nil {
		return contextCause(ctx, err)
	}
	if t.input, err = t.files.messages(ctx, t.input); err != nil {
		return contextCause(ctx, err)
	}
	input, remove, err := a.copyFiles(t.input)
	if err != nil {
		return err
	}
	defer func() {
		if left := remove(); left != nil {
			err = errors.Join(err, left)
		}
	}()
	t.input = input
	if t.killed, err = killEarlierAttempts(ctx, run, last); err != nil {
		return contextCause(ctx, fmt.Errorf("kill processes of an earlier attempt: %w", err))
	}
	if t.place, err = a.enter(ctx, s); err != nil {
		return err
	}
	defer func() { t.place.leave(&err) }()
	if err := t.place.setUp(ctx, s); err != nil {
		return err
	}
	here := *a
	here.agent = t.place.agent
	t.agent = &here
	t.env, t.secrets = a.environment(run)
	p, err := t.plan(ctx)
	if err != nil {
		return contextCause(ctx, err)
	}
	l, err := t.repeats(ctx, p)
	if err != nil {
		return contextCause(ctx, err)
	}
	return t.conclude(ctx, l)
}

// programLimits returns the limits of an attempt that starts now.
func (a *programAgent) programLimits(run mailroom.RunView) limits {
	l := a.limits(run)
	l.call = a.callTimeout
	return l
}

// model returns the model that the options of a run ask for, or "" to use the configured model.
func (a *programAgent) model(run mailroom.RunView) (string, error) {
	if err := CheckOptions(a.name, a.options.TakesOptions, run.Options); err != nil {
		return "", err
	}
	return ModelOption(run.Options)
}

// attempt is the state of one attempt. It belongs to the goroutine of Run, except that saved and
// state are guarded by the mutex of the running turn.
type attempt struct {
	agent      *programAgent
	session    mailroom.Session
	run        mailroom.RunView
	limits     limits
	place      *workplace
	input      []mailroom.Message
	files      *localFiles
	model      string // model of this run; "": the configured model
	env        []string
	secrets    []secret
	inputGiven bool // an earlier attempt sent the input to a session
	killed     int  // processes of earlier attempts that were killed
	starts     int  // processes that were started
	restored   bool // state was set back to what it was before the attempt
	doubts     int  // the value of state.Doubts when the attempt began

	turn  *runningTurn // the latest turn
	saved checkpoint
	state state
}

// readDecisions reads the decisions on open questions. While a question is open, the run waits without a process.
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
			d := decisionOf(q, tickets[i])
			if t.agent.profile.Connect != nil && len(q.Arguments) <= maxCall {
				d.Call = string(q.Arguments) // agents drop a cancelled call from their conversation
			}
			t.saved.Decided = append(t.saved.Decided, d)
		}
	}
	t.saved.Asked = nil
	t.saved.Decided = t.saved.Decided[max(0, len(t.saved.Decided)-maxDecided):]
	return nil
}

func asksOf(questions []question) (all []mailroom.Ask) {
	for _, q := range questions {
		all = append(all, q.ticketAsk())
	}
	return all
}

// plan resumes the session of the thread, or starts a new one.
func (t *attempt) plan(ctx context.Context) (p plan, err error) {
	if t.state.Session != "" {
		return plan{session: t.state.Session, resume: true}, nil
	}
	return t.newSessionPlan(ctx)
}

func (t *attempt) newSessionPlan(ctx context.Context) (p plan, err error) {
	if t.agent.profile.PresetSession {
		p.session = digest.ID("session", t.run.ID, fmt.Sprint(t.run.Attempt), fmt.Sprint(t.starts))
	}
	p.history, err = readHistory(ctx, t.session, t.files)
	p.lost, p.why = t.saved.Trials.Lost, t.saved.Trials.Why
	return p, err
}

// replaceSession plans a new session in place of the old one, which no longer exists. why is the reason.
func (t *attempt) replaceSession(ctx context.Context, old plan, why string) (plan, error) {
	p, err := t.newSessionPlan(ctx)
	p.lost, p.why = old.session, why
	return p, err
}

// prompt returns the prompt for a plan, and records what the session will know.
func (t *attempt) prompt(ctx context.Context, p plan) (program.Prompt, error) {
	var none program.Prompt
	var news []string
	for i, d := range t.saved.Decided {
		if !d.Delivered || !p.resume { // a new session does not know decisions
			news = append(news, d.line())
		}
		t.saved.Decided[i].Delivered = true
	}
	var fresh []mailroom.Message
	if t.agent.profile.Stdin != nil {
		var err error
		if fresh, err = t.session.Steered(ctx); err != nil {
			return none, err
		}
		t.addSteered(fresh)
	}
	steered := t.saved.Steered
	if t.inputGiven && p.resume && len(news) > 0 {
		// The session continues after its question, and lacks only the messages since then, and perhaps those that it
		// got in the turn of the question.
		seen := len(steered)
		if len(fresh) > 0 {
			seen--
		}
		steered = slices.Clone(steered[max(0, seen-t.saved.Unread):])
		for i := range min(t.saved.Unread, seen) {
			steered[i] = perhapsRead + "\n\n" + steered[i]
		}
	}
	t.saved.Unread = 0
	steered, err := t.files.texts(ctx, steered, t.saved.SteeredFiles)
	if err != nil {
		return none, err
	}
	if note := t.saved.Trials.cutNote(); note != "" {
		steered = append(steered, note)
		t.saved.Trials.Call = ""
	}
	input := promptText(t.input)
	prompt := program.Prompt{Text: requestText(p, input, t.inputGiven, news, steered)}
	if t.agent.profile.Connect == nil {
		return prompt, nil
	}
	prompt.Run = t.run.ID + "."
	prompt.Mark = fmt.Sprintf("%s%d.%d", prompt.Run, t.run.Attempt, t.starts+1)
	if t.inputGiven && p.resume && len(news) == 0 {
		plain := requestText(p, input, false, nil, steered)
		prompt.Again = &program.Again{Last: t.saved.Prompt, Interrupted: prompt.Text,
			Answered: perhapsAnswered + "\n\n" + plain, Absent: perhapsDone + "\n\n" + plain}
	}
	t.saved.Prompt = prompt.Mark
	return prompt, nil
}

// addSteered records messages that arrived in addition to the input, so that a later attempt sends them again.
func (t *attempt) addSteered(messages []mailroom.Message) {
	if len(messages) > 0 {
		t.saved.Steered = append(t.saved.Steered, promptText(messages))
	}
	for _, uri := range t.files.uris(messages) {
		if len(t.saved.SteeredFiles) < maxFetched && !slices.Contains(t.saved.SteeredFiles, uri) {
			t.saved.SteeredFiles = append(t.saved.SteeredFiles, uri)
		}
	}
	for size := totalLen(t.saved.Steered); size > maxSteered &&
		len(t.saved.Steered) > 1; size = totalLen(t.saved.Steered) {
		t.saved.Steered = t.saved.Steered[1:]
	}
}

func totalLen(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

// programTurn returns what the arguments of the program depend on.
func (t *attempt) programTurn(p plan) (turn program.Turn, err error) {
	turn = t.agent.turn
	turn.Session, turn.Resume, turn.Model = p.session, p.resume, cmp.Or(t.model, turn.Model)
	if turn.Dir, err = filepath.Abs(t.agent.options.Dir); err != nil {
		return turn, fmt.Errorf("find the working directory: %w", err)
	}
	return turn, nil
}

// start starts the program. It commits the start before the program gets its input. farewell asks the program to end
// before it gets a signal; see [proc.Spec].
func (t *attempt) start(ctx context.Context, p plan, turn program.Turn, farewell func() bool) (*proc.Child, error) {
	shown, err := t.visibleFiles(ctx)
	if err != nil {
		return nil, err
	}
	spec := t.agent.spec(t.run, t.env, t.secrets, shown)
	spec.Command = append(slices.Clone(spec.Command), t.agent.profile.Args(turn)...)
	spec.Limits.StdoutOnly, spec.Farewell = true, farewell
	spec.Limits.Working, spec.Limits.Busy = t.working, t.agent.callTimeout
	spec.Urgent = func(why error) bool { return isLeaseLost(why) || errors.Is(why, errSessionGone) }
	child, err := proc.Start(spec)
	if err != nil {
		return nil, startFailure(err)
	}
	t.starts++
	id := child.ID()
	t.saved.Process, t.saved.NotBegun = &id, false
	if p.resume {
		t.saved.Session = p.session
	}
	st, err := newStep(KindStarted, Started{ID: id, Leftovers: t.killed, Program: t.agent.profile.Name, Resumed: p.resume,
		Branch: t.place.branch(), Repo: t.place.named()}, nil)
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

// recordSession adds to a step the entry and the state of a new session.
func (t *attempt) recordSession(st *mailroom.Step, p plan, id string) error {
	t.state = state{Program: t.agent.profile.Name, Session: id}
	t.saved.Session, t.saved.Trials.Lost, t.saved.Trials.Why = id, "", ""
	entry, err := newStep(KindSession, Session{
		Program: t.state.Program, Session: id, Lost: p.lost, Why: p.why, Messages: p.history.messages,
		Omitted: p.history.omitted,
	}, nil)
	if err != nil {
		return err
	}
	st.Entries = append(st.Entries, entry.Entries...)
	st.State, err = encode("state", t.state)
	return err
}

// append commits a step together with the checkpoint.
func (t *attempt) append(ctx context.Context, st mailroom.Step) (err error) {
	if st.Checkpoint == nil {
		if st.Checkpoint, err = encode("checkpoint", t.saved); err != nil {
			return err
		}
	}
	return t.session.Append(ctx, st)
}

// conclude writes the end of the turn, and parks the run if the program has asked a question.
func (t *attempt) conclude(ctx context.Context, l *runningTurn) error {
	used, totals := l.fold.UsageSince(t.state.Totals)
	if used != (mailroom.Usage{}) { // codex does not say which model it used
		used.Model = cmp.Or(used.Model, t.model, t.agent.turn.Model)
	}
	before := t.state.Totals
	more := mailroom.Step{Entries: l.fold.Close(unfinishedReason(t.saved.Asked)), Usage: used}
	var err error
	// The totals belong to the session that the state of the thread names.
	if !t.restored && t.state.Session != "" && (l.sessionKnown || totals != t.state.Totals) {
		t.state.Totals = totals
	}
	if l.verdict.Stuck || t.restored || t.state.Doubts != t.doubts ||
		t.state.Session != "" && (l.sessionKnown || totals != before) {
		if more.State, err = encode("state", t.state); err != nil {
			return err
		}
	}
	// If the program refused the turn before the model answered, the turn has not begun. The next turn gets the same
	// message without a note that it was interrupted. A program that died instead of refusing it may have begun, and
	// what it remembers of the prompt says so; see program.Prompt.
	refused := l.end != nil || t.agent.profile.Connect == nil
	t.saved.NotBegun = !t.inputGiven && !l.worked && l.ending.why == nil && refused
	verdict := t.verdict(l)
	l.ending.fault = string(l.verdict.Fault)
	if more.Checkpoint, err = encode("checkpoint", t.saved); err != nil {
		return err
	}
	if len(t.saved.Asked) > 0 && ctx.Err() == nil && !isLeaseLost(l.ending.why) {
		return t.park(ctx, l, more)
	}
	return finish(ctx, t.session, t.place, l.ending, verdict, more)
}

// optional reports whether the sender chose the model. A refusal may then concern only this choice and not the agent.
func (t *attempt) optional() bool { return t.model != "" }

func unfinishedReason(asked []question) string {
	if len(asked) > 0 {
		return "waiting for approval"
	}
	return "the program ended first"
}

// park makes the run wait for the answers to the program's questions, whatever way the program ended its turn.
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
	return &mailroom.Failure{Class: mailroom.ClassTransient, Err: errors.New("the question is already decided")}
}

// verdict returns the error with which the attempt ends, or nil for a success.
func (t *attempt) verdict(l *runningTurn) error {
	e, v := l.ending, l.verdict
	var left error
	if e.exit.Survivors != nil {
		left = e.exit.Survivors
	}
	fail := func(class mailroom.Class, err error) error {
		return &mailroom.Failure{Class: class, Err: errors.Join(left, err)}
	}
	if err := t.hopeless(l); err != nil {
		return fail(mailroom.ClassPermanent, err)
	}
	switch {
	case errors.Is(e.why, proc.ErrIdle) && l.onlyWarnings:
		return fail(mailroom.ClassUnavailable, fmt.Errorf("%s made no progress for %v (idle_timeout): %s", t.agent.name,
			e.limits.idle, l.fold.Sanitize(l.fold.LastWarning())))
	case errors.Is(e.why, proc.ErrBusy):
		return fail(mailroom.ClassTransient, fmt.Errorf("%s was stopped: its call of %s wrote nothing for %v (call_timeout)",
			t.agent.name, t.saved.Trials.Call, e.limits.call))
	case errors.Is(e.why, errLongLine):
		return fail(mailroom.ClassPermanent, fmt.Errorf("%s wrote a line of more than %d bytes, which may be the answer "+
			"that the turn waits for", t.agent.name, l.dialogue.MaxLine))
	case e.why != nil && !errors.Is(e.why, errLingered) && !errors.Is(e.why, errSessionGone):
		return t.agent.verdict(e)
	case v.Gone: // the program does not know the new session either
		return fail(mailroom.ClassTransient, e.withStderr(fmt.Errorf("%s started no session: %s", t.agent.name, v.Message)))
	case v.Class == "":
		return nil
	}
	err := fmt.Errorf("%s %s", t.agent.name, l.fold.Sanitize(v.Message))
	if l.end == nil {
		err = e.withStderr(err)
		if warned := l.fold.LastWarning(); warned != "" {
			err = fmt.Errorf("%w (last warning: %s)", err, l.fold.Sanitize(warned))
		}
	}
	return &mailroom.Failure{Class: v.Class, RetryAfter: v.RetryAfter, Agent: v.Fault != "" && !t.optional(),
		Err: errors.Join(left, err)}
}
