package api

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// WorkerContract is the number of the operations under /v1/claims and /v1/workers as this version has them. It grows by
// one with a field, form or route that workers can need, so that a worker knows from one answer whether the server has
// what it needs. What a number promises, every higher one does.
//
//	0  servers that do not say their number
//	1  renewals without held, parts_only, the log of a claim, memos, parts of messages, live arguments of tools, and all
//	   fields of a submit in sends
//	2  more time for an attempt: extend of a step
//	3  what silent agents wait for: waits_on of a renewal
//	4  claims that were never entered: entered of a leave
//	5  blobs: uploads, and blobs of a step
const WorkerContract = 5

// ClaimRequest claims due runs for a remote worker.
type ClaimRequest struct {
	Worker      string          `json:"worker,omitempty" doc:"Id from the answer to an earlier claim. Absent: registers a new worker."`
	Agents      json.RawMessage `json:"agents,omitempty" example:"[\"elsewhere\"]" doc:"Names of agents, or an object with the number of runs wanted of each: [\"coder\"] or {\"coder\": 2}. Required to register; later a subset of those."`
	Max         *int            `json:"max,omitempty" minimum:"0" maximum:"1000" example:"0" doc:"Runs wanted at most, 1 by default; 0 only registers."`
	Wait        string          `json:"wait,omitempty" doc:"How long to wait until something is due: a duration such as 20s, at most 60s. Default: not at all."`
	Round       int64           `json:"round,omitempty" minimum:"0" doc:"Numbers the worker's claims, growing from 1. A repeated number returns what it has claimed. Required unless max is 0."`
	LastAttempt *bool           `json:"alone,omitempty" doc:"Also claims a run on its last attempt; true by default. Set it to false while you have one."`
	Host        string          `json:"host,omitempty" maxLength:"255" doc:"Name of the worker's machine, for display."`
	PID         int             `json:"pid,omitempty" minimum:"0" doc:"Process id of the worker, for display."`
	PartsOnly   bool            `json:"parts_only,omitempty" doc:"Leaves the text of messages empty: their parts have it."`
	Retry       *RetryPolicy    `json:"retry,omitempty" doc:"How failures of the runs claimed by this request are retried. Absent, and what it leaves out: as the server's configuration says."`
}

// RetryPolicy is how failures of a run are retried. Durations are from 1ms to 8760h. A First above the longest delay of
// the level above is the longest delay too, and a Most below its first delay is the first delay too.
type RetryPolicy struct {
	Attempts int    `json:"attempts,omitempty" minimum:"1" maximum:"100" doc:"Failures after which the run fails for good."`
	First    string `json:"first,omitempty" doc:"Delay of the first retry: a duration such as 2s, from 1ms to 8760h."`
	Most     string `json:"most,omitempty" doc:"Longest delay after a failure, plus up to a fifth; a duration such as 5m."`

	Factor float64 `json:"factor,omitempty" minimum:"1" maximum:"10" doc:"Each further delay is so many times as long."`

	OutageMost string `json:"outage_most,omitempty" doc:"Longest delay in an outage (class unavailable), such as 5m."`
	Outage     string `json:"outage,omitempty" doc:"How long an outage is retried: a duration from 1s to 8760h."`
}

// Claims is the answer to a ClaimRequest. Because clocks differ, count LeaseMS from the
// time just before the request.
type Claims struct {
	Worker     string    `json:"worker" doc:"Id of the worker, for its later requests."`
	Round      int64     `json:"round" doc:"The round of the request."`
	LeaseUntil time.Time `json:"lease_until" doc:"Renew before this time, or the worker loses its claims."`
	LeaseMS    int64     `json:"lease_ms" doc:"Length of a lease, in milliseconds from a renewal."`
	Claims     []Claim   `json:"claims" doc:"At most max; empty: nothing was due."`
	Version    string    `json:"version" doc:"Version of the server, for display."`
	Contract   int       `json:"contract" doc:"Number of its worker contract: see the operation. Absent: the server is older."`
}

