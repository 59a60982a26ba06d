package api

import (
	"encoding/json"
	"time"

	"mailroom"
)

// ClaimRequest asks for due runs, for a worker from elsewhere.
type ClaimRequest struct {
	Worker      string          `json:"worker,omitempty" doc:"Id that a claim before it was answered with. Absent: a new worker is registered."`
	Agents      json.RawMessage `json:"agents,omitempty" example:"[\"elsewhere\"]" doc:"Names of agents, or an object with the number of runs wanted of each: [\"coder\"] or {\"coder\": 2}. Needed to register; afterwards a choice of those."`
	Max         *int            `json:"max,omitempty" minimum:"0" maximum:"1000" example:"0" doc:"Runs wanted at most, 1 by default; 0 only registers."`
	Wait        string          `json:"wait,omitempty" doc:"How long to wait until something is due: a duration such as 20s, at most 60s. Default: not at all."`
	Round       int64           `json:"round,omitempty" minimum:"0" doc:"Numbers the worker's claims, from 1, growing. The same number again is answered with what it has claimed. Needed unless max is 0."`
	LastAttempt *bool           `json:"alone,omitempty" doc:"A run on its last chance may be among them, true by default: claim none while you have one."`
	Host        string          `json:"host,omitempty" maxLength:"255" doc:"Where the worker is, to be shown."`
	PID         int             `json:"pid,omitempty" minimum:"0" doc:"Its process, to be shown."`
}

// Claims is the answer to a ClaimRequest. A clock may be wrong: count LeaseMS
// from before the request that was answered.
type Claims struct {
	Worker     string    `json:"worker"`
	Round      int64     `json:"round"`
	LeaseUntil time.Time `json:"lease_until" doc:"Renew before, or what the worker has is taken away."`
	LeaseMS    int64     `json:"lease_ms" doc:"How long a lease is, in milliseconds from a renewal on."`
	Claims     []Claim   `json:"claims"`
}

// Claim is one claimed run with what an agent needs to begin.
type Claim struct {
	Claim      string             `json:"claim" doc:"RUN:ATTEMPT. Everything about the run is written and read under it."`
	Run        Run                `json:"run"`
	Messages   []mailroom.Message `json:"messages" doc:"What the run is for."`
	State      json.RawMessage    `json:"state" doc:"What the agent keeps for the thread; null at first."`
	Checkpoint json.RawMessage    `json:"checkpoint" doc:"Of the run's last step that left one; null at first."`
	Options    json.RawMessage    `json:"options" doc:"Of the submit, as they came."`
	Tickets    []Ticket           `json:"tickets" doc:"What the run has asked so far."`
	Steers     []Steer            `json:"steers" doc:"Messages for the run that no step covers: ask for them with steered."`
	Lost       int                `json:"lost" doc:"Claims of the run that were lost with their worker, in all."`
}

// Steer is a message that was handed in while its run was current.
type Steer struct {
	Message string `json:"message"`
	Seq     int64  `json:"seq" doc:"The entry with its content."`
	Read    bool   `json:"read" doc:"An earlier attempt has had it."`
}

// Renewal is a worker's sign of life. A claim of the round, or of one before,
// that is not held is given back: its answer was lost.
type Renewal struct {
	Round int64    `json:"round" minimum:"0" doc:"The last round whose answer the worker has; 0 for none."`
	Held  []string `json:"held" nullable:"false" maxItems:"10000" doc:"All claims that it has, RUN:ATTEMPT."`
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	LeaseUntil time.Time   `json:"lease_until"`
	LeaseMS    int64       `json:"lease_ms"`
	Lost       []string    `json:"lost" doc:"Claims of those held that were taken away: stop working on them, nothing more can be written."`
	Stop       []StopOrder `json:"stop" doc:"Claims whose run was asked to stop: end them soon."`
	Steered    []string    `json:"steered" doc:"Claims for which there are messages."`
}

// StopOrder says that a run was asked to stop.
type StopOrder struct {
	Claim  string          `json:"claim"`
	Reason mailroom.Reason `json:"reason"`
}

// Orders come with every answer about a claim.
type Orders struct {
	Stop    *mailroom.Reason `json:"stop" doc:"The run was asked to stop, and why: settle soon."`
	Steered bool             `json:"steered" doc:"There are messages for the run that nobody has read."`
}

// ClaimedRun is a run under its claim as it is now.
type ClaimedRun struct {
	Orders
	Run    Run     `json:"run"`
	Steers []Steer `json:"steers"`
}

// StepCommit is one durable step of a run.
type StepCommit struct {
	Number  int          `json:"number" minimum:"1" example:"1" doc:"The run's steps + 1. The same again is answered with the first result."`
	Step    Step         `json:"step,omitzero"`
	Message *PartialText `json:"message,omitempty" doc:"The message that was being written, whole. Absent: it goes on."`
	Covers  int64        `json:"covers,omitempty" minimum:"0" doc:"The last of the steered messages that were handed over before."`
	Effects []AgentEntry `json:"effects,omitempty" nullable:"false" maxItems:"100" doc:"Entries of kind effect.intended, effect.settled and effect.unknown. Their bodies have name and input, and result or error; effect and key are filled in."`
}

