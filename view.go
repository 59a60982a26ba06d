package mailroom

import (
	"encoding/json"
	"time"
)

// RunView is what an agent sees of its run. The row has more, which the ledger may change from one version to the next.
type RunView struct {
	// As it was submitted.
	ID           string
	Thread       string // the thread's id
	Agent        string
	AgentVersion string // pinned at submit; "" while it is unknown
	SubmitKey    string // the idempotency key it was submitted with, or ""
	Parent       string // run that this one descends from, or ""
	Origin       Origin
	Mode         Mode
	Priority     int // 0 to 255, lower first
	Options      json.RawMessage
	Metadata     map[string]string
	FirstSeq     int64 // seq of its first message
	CreatedAt    time.Time
	NotBefore    time.Time // zero: no delay
	Deadline     time.Time // the run ends then, whatever its state; zero: never

	// What earlier attempts left.
	StartedAt   time.Time       // start of the first attempt since it was submitted or retried by hand
	Checkpoint  json.RawMessage // of the last step, also of this attempt; nil at first
	Asked       int             // tickets opened: above 0, the attempt may follow a wait
	Failures    int             // attempts ended by an error of the agent
	Lost        int             // attempts lost with their worker
	OutageSince time.Time       // since when its attempts end with ClassUnavailable; zero: the last one did not

	// Budget is what the run may use, and BudgetLeft what was left of it at the last step. Both are nil if nothing
	// bounds the run.
	Budget     *Budget
	BudgetLeft *Budget

	Attempt int // number of this attempt, from 1
	// Ends is when the time of this attempt is over. A Step with Extend moves it.
	Ends time.Time
}

// View returns what the run's agent sees of it, without Ends.
func (r *Run) View() RunView {
	v := RunView{
		ID: r.ID, Thread: r.Thread, Agent: r.Agent, AgentVersion: r.AgentVersion, SubmitKey: r.SubmitKey,
		Parent: r.Parent, Origin: r.Origin, Mode: r.Mode, Priority: r.Priority, Options: r.Options,
		Metadata: r.Metadata, FirstSeq: r.FirstSeq, CreatedAt: r.CreatedAt, NotBefore: r.NotBefore, Deadline: r.Deadline,
		StartedAt: r.StartedAt, Checkpoint: r.Checkpoint, Asked: r.Asked, Failures: r.Failures, Lost: r.Lost,
		OutageSince: r.OutageSince, Attempt: r.Attempt, BudgetLeft: r.BudgetLeft(),
	}
	if r.Budget != nil {
		v.Budget = &r.Budget.Limit
	}
	return v
}
