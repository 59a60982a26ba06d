package api

import (
	"time"

	"mailroom"
)

// Report is what agents did in a period: the runs that ended in it, and what is open now. Its lists are cut: more_…
// says how many rows are left out. Its texts are one line each, without characters that are invisible or change the
// direction of text.
type Report struct {
	Since     time.Time        `json:"since" doc:"Begin of the period."`
	Until     time.Time        `json:"until" doc:"End of the period, exclusive."`
	LookedTo  *time.Time       `json:"looked_to" doc:"Runs submitted before are left out: too many; null: none are."`
	Runs      ReportRuns       `json:"runs" doc:"Number of runs of all agents."`
	Spent     ReportSpent      `json:"spent" doc:"What the runs used that ended in the period."`
	OpenSpent ReportSpent      `json:"open_spent" doc:"What the open runs have used so far."`
	Agents    []ReportAgent    `json:"agents" doc:"By their open questions, failed runs and runs, the most first."`
	Questions ReportQuestions  `json:"questions" doc:"What agents asked."`
	Branches  []ReportBranch   `json:"branches" doc:"What worktrees have; what is not pushed comes first."`
	Schedules []ReportSchedule `json:"schedules" doc:"Schedules with times in the period."`

	MoreAgents    int `json:"more_agents" doc:"Agents that are left out of agents."`
	MoreBranches  int `json:"more_branches" doc:"Branches that are left out of branches."`
	MoreThreads   int `json:"more_threads" doc:"Threads with completed runs whose branches were not looked up: too many."`
	MoreSchedules int `json:"more_schedules" doc:"Schedules that are left out of schedules."`
}

// ReportRuns counts runs: those that ended in the period by how they ended, and the open ones by what they do now.
type ReportRuns struct {
	Completed int `json:"completed" doc:"Runs that completed, budget included."`
	Failed    int `json:"failed" doc:"Runs that failed for good."`
	Cancelled int `json:"cancelled" doc:"Runs that were cancelled."`
	Budget    int `json:"budget" doc:"Runs that ended because their budget was spent."`
	Waiting   int `json:"waiting" doc:"Runs that wait, for example for a decision."`
	Running   int `json:"running" doc:"Runs that are running."`
	Queued    int `json:"queued" doc:"Runs that are queued, for their first or another attempt."`
}

// ReportSpent is what runs used, with all their attempts.
type ReportSpent struct {
	CostUSD      float64 `json:"cost_usd" doc:"Cost in US dollars."`
	ComputedUSD  float64 `json:"computed_usd" doc:"Part of cost_usd that the server computed from prices of models."`
	InputTokens  int64   `json:"input_tokens" doc:"All that models read, from a cache or not."`
	OutputTokens int64   `json:"output_tokens" doc:"What models wrote."`
}

// ReportAgent is what one agent did.
type ReportAgent struct {
	Agent     string      `json:"agent" doc:"Name of the agent."`
	Runs      ReportRuns  `json:"runs" doc:"Number of its runs."`
	Spent     ReportSpent `json:"spent" doc:"As of the report."`
	OpenSpent ReportSpent `json:"open_spent" doc:"As of the report."`
	Paused    *Pause      `json:"paused" doc:"Who paused it and why; null: it is not paused."`
	Items     []ReportRun `json:"items" doc:"Its runs: those that wait first, then failed ones, then the last that ended."`
	More      int         `json:"more" doc:"Runs that are left out of items."`
}

// ReportRun is a run in a report.
type ReportRun struct {
	ID         string          `json:"id" doc:"Id of the run."`
	Thread     string          `json:"thread" doc:"Id of its thread."`
	Status     mailroom.Status `json:"status" enum:"queued,running,waiting,completed,failed,cancelled" doc:"Now."`
	Reason     mailroom.Reason `json:"reason" doc:"Why it was cancelled, or budget; empty: neither."`
	FinishedAt *time.Time      `json:"finished_at" doc:"When it ended; null: it is open."`
	Text       string          `json:"text" doc:"What it asks, or the begin of its last error or reply; empty: none."`
	CostUSD    float64         `json:"cost_usd" doc:"What it cost so far."`
}