// Claim is one claimed run with everything that an agent needs to start.
type Claim struct {
	Claim      string             `json:"claim" doc:"RUN:ATTEMPT. All reads and writes of the run name it."`
	Run        Run                `json:"run" doc:"The run; its attempt is that of this claim."`
	Messages   []mailroom.Message `json:"messages" doc:"The run's input."`
	State      json.RawMessage    `json:"state" doc:"The agent's state in the thread; null at first."`
	Checkpoint json.RawMessage    `json:"checkpoint" doc:"The run's last checkpoint; null at first."`
	Options    json.RawMessage    `json:"options" doc:"The options of the submit."`
	Tickets    []Ticket           `json:"tickets" doc:"The run's tickets so far."`
	Steers     []Steer            `json:"steers" doc:"Steered messages that no step covers; fetch them with steered."`
	Lost       int                `json:"lost" doc:"How many claims of the run were lost with their worker."`
	DeadlineMS int64              `json:"deadline_ms,omitempty" doc:"How long the attempt may take from now on, in milliseconds: end it and settle a failure then. The server ends the claim a grace later. Absent: the server is of an older version."`
}

// Steer is a message that was steered into a current run.
type Steer struct {
	Message string `json:"message" doc:"Id of the message."`
	Seq     int64  `json:"seq" doc:"The entry with its content."`
	Read    bool   `json:"read" doc:"An earlier attempt has read it."`
}

// Renewal extends a worker's lease. Without Held it releases nothing: a worker whose claim had no answer repeats the
// claim with the same round. With Held, a claim of Round or an earlier one that is not among Held is released, so both
// must be of one moment.
type Renewal struct {
	Round int64    `json:"round" required:"false" minimum:"0" doc:"With held: the last round whose answer the worker has."`
	Held  []string `json:"held,omitzero" nullable:"false" maxItems:"10000" doc:"All claims. See the operation."`

	WaitsOn map[string]string `json:"waits_on,omitempty" maxProperties:"10000" doc:"By claim. See the operation."`
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	LeaseUntil time.Time   `json:"lease_until" doc:"Renew before this time, or the worker loses its claims."`
	LeaseMS    int64       `json:"lease_ms" doc:"Length of the lease, in milliseconds from this renewal."`
	Lost       []string    `json:"lost" doc:"Held claims that were revoked: stop working on them; their writes are rejected."`
	Claims     []string    `json:"claims,omitzero" nullable:"false" doc:"Without held: all claims of the worker, maybe none."`
	Stop       []StopOrder `json:"stop" doc:"Claims whose run was asked to stop: end them soon."`
	Steered    []string    `json:"steered" doc:"Claims with unread steered messages."`
}

// Leave ends a worker's lease. Without Entered, all claims that it still holds are lost.
type Leave struct {
	Entered []string `json:"entered,omitzero" nullable:"false" maxItems:"10000" doc:"Claims whose agents have begun. Others are released."`
}

// StopOrder says that a run was asked to stop.
type StopOrder struct {
	Claim  string          `json:"claim" doc:"The claim, RUN:ATTEMPT, whose agent has to end."`
	Reason mailroom.Reason `json:"reason" doc:"cancelled, interrupted or deadline."`
}

// Orders are part of every answer about a claim.
type Orders struct {
	Stop    *mailroom.Reason `json:"stop" doc:"Why the run was asked to stop: settle soon. null: it was not."`
	Steered bool             `json:"steered" doc:"The run has unread steered messages."`
}

// ClaimedRun is the current state of a claimed run.
type ClaimedRun struct {
	Orders
	Run    Run     `json:"run" doc:"Its state now."`
	Steers []Steer `json:"steers" doc:"As in the claim."`
}

// StepCommit is one durable step of a run.
type StepCommit struct {
	Number  int          `json:"number" minimum:"1" example:"1" doc:"The run's steps + 1. A repeat returns the first result."`
	Step    Step         `json:"step,omitzero" doc:"What to commit. Absent: only the message or the effects."`
	Message *PartialText `json:"message,omitempty" doc:"The whole text of the message being written. Absent: the message continues."`
	Covers  int64        `json:"covers,omitempty" minimum:"0" doc:"The last steered message that this step takes into account."`
	Effects []AgentEntry `json:"effects,omitempty" nullable:"false" maxItems:"100" doc:"Entries of kind effect.intended, effect.settled and effect.unknown. A body has name and input, and result or error; the server adds effect and key."`
}

