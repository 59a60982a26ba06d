package mailroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Agent is code that handles a run.
type Agent interface {
	// Run works on one attempt. nil completes the run; what was streamed and
	// not yet appended becomes its reply. An error is transient unless it is
	// a [Failure] that says otherwise. Run must return soon after ctx is
	// cancelled; [context.Cause] tells why (ErrStopped, ErrLeaseLost,
	// ErrReleased, ErrDeadline). A later attempt starts Run from its top, with the
	// Checkpoint of the last step.
	Run(ctx context.Context, s Session) error
}

// AgentFunc is a function as an Agent.
type AgentFunc func(ctx context.Context, s Session) error

func (f AgentFunc) Run(ctx context.Context, s Session) error { return f(ctx, s) }

// Session is what an agent sees of its run. Its methods may be called
// concurrently; writes are fenced by the run's claim and fail with LeaseLost
// once it was taken away.
type Session interface {
	// Run returns the run as it was claimed, with the Checkpoint of the last
	// step. The caller must not change it.
	Run() *Run
	// Input returns the messages that the run is for.
	Input(ctx context.Context) ([]Message, error)
	// Transcript returns up to limit messages that were read before this
	// run's input, in order of reading, the latest ones.
	Transcript(ctx context.Context, limit int) ([]Message, error)
	// Stream adds text to the message being written. It is shown live at
	// once and kept about once a second; the next Append, or the end of the
	// run, makes it a message of the log.
	Stream(ctx context.Context, text string) error
	// Append commits one durable step. The message being written, if any,
	// comes first.
	Append(ctx context.Context, step Step) error
	// State returns what this agent keeps for the conversation; an Append
	// with Step.State replaces it. nil at first.
	State() json.RawMessage
	// Do calls f once under a name that comes from something durable, such
	// as a tool call's id, and remembers its value: a later attempt gets it
	// without a call, or nil if it was larger than MaxEffect. An error is not
	// remembered. When an earlier attempt
	// ended between the call and its record the effect is unknown, and what
	// happens then is up to e; see [Effect].
	Do(ctx context.Context, e Effect, f func(ctx context.Context, key string) (json.RawMessage, error)) (json.RawMessage, error)
	// Wait returns those of the named tickets that exist once all of them, or
	// with any at least one, are no longer open. If it has to wait, asks that
	// are new are opened and it fails with ErrParked, as does every later
	// call: the agent must return, and Run is entered from its top when the
	// wait is over.
	Wait(ctx context.Context, any bool, asks ...Ask) ([]Ticket, error)
	// Steered returns the messages handed over since the last call, or since
	// the last covered step of an earlier attempt. It does not wait.
	Steered(ctx context.Context) ([]Message, error)
}

// Step is what one Append commits in one transaction.
type Step struct {
	Name       string          // of the step entry; "" writes none
	Entries    []AgentEntry    // tool.started, tool.finished, or kinds under "x."
	Checkpoint json.RawMessage // replaces the run's; nil leaves it
	Tickets    []Ask
	Sends      []Send
	State      json.RawMessage // replaces the agent's state in the thread; nil leaves it
	Usage      Usage           // added to the run's
	Progress   float64         // how far the run is, above 0 and at most 1; 0 leaves it
	// NoProgress marks a step that notes a circumstance, such as a child's pid,
	// and is no progress: it leaves the count of crashes as it is, and the
	// message being written goes on.
	NoProgress bool `json:"Record"` // the name is part of the digest of a step
	// Internal says that the message being written is no reply but something said
	// on the way, such as before a tool is called: it becomes internal and is
	// delivered nowhere.
	Internal bool `json:"Aside"` // as above
}

// AgentEntry is an entry written by an agent.
type AgentEntry struct {
	Kind string
	Body json.RawMessage // a JSON object, at most MaxAgentEntry bytes
}

// Send is a message to another thread. A later attempt that repeats the name
// does not send again.
type Send struct {
	Name   string // unique in the run
	Thread string // "" makes a new thread, the same one for the same name
	Agent  string // as in Submit
	Parts  []Part
	// Answer says whether the end of the run it becomes is waited for, under
	// Name as a ticket, or comes back as a message.
	Answer AnswerMode
}

// Effect names a side effect of a run.
type Effect struct {
	Name  string
	Input json.RawMessage // what it is about: the same name with other input is a conflict
	// Idempotent says that calling again with the same key does no harm.
	Idempotent bool
	// Reconcile, if set, finds out whether an unknown effect happened. done
	// false means that it did not and is called again.
	Reconcile func(ctx context.Context, key string) (value json.RawMessage, done bool, err error)
}

// ErrParked is what Wait fails with when the run has to wait. An agent returns
// it, or an error that wraps it.
var ErrParked = errors.New("the run waits")

// ErrUnknown is returned by the function of an effect that cannot tell whether
// it happened.
var ErrUnknown = errors.New("the outcome of the effect is unknown")

// Why the context of an agent was cancelled, as its [context.Cause].
var (
	ErrStopped   = errors.New("the run was asked to stop")
	ErrLeaseLost = errors.New("the claim of the run was lost")
	ErrReleased  = errors.New("the worker shuts down and releases the run")
	ErrDeadline  = errors.New("the run deadline has passed")
)

// Class says what an error means for a run.
type Class string

const (
	ClassTransient   Class = "transient"   // retried, counted as a failure
	ClassUnavailable Class = "unavailable" // retried for up to a day, costs no failure
	ClassPermanent   Class = "permanent"   // a dead letter after one attempt
	ClassExhausted   Class = "exhausted"   // failures used up, or an outage too long
	ClassCrashed     Class = "crashed"     // lost its worker too often
	maxErrorLen            = 4096
)

// Failure is an agent's error with its class. RetryAfter is how long a provider
// asked to be left alone; a retry never comes earlier.
type Failure struct {
	Class      Class // Transient, Outage or Permanent
	RetryAfter time.Duration
	Err        error
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Class, f.Err) }
func (f *Failure) Unwrap() error { return f.Err }

// AsFailure gives err its class: that of the Failure in its tree, else Transient.
func AsFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Failure{Class: f.Class, RetryAfter: f.RetryAfter, Err: f.Err}
	}
	return &Failure{Class: ClassTransient, Err: err}
}

// Delta is a piece of the message that a run is writing, live and not durable.
// Offset is in bytes of the message's text: a repeat is harmless.
type Delta struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
	Offset  int    `json:"offset"`
	Channel string `json:"channel"` // "text"
	Text    string `json:"text"`
}
