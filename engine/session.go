package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/internal/recovery"
	"mailroom/thread"
)

// session is one attempt of one run. It implements [mailroom.Session] for the agent.
type session struct {
	// Set once, before it works.
	engine  *Engine
	worker  string // id of the worker that claimed it
	claim   mailroom.Claim
	agent   string
	claimed thread.ClaimedRun // run as it was claimed
	life    context.Context   // ends with the engine; commits are retried until then
	ctx     context.Context   // the attempt's, with its pprof label; cancelled with the reason
	cancel  context.CancelCauseFunc
	hints   *bus.Subscription // notices of its thread, from right behind the claim

	row atomic.Pointer[mailroom.Run] // row as it was claimed, with the last checkpoint
	// left is what was left of the budget of the run at the last step of the attempt; nil: no step said it.
	left atomic.Pointer[mailroom.Budget]
	// deadline is set by work before the agent is entered.
	deadline *deadline
	waitsOn  atomic.Pointer[string] // what the agent says that it waits for; nil: nothing
	steered  atomic.Bool            // steered messages may wait to be read
	freed    atomic.Bool            // the slot of the run was given back
	// unanswered is set when a call to the store had no answer for the duration of a lease.
	unanswered atomic.Bool
	closed     atomic.Bool   // every call fails from now on; set within turn
	kick       chan struct{} // capacity 1: requests a flush of the text

	// agentDone delivers the result of an agent that was entered and has not returned yet, else nil. Owned by work.
	agentDone <-chan error

	// Two gates, acquired in this order, so that no flush is written after the message that it
	// belongs to.
	flushing gate // held by a flush, and by a commit that must come after it
	turn     gate // guards the fields below

	step    int
	handed  int64 // seq of the last steered message handed over
	input   []mailroom.Message
	state   json.RawMessage // the agent's state in the thread
	effects map[string]*effect
	parked  *mailroom.Wait // the argument of Wait, after which every call returns ErrParked
	asks    []mailroom.Ask // opened when the run parks
	text    message
	flusher sync.WaitGroup
	started bool // the flusher runs
}

var _ mailroom.Session = (*session)(nil)

func (e *Engine) newSession(life context.Context, worker string, w thread.ClaimedRun,
	hints *bus.Subscription) *session {
	s := &session{
		engine: e, worker: worker, claim: w.Claim, agent: w.Run.Agent, claimed: w,
		life: life, step: w.Run.Step,
		hints: hints,
		kick:  make(chan struct{}, 1), flushing: newGate(), turn: newGate(),
	}
	labelled := pprof.WithLabels(life, pprof.Labels(recovery.RunLabel, w.Claim.Run))
	s.ctx, s.cancel = context.WithCancelCause(labelled)
	s.row.Store(w.Run)
	s.steered.Store(len(w.Run.Steers) > 0)
	s.input = w.Input
	s.text = message{claim: w.Claim}
	s.state = w.Thread.State[s.agent]
	return s
}

func (s *session) Run() mailroom.RunView {
	v := s.row.Load().View()
	if left := s.left.Load(); left != nil {
		v.BudgetLeft = left
	}
	if s.deadline != nil {
		v.Ends = s.deadline.at()
	}
	return v
}

func (s *session) Input(ctx context.Context) ([]mailroom.Message, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	if s.input != nil {
		return s.input, nil
	}
	inputs, err := ask(ctx, s, func(ctx context.Context) ([][]mailroom.Message, error) {
		return s.engine.ledger.Inputs(ctx, []*mailroom.Run{s.row.Load()})
	})
	if err != nil {
		return nil, err
	}
	s.input = inputs[0]
	return s.input, nil
}

func (s *session) Transcript(ctx context.Context, limit int) ([]mailroom.Message, error) {
	if s.closed.Load() {
		return nil, s.ended()
	}
	if limit <= 0 {
		return nil, nil
	}
	return ask(ctx, s, func(ctx context.Context) ([]mailroom.Message, error) {
		return s.engine.ledger.TranscriptBefore(ctx, s.row.Load(), limit)
	})
}

