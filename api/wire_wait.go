package api

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/thread"
)

// Ticket is a decision, an answer, a time or an event that a run waits for. A field
// that is unknown or does not apply is null.
type Ticket struct {
	ID        string               `json:"id" doc:"Unique among all tickets; opaque, the same for the same run and name."`
	Thread    string               `json:"thread" doc:"Id of the thread of its run."`
	Run       string               `json:"run" doc:"Id of the run that waits for it."`
	Agent     string               `json:"agent" doc:"Agent of its run, which asks."`
	Name      string               `json:"name" doc:"Given by the agent, unique in its run."`
	Kind      mailroom.TicketKind  `json:"kind" enum:"approval,input,children,timer,event" doc:"children: the end of a run that it has sent."`
	Prompt    *string              `json:"prompt" doc:"What is asked."`
	Action    *string              `json:"action" doc:"The action to approve."`
	Arguments json.RawMessage      `json:"arguments" doc:"Arguments of the action."`
	Digest    string               `json:"digest" doc:"SHA-256 of the whole question, in hex. An approval returns it."`
	State     mailroom.TicketState `json:"state" enum:"open,decided,expired,void" doc:"open until expires_at at most, then expired."`
	OpenedAt  *time.Time           `json:"opened_at" doc:"null: opened by an older version."`
	ExpiresAt *time.Time           `json:"expires_at" doc:"When it expires, or the timer fires; null: never."`
	Answers   bool                 `json:"answers" doc:"An approval that takes an answer as well."`
	Holds     bool                 `json:"holds" doc:"An event: messages wait in the queue while it is open."`
	Decision  *mailroom.Verdict    `json:"decision" enum:"approve,deny,answer" doc:"null until it is decided."`
	Answer    json.RawMessage      `json:"answer" doc:"JSON of the decision answer; else null."`
	Reason    *string              `json:"reason" doc:"As given with the decision; null: none."`
	DecidedBy *string              `json:"decided_by" doc:"A token, the sender of a message, alert:TARGET or run:ID; null: not decided."`
	DecidedAt *time.Time           `json:"decided_at" doc:"null until it is decided."`
}

// Decision decides a ticket.
type Decision struct {
	Decision  mailroom.Verdict `json:"decision" enum:"approve,deny,answer" example:"deny" doc:"approve and deny go with approvals, answer with input and events."`
	Answer    json.RawMessage  `json:"answer,omitempty" doc:"Required with the decision answer."`
	Reason    string           `json:"reason,omitempty" doc:"Shown to the agent and kept in the log."`
	Digest    string           `json:"digest,omitempty" doc:"The digest of the ticket that was shown, or at least its first 16 characters. Required with approve."`
	DecidedBy string           `json:"decided_by,omitempty" doc:"Only with the scope admin. Default: the token's name."`
}

// SubmitDecision is a decision that comes with a submit.
type SubmitDecision struct {
	Ticket   string           `json:"ticket" doc:"Id of a ticket of the thread."`
	Decision mailroom.Verdict `json:"decision" enum:"approve,deny,answer" doc:"approve, deny: an approval; answer: input, an event."`
	Answer   json.RawMessage  `json:"answer,omitempty" doc:"Required with the decision answer."`
	Reason   string           `json:"reason,omitempty" doc:"Shown to the agent and kept in the log."`
	Digest   string           `json:"digest,omitempty" doc:"Digest of the ticket shown, or its first 16 characters or more. For approve."`
}

// Cancel says what to cancel with a run.
type Cancel struct {
	Children bool `json:"children,omitempty" doc:"Also its open descendants, at most 1,000."`
}

// RetryMany retries the failed and cancelled runs that Q matches.
type RetryMany struct {
	Q      string `json:"q" minLength:"1" example:"status:failed error:\"rate limit\"" doc:"A filter as in the list of runs."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only count them."`
	Cursor string `json:"cursor,omitempty" maxLength:"200" doc:"The next of the previous answer."`
}

// Retried is the answer to a RetryMany. One request reads a bounded number of runs, the
// oldest first: repeat it with Cursor set to Next until that is null.
type Retried struct {
	Matched int     `json:"matched" doc:"Failed and cancelled runs that q matches, of those that this request read."`
	Retried int     `json:"retried" doc:"Runs that were queued again; 0 with dry_run."`
	Next    *string `json:"next" doc:"The cursor of the next request; null at the end."`
}

