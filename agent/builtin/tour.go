// Package builtin has the agents that need no model, no key and no configuration: the echo agent, with which a fresh
// installation answers, and the tour, which shows what a run can do.
package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
)

// DefaultPace is slow enough for a person to watch the words arrive.
const DefaultPace = 30 * time.Millisecond

// approvalTimeout is how long the tour waits for approval. An expired question counts as denied.
const approvalTimeout = 7 * 24 * time.Hour

// NewTour returns the demonstration agent. pace is the pause between two words; 0 streams everything at once. The
// agent follows a script: it streams text, makes durable steps, calls simulated tools, delegates to a child run in
// another thread, asks a person for approval, waits for both, and reports what happened. A denied or expired
// question, or a child that fails, does not fail its run: the tour reports it and ends. Steered messages are read at
// the next step.
func NewTour(pace time.Duration) mailroom.Agent { return tourAgent{pace: pace} }

// tourAgent is also an example of an agent that survives the end of its process at any point: Run starts from the top
// and continues after the checkpoint of its last step. External actions have stable names, so that the server
// recognizes a repeat: a tool call has the name of its effect, the child the name of its send, and the question the
// name of its ticket.
type tourAgent struct{ pace time.Duration }

// progress is the checkpoint of a tour: the position in the script and the results so far.
type progress struct {
	Done     int      `json:"done"` // scenes that are finished
	Weather  string   `json:"weather,omitempty"`
	Helper   string   `json:"helper,omitempty"` // name of the send to the child
	Verse    string   `json:"verse,omitempty"`  // result of the child
	Postcard string   `json:"postcard,omitempty"`
	Calling  string   `json:"calling,omitempty"` // the last tool call that was started
	Steered  []string `json:"heard,omitempty"`   // messages during the run
}

// attempt is one attempt of a tour.
type attempt struct {
	pace     time.Duration
	session  mailroom.Session
	progress progress
	streamed bool // since the last step
}

func (a tourAgent) Run(ctx context.Context, s mailroom.Session) error {
	err := a.run(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // more specific than the error of the call
	}
	return err
}

func (a tourAgent) run(ctx context.Context, s mailroom.Session) error {
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
	script := []func(context.Context) error{t.greet, t.lookUpWeather, t.askApproval, t.act, t.summarize}
	for t.progress.Done < len(script) {
		if err := script[t.progress.Done](ctx); err != nil {
			return err
		}
	}
	return nil
}

// endScene commits a scene. The text since the last step becomes a message, and a later attempt continues after the
// scene.
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

// save appends a step with this checkpoint.
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

// readSteered reads messages that were sent to the run. The next step acknowledges them; if it is
// not committed, a later attempt reads them again.
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
