package engine

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"mailroom"
	"mailroom/bus"
	"mailroom/ledger"
)

// session is one attempt of one run, and what its agent sees of it.
type session struct {
	engine *Engine
	worker string
	claim  mailroom.Claim
	agent  string
	alone  bool // it was claimed on its last chance
	ctx    context.Context
	cancel context.CancelCauseFunc

	steered atomic.Bool   // there may be steered messages to read
	kick    chan struct{} // one slot: somebody wants the text flushed

	// The gates let one through at a time; taken in this order, so that no
	// flushed piece is written behind its message.
	flushing gate // a flush, or what must come after it
	turn     gate // what reads or changes the fields below

	run     *mailroom.Run // replaced when a step commits
	step    int
	handed  int64 // seq of the last steered message handed over
	input   []mailroom.Message
	text    message
	flusher sync.WaitGroup
	started bool // the flusher runs
	closed  bool
}

var _ mailroom.Session = (*session)(nil)

func (e *Engine) newSession(ctx context.Context, w ledger.Work) *session {
	s := &session{
		engine: e, worker: e.worker, claim: w.Claim, agent: w.Run.Agent, alone: w.Run.LastChance(),
		run: w.Run, step: w.Run.Step,
		kick: make(chan struct{}, 1), flushing: newGate(), turn: newGate(),
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.steered.Store(len(w.Run.Steers) > 0)
	s.text = message{claim: w.Claim}
	return s
}

func (s *session) Run() *mailroom.Run {
	s.turn.enter(context.Background()) // held for moments, or a commit
	defer s.turn.leave()
	return s.run
}

func (s *session) Input(ctx context.Context) ([]mailroom.Message, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	if s.input != nil {
		return s.input, nil
	}
	var seqs []int64
	for _, in := range s.run.Inputs {
		if !in.Retracted {
			seqs = append(seqs, in.Seq)
		}
	}
	input, err := s.engine.ledger.Messages(ctx, s.claim.Thread, seqs)
	if err == nil {
		s.input = input
	}
	return input, err
}

func (s *session) Transcript(ctx context.Context, limit int) ([]mailroom.Message, error) {
	before, err := s.engine.ledger.FirstStart(ctx, s.run)
	if err != nil {
		return nil, err
	}
	items, _, err := s.engine.ledger.Transcript(ctx, ledger.TranscriptQuery{Thread: s.claim.Thread, Before: before, Limit: limit})
	return items, err
}

func (s *session) Stream(ctx context.Context, text string) error {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return mailroom.Errorf(mailroom.Invalid, "streamed text must be valid UTF-8 without NUL")
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
		s.flusher.Add(1)
		go s.flushLoop()
	}
	return nil
}

func (s *session) Append(ctx context.Context, step mailroom.Step) error {
	if err := s.flushing.enter(ctx); err != nil {
		return err
	}
	defer s.flushing.leave()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	in := mailroom.Append{Claim: s.claim, Number: s.step + 1, Step: step, Message: s.text.said(), Covers: s.handed}
	err := s.repeat(ctx, func() error {
		_, err := s.engine.ledger.Append(ctx, in)
		return err
	})
	if err != nil {
		return s.lost(err)
	}
	s.step++
	s.text.next()
	if step.Checkpoint != nil {
		run := *s.run
		run.Checkpoint = append(json.RawMessage(nil), step.Checkpoint...)
		s.run = &run
	}
	return nil
}

func (s *session) Steered(ctx context.Context) ([]mailroom.Message, error) {
	if !s.steered.Swap(false) {
		return nil, ctx.Err()
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	inputs, err := s.engine.ledger.Steered(ctx, s.claim)
	if err != nil {
		s.steered.Store(true)
		return nil, s.lost(err)
	}
	var seqs []int64
	last := s.handed
	for _, in := range inputs {
		if in.Seq > s.handed {
			seqs = append(seqs, in.Seq)
			last = max(last, in.Seq)
		}
	}
	messages, err := s.engine.ledger.Messages(ctx, s.claim.Thread, seqs)
	if err != nil {
		s.steered.Store(true)
		return nil, err
	}
	s.handed = last
	return messages, nil
}

// enter takes the turn, or refuses when the session is closed.
func (s *session) enter(ctx context.Context) error {
	if err := s.turn.enter(ctx); err != nil {
		return err
	}
	if s.closed {
		s.turn.leave()
		return mailroom.Errorf(mailroom.LeaseLost, "the session of run %s has ended", s.claim.Run)
	}
	return nil
}

// lost cancels the attempt when a write was refused for good.
func (s *session) lost(err error) error {
	if mailroom.CodeOf(err) == mailroom.LeaseLost {
		s.cancel(mailroom.ErrLeaseLost)
	}
	return err
}

// close ends the session: no call does anything from here on. It returns the
// text that was being written, and the number of the settle.
func (s *session) close() (*mailroom.Said, int) {
	ctx := context.WithoutCancel(s.ctx)
	s.flushing.enter(ctx) // cannot fail: ctx does not end
	s.turn.enter(ctx)
	s.closed = true
	said, number := s.text.said(), s.step+1
	s.turn.leave()
	s.flushing.leave()
	s.wantFlush() // the flusher sees that it is over
	s.flusher.Wait()
	return said, number
}

// gate lets one goroutine through at a time; waiting for it ends with a context.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }
