package api

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// Run is one turn of an agent on a thread. A field that is unknown or does not apply
// is null.
type Run struct {
	ID           string             `json:"id" doc:"Unique among all runs; opaque."`
	Thread       string             `json:"thread" doc:"Id of its thread."`
	Agent        string             `json:"agent" doc:"Name of the agent that handles it."`
	AgentVersion *string            `json:"agent_version" doc:"null while it is unknown."`
	Status       mailroom.Status    `json:"status" enum:"queued,running,waiting,completed,failed,cancelled" doc:"queued also before a retry."`
	Stopping     bool               `json:"stopping" doc:"It was asked to stop and has not ended yet."`
	Mode         mailroom.Mode      `json:"mode" doc:"Mode of its submit or send; queue if that named none."`
	Priority     int                `json:"priority" doc:"0 to 255, lower first."`
	Place        int64              `json:"place" doc:"Its position in the queue of its thread."`
	Attempt      int                `json:"attempt" doc:"Claims so far, 0 before the first."`
	Failures     int                `json:"failures" doc:"Attempts ended by the agent's own error."`
	Crashes      int                `json:"crashes" doc:"Claims lost in a row without progress."`
	MaxAttempts  int                `json:"max_attempts" doc:"Bounds failures. Unless the submit gave it, each attempt begins with that of its worker or agent."`
	Retry        *RetryPolicy       `json:"retry,omitempty" doc:"How its last attempt is retried, without what is the default."`
	MaxCrashes   *int               `json:"max_crashes" doc:"Bounds crashes. 0: no lost claim is followed by another attempt. null: the server is of an older version."`
	AvailableAt  time.Time          `json:"available_at" doc:"The run is not claimed before."`
	NotBefore    *time.Time         `json:"not_before" doc:"Its submit wanted no start before; null: no such time."`
	Deadline     *time.Time         `json:"deadline" doc:"The run ends then, whatever its status, with the reason deadline."`
	Budget       *RunBudget         `json:"budget,omitempty" doc:"Bounds what it may use, with all that it sends. Absent: nothing does."`
	Worker       *string            `json:"worker" doc:"Holds its claim, while it is running."`
	LeaseUntil   *time.Time         `json:"lease_until" doc:"End of that worker's lease."`
	Key          *string            `json:"key" doc:"Idempotency key it was submitted with."`
	LimitKey     *string            `json:"concurrency_key,omitempty" doc:"Key of its submit, or of key_from. Absent: none."`
	Parent       *string            `json:"parent" doc:"Run that this one descends from."`
	Origin       mailroom.Origin    `json:"origin" doc:"Who submitted it, and by which protocol."`
	Options      json.RawMessage    `json:"options" doc:"As the submit gave them; null: it gave none."`
	Metadata     map[string]string  `json:"metadata" doc:"Labels of its submit; empty: none."`
	Messages     []string           `json:"messages" doc:"Ids of the messages it was started for."`
	Reply        *string            `json:"reply" doc:"Text of its last complete assistant message."`
	Error        *mailroom.RunError `json:"error" doc:"Why it failed for good."`
	LastError    *mailroom.RunError `json:"last_error" doc:"Why its last attempt failed, while it waits for the next one at available_at; else null."`
	ErrorGroup   *string            `json:"error_group" doc:"Equal for failed runs whose errors differ only in ids, numbers, paths, addresses and quoted text."`
	Reason       *mailroom.Reason   `json:"reason" doc:"Why it was cancelled, or completed early: budget."`
	Wait         *Wait              `json:"wait" doc:"What it waits for, while it is waiting."`
	WaitsOn      *WaitsOn           `json:"waits_on,omitempty" doc:"What its silent agent waits for."`
	WaitsFor     []Blocker          `json:"waits_for,omitempty" nullable:"false" doc:"Why it does not run, while it is queued or waiting: what keeps it, then what keeps the run before it, and so on. The last one is the cause. Absent in the answers of a worker's calls."`
	Steps        int                `json:"steps" doc:"Durable steps so far."`
	Progress     float64            `json:"progress" doc:"Reported by the agent, 0 to 1; 1 when completed."`
	Usage        *Usage             `json:"usage" doc:"Consumed over all attempts; null until the agent reports any."`
	CreatedAt    time.Time          `json:"created_at" doc:"Of a steered message that became a run: the time when it became one."`
	StartedAt    *time.Time         `json:"started_at" doc:"Start of its first attempt since its submit or retry by hand; null: not started."`
	FinishedAt   *time.Time         `json:"finished_at" doc:"When it completed, failed or was cancelled; null while it is open."`
	Title        string             `json:"title,omitempty" doc:"In lists: the start of its first message, one plain line."`
}

// Blocker is what keeps an open run from running.
type Blocker struct {
	Cause   thread.Cause `json:"cause" enum:"decision,event,child,timer,run,time,join,retry,pause,budget,worker,server,rate,limit,slot" doc:"decision: a person decides or answers. event: a program does. child: a run that it has sent ends. timer: it sleeps. run: another run of its thread comes first. time: its not_before. join: more messages of its sender may join it. retry: its next attempt is delayed. pause: its agent is paused. budget: the budget of its agent is spent. worker: no live worker serves its agent. server: the server that keeps its session has none. rate: its agent or its token has started as many runs as its rate allows. limit: as many runs of its agent or its token are running as may. slot: it is due, and its workers start it next or have no free slot."`
	Text    string       `json:"text" doc:"The same in words, one line that continues: waits for." example:"a decision: Deploy release 7?"`
	Until   *time.Time   `json:"until,omitempty" doc:"When it ends by itself. Absent: that is unknown."`
	Run     string       `json:"run,omitempty" doc:"With run or child: id of the run that comes first, which the next item is about. Absent: the token does not see it."`
	Tickets []string     `json:"tickets,omitempty" nullable:"false" doc:"Ids of the open tickets that it waits for."`
}

// WaitsOn says what a silent agent waits for.
type WaitsOn struct {
	Text  string    `json:"text" doc:"In the words of the agent, one line." example:"tool call: cargo test"`
	Since time.Time `json:"since" doc:"When a renewal of its worker first said so."`
}

// Wait says what a parked run waits for.
type Wait struct {
	Tickets []string `json:"tickets" doc:"Ids of the tickets."`
	Until   string   `json:"until" enum:"all,any" doc:"How many of them it needs."`
}

// Usage adds up what a run consumed, over all of its attempts.
type Usage struct {
	InputTokens  int64   `json:"input_tokens" doc:"All tokens that models read, from a cache or not."`
	OutputTokens int64   `json:"output_tokens" doc:"All tokens that models wrote."`
	CostUSD      float64 `json:"cost_usd" doc:"In US dollars, as the agent reports it, else computed from tokens."`

	CacheReadTokens  int64  `json:"cache_read_tokens,omitempty" doc:"Part of input_tokens: read from the provider's cache."`
	CacheWriteTokens int64  `json:"cache_write_tokens,omitempty" doc:"Part of input_tokens: written to the cache."`
	ReasoningTokens  int64  `json:"reasoning_tokens,omitempty" doc:"Part of output_tokens: not in the answer."`
	Model            string `json:"model,omitempty" doc:"The model that was called last, as its provider names it."`

	ComputedUSD float64 `json:"computed_usd,omitempty" doc:"Part of cost_usd that the server computed from prices of models."`
}

// Settled reports whether the run has finished or waits: it does not change by itself.
func (r *Run) Settled() bool { return r.Status.Finished() || r.Status == mailroom.StatusWaiting }

// Thread is an address with a log and a queue of runs.
type Thread struct {
	ID         string          `json:"id" doc:"Unique: the one of its first submit, or a new one."`
	Agent      string          `json:"agent" doc:"Handles its next submit."`
	Owner      string          `json:"owner" doc:"Name of the token that created it, or whose run did; admin is the operator."`
	Status     string          `json:"status" enum:"idle,queued,running,waiting" doc:"idle: no open run."`
	LastSeq    int64           `json:"last_seq" doc:"Its newest entry."`
	OldestSeq  int64           `json:"oldest_seq" doc:"The first entry that is kept."`
	ActiveRun  *string         `json:"active_run" doc:"The run that has started and is neither finished nor waiting."`
	WaitingRun *string         `json:"waiting_run" doc:"The run that waits for tickets; null unless the status is waiting."`
	LatestRun  *string         `json:"latest_run" doc:"The run that was submitted last."`
	Queued     int             `json:"queued" doc:"Runs that have not started."`
	Parent     *string         `json:"parent" doc:"Thread whose run made this one."`
	DeliverTo  *string         `json:"deliver_to" doc:"Thread that gets the replies, questions and failures of this one."`
	Metadata   json.RawMessage `json:"metadata" doc:"A JSON object; {} until a patch sets it, and for threads of alerts."`
	CreatedAt  time.Time       `json:"created_at" doc:"Time of the first submit, or of its creation by the server."`
	UpdatedAt  time.Time       `json:"updated_at" doc:"Time of its newest entry or of a later patch."`
	Title      string          `json:"title,omitempty" doc:"In lists: the title of its latest run."`
}

// Statuses of a thread.
const (
	ThreadIdle    = "idle"
	ThreadQueued  = "queued"
	ThreadRunning = "running"
	ThreadWaiting = "waiting"
)

// Submit sends messages to a thread. It has exactly one of Text, Parts and Messages, or
// none of them with Decisions.
type Submit struct {
	Thread       string            `json:"thread,omitempty" doc:"Absent or blank: a new thread."`
	Text         string            `json:"text,omitempty" example:"What is new?" doc:"Instead of one text part."`
	Parts        []mailroom.Part   `json:"parts,omitempty" nullable:"false" doc:"One message. Instead of text or messages."`
	Messages     []NewMessage      `json:"messages,omitempty" nullable:"false" doc:"Several messages, in order. Instead of text or parts."`
	Agent        string            `json:"agent,omitempty" doc:"Becomes the thread's agent. Default: the thread's, else the server's."`
	AgentVersion string            `json:"agent_version,omitempty" doc:"Default: the current one. Another one must be kept, as versions are while runs use them."`
	Mode         mailroom.Mode     `json:"mode,omitempty" doc:"queue (the default), steer, interrupt, latest, collect or reject."`
	Key          string            `json:"key,omitempty" doc:"The header Idempotency-Key means the same."`
	LimitKey     string            `json:"concurrency_key,omitempty" doc:"Of the run, for key_limit and key_rate. Default: as key_from says."`
	Priority     *int              `json:"priority,omitempty" minimum:"0" maximum:"255" doc:"128 by default, lower first."`
	NotBefore    *time.Time        `json:"not_before,omitempty" doc:"Start no earlier; absent or past: now. Modes queue, latest, collect."`
	Deadline     string            `json:"deadline,omitempty" example:"30m" doc:"When the run ends if it has not ended before: a time (RFC 3339), or a duration from the acceptance of the submit such as 30m. A run that has not started then is never started; one that is at work is stopped. Retries, waits and restarts do not move it. It concerns the run that the submit creates, not one that its messages join."`
	Budget       *Budget           `json:"budget,omitempty" doc:"What the new run may use, with all that it sends."`
	ExpectRun    string            `json:"expect_run,omitempty" doc:"With mode steer: only into this run."`
	MaxAttempts  *int              `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"After so many failures the run fails for good. Default: that of the worker, else of the agent, else of the server, which is 5 unless configured."`
	Retry        *RetryPolicy      `json:"retry,omitempty" doc:"How its failures are retried, over what its worker or agent says."`
	MaxCrashes   *int              `json:"max_crashes,omitempty" minimum:"0" maximum:"3" doc:"After so many lost claims in a row without a durable step the run fails for good, with the class crashed. 0: after the first lost claim, and if its worker gives it back after its start. Default: 3."`
	Options      json.RawMessage   `json:"options,omitempty" doc:"Kept with the run and handed to the agent unread."`
	Parent       string            `json:"parent,omitempty" doc:"Run that the new one descends from."`
	Metadata     map[string]string `json:"metadata,omitempty" doc:"Labels of the run."`
	Sender       string            `json:"sender,omitempty" doc:"Only with the scope admin."`
	Notify       string            `json:"notify,omitempty" example:"" doc:"Target of alerts that gets the replies, questions and failures of the thread from now on. A thread that already delivers elsewhere, or has another owner, is a conflict."`
	Decisions    []SubmitDecision  `json:"decisions,omitempty" nullable:"false" doc:"Made in the same transaction, on tickets of the thread."`
}

// NewMessage is one of several messages of a submit. It has either Text or Parts.
type NewMessage struct {
	Role       mailroom.Role   `json:"role,omitempty" doc:"user (the default) or system."`
	Text       string          `json:"text,omitempty" doc:"Instead of one text part."`
	Parts      []mailroom.Part `json:"parts,omitempty" nullable:"false" doc:"Content of the message, instead of text."`
	Visibility string          `json:"visibility,omitempty" doc:"all (the default) or internal."`
}

// Edit replaces the content of a message. It has either Text or Parts.
type Edit struct {
	Text  string          `json:"text,omitempty" example:"What is old?" doc:"The new content, as one text part."`
	Parts []mailroom.Part `json:"parts,omitempty" nullable:"false" doc:"The new content, instead of text."`
}

// ThreadPatch changes a thread. Absent fields stay as they are.
type ThreadPatch struct {
	Agent     *string         `json:"agent,omitempty" doc:"Handles the next submit that names no agent. Runs that exist keep theirs."`
	DeliverTo *string         `json:"deliver_to,omitempty" doc:"A thread without a deliver_to of its own; blank for none."`
	Metadata  json.RawMessage `json:"metadata,omitempty" doc:"A JSON object; replaces what is there."`
	Budget    *ThreadBudgets  `json:"budget,omitempty" doc:"What the runs of the thread may use. Needs a token without limits."`
	// DropSession is false to keep the sessions.
	DropSession bool `json:"drop_session,omitempty" doc:"Drop the sessions of codex, claude and other agents: the next run begins a new one with the thread's messages. Refused while a run is at work."`
}

// ThreadBudgets changes the budgets of a thread. Absent ones stay as they are.
type ThreadBudgets struct {
	Day   *string `json:"day,omitempty" maxLength:"200" example:"1usd" doc:"For each day; blank: none."`
	Month *string `json:"month,omitempty" maxLength:"200" example:"20usd" doc:"For each month; blank: none."`
	Life  *string `json:"life,omitempty" maxLength:"200" example:"5usd, 2m tokens" doc:"For the life of the thread; blank: none."`
}

// Texts returns the budgets by period, or nil.
func (b *ThreadBudgets) Texts() map[string]string {
	if b == nil {
		return nil
	}
	out := map[string]string{}
	for period, text := range map[string]*string{"day": b.Day, "month": b.Month, "life": b.Life} {
		if text != nil {
			out[period] = *text
		}
	}
	return out
}

// Interrupted is the answer to an interrupt: the queued runs that were cancelled, and
// the current run that was asked to stop, or null.
type Interrupted struct {
	Superseded []string `json:"superseded" doc:"Ids of the runs that had not started and are cancelled; empty: none."`
	Stopping   *string  `json:"stopping" doc:"Id of the running run that was asked to stop; null: no worker has a run."`
}

// Retry says how a failed or cancelled run is retried.
type Retry struct {
	Fresh        bool   `json:"fresh,omitempty" doc:"Drop its checkpoint, recorded effects and decisions."`
	AgentVersion string `json:"agent_version,omitempty" enum:"same" doc:"\"same\" keeps its version. Default: the current one."`
}

// Page is a part of a list. Next is the value of the parameter (cursor, after or
// before) that requests the following page; null at the end. A page of a filtered list can be
// empty and still have a Next.
type Page[T any] struct {
	Items    []T        `json:"items" doc:"Empty if nothing matches; a page of a filtered list can be empty and have a next."`
	Next     *string    `json:"next" doc:"The cursor, after or before of the next page; null: no further page."`
	LookedTo *time.Time `json:"looked_to,omitempty" doc:"Set if the page of runs or threads is short because a request reads a bounded number of rows: those created since this time were read. The next page continues there."`
}

// Health is the answer of /healthz, and of /readyz when the server is ready.
type Health struct {
	Status  string `json:"status" doc:"Always ok: a server that is not ready answers with a problem."`
	Version string `json:"version" doc:"Version of the server's program, for display."`
}

// Gap says that a cursor points outside the log: the reader knows the entries up to
// After, the log has those from Oldest to Last, and the stream continues there.
type Gap struct {
	After  int64 `json:"after" doc:"Seq that the reader resumed after."`
	Oldest int64 `json:"oldest" doc:"First entry that the log still has."`
	Last   int64 `json:"last" doc:"Newest entry of the log."`
}

// ThreadDelta is the data of a delta in the stream of all threads.
type ThreadDelta struct {
	Thread string `json:"thread"`
	entry.Delta
}

// Names of the events of a stream.
const (
	EventEntry = "entry"
	EventDelta = "delta"
	EventGap   = "gap"
)

// Submitted is the answer to a [Submit].
type Submitted = store.Submitted

// Disposition says what the server did with a submit.
type Disposition = store.Disposition

// Dispositions.
const (
	DispositionQueued    = store.DispositionQueued
	DispositionSteered   = store.DispositionSteered
	DispositionCollected = store.DispositionCollected
	DispositionResumed   = store.DispositionResumed
	DispositionDuplicate = store.DispositionDuplicate
)