// CancelMany cancels the queued, running and waiting runs that Q matches.
type CancelMany struct {
	Q      string `json:"q" minLength:"1" example:"agent:coder created:<2026-11-01" doc:"A filter as in the list of runs."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only count them."`
	Cursor string `json:"cursor,omitempty" maxLength:"200" doc:"The next of the previous answer."`
}

// CancelledMany is the answer to a CancelMany. One request reads a bounded number of runs, the newest
// first: repeat it with Cursor set to Next until that is null.
type CancelledMany struct {
	Matched   int     `json:"matched" doc:"Open runs that q matches, of those that this request read."`
	Cancelled int     `json:"cancelled" doc:"Running ones were asked to stop."`
	Next      *string `json:"next" doc:"The cursor of the next request; null at the end."`
}

// RunCount is the number of runs that a filter matches. One request reads a bounded number of runs, the
// newest first: the counts of further requests with Cursor set to Next add to it, until that is null.
type RunCount struct {
	Count    int        `json:"count" doc:"Runs that q matches, of those that this request read."`
	Next     *string    `json:"next" doc:"The cursor of the next request; null at the end."`
	LookedTo *time.Time `json:"looked_to,omitempty" doc:"Set if next is: the runs created since this time were counted."`
}

// Failures are failed runs by error group, the latest failure first.
type Failures struct {
	Items    []FailureGroup `json:"items" doc:"At most limit groups; empty: no run failed."`
	LookedTo *time.Time     `json:"looked_to,omitempty" doc:"Set if older runs may have failed too: a request sums up a bounded number of runs, which are about those since this time."`
}

// Waits sum up why queued runs do not run.
type Waits struct {
	Items    []WaitGroup `json:"items" doc:"At most 100 causes, that with the most runs first; empty: no run is queued."`
	Runs     int         `json:"runs" doc:"Queued runs that were looked at, the oldest or the newest."`
	LookedTo *time.Time  `json:"looked_to,omitempty" doc:"Set if more runs may be queued: a request looks at a bounded number of runs, up to the one that was created at this time."`
}

// WaitGroup is a cause for which queued runs wait, themselves or behind other runs.
type WaitGroup struct {
	Cause  thread.Cause `json:"cause" enum:"decision,event,child,timer,run,time,join,retry,pause,budget,worker,server,rate,limit,slot" doc:"As in waits_for of a run. run or child: that run works."`
	Agent  string       `json:"agent" doc:"Agent of the runs that wait for it themselves."`
	Text   string       `json:"text" doc:"In words, of the oldest of the runs; it continues: waits for." example:"a decision: Deploy release 7?"`
	Runs   int          `json:"runs" doc:"Queued runs that wait for it."`
	Behind int          `json:"behind" doc:"Number of the runs that wait for it themselves, queued or not: the others come after these in their threads."`
	Run    string       `json:"run" doc:"Id of one of these."`
	Since  time.Time    `json:"since" doc:"When the oldest of the runs was created."`
}

// FoundMessages are a page of the messages that have some words, the newest first.
type FoundMessages struct {
	Items     []FoundMessage `json:"items" doc:"Empty if this request found no message; then see next."`
	Next      *string        `json:"next" doc:"The cursor of the rest; null if everything was looked at. A page may be short, or empty, and have a next."`
	IndexedTo *time.Time     `json:"indexed_to" doc:"Time of the newest log entry whose message can be found; null before the first. For a token that does not see all threads it is null in a complete answer, and otherwise a whole minute: it would tell when others last wrote."`
	Complete  bool           `json:"complete" doc:"Every message that is in the log can be found. The index follows the log within seconds."`
}

// FoundMessage is a message that has the words. GET /v1/threads/{thread}/messages/{message} has all of it.
type FoundMessage struct {
	Thread    string        `json:"thread" doc:"Id of its thread."`
	Seq       int64         `json:"seq" doc:"Entry of the thread's log with which the message came."`
	ID        string        `json:"id" doc:"Id of the message."`
	Role      mailroom.Role `json:"role" doc:"user, assistant or system."`
	Sender    string        `json:"sender" doc:"Who wrote it: a token, a user of a channel, or the name of an agent."`
	Run       string        `json:"run" doc:"Id of the run that it was submitted to, or that wrote it."`
	State     string        `json:"state" doc:"Now: accepted, delivered, read, done or superseded."`
	CreatedAt time.Time     `json:"created_at" doc:"When it was accepted."`
	Excerpt   string        `json:"excerpt" doc:"Part of the text around the first of the words, on one line."`
}

// FailureGroup sums up failed runs whose errors differ only in ids, numbers, paths, addresses and quoted
// text.
type FailureGroup struct {
	Group   string    `json:"group" doc:"The error_group of the runs; group:… finds them."`
	Message string    `json:"message" doc:"Error of one of them; empty if it is gone."`
	Class   string    `json:"class" doc:"Class of that error; empty if it is gone."`
	Agents  []string  `json:"agents" doc:"Their agents, at most 20."`
	Runs    int       `json:"runs" doc:"Failed runs of the group."`
	FirstAt time.Time `json:"first_at" doc:"Earliest and latest end of the runs."`
	LastAt  time.Time `json:"last_at" doc:"Latest end of the runs."`
	Run     string    `json:"run" doc:"Id of the run with that error."`
}

// Agent is a handler of runs, as the server and the live workers know it.
type Agent struct {
	Name      string      `json:"name" doc:"Unique in the server; a submit names it."`
	Kind      *string     `json:"kind" doc:"null if it is served elsewhere only."`
	Version   *string     `json:"version" doc:"Version of its current definition, if known."`
	Program   *string     `json:"program" doc:"Version that the agent's program reports."`
	Isolation *string     `json:"isolation" doc:"How its program is kept from the server's data: namespace, landlock, a user, or none; null if this server runs no program for it."`
	Available bool        `json:"available" doc:"Its runs are started."`
	Reason    *string     `json:"reason" doc:"Why it is not available."`
	Workers   int         `json:"workers" doc:"Live workers that serve it."`
	Running   int         `json:"running" doc:"Runs of it that are running."`
	Queued    int         `json:"queued" doc:"Runs of it that are queued, of your threads; an admin's are all."`
	Waiting   int         `json:"waiting" doc:"Runs of it that wait, for example for a decision."`
	Paused    *Pause      `json:"paused" doc:"Set while it is paused: its due runs wait."`
	PausedOn  []PausedOn  `json:"paused_on,omitempty" nullable:"false" doc:"Workers that cannot work for it while others do."`
	Retry     *AgentRetry `json:"retry" doc:"How its failures are retried; null if this server does not know the agent."`
}

// AgentRetry is how a server retries the runs of an agent. A worker and, for the numbers, a submit may say otherwise.
type AgentRetry struct {
	Attempts   int    `json:"attempts" doc:"Failures after which a run fails for good, unless its submit or worker says otherwise."`
	First      string `json:"first" example:"5s" doc:"Delay of the first retry."`
	Most       string `json:"most" example:"10m" doc:"Longest delay after a failure, plus up to a fifth."`
	OutageMost string `json:"outage_most" example:"5m" doc:"Longest delay in an outage, plus up to a fifth."`
	Outage     string `json:"outage" example:"24h" doc:"How long an outage (class unavailable) is retried."`

	Factor     float64 `json:"factor" example:"5" doc:"Each further delay is so many times as long as the one before."`
	MaxCrashes int     `json:"max_crashes" doc:"Lost claims in a row after which a run fails, unless its submit says fewer."`

	PermanentExits   []int `json:"permanent_exits" nullable:"false" doc:"Exit statuses of its command that are not retried."`
	UnavailableExits []int `json:"unavailable_exits" nullable:"false" doc:"Exit statuses of an outage. All others are failures."`
}

// PausedOn is a worker that starts no runs of an agent, because the agent cannot work there.
type PausedOn struct {
	Worker string     `json:"worker" doc:"Id of the worker."`
	Host   string     `json:"host" doc:"Name of its machine."`
	At     time.Time  `json:"at" doc:"When the pause began."`
	Reason string     `json:"reason" doc:"Error of the run that showed it."`
	Probe  *time.Time `json:"probe,omitempty" doc:"One run starts there then, and ends the pause if it goes well."`
}

// Pause says who paused an agent. No run of the agent starts until it is resumed; running ones go on.
type Pause struct {
	By     string     `json:"by" doc:"Name of a token; \"the server\" if the agent cannot work for any message, such as without a login."`
	At     time.Time  `json:"at" doc:"When the pause began, or was last replaced."`
	Reason string     `json:"reason" doc:"Given with the pause, or found by the server; empty: none."`
	Probe  *time.Time `json:"probe,omitempty" doc:"Set for a pause by the server: one run starts then to find out whether the agent works again, which ends the pause."`
}

// PauseAgent pauses an agent.
type PauseAgent struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" example:"The provider has an outage." doc:"Why, for people. Absent: no reason."`
}

