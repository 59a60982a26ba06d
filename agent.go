package mailroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Agent is code that handles runs.
type Agent interface {
	// Run works on one attempt of a run. Returning nil completes the run, and text that was
	// streamed but not yet appended becomes its reply. An error counts as transient unless it is a
	// [Failure] with another class. Run must return soon after ctx is cancelled; [context.Cause]
	// gives the reason: ErrStopped, ErrLeaseLost, ErrReleased or ErrDeadline. A later attempt calls
	// Run again from the top, with the Checkpoint of the last step.
	Run(ctx context.Context, s Session) error
}

// AgentFunc is a function that implements Agent.
type AgentFunc func(ctx context.Context, s Session) error

func (f AgentFunc) Run(ctx context.Context, s Session) error { return f(ctx, s) }

// Session is an agent's access to its run. Its methods may be called concurrently. Each write
// carries the run's claim and fails with CodeLeaseLost once the claim has been taken away.
type Session interface {
	// Run returns the run as it was claimed, with the Checkpoint of the last step. The caller must
	// not change what it refers to.
	Run() RunView
	// Input returns the messages that started the run.
	Input(ctx context.Context) ([]Message, error)
	// Transcript returns the last messages that were read before this run's input, at most limit,
	// in the order in which they were read.
	Transcript(ctx context.Context, limit int) ([]Message, error)
	// Log returns the last entries of the thread's log that q selects, in the order of the log: the messages
	// of all, and what the runs of the same agent wrote. With it an agent remembers the tool calls and notes of
	// its earlier runs, which a transcript of texts leaves out.
	Log(ctx context.Context, q LogQuery) ([]Entry, error)
	// Stream adds text to the message being written. Readers see it at once; it is flushed to the
	// store about once a second. The next Append, or the end of the run, turns it into a message in
	// the log.
	Stream(ctx context.Context, text string) error
	// Show shows what the agent is doing to the readers that follow the run now: its thinking, the
	// arguments of a tool call, or what it waits for. It is no part of a message, and no log has it; an agent
	// that wants it kept appends it.
	Show(ctx context.Context, l Live) error
	// Append commits one durable step, after the message being written, if there is one.
	Append(ctx context.Context, step Step) error
	// State returns the agent's state for this thread, nil at first. An Append with Step.State
	// replaces it.
	State() json.RawMessage
	// Blobs returns the agent's blobs in this thread, for what is larger than a checkpoint or the state.
	Blobs() Blobs
	// Do calls f once per name and stores its value. The name must come from something durable,
	// such as a tool call's id. A later attempt returns the stored value without a call. A value that
	// is no JSON or larger than MaxEffect cannot be stored: Do returns a permanent Failure then, and no
	// attempt calls f again. Errors are not stored. If an earlier attempt ended between the call and
	// its record, the outcome is unknown and e decides what happens; see [Effect].
	Do(ctx context.Context, e Effect, f func(ctx context.Context, key string) (json.RawMessage, error)) (json.RawMessage,
		error)
	// Wait returns the named tickets that exist, once all of them are decided or expired; with any,
	// once at least one is. If it has to wait, it opens the tickets that are new and fails with
	// ErrParked, as does every later call: the agent must return. When the wait is over, Run starts
	// again from the top.
	Wait(ctx context.Context, any bool, asks ...Ask) ([]Ticket, error)
	// Steered returns the messages steered into the run since the last call, or since the last step
	// of an earlier attempt that covered them. It does not block.
	Steered(ctx context.Context) ([]Message, error)
}

// Live is a piece of live text beside the message that a run is writing.
type Live struct {
	// Call is the tool call whose arguments the text continues, as in the tool.started entry that follows;
	// "": the text is thinking.
	Call string
	Name string // of the tool
	Text string
	// WaitsOn says, without the other fields, what the agent waits for while it is silent: "tool call: cargo
	// test". Readers that come later see it too, until the agent shows, streams or appends something else. It
	// becomes one line of at most MaxWaitsOn bytes.
	WaitsOn string
}

// LogQuery selects entries of a log.
type LogQuery struct {
	Kinds  []string // nil: all kinds; see package entry
	After  int64    // only entries with a greater seq; 0: from the first
	Before int64    // only entries with a smaller seq; 0: to the last
	Limit  int      // 0 is 100
}