// ReportQuestions is what agents asked: the open questions, the oldest first, then those that were decided or expired
// in the period, the last one first.
type ReportQuestions struct {
	Open    int              `json:"open" doc:"Questions that are open now; 100 of many more."`
	Decided int              `json:"decided" doc:"Questions that were decided in the period."`
	Items   []ReportQuestion `json:"items" doc:"The questions."`
	More    int              `json:"more" doc:"Questions that are left out of items."`
}

// ReportQuestion is a question in a report.
type ReportQuestion struct {
	Ticket    string               `json:"ticket" doc:"Id of the ticket, for a decision."`
	Run       string               `json:"run" doc:"Id of the run that asks."`
	Thread    string               `json:"thread" doc:"Id of its thread."`
	Agent     string               `json:"agent" doc:"Agent that asks."`
	Kind      mailroom.TicketKind  `json:"kind" enum:"approval,input" doc:"What the decision is."`
	State     mailroom.TicketState `json:"state" enum:"open,decided,expired,void" doc:"What became of it."`
	Text      string               `json:"text" doc:"What is asked."`
	OpenedAt  *time.Time           `json:"opened_at" doc:"null: opened by an older version."`
	ExpiresAt *time.Time           `json:"expires_at" doc:"When it expires; null: never."`
	Decision  mailroom.Verdict     `json:"decision" doc:"approve, deny or answer; empty: not decided."`
	Reason    string               `json:"reason" doc:"Given with the decision; empty: none."`
	DecidedBy string               `json:"decided_by" doc:"Who decided; empty: not decided."`
	DecidedAt *time.Time           `json:"decided_at" doc:"null: not decided."`
}

// ReportBranch is the branch of the worktree of a thread, as the last run found it that completed in the period.
type ReportBranch struct {
	Thread      string    `json:"thread" doc:"Id of the thread."`
	Run         string    `json:"run" doc:"Id of that run."`
	Agent       string    `json:"agent" doc:"Agent of that run."`
	At          time.Time `json:"at" doc:"When that run ended."`
	Branch      string    `json:"branch" doc:"Name of the branch."`
	Head        string    `json:"head" doc:"Its last commit; empty: unknown."`
	Commits     int       `json:"commits" doc:"Commits since its base."`
	Pushed      string    `json:"pushed" doc:"Remote that has the branch; empty: none."`
	Unpushed    string    `json:"unpushed" doc:"Why a push failed; empty: none failed."`
	PullRequest string    `json:"pull_request" doc:"Address of its pull request; empty: none."`
	Number      int       `json:"number" doc:"Number of the pull request; 0: unknown."`
	Unopened    string    `json:"unopened" doc:"Why no pull request was opened; empty: nothing failed."`
	Again       bool      `json:"again" doc:"The server tries again by itself to open it."`
	// State is what the platform of the pull request said at StateAt.
	State   string     `json:"state" doc:"State of the pull request: open, merged or closed; empty: unknown."`
	StateAt *time.Time `json:"state_at" doc:"When its platform said so; null: never."`
	Trouble string     `json:"trouble" doc:"What keeps it from a merge, or was pushed after it; empty: nothing known."`
	Unread  string     `json:"unread" doc:"Why a later look at its state failed; empty: none failed."`
	Left    string     `json:"left" doc:"Why changes in the worktree are in no commit; empty: all are."`
}

// IsLocal reports whether the worktree has work that no remote has.
func (b *ReportBranch) IsLocal() bool { return b.Left != "" || b.Commits > 0 && b.Pushed == "" }

// IsFinal reports whether the pull request was merged or closed.
func (b *ReportBranch) IsFinal() bool { return b.State == "merged" || b.State == "closed" }

// ReportSchedule is what became of the times of a schedule, as far as its last ten results say.
type ReportSchedule struct {
	Name    string         `json:"name" doc:"Name of the schedule."`
	Owner   string         `json:"owner" doc:"Token whose rights it uses."`
	Sent    int            `json:"sent" doc:"Messages that were sent."`
	Failed  int            `json:"failed" doc:"Runs of these messages that failed."`
	Skipped int            `json:"skipped" doc:"Times that were skipped."`
	Why     string         `json:"why" doc:"Reason of the last skip, or error of the last failed run; empty: none."`
	Paused  *SchedulePause `json:"paused" doc:"Why it is paused; null: it is not."`
	More    bool           `json:"more" doc:"The period may have more times than the last ten results."`
}