// Worker is a process that runs agents.
type Worker struct {
	ID         string    `json:"id" doc:"Unique; opaque."`
	Host       string    `json:"host" doc:"Name of its machine, as it says; for display."`
	PID        int       `json:"pid" doc:"Process id on that machine, as it says; 0: it did not say."`
	Agents     []string  `json:"agents" doc:"Names of the agents that it serves, sorted."`
	Running    int       `json:"running" doc:"Runs whose claim it holds."`
	LeaseUntil time.Time `json:"lease_until" doc:"It loses its claims then, unless it renews before."`
	Node       string    `json:"node" doc:"Id of its server; empty for a remote worker."`
	Duties     []string  `json:"duties" doc:"Jobs that one server at a time does, and that its server does: channel/NAME, and maintenance of the store."`
	Version    string    `json:"version" doc:"Version of its program; empty if it is unknown."`
}

// Stats counts the stored rows.
type Stats struct {
	Runs        map[mailroom.Status]int `json:"runs" doc:"By status; every status is present."`
	Threads     int                     `json:"threads" doc:"Threads that the token sees."`
	OldestDueMS int64                   `json:"oldest_due_ms" doc:"How long the oldest unclaimed work has been due, in milliseconds; 0 without any."`
	StartedAt   time.Time               `json:"started_at" doc:"When the server started."`
	Partial     bool                    `json:"partial,omitempty" doc:"The token's namespace has more threads of others than one request counts; the sums are of the first 2,000 and of the token's own."`
}

// Series are the ends of runs over time, of all owners. A run that is retried by hand ends more than once.
type Series struct {
	Step  string        `json:"step" enum:"minute,hour,day" doc:"Length of each period."`
	From  time.Time     `json:"from" doc:"Start of the first period. It is later than asked for if older periods are no longer kept."`
	To    time.Time     `json:"to" doc:"End of the last period."`
	Items []SeriesPoint `json:"items" doc:"The periods in which runs ended, the earliest first."`
	// DelayBoundsMS are the bounds of SeriesPoint.StartDelays.
	DelayBoundsMS []int64 `json:"start_delay_bounds_ms" doc:"Inclusive upper bounds of start_delays, in milliseconds; the last number has none."`
}

// SeriesPoint sums up the runs that ended in a period.
type SeriesPoint struct {
	At           time.Time `json:"at" doc:"Start of the period, in UTC."`
	Completed    int64     `json:"completed" doc:"Runs that completed."`
	Failed       int64     `json:"failed" doc:"Runs that failed for good."`
	Cancelled    int64     `json:"cancelled" doc:"Runs that were cancelled."`
	Started      int64     `json:"started" doc:"Those of the runs that had started, and whose delay is known."`
	StartDelayMS int64     `json:"start_delay_ms" doc:"Sum of the times from when they were to start until they started. They include the wait for earlier runs of the thread."`
	RanMS        int64     `json:"ran_ms" doc:"Sum of the times from their start to their end, waits included."`
	StartDelays  []int64   `json:"start_delays" doc:"Numbers of the runs that had started, by the bound that their delay is within."`
	InputTokens  int64     `json:"input_tokens" doc:"Tokens that the runs read. A run that ends again adds what came since."`
	OutputTokens int64     `json:"output_tokens" doc:"Tokens that models wrote; as input_tokens."`
	CostUSD      float64   `json:"cost_usd" doc:"In US dollars; as input_tokens."`
}

// Sums are the ends of runs of a time by agent or by the value of a label, of all owners; see Series.
type Sums struct {
	Step  string     `json:"step" enum:"minute,hour,day" doc:"Length of the periods that are added up."`
	From  time.Time  `json:"from" doc:"Start of the first period; later than asked for if older periods are dropped."`
	To    time.Time  `json:"to" doc:"End of the last period."`
	Label string     `json:"label" doc:"The setting stats_label; empty: none, so by cannot be label."`
	Items []SumsItem `json:"items" doc:"Listed agents, or values, of which a run has ended at any time, by name; at most 1,000."`
	// All and Others have the At of From.
	All           SeriesPoint `json:"all" doc:"The sums of all agents."`
	Others        SeriesPoint `json:"others" doc:"What is not in items: agents that are gone or send alerts; by label, see sums."`
	DelayBoundsMS []int64     `json:"start_delay_bounds_ms" doc:"See series."`
}

// SumsItem sums up the runs of an agent, or of a value of the label.
type SumsItem struct {
	Name   string      `json:"name" doc:"Name of the agent, or the value, cut after 64 characters."`
	LastAt *time.Time  `json:"last_at" doc:"When a run of it ended last: start of that minute, hour or day; null: unknown."`
	Sums   SeriesPoint `json:"sums" doc:"All zero: no run of it ended in this time."`
}
