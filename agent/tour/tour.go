// Package tour is an agent that shows what a run can do. It needs no model, no
// key and no configuration: it follows a script in which it streams text, makes
// durable steps, calls pretend tools, hands work to a child run in another
// thread, asks a person for leave, waits for both, and tells what happened.
//
// It is also the example of how an agent survives the end of its process at any
// point: Run is entered from its top, and goes on from the checkpoint of its
// last step. What it did to others it did under a name, so that a repeat is
// recognised: tools by the name of their effect, the child by the name of its
// send, the question by the name of its ticket.
package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
)

// DefaultPace is a pace at which a person can watch the words arrive.
const DefaultPace = 30 * time.Millisecond

// approvalTimeout is how long the tour waits for leave. Silence is no approval.
const approvalTimeout = 7 * 24 * time.Hour

// Options of the agent.
type Options struct {
	// Pace is the time between two words. 0 says everything at once.
	Pace time.Duration
}

// New makes the agent. A denied or expired question does not fail its run, and
// neither does a child that fails: the tour says so and ends. What a person
// says to it meanwhile it takes up at its next step.
func New(o Options) mailroom.Agent { return agent{pace: o.Pace} }

type agent struct{ pace time.Duration }

// progress is the checkpoint: how far the script is played, and what came of it.
type progress struct {
	Done     int      `json:"done"` // scenes that are over
	Weather  string   `json:"weather,omitempty"`
	Helper   string   `json:"helper,omitempty"` // name of the send to the child
	Verse    string   `json:"verse,omitempty"`  // what came of the child
	Postcard string   `json:"postcard,omitempty"`
	Calling  string   `json:"calling,omitempty"` // the call that was shown last
	Steered  []string `json:"heard,omitempty"`   // said to the run while it worked
}

// attempt is one attempt of a tour.
type attempt struct {
	pace     time.Duration
	session  mailroom.Session
	progress progress
	streamed bool // since the last step
}

func (a agent) Run(ctx context.Context, s mailroom.Session) error {
	err := a.run(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // says more than what it made a call fail with
	}
	return err
}

func (a agent) run(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	t := &attempt{pace: a.pace, session: s}
	if isErrand(input) {
		return t.runErrand(ctx)
	}
	if c := s.Run().Checkpoint; c != nil {
		if err := json.Unmarshal(c, &t.progress); err != nil {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("read the checkpoint: %w", err)}
		}
	}
	script := []func(context.Context) error{t.greet, t.lookUpWeather, t.ask, t.act, t.summarize}
	for t.progress.Done < len(script) {
		if err := script[t.progress.Done](ctx); err != nil {
			return err
		}
	}
	return nil
}

// endScene ends a scene: what was said since the last one becomes a message, and
// the next attempt begins after it.
func (t *attempt) endScene(ctx context.Context, step mailroom.Step) error {
	if err := t.readSteered(ctx); err != nil {
		return err
	}
	next := t.progress
	next.Done++
	step.Progress = float64(next.Done) / 5
	if err := t.save(ctx, step, next); err != nil {
		return err
	}
	t.progress = next
	return nil
}

// save appends a step that keeps at.
func (t *attempt) save(ctx context.Context, step mailroom.Step, at progress) error {
	var err error
	if step.Checkpoint, err = json.Marshal(at); err != nil {
		return fmt.Errorf("encode the checkpoint: %w", err)
	}
	if err := t.session.Append(ctx, step); err != nil {
		return err
	}
	t.streamed = false
	return nil
}

// readSteered takes up what was said to the run since. The step that follows at once
// covers it; if that is not written, a later attempt hears it again.
func (t *attempt) readSteered(ctx context.Context) error {
	steered, err := t.session.Steered(ctx)
	if err != nil {
		return err
	}
	for _, m := range steered {
		t.progress.Steered = append(t.progress.Steered, m.Text)
		line := fmt.Sprintf("(You say %q. I keep it in mind.)", m.Text)
		if t.streamed {
			line = "\n\n" + line
		}
		if err := t.streamText(ctx, line); err != nil {
			return err
		}
	}
	return nil
}
