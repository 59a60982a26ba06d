package mailroom

import (
	"cmp"
	"encoding/json"
	"time"
)

// Status is the status of a run.
type Status string

// Mode is the effect of a submit on a busy thread.
type Mode string

// Reason is why a run was cancelled or asked to stop.
type Reason string

// Finished reports whether a run with this status has ended.
func (s Status) Finished() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// Run is the row of a run: one turn of an agent on a thread.
type Run struct {
	Key    int64  // set by the store, growing in commit order; 0 until written
	Stored Status // status in the store; set by the store, "" until written
	ID     string
	Thread string // the thread's id

	Agent        string
	AgentVersion string // pinned at submit; see design.md on versions
	Mode         Mode
	Priority     int // 0 to 255, lower first
	Place        int64
	SubmitKey    string   // the idempotency key it was submitted with, or ""
	Parent       string   // run that this one descends from, or ""
	Caller       *Caller  `json:",omitempty"` // run that sent it and expects an answer, or nil
	Lineage      []string `json:",omitempty"` // threads of the runs that led to it, outermost first
	Origin       Origin
	Options      json.RawMessage // passed to the agent as they are, at most MaxOptions
	Metadata     map[string]string
	MaxAttempts  int   // bounds Failures; see AgentAttempts
	NoRetry      bool  `json:"Once,omitempty"` // any error of its agent fails it, outages included
	FirstSeq     int64 // seq of its first message

	Status      Status
	Stop        Reason    // ReasonCancelled, ReasonInterrupted, ReasonDeadline or ReasonBudget once it was asked to stop
	StopBy      string    // who asked it to stop
	Scheduled   bool      `json:"Held"` // NotBefore is in the future; it has no place in the queue yet
	NotBefore   time.Time // zero: no delay
	AvailableAt time.Time // earliest time of the next claim
	// ClaimEnds is when the ledger ends the current claim, regardless of its worker; zero means
	// never. A stop moves it to at most StopGrace later. Both are zero unless the run is claimed.
	ClaimEnds time.Time
	StopGrace time.Duration

	Attempt     int       // number of claims; the fencing token
	Failures    int       // attempts ended by an error of the agent
	Crashes     int       // consecutive lost claims without progress
	Lost        int       // lost claims in total
	Outages     int       // consecutive attempts ended by ClassUnavailable
	OutageSince time.Time // end of the first of them, shifted by the time spent in the queue

	Step       int      // number of durable steps
	LastStep   StepMark // recognizes a repeat of the last step or settle
	Inputs     []Input  // messages that started it
	InputBytes int64    // size of the entries of the submitted messages; 0: unknown
	// InputText is the text of the message at FirstSeq while that is the only input and the run never
	// started, if the message is a short plain text of Origin.Sender that all may see. "": the log has it.
	InputText  string          `json:",omitempty"`
	Started    bool            // a run.started has listed the Inputs
	Steers     []Steer         // messages steered into it, not yet covered by a step
	Checkpoint json.RawMessage // state of the agent, at most MaxCheckpoint
	Wait       *Wait           // tickets it waits for, until its next attempt
	Resumes    bool            // its next attempt follows a wait
	Asked      int             // number of tickets opened
	Flushed    bool            `json:",omitempty"` // the store has flushed text of its message
	// LastMessage is the id of the last message that the claim has written to the log. Text that is
	// flushed for it comes late.
	LastMessage string `json:",omitempty"`
	// Joined maps the names of sends that a run of the target thread took in, so that no run was
	// created for them, to that thread.
	Joined   map[string]string `json:",omitempty"`
	Usage    Usage
	Progress float64 // from 0 to 1, as the agent reports it; 1 when the run has completed
	// Spent lists the messages among Steers that answered one of its tickets. They can no longer be
	// edited or retracted.
	Spent []string `json:",omitempty"`

	Reply  *string // text of its last complete public message
	Error  *RunError
	Reason Reason // why it was cancelled, or ReasonBudget: it has completed with what it had when its budget was spent
	// ErrorGroup is equal for failed runs whose errors differ only in ids, numbers, paths, addresses
	// and quoted text. It is "" unless the run is failed, and if an older version failed it.
	ErrorGroup string `json:",omitempty"`

	CreatedAt  time.Time // of a steered message that became a run: the time when it became one
	StartedAt  time.Time // start of its first attempt; zero: never started
	FinishedAt time.Time
	// StartDelay is the time from AvailableAt to StartedAt. It includes the wait for the runs before it in
	// the thread. -1: an older version started it.
	StartDelay time.Duration `json:",omitzero"`
	Counted    Counted       `json:",omitzero"`
	// LastError is why its last attempt failed, while the run waits for the next one, at AvailableAt.
	LastError *RunError `json:",omitempty"`
	// CrashLimit is the submit's own bound of Crashes; nil: MaxCrashes. With 0 no lost claim at all is followed
	// by another attempt, nor is one that its worker gave back after its agent had begun.
	CrashLimit *int `json:",omitempty"`
	// Deadline is when the run ends, whatever its state. It is not started then; a worker that holds it is asked to
	// stop. Zero: never.
	Deadline time.Time `json:",omitzero"`
	// AgentAttempts reports that the submit gave no MaxAttempts: each claim sets it, from the policy of the worker
	// or the agent. A run of an older version keeps its number, because its row does not say who gave it.
	AgentAttempts bool `json:",omitempty"`
	// RetryFirst and RetryMost are the first and the longest delay of its retries, RetryFactor the growth of the
	// delays, RetryOutageMost the longest delay in an outage and RetryOutage how long an outage is retried, as of its
	// last claim. Zero: the defaults.
	RetryFirst      time.Duration `json:",omitzero"`
	RetryMost       time.Duration `json:",omitzero"`
	RetryFactor     float64       `json:",omitzero"`
	RetryOutageMost time.Duration `json:",omitzero"`
	RetryOutage     time.Duration `json:",omitzero"`
	// SubmitRetry is what its submit said about retries, without the number of attempts, such as
	// "first=10s,factor=2". "": nothing.
	SubmitRetry string `json:",omitempty"`
	// Joins reports that the run waits for more messages of its sender, until NotBefore. It is the newest run of
	// its thread, and Scheduled.
	Joins bool `json:",omitempty"`
	// JoinUntil is the latest time, by the clock of their platform, at which messages were written that join the run.
	// Zero: the platform has said no time.
	JoinUntil time.Time `json:",omitzero"`
	// JoinSince is the start of the server that found the run still waiting for more messages, which it could not
	// receive before. The run waits again from that time. Zero: there was no such start.
	JoinSince time.Time `json:",omitzero"`
	// ClaimSpare is by how much steps of the current attempt may still move ClaimEnds, see Step.Extend.
	ClaimSpare time.Duration `json:",omitzero"`
	// WaitsOn is what the agent of the current attempt says that it waits for, see Live.WaitsOn, and WaitsSince when
	// a renewal first said so.
	WaitsOn    string    `json:",omitempty"`
	WaitsSince time.Time `json:",omitzero"`
	// Turns is the number of steps that reported a usage.
	Turns int64 `json:",omitempty"`
	// Budget bounds what the run and the runs that it sends may use; nil: nothing does. Transitions replace it and never
	// change what it points to.
	Budget *RunBudget `json:",omitempty"`
	// LimitKey is what the agent's bounds for each key, of running runs and of starts, count it under, among the runs
	// of its owner; "": it is under no such bound.
	LimitKey string `json:",omitempty"`
	// Labelled is the label that the summary of ended runs has of the run's last end.
	Labelled Labelled `json:",omitzero"`

	// Newer has the fields of the row that a newer version wrote, in the encoding of the store. It
	// is written back as it was read, so that both versions can share a store. It is empty if the
	// store has a column for each field.
	Newer string `json:"-"`
}