// Step is what one Append commits in one transaction.
type Step struct {
	Name       string          // of the step entry; "" writes no step entry
	Entries    []AgentEntry    // tool.started, tool.finished, or kinds under "x."
	Checkpoint json.RawMessage // replaces the run's checkpoint; nil keeps it
	Tickets    []Ask
	Sends      []Send
	State      json.RawMessage // replaces the agent's state in the thread; nil keeps it
	Usage      Usage           // added to the run's usage
	Progress   float64         // of the run, above 0 and at most 1; 0 keeps it
	// Extend asks for more time: from this step on the attempt may take that long, within the bound that the
	// server has for an attempt. It never takes time away.
	Extend time.Duration `json:",omitempty"`
	// NoProgress marks a step that records a circumstance, such as a child's pid. It leaves the
	// run's count of crashes unchanged, and the message being written goes on.
	// Otherwise an agent that records its child process before each attempt would reset the count
	// forever.
	NoProgress bool `json:"Record"` // the name is part of the digest of a step
	// Blobs are written with the step, by name; nil deletes a blob. Their content is stored before the step, and seen
	// from its commit on.
	Blobs map[string][]byte `json:"-"`
	// Parts go with the text of the message being written, or are a message without text: reasoning before
	// the text, data and files after it. Other threads, chats among them, get the addresses of the files.
	Parts []Part `json:",omitempty"`
	// Internal makes the message being written an internal one instead of a reply, such as a remark
	// before a tool call. Internal messages are not delivered.
	Internal bool `json:"Aside"` // the name in JSON must not change, because it is part of the digest
}

// AgentEntry is a log entry written by an agent.
type AgentEntry struct {
	Kind string
	Body json.RawMessage // a JSON object, at most MaxAgentEntry bytes
}

// Send is a message to another thread. Repeating the name in a later attempt does not send it
// again.
//
// The fields from Mode on say what a submit may say. They are omitted from the encoding of a step when
// they are zero, because a step's digest covers it, and a worker of an older version may repeat a step.
type Send struct {
	Name   string // unique in the run
	Thread string // "" creates a thread, the same one for the same name
	Agent  string // as in Submit
	Parts  []Part
	// Answer says how the end of the resulting run comes back: as a ticket under Name, as a
	// message, or not at all.
	Answer AnswerMode
	// Mode is what happens if the thread is busy; "" is ModeQueue. An Answer needs a run of its own, so
	// it cannot be combined with ModeSteer or ModeCollect. ModeInterrupt and ModeLatest drop the work of
	// others, so they are only for threads that the run's own thread has created.
	Mode     Mode `json:",omitempty"`
	Priority *int `json:",omitempty"` // nil is DefaultPriority
	// NotBefore is when the run may start. Delay is the same as a duration after the first attempt to send; at most one
	// of the two is set.
	NotBefore time.Time     `json:",omitzero"`
	Delay     time.Duration `json:",omitempty"`
	// Deadline is when the run ends. Timeout is the same as a duration after the first attempt to send; at most one of
	// the two is set.
	Deadline time.Time         `json:",omitzero"`
	Timeout  time.Duration     `json:",omitempty"`
	Options  json.RawMessage   `json:",omitempty"`
	Metadata map[string]string `json:",omitempty"`
	// Budget is the part of the budget of the run that the new run gets: it may use that much, and what it leaves comes
	// back with its end. The parts of what the run has left must fit. A bound that is not given, and is one of the run's,
	// is an equal share, among the sends of the step that give none, of half of what is left.
	Budget Budget `json:",omitzero"`
}

// Effect names a side effect of a run.
type Effect struct {
	Name  string
	Input json.RawMessage // arguments; the same name with other input is a conflict
	// Idempotent says that calling again with the same key is harmless.
	Idempotent bool
	// Reconcile, if set, finds out whether an unknown effect happened. done false means that it did
	// not, and Do calls it again.
	Reconcile func(ctx context.Context, key string) (value json.RawMessage, done bool, err error)
	// Memo says that only the value matters: the call changes nothing outside, or may happen any number of
	// times, as a call of a model. Do then commits the value alone, in one transaction instead of two. If an
	// attempt ends before this commit, the next attempt makes the call again.
	Memo bool
}

// Errors of a session, and causes of the cancellation of an agent's context, see [context.Cause].
var (
	// ErrParked is the error of Wait when the run has to wait. The agent must return it, or an error
	// that wraps it.
	ErrParked = errors.New("run is waiting for its tickets")
	// ErrUnknown is returned by the function of an effect that does not know whether the effect
	// happened.
	ErrUnknown = errors.New("outcome of the effect is unknown")

	ErrStopped   = errors.New("run was asked to stop")
	ErrLeaseLost = errors.New("claim of the run was lost")
	ErrReleased  = errors.New("worker is shutting down and released the run")
	ErrDeadline  = errors.New("run deadline exceeded")
)

// Class classifies an agent's error and decides whether the run is retried.
type Class string

// Failure is an agent's error with its class. Of other errors, those with the codes CodeInvalid, CodeTooLarge and
// CodeConflict are permanent, and the rest is transient. RetryAfter is the least delay before a retry, as a
// provider asked for it. Agent says that the fault is the agent's own, such as an expired login: each
// of its runs fails alike until a person mends it. The run stays queued, and the agent is paused.
type Failure struct {
	Class      Class // ClassTransient, ClassUnavailable or ClassPermanent
	RetryAfter time.Duration
	Agent      bool
	Err        error
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Class, f.Err) }
func (f *Failure) Unwrap() error { return f.Err }

// AsFailure returns the Failure in err's tree, or err as a transient Failure.
func AsFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Failure{Class: f.Class, RetryAfter: f.RetryAfter, Agent: f.Agent, Err: f.Err}
	}
	return &Failure{Class: ClassTransient, Err: err}
}
