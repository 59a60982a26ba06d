package mailroom

import (
	"encoding/json"
	"time"
)

// Status of a run.
type Status string

const (
	StatusQueued    Status = "queued"  // never started, or between two attempts
	StatusRunning   Status = "running" // claimed by a worker
	StatusWaiting   Status = "waiting" // parked, holds no claim
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed" // a dead letter
	StatusCancelled Status = "cancelled"
)

// Finished reports whether a run with this status has ended.
func (s Status) Finished() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// Mode says what a submit does to a busy thread.
type Mode string

const (
	ModeQueue     Mode = "queue"     // behind the others
	ModeSteer     Mode = "steer"     // into the current run, at its next step
	ModeInterrupt Mode = "interrupt" // instead of everything queued or running
	ModeLatest    Mode = "latest"    // instead of everything queued
	ModeCollect   Mode = "collect"   // joins the newest run that has not started
	ModeReject    Mode = "reject"    // refused unless the thread is idle
)

// Reason says why a run was cancelled, or is asked to stop.
type Reason string

const (
	ReasonCancelled   Reason = "cancelled"
	ReasonSuperseded  Reason = "superseded"
	ReasonInterrupted Reason = "interrupted"
	ReasonRetracted   Reason = "retracted"
)

// Run is the row of one turn of an agent on a thread.
type Run struct {
	Key    int64  // the store's own key, growing in commit order; 0 until written
	Stored Status // the Status that the store has; the store alone sets it, "" until written
	ID     string
	Thread string // the thread's id

	Agent        string
	AgentVersion string // pinned at submit; see design.md on versions
	Mode         Mode
	Priority     int // 0 to 255, lower first
	Place        int64
	SubmitKey    string   // the idempotency key it was submitted with, or ""
	Parent       string   // run that this one descends from, or ""
	Caller       *Caller  `json:",omitempty"` // the run that sent it and wants its answer, or nil
	Lineage      []string `json:",omitempty"` // threads of the runs that sent it on, outermost first
	Origin       Origin
	Options      json.RawMessage // handed to the agent unread, at most MaxOptions
	Metadata     map[string]string
	MaxAttempts  int   // bounds Failures
	NoRetry      bool  `json:"Once,omitempty"` // any error of its agent ends it, an outage too
	FirstSeq     int64 // seq of its first message

	Status      Status
	Stop        Reason    // ByCancel or ByInterrupt once it was asked to stop
	StopBy      string    // who asked
	Scheduled   bool      `json:"Held"` // NotBefore has not come: it has no place in the queue yet
	NotBefore   time.Time // zero: at once
	AvailableAt time.Time // not to be claimed earlier
	// ClaimEnds is when the ledger ends the present claim, whatever its worker
	// does; zero: never. A stop moves it to StopGrace later at most. Both are zero
	// unless the run is claimed.
	ClaimEnds time.Time
	StopGrace time.Duration

	Attempt     int       // claims so far; the fence
	Failures    int       // attempts ended by the agent's own error
	Crashes     int       // claims lost in a row without progress
	Lost        int       // claims lost in all
	Outages     int       // attempts in a row ended by something unavailable
	OutageSince time.Time // end of the first of them, later by the time in which it was due and not taken

	Step       int             // durable steps so far
	LastStep   StepMark        // recognises the repeat of the last step or settle
	Inputs     []Input         // what it was started for
	InputBytes int64           // of the entries with the messages that were submitted for it; 0: not known
	Started    bool            // Inputs were listed by a run.started
	Steers     []Steer         // handed in while it is current, not yet covered by a step
	Checkpoint json.RawMessage // the agent's own state, at most MaxCheckpoint
	Wait       *Wait           // what it waits for, until it goes on
	Resumes    bool            // its next attempt follows a wait
	Asked      int             // tickets opened so far
	Flushed    bool            `json:",omitempty"` // pieces of the message it writes are in the store
	// Joined are the named sends that a run of their thread took in, so that
	// no run was made of them: name to thread.
	Joined   map[string]string `json:",omitempty"`
	Usage    Usage
	Progress float64 // 0 to 1, as far as its agent said; 1 when completed
	// Spent are the messages among Steers that have answered one of its tickets:
	// they are no longer edited or retracted.
	Spent []string `json:",omitempty"`

	Reply  *string // text of its last complete assistant message
	Error  *RunError
	Reason Reason // why it was cancelled

	CreatedAt  time.Time
	StartedAt  time.Time // of its first attempt; zero: never started
	FinishedAt time.Time
}

// Origin tells how a run came to be. It is set by the face that took the
// submit, never by its body.
type Origin struct {
	Via       string `json:"via"` // user, run, channel:NAME, …
	Sender    string `json:"sender"`
	RequestID string `json:"request_id,omitempty"`
}

// Caller is a run that sent this one to its thread and wants to know its end.
type Caller struct {
	Thread string
	Run    string
	Name   string // of the send
	Answer AnswerMode
}

// AnswerMode says how the end of a run that was sent reaches its sender.
type AnswerMode string

const (
	AnswerNone AnswerMode = ""     // not at all
	AnswerWait AnswerMode = "wait" // as the decision of a ticket named like the send
	AnswerWake AnswerMode = "wake" // as an internal message to the sender's thread
)

// Usage adds up what a run consumed.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}

// RunError is why an attempt or a run failed.
type RunError struct {
	Class   Class  `json:"class"`
	Message string `json:"message"`
}

// Input is one message that a run was started for. Seq is the entry with its
// present content: a message, or the edit that replaced it.
type Input struct {
	Message   string `json:"message"`
	Seq       int64  `json:"seq"`
	Retracted bool   `json:"retracted,omitempty"`
}

// Steer is a message handed to a current run. Own is the run that the messages
// of one submit become if the current run ends before reading them; the first
// of them has it, until they are read.
type Steer struct {
	Input
	Read bool `json:"read,omitempty"` // handed to the agent
	Own  *Run `json:"own,omitempty"`
}

// StepMark remembers the last step or settle of a run, to answer its repeat.
type StepMark struct {
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Digest  string `json:"digest"`
	Seq     int64  `json:"seq"` // last entry it appended
}

// NeverStarted reports whether the run waits in the queue for its first start.
func (r *Run) NeverStarted() bool { return r.Status == StatusQueued && r.StartedAt.IsZero() }

// OnLastAttempt reports whether losing the present claim, or the next, makes the
// run a dead letter. Such a run starts alone of its kind in a worker.
func (r *Run) OnLastAttempt() bool { return r.Crashes >= MaxCrashes-1 || r.Lost >= MaxLost-1 }

// MessageState derives the present state of an input or steered message of r.
// It reports false for a message that r does not hold.
func (r *Run) MessageState(id string) (string, bool) {
	for _, s := range r.Steers {
		if s.Message == id {
			switch {
			case s.Retracted:
				return MessageRetracted, true
			case s.Read:
				return MessageRead, true
			}
			return MessageAccepted, true
		}
	}
	for _, in := range r.Inputs {
		if in.Message == id {
			return r.inputState(in), true
		}
	}
	return "", false
}

func (r *Run) inputState(in Input) string {
	switch {
	case in.Retracted:
		return MessageRetracted
	case r.Status == StatusCompleted:
		return MessageDone
	case r.Started && (r.Step > 0 || r.Status != StatusRunning):
		return MessageRead
	case r.Started:
		return MessageDelivered
	case r.Status == StatusCancelled && r.Reason == ReasonRetracted:
		return MessageRetracted
	case r.Status == StatusCancelled:
		return MessageSuperseded
	}
	return MessageAccepted
}
