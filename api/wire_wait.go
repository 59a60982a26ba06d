package api

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Ticket is something that a run needs before it goes on. What is not known or
// does not apply is null.
type Ticket struct {
	ID        string               `json:"id"`
	Thread    string               `json:"thread"`
	Run       string               `json:"run"`
	Name      string               `json:"name" doc:"Given by the agent, unique in its run."`
	Kind      mailroom.TicketKind  `json:"kind" enum:"approval,input,children,timer,event"`
	Prompt    *string              `json:"prompt" doc:"What is asked."`
	Action    *string              `json:"action" doc:"What is to be approved."`
	Arguments json.RawMessage      `json:"arguments" doc:"Of the action."`
	Digest    string               `json:"digest" doc:"SHA-256 of exactly what is asked, in hex. An approval sends it back."`
	State     mailroom.TicketState `json:"state" enum:"open,decided,expired,void" doc:"open until expires_at at most, then expired."`
	ExpiresAt *time.Time           `json:"expires_at"`
	Answers   bool                 `json:"answers" doc:"An approval that takes an answer as well."`
	Holds     bool                 `json:"holds" doc:"An event: messages wait in the queue while it is open."`
	Decision  *mailroom.Verdict    `json:"decision" enum:"approve,deny,answer"`
	Answer    json.RawMessage      `json:"answer"`
	Reason    *string              `json:"reason"`
	DecidedBy *string              `json:"decided_by"`
	DecidedAt *time.Time           `json:"decided_at"`
}

// Decision is an answer to a ticket.
type Decision struct {
	Decision  mailroom.Verdict `json:"decision" enum:"approve,deny,answer" example:"deny" doc:"approve and deny go with approvals, answer with input and events."`
	Answer    json.RawMessage  `json:"answer,omitempty" doc:"Needed with answer."`
	Reason    string           `json:"reason,omitempty"`
	Digest    string           `json:"digest,omitempty" doc:"What was shown, or its first 16 characters or more. approve needs it."`
	DecidedBy string           `json:"decided_by,omitempty" doc:"Only with the scope admin. Default: the token's name."`
}

// SubmitDecision is a decision that comes with a submit.
type SubmitDecision struct {
	Ticket   string           `json:"ticket"`
	Decision mailroom.Verdict `json:"decision" enum:"approve,deny,answer"`
	Answer   json.RawMessage  `json:"answer,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Digest   string           `json:"digest,omitempty"`
}

// Cancel says what is cancelled with a run.
type Cancel struct {
	Children bool `json:"children,omitempty" doc:"Also its open descendants, at most 1,000."`
}

// RetryMany names the runs to be tried again: those that failed or were
// cancelled and that Q matches.
type RetryMany struct {
	Q      string `json:"q" minLength:"1" example:"status:failed error:\"rate limit\"" doc:"A filter as in the list of runs."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Count them only."`
	Cursor string `json:"cursor,omitempty" maxLength:"200" doc:"The next of the answer before."`
}

// Retried is the answer to a RetryMany. One request looks at a bounded number of
// runs, the oldest: repeat it with the Cursor set to Next until there is none.
type Retried struct {
	Matched int     `json:"matched" doc:"Failed and cancelled runs that q matches, of those that this request looked at."`
	Retried int     `json:"retried"`
	Next    *string `json:"next" doc:"Where the next request goes on; null: nowhere."`
}

// Agent is a handler of runs, as the server and the live workers know it.
type Agent struct {
	Name      string  `json:"name"`
	Kind      *string `json:"kind" doc:"null if it is served elsewhere only."`
	Version   *string `json:"version" doc:"Of its present definition, where that is known."`
	Program   *string `json:"program" doc:"Version of the program behind it, where there is one that told it."`
	Isolation *string `json:"isolation" doc:"What keeps its program from the server's data: namespace, landlock, a user, or none; null of an agent that is no program of this server."`
	Available bool    `json:"available" doc:"Its runs are started."`
	Reason    *string `json:"reason" doc:"Why it is not available."`
	Workers   int     `json:"workers" doc:"Live workers that serve it."`
	Running   int     `json:"running" doc:"Runs of it that are running."`
}

// Worker is a process that runs agents.
type Worker struct {
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Agents     []string  `json:"agents"`
	Running    int       `json:"running" doc:"Runs whose claim it holds."`
	LeaseUntil time.Time `json:"lease_until"`
}

// Stats counts the rows there are, and says since when the server runs.
type Stats struct {
	Runs        map[mailroom.Status]int `json:"runs" doc:"By status; every status is there."`
	Threads     int                     `json:"threads"`
	OldestDueMS int64                   `json:"oldest_due_ms" doc:"For how many milliseconds the oldest work that nobody has taken is due; 0 if none is."`
	StartedAt   time.Time               `json:"started_at" doc:"Since when the server runs."`
}