// Step is the content of a StepCommit.
type Step struct {
	Name       string          `json:"name,omitempty" doc:"Name of the step entry. Absent: no such entry is written."`
	Entries    []AgentEntry    `json:"entries,omitempty" nullable:"false" maxItems:"1000" doc:"Of kind tool.started or tool.finished, or of a kind that begins with \"x.\"."`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty" doc:"Replaces the run's checkpoint; a later attempt starts with it."`
	State      json.RawMessage `json:"state,omitempty" doc:"Replaces the agent's state in the thread."`
	Blobs      []BlobChange    `json:"blobs,omitempty" nullable:"false" doc:"Blobs that the step writes or deletes."`
	Tickets    []Ask           `json:"tickets,omitempty" nullable:"false" maxItems:"1000" doc:"Tickets to open; only a settle waits for them."`
	Sends      []Send          `json:"sends,omitempty" nullable:"false" doc:"Messages to other threads; each once under its name."`
	Usage      *Usage          `json:"usage,omitempty" doc:"Added to the run's."`
	Progress   float64         `json:"progress,omitempty" minimum:"0" maximum:"1" doc:"Progress of the run; 0 keeps the last value."`
	Extend     string          `json:"extend,omitempty" doc:"Time that the attempt may take from now on, such as 10m. See the operation."`
	NoProgress bool            `json:"record,omitempty" doc:"Records a circumstance, such as a process id: it does not reset the count of crashes."`
	Internal   bool            `json:"aside,omitempty" doc:"Makes the message being written internal: it is no reply."`
}

// AgentEntry is an entry that an agent writes.
type AgentEntry struct {
	Kind string          `json:"kind" doc:"Which ones are allowed: see entries and effects."`
	Body json.RawMessage `json:"body" doc:"A JSON object."`
}

// PartialText is the text of a message of the agent.
type PartialText struct {
	ID        string `json:"id,omitempty" doc:"The id from the answers about its text. Absent: the server generates one."`
	Text      string `json:"text" doc:"The whole text, from its first byte. May be empty beside parts."`
	Truncated bool   `json:"truncated,omitempty" doc:"The text was cut."`

	Parts []mailroom.Part `json:"parts,omitempty" nullable:"false" doc:"Of types reasoning, data and file."`
}

// Ask opens a ticket under a name. A repeat changes nothing.
type Ask struct {
	Name      string              `json:"name" doc:"Unique in the run."`
	Kind      mailroom.TicketKind `json:"kind" enum:"approval,input,timer,event" doc:"approval, input: a person decides; event: a program."`
	Prompt    string              `json:"prompt,omitempty" doc:"Question to the user. Absent: none is shown."`
	Action    string              `json:"action,omitempty" doc:"With an approval: what would be done."`
	Arguments json.RawMessage     `json:"arguments,omitempty" doc:"Arguments of the action; any JSON."`
	ExpiresAt *time.Time          `json:"expires_at,omitempty" doc:"When the ticket expires, or the timer fires."`
	After     string              `json:"after,omitempty" doc:"Instead of expires_at: a duration from the first ask on, such as 10m."`
	Answers   bool                `json:"answers,omitempty" doc:"An approval that takes an answer as well."`
	Holds     bool                `json:"holds,omitempty" doc:"An event: messages wait in the queue while it is open."`
}

// Send sends a message to another thread. A repeat under the same name sends nothing.
type Send struct {
	Name   string              `json:"name" doc:"Unique in the run."`
	Thread string              `json:"thread,omitempty" doc:"Absent: a new thread, the same one for the same name."`
	Agent  string              `json:"agent,omitempty" doc:"Handles it. Absent: the thread's agent, else the server's."`
	Text   string              `json:"text,omitempty" doc:"Instead of one text part."`
	Parts  []mailroom.Part     `json:"parts,omitempty" nullable:"false" doc:"Instead of text."`
	Answer mailroom.AnswerMode `json:"answer,omitempty" enum:"wait,wake" doc:"wait: the end of the run decides a ticket of this name; wake: the end of the run sends a message back."`

	// As in a submit.
	Mode      mailroom.Mode     `json:"mode,omitempty" doc:"Not steer or collect with answer. interrupt, latest: to threads made by this one."`
	Priority  *int              `json:"priority,omitempty" minimum:"0" maximum:"255" doc:"128 by default, lower first."`
	NotBefore string            `json:"not_before,omitempty" doc:"A time (RFC 3339), or a duration from the first send on, such as 10m."`
	Deadline  string            `json:"deadline,omitempty" doc:"When its run ends: a time, or a duration from the first send on."`
	Options   json.RawMessage   `json:"options,omitempty" doc:"Handed to the agent unread."`
	Metadata  map[string]string `json:"metadata,omitempty" doc:"Labels of the run."`
	Budget    *Budget           `json:"budget,omitempty" doc:"Its part of the run's budget. Default: a share of half of what is left."`
}