// Step is what an Append commits.
type Step struct {
	Name       string          `json:"name,omitempty" doc:"Of the step entry; absent: there is none."`
	Entries    []AgentEntry    `json:"entries,omitempty" nullable:"false" maxItems:"1000" doc:"Of kind tool.started, tool.finished, or beginning with x."`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty" doc:"Replaces the run's; a later attempt gets it."`
	State      json.RawMessage `json:"state,omitempty" doc:"Replaces what the agent keeps for the thread."`
	Tickets    []Ask           `json:"tickets,omitempty" nullable:"false" maxItems:"1000"`
	Sends      []Send          `json:"sends,omitempty" nullable:"false"`
	Usage      *Usage          `json:"usage,omitempty" doc:"Added to the run's."`
	Progress   float64         `json:"progress,omitempty" minimum:"0" maximum:"1" doc:"How far the run is; 0 leaves it."`
	NoProgress bool            `json:"record,omitempty" doc:"It notes a circumstance and is no progress."`
	Internal   bool            `json:"aside,omitempty" doc:"The message that is being written is no reply: it becomes internal."`
}

// AgentEntry is an entry that an agent writes.
type AgentEntry struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body" doc:"A JSON object."`
}

// PartialText is a message of the agent. Its ID is made up where it is absent.
type PartialText struct {
	ID        string `json:"id,omitempty" doc:"As the answers about its text had it; made up where it is absent."`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty" doc:"It was cut."`
}

// Ask is a question under a name. Asking it again changes nothing.
type Ask struct {
	Name      string              `json:"name" doc:"Unique in the run."`
	Kind      mailroom.TicketKind `json:"kind" enum:"approval,input,timer,event"`
	Prompt    string              `json:"prompt,omitempty"`
	Action    string              `json:"action,omitempty"`
	Arguments json.RawMessage     `json:"arguments,omitempty"`
	ExpiresAt *time.Time          `json:"expires_at,omitempty" doc:"When it expires, or a timer fires."`
	After     string              `json:"after,omitempty" doc:"Instead of expires_at: a duration such as 10m from when it is first asked."`
	Answers   bool                `json:"answers,omitempty" doc:"An approval that takes an answer as well."`
	Holds     bool                `json:"holds,omitempty" doc:"An event: messages wait in the queue while it is open."`
}

// Send is a message to another thread, once.
type Send struct {
	Name   string              `json:"name" doc:"Unique in the run."`
	Thread string              `json:"thread,omitempty" doc:"Absent: a new thread, the same one for the same name."`
	Agent  string              `json:"agent,omitempty"`
	Text   string              `json:"text,omitempty"`
	Parts  []mailroom.Part     `json:"parts,omitempty" nullable:"false" doc:"Instead of text."`
	Answer mailroom.AnswerMode `json:"answer,omitempty" enum:"wait,wake" doc:"wait: a ticket of that name is decided by the end of the run it becomes; wake: a message comes back."`
}

// Appended is the answer to an Append.
type Appended struct {
	Orders
	Seq int64 `json:"seq" doc:"The last entry of the step."`
}

// Text is a piece of the message that a run is writing.
type Text struct {
	Message string `json:"message,omitempty" doc:"Id of the message; made up where it is absent."`
	Offset  int    `json:"offset" minimum:"0" example:"0" doc:"In bytes of the message's text, UTF-8; 0 begins the next message."`
	Text    string `json:"text"`
	Live    bool   `json:"live,omitempty" doc:"Only show it: it comes again, to be kept."`
}

// TextTaken is the answer to a Text.
type TextTaken struct {
	Orders
	Message string `json:"message"`
	Offset  int    `json:"offset" doc:"Where the next piece begins."`
}

// Settle ends an attempt.
type Settle struct {
	Number  int              `json:"number" minimum:"1" example:"1" doc:"The run's steps + 1. The same again is answered with the same."`
	Outcome mailroom.Outcome `json:"outcome" enum:"complete,fail,release,wait"`
	Message *PartialText     `json:"message,omitempty" doc:"What was being written: the reply if the outcome is complete, else partial. Absent, with text too: what was kept of it."`
	Text    string           `json:"text,omitempty" doc:"Instead of message."`
	Failure *Failure         `json:"failure,omitempty" doc:"Needed with the outcome fail."`
	Wait    *WaitFor         `json:"wait,omitempty" doc:"Needed with the outcome wait: names of tickets."`
	Tickets []Ask            `json:"tickets,omitempty" nullable:"false" maxItems:"1000" doc:"Asked with the wait."`
	Forced  bool             `json:"forced,omitempty" doc:"The agent did not stop in time and was cut off."`
}

// WaitFor is what a run waits for, by the names of its tickets.
type WaitFor struct {
	Any   bool     `json:"any,omitempty" doc:"One of them is enough."`
	Names []string `json:"names" nullable:"false" maxItems:"1000"`
}

// Failure is why an attempt failed.
type Failure struct {
	Class      mailroom.Class `json:"class,omitempty" enum:"transient,unavailable,permanent" doc:"transient (the default) is tried again and counted, unavailable is tried again for a day, permanent is not."`
	Message    string         `json:"message"`
	RetryAfter string         `json:"retry_after,omitempty" doc:"Not to be tried again earlier: a duration such as 30s."`
}

// HandOver asks for the messages that were steered into a run.
type HandOver struct {
	After int64 `json:"after,omitempty" minimum:"0" doc:"The last of those that this attempt has had; 0 for none."`
}

// HandedOver is the answer to a HandOver.
type HandedOver struct {
	Messages []mailroom.Message `json:"messages"`
	Last     int64              `json:"last" doc:"For after, and for covers of the next step."`
}

// Effect is what the log says of one named effect of a run.
type Effect struct {
	mailroom.EffectEntry
	Tries int    `json:"tries" doc:"Times it was intended."`
	Last  string `json:"last" doc:"Kind of its last entry: effect.intended, effect.settled or effect.unknown."`
}
