package engine

import (
	"context"
	"encoding/json"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"mailroom"
	"mailroom/bus"
	"mailroom/internal/recovery"
	"mailroom/ledger"
)

// session is one attempt of one run, and what its agent sees of it.
type session struct {
	// Set once, before it works.
	engine *Engine
	worker string // that claimed it
	claim  mailroom.Claim
	agent  string
	taken  ledger.Assignment // as it was claimed
	life   context.Context   // the engine's: what must be written is tried until it ends
	ctx    context.Context   // the attempt's, with its label of goroutines; cancelled with the reason why it must end
	cancel context.CancelCauseFunc
	hints  *bus.Subscription // to its thread, from right behind the claim

	row     atomic.Pointer[mailroom.Run] // what Run returns
	steered atomic.Bool                  // there may be steered messages to read
	freed   atomic.Bool                  // its slot was given back
	closed  atomic.Bool                  // no call does anything any more; set within turn
	kick    chan struct{}                // one slot: somebody wants the text flushed

	agentDone <-chan error // work's: from an agent that was entered and has not been seen to return; else nil

	// The gates let one through at a time; taken in this order, so that no
	// flushed piece is written behind its message.
	flushing gate // a flush, or what must come after it
	turn     gate // what reads or changes the fields below

	step    int
	handed  int64 // seq of the last steered message handed over
	input   []mailroom.Message
	state   json.RawMessage // the agent's, in the thread
	effects map[string]*effect
	parked  *mailroom.Wait // what Wait was called for: no further call does anything
	asks    []mailroom.Ask // to be opened when the run parks
	text    message
	flusher sync.WaitGroup
	started bool // the flusher runs
}

var _ mailroom.Session = (*session)(nil)

func (e *Engine) newSession(life context.Context, worker string, w ledger.Assignment, hints *bus.Subscription) *session {
	s := &session{
		engine: e, worker: worker, claim: w.Claim, agent: w.Run.Agent, taken: w,
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

func (s *session) Run() *mailroom.Run { return s.row.Load() }

func (s *session) Input(ctx context.Context) ([]mailroom.Message, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	if s.input != nil {
		return s.input, nil
	}
	inputs, err := s.engine.ledger.Inputs(ctx, []*mailroom.Run{s.Run()})
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
	return s.engine.ledger.TranscriptBefore(ctx, s.Run(), limit)
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
	s.engine.bus.Publish(bus.Notice{Thread: s.claim.Thread, Delta: &d})
	if !s.started {
		s.started = true
		s.flusher.Go(func() {
			defer recovery.Log(s.engine.options.Log, "what flushes streamed text")
			s.flushLoop()
		})
	}
	return nil
}

func (s *session) Append(ctx context.Context, step mailroom.Step) error {
	if err := s.flushing.enter(ctx); err != nil {
		return s.refused(err)
	}
	defer s.flushing.leave()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	return s.append(step, nil)
}

// append commits a step. It is within both gates.
func (s *session) append(step mailroom.Step, effects []mailroom.AgentEntry) error {
	in := mailroom.StepCommit{
		Claim: s.claim, Number: s.step + 1, Step: step, Effects: effects, Covers: s.handed,
	}
	if !step.NoProgress {
		in.Message = s.text.said()
	}
	// Once begun it is seen to its end: who does not know whether a step was
	// written cannot number the next one.
	err := s.repeat(func(ctx context.Context) error {
		_, err := s.engine.ledger.Append(ctx, in)
		return err
	})
	if err != nil {
		return s.lost(err)
	}
	s.step++
	if !step.NoProgress {
		s.text.next()
	}
	if step.Checkpoint != nil {
		run := *s.Run()
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
		s.steered.Store(true) // the next call gets them
		return nil, s.lost(err)
	}
	return messages, nil
}

// handOver takes the steered messages that this attempt has not had yet. It is
// within turn.
func (s *session) handOver(ctx context.Context) ([]mailroom.Message, error) {
	messages, last, err := s.engine.ledger.ReadSteered(ctx, s.claim, s.handed)
	if err != nil {
		return nil, err
	}
	s.handed = last
	return messages, nil
}

// enter takes the turn, or refuses when the session is closed.
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

// refused says why a call whose context has ended does nothing.
func (s *session) refused(err error) error {
	switch {
	case s.closed.Load():
		return s.ended()
	case context.Cause(s.ctx) == mailroom.ErrLeaseLost:
		return mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d of run %s: %w", s.claim.Attempt, s.claim.Run, mailroom.ErrLeaseLost)
	}
	return err
}

func (s *session) ended() error {
	return mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d of run %s has ended", s.claim.Attempt, s.claim.Run)
}

// lost cancels the attempt when a write was refused for good.
func (s *session) lost(err error) error {
	if mailroom.CodeOf(err) == mailroom.CodeLeaseLost {
		s.cancel(mailroom.ErrLeaseLost)
	}
	return err
}

// close ends the session: no call does anything from here on. It returns the
// text that was being written, and the number of the settle.
func (s *session) close() (*mailroom.PartialText, int) {
	said, number := s.last()
	s.wantFlush() // the flusher sees that it is over
	s.flusher.Wait()
	return said, number
}

// last closes the session for steps and returns what the last one would have: the
// message being written, and its number.
func (s *session) last() (*mailroom.PartialText, int) {
	s.flushing.lock()
	defer s.flushing.leave()
	s.turn.lock()
	defer s.turn.leave()
	s.closed.Store(true)
	return s.text.said(), s.step + 1
}