// Appended is the answer to a StepCommit.
type Appended struct {
	Orders
	Seq        int64 `json:"seq" doc:"The last entry of the step."`
	DeadlineMS int64 `json:"deadline_ms,omitempty" doc:"With extend: as in the claim, from now on. Absent: no change."`
	BudgetLeft *Left `json:"budget_left,omitempty" doc:"What is left of the run's budget after the step. Absent: it has none."`
}

// Text is a chunk of the message that a run is writing.
type Text struct {
	Message string `json:"message,omitempty" doc:"Id of the message. Absent: the server generates one."`
	Offset  int    `json:"offset" minimum:"0" example:"0" doc:"In bytes of the message's UTF-8 text; 0 begins a new message."`
	Text    string `json:"text" doc:"The chunk. Its part that is stored already is not stored twice."`
	Live    bool   `json:"live,omitempty" doc:"Show it to readers without storing it; the worker sends it again to store it."`
	Channel string `json:"channel,omitempty" enum:"text,thinking,tool" doc:"thinking and tool are live only. Absent: text."`
	Call    string `json:"call,omitempty" doc:"With the channel tool: the call of the tool.started that follows."`
	Name    string `json:"name,omitempty" doc:"With the channel tool: the name of the tool."`
}

// TextTaken is the answer to a Text.
type TextTaken struct {
	Orders
	Message string `json:"message" doc:"Id of the message; the next chunk names it."`
	Offset  int    `json:"offset" doc:"Where the next chunk begins."`
}

// Settle ends an attempt.
type Settle struct {
	Number  int            `json:"number" minimum:"1" example:"1" doc:"The run's steps + 1. A repeat returns the first result."`
	Outcome thread.Outcome `json:"outcome" enum:"complete,fail,release,wait" doc:"release gives the claim back; wait parks it for tickets."`
	Message *PartialText   `json:"message,omitempty" doc:"The message being written: the reply if the outcome is complete, else a partial message. With neither message nor text, the stored chunks are used."`
	Text    string         `json:"text,omitempty" doc:"Instead of message."`
	Failure *Failure       `json:"failure,omitempty" doc:"Required with the outcome fail."`
	Wait    *WaitFor       `json:"wait,omitempty" doc:"Required with the outcome wait."`
	Tickets []Ask          `json:"tickets,omitempty" nullable:"false" maxItems:"1000" doc:"Tickets to open with the wait."`
	Forced  bool           `json:"forced,omitempty" doc:"The agent did not stop in time and was killed."`
	Entered bool           `json:"entered,omitempty" doc:"With the outcome release: the agent had begun to work. A run with max_crashes 0 then ends."`
}

// WaitFor names the tickets that a run waits for.
type WaitFor struct {
	Any   bool     `json:"any,omitempty" doc:"One of them is enough."`
	Names []string `json:"names" nullable:"false" maxItems:"1000" doc:"Names of tickets of the run, or of those that the settle opens."`
}

// Failure is why an attempt failed.
type Failure struct {
	Class      mailroom.Class `json:"class,omitempty" enum:"transient,unavailable,permanent" doc:"transient (the default) is retried and counts as a failure; unavailable is retried for a day; permanent is not retried."`
	Message    string         `json:"message" doc:"The reason, for people; kept as the error of the attempt."`
	RetryAfter string         `json:"retry_after,omitempty" doc:"No retry before: a duration such as 30s. More than 840h (35 days) counts as that."`
	Agent      bool           `json:"agent,omitempty" doc:"The fault is the agent's own, such as an expired login, and each of its runs would fail alike: the run stays queued whatever the class, and the server pauses the agent and probes it."`
}

// HandOver fetches the messages that were steered into a run and marks them as read.
type HandOver struct {
	After int64 `json:"after,omitempty" minimum:"0" doc:"The last steered message that this attempt has; 0 for none."`
}

// HandedOver is the answer to a HandOver.
type HandedOver struct {
	Messages []mailroom.Message `json:"messages" doc:"Those after the after of the request, in order; empty: no new ones."`
	Last     int64              `json:"last" doc:"The after of the next request, and the covers of the next step."`
}

// Effect is the recorded state of one named effect of a run.
type Effect struct {
	entry.EffectEntry
	Tries   int    `json:"tries" doc:"How often the effect was started."`
	Attempt int    `json:"attempt" doc:"Of the last start; 0: only its value was recorded. Its own: the worker itself began it."`
	Last    string `json:"last" doc:"Kind of its last entry: effect.intended, effect.settled or effect.unknown."`
}