func (s *session) Log(ctx context.Context, q mailroom.LogQuery) ([]mailroom.Entry, error) {
	if s.closed.Load() {
		return nil, s.ended()
	}
	limit := cmp.Or(q.Limit, defaultLog)
	var all []mailroom.Entry
	for len(all) < limit {
		q.Limit = limit - len(all)
		var next int64
		page, err := ask(ctx, s, func(ctx context.Context) (page []mailroom.Entry, err error) {
			page, next, err = s.engine.ledger.LogOf(ctx, s.row.Load(), q)
			return page, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, reversed(page)...)
		if next == 0 {
			break
		}
		q.Before = next
	}
	return reversed(all), nil
}

// defaultLog is the limit of a LogQuery without one.
const defaultLog = 100

func reversed(entries []mailroom.Entry) []mailroom.Entry {
	slices.Reverse(entries)
	return entries
}

func (s *session) Stream(ctx context.Context, text string) error {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return mailroom.Errorf(mailroom.CodeInvalid, "streamed text must be valid UTF-8 without NUL")
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	d := s.text.add(text)
	if d.Text == "" {
		return nil
	}
	s.waitsOn.Store(nil)
	s.engine.bus.Publish(bus.Notice{Thread: s.claim.Thread, Delta: &d})
	if !s.started {
		s.started = true
		s.flusher.Go(func() {
			defer recovery.Log(s.engine.options.Log, "flushing streamed text")
			s.flushLoop()
		})
	}
	return nil
}

func (s *session) Show(ctx context.Context, l mailroom.Live) error {
	if l.WaitsOn != "" && l != (mailroom.Live{WaitsOn: l.WaitsOn}) {
		return mailroom.Errorf(mailroom.CodeInvalid, "what the agent waits for is shown alone")
	}
	for _, text := range []string{l.Call, l.Name, l.Text, l.WaitsOn} {
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			return mailroom.Errorf(mailroom.CodeInvalid, "live text must be valid UTF-8 without NUL")
		}
	}
	if len(l.Call) > mailroom.MaxLabel || len(l.Name) > mailroom.MaxLabel {
		return mailroom.Errorf(mailroom.CodeInvalid, "call and name must have at most %d bytes", mailroom.MaxLabel)
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	d := s.text.show(l)
	s.waitsOn.Store(nil)
	if text := thread.WaitsOn(l.WaitsOn); text != "" {
		s.waitsOn.Store(&text)
		d.Channel, d.Text = entry.ChannelWaits, text
	}
	if d.Text != "" {
		s.engine.bus.Publish(bus.Notice{Thread: s.claim.Thread, Delta: &d})
	}
	return nil
}

func (s *session) Append(ctx context.Context, step mailroom.Step) error {
	changes, err := s.upload(ctx, step)
	if err != nil {
		return err
	}
	if err := s.flushing.enter(ctx); err != nil {
		return s.refused(err)
	}
	defer s.flushing.leave()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	return s.append(step, nil, changes)
}

// append commits a step. The caller holds both gates.
func (s *session) append(step mailroom.Step, effects []mailroom.AgentEntry, changes []thread.BlobChange) error {
	in := thread.StepCommit{
		Claim: s.claim, Number: s.step + 1, Step: step, Effects: effects, Covers: s.handed, Blobs: changes,
	}
	if s.engine.options.Agents[s.agent].Sticky {
		in.Node = s.engine.options.sharedNode()
	}
	in.Step.Parts, in.Step.Blobs = nil, nil
	if !step.NoProgress {
		in.Message = s.text.with(step.Parts)
	} else if len(step.Parts) > 0 {
		return mailroom.Errorf(mailroom.CodeInvalid, "a step without progress cannot have parts, because its message goes on")
	}
	// A started commit is repeated until its outcome is known: without it the next step has no
	// number.
	var done thread.Appended
	err := s.repeat(s.life, func(ctx context.Context) (err error) { // the write continues after the end of the attempt
		done, err = s.engine.ledger.Append(ctx, in)
		return err
	})
	if err != nil {
		return s.lost(err)
	}
	s.step++
	s.waitsOn.Store(nil)
	if left := min(done.Left, step.Extend); left > 0 {
		s.deadline.extend(left)
	}
	if done.Budget != nil {
		s.left.Store(done.Budget)
	}
	if done.Stop != "" { // before the agent calls a model again
		s.cancel(mailroom.ErrStopped)
	}
	if in.Message != nil {
		s.text.next()
	}
	if step.Checkpoint != nil {
		run := *s.row.Load()
		run.Checkpoint = append(json.RawMessage(nil), step.Checkpoint...)
		s.row.Store(&run)
	}
	if step.State != nil {
		s.state = append(json.RawMessage(nil), step.State...)
	}
	return nil
}

func (s *session) State() json.RawMessage {
	s.turn.lock()
	defer s.turn.leave()
	return s.state
}

func (s *session) Steered(ctx context.Context) ([]mailroom.Message, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	if !s.steered.Swap(false) {
		return nil, nil
	}
	messages, err := s.handOver(ctx)
	if err != nil {
		s.steered.Store(true) // the next call returns the steered messages
		return nil, s.lost(err)
	}
	return messages, nil
}

// handOver returns the steered messages that are new to this attempt. The caller holds turn.
func (s *session) handOver(ctx context.Context) ([]mailroom.Message, error) {
	last := s.handed
	messages, err := ask(ctx, s, func(ctx context.Context) (messages []mailroom.Message, err error) {
		messages, last, err = s.engine.ledger.ReadSteered(ctx, s.claim, s.handed)
		return messages, err
	})
	if err != nil {
		return nil, err
	}
	s.handed = last
	return messages, nil
}

// enter acquires the turn. It fails if the session is closed or parked.
func (s *session) enter(ctx context.Context) error {
	if err := s.turn.enter(ctx); err != nil {
		return s.refused(err)
	}
	if s.closed.Load() {
		s.turn.leave()
		return s.ended()
	}
	if s.parked != nil {
		s.turn.leave()
		return mailroom.ErrParked
	}
	return nil
}

// refused returns the error of a call whose context has ended.
func (s *session) refused(err error) error {
	switch {
	case s.closed.Load():
		return s.ended()
	case context.Cause(s.ctx) == mailroom.ErrLeaseLost:
		return mailroom.Errorf(mailroom.CodeLeaseLost,
			"attempt %d of run %s: %w", s.claim.Attempt, s.claim.Run, mailroom.ErrLeaseLost)
	}
	return err
}

func (s *session) ended() error {
	return mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d of run %s has ended", s.claim.Attempt, s.claim.Run)
}

// lost cancels the attempt if err says that its claim is lost, and returns err.
func (s *session) lost(err error) error {
	if mailroom.CodeOf(err) == mailroom.CodeLeaseLost {
		s.cancel(mailroom.ErrLeaseLost)
	}
	return err
}

// close ends the session: every later call fails. It returns the partial text and the number of the
// settle.
func (s *session) close() (*thread.PartialText, int) {
	partial, number := s.closeSteps()
	s.wantFlush() // the flusher sees that the session is closed
	s.flusher.Wait()
	return partial, number
}

// closeSteps closes the session for steps. It returns the partial text and the number that the next
// step would have.
func (s *session) closeSteps() (*thread.PartialText, int) {
	s.flushing.lock()
	defer s.flushing.leave()
	s.turn.lock()
	defer s.turn.leave()
	s.closed.Store(true)
	return s.text.partial(), s.step + 1
}