// Counted is what the summary of ended runs has of a run: the part of its usage that summaries add up.
type Counted struct {
	At           time.Time // its last end; another FinishedAt is of an older version, which counts none
	InputTokens  int64     // up to then
	OutputTokens int64
	CostUSD      float64
}

// Labelled is the value of a metadata key that an end of a run was counted for, see store.LabelKey.
type Labelled struct {
	At  time.Time // that end; another FinishedAt was not counted for a label
	Key string
}

// Origin records how a run was created. The protocol that received the submit sets it, never the
// request body.
type Origin struct {
	Via       string `json:"via" doc:"user: a call of the API; channel:NAME, run, wake, a protocol such as mcp, or the label of the token."`
	Sender    string `json:"sender" doc:"Name of the token, the user or the agent."`
	RequestID string `json:"request_id,omitempty" doc:"X-Request-ID, or a new id; for a channel, that of the event. Absent: a run sent it."`
}

// Caller is the run that sent this one and expects an answer.
type Caller struct {
	Thread string
	Run    string
	Name   string // name of the send
	Answer AnswerMode
}

// AnswerMode is how the end of a sent run is reported to its sender.
type AnswerMode string

// Usage sums up what a run consumed.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty"` // all that models read, from a cache or not
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`

	CacheReadTokens  int64  `json:"cache_read_tokens,omitempty"`  // part of InputTokens: read from the provider's cache
	CacheWriteTokens int64  `json:"cache_write_tokens,omitempty"` // part of InputTokens: written to the cache
	ReasoningTokens  int64  `json:"reasoning_tokens,omitempty"`   // part of OutputTokens: not in the answer
	Model            string `json:"model,omitempty"`              // the last one that was called, as its provider names it

	// ComputedUSD is the part of CostUSD that the server computed from tokens and the prices of models.
	ComputedUSD float64 `json:"computed_usd,omitempty"`
}

// Plus returns the sum of u and a later usage.
func (u Usage) Plus(later Usage) Usage {
	u.InputTokens += later.InputTokens
	u.OutputTokens += later.OutputTokens
	u.CostUSD += later.CostUSD
	u.CacheReadTokens += later.CacheReadTokens
	u.CacheWriteTokens += later.CacheWriteTokens
	u.ReasoningTokens += later.ReasoningTokens
	u.Model = cmp.Or(later.Model, u.Model)
	u.ComputedUSD += later.ComputedUSD
	return u
}

// RunError is the error of a failed attempt or run.
type RunError struct {
	Class   Class  `json:"class" doc:"transient, unavailable, permanent, exhausted (attempts or time used up) or crashed."`
	Message string `json:"message" doc:"What went wrong, for people."`
}

// Input is one message that started a run. Seq is the entry with its current content: the message,
// or its last edit.
type Input struct {
	Message   string `json:"message"`
	Seq       int64  `json:"seq"`
	Retracted bool   `json:"retracted,omitempty"`
}

// Steer is a message steered into a current run. Own is the run that the messages of one submit
// become if the current run ends before reading them. The first of them carries it until they are
// read.
type Steer struct {
	Input
	Read bool `json:"read,omitempty"` // the agent has read it
	Own  *Run `json:"own,omitempty"`
}

// StepMark identifies the last step or settle of a run, to answer a repeat.
type StepMark struct {
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Digest  string `json:"digest"`
	Seq     int64  `json:"seq"` // last entry that it appended
}

// HasPassed reports whether the run is open, was not asked to stop, and has a deadline that is not after now.
func (r *Run) HasPassed(now time.Time) bool {
	return r.AwaitsDeadline() && !r.Deadline.After(now)
}

// AwaitsDeadline reports whether the run is open, was not asked to stop, and has a deadline.
func (r *Run) AwaitsDeadline() bool {
	return r.HasDeadline() && !r.Status.Finished() && r.Stop == ""
}

// HasDeadline reports whether the run has a deadline that was not removed.
func (r *Run) HasDeadline() bool { return r.Deadline.UnixMicro() > 0 }

// RemoveDeadline removes the run's deadline, if there is one, by setting it to the Unix time 0. The zero value
// would mean that there never was a deadline, but a store has to delete it from its index, also if one transaction
// ended the run, removed the deadline and started the run again.
func (r *Run) RemoveDeadline() {
	if !r.Deadline.IsZero() {
		r.Deadline = time.UnixMicro(0).UTC()
	}
}

// NeverStarted reports whether the run is queued for its first attempt.
func (r *Run) NeverStarted() bool { return r.Status == StatusQueued && r.StartedAt.IsZero() }

// OnLastAttempt reports whether one more lost claim makes the run a dead letter. A worker runs at
// most one such run at a time, so that it cannot take others down with it.
//
// A run that never crashed is not suspected, however few crashes it may have: such runs need not wait for
// each other.
func (r *Run) OnLastAttempt() bool {
	return r.Crashes > 0 && r.Crashes >= r.MaxCrashes()-1 || r.Lost >= MaxLost-1
}

// MaxCrashes returns the number of lost claims in a row that make the run a dead letter.
//
// It is apart from MaxAttempts, which bounds failures: a claim that was lost with its worker is not a failure. 0
// forbids every second start that the agent did not ask for: after a lost lease, after a claim that its worker no
// longer holds (the worker may have worked, and not reached the server with the result), and after a release that
// followed the start of the agent, which the settle says. A run whose claim was given back before the agent was
// entered starts again.
func (r *Run) MaxCrashes() int {
	if r.CrashLimit == nil {
		return MaxCrashes
	}
	return *r.CrashLimit
}

// LostForGood reports whether the run's lost claims make it a dead letter.
func (r *Run) LostForGood() bool {
	return r.Crashes > 0 && r.Crashes >= r.MaxCrashes() || r.Lost > 0 && r.MaxCrashes() == 0 || r.Lost >= MaxLost
}

// MessageState returns the state of an input or steered message of r, false if r does not hold the
// message.
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
