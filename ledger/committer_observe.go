package ledger

import (
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/recovery"
	"mailroom/thread"
)

// Observe holds callbacks for metrics. They must be fast and must not call the ledger. Nil
// callbacks are skipped.
type Observe struct {
	// Operation is called for each operation with its error. took is the time from call to answer,
	// 0 for a waiting claim.
	Operation func(name string, err error, took time.Duration)
	// Commit is called for each committed batch that changed a row. took is the time of the transaction.
	Commit func(operations int, took time.Duration)
	// RunFinished is called for each finished run once it is durable. The run must not be kept or
	// changed.
	RunFinished func(r *mailroom.Run)
	// AttemptStarted and AttemptEnded are called for each claim of a run and for the end of its attempt,
	// once they are durable, whatever worker has it.
	AttemptStarted func(thread.AttemptStart)
	AttemptEnded   func(thread.AttemptEnd)
	// AttemptUsed is called for each step that used something, once it is durable.
	AttemptUsed func(thread.AttemptUse)
}

func (o *Observe) fill() {
	if o.Operation == nil {
		o.Operation = func(string, error, time.Duration) {}
	}
	if o.Commit == nil {
		o.Commit = func(int, time.Duration) {}
	}
	if o.RunFinished == nil {
		o.RunFinished = func(*mailroom.Run) {}
	}
	if o.AttemptStarted == nil {
		o.AttemptStarted = func(thread.AttemptStart) {}
	}
	if o.AttemptEnded == nil {
		o.AttemptEnded = func(thread.AttemptEnd) {}
	}
	if o.AttemptUsed == nil {
		o.AttemptUsed = func(thread.AttemptUse) {}
	}
}

// All other writes wait while the committer applies an operation or commits a batch. Durations
// above these limits are logged. A commit includes the time of the disk.
const (
	slowOperation = 50 * time.Millisecond
	slowCommit    = 500 * time.Millisecond
)

// logSlow logs an operation or commit that delayed others.
func (c *committer) logSlow(operation string, took time.Duration) {
	switch {
	case operation == "commit" && took > slowCommit:
		c.options.Log.Warn("slow commit", "took", took)
	case operation != "commit" && took > slowOperation:
		c.options.Log.Warn("slow operation in the committer", "operation", operation, "took", took)
	}
}

// logFailed logs a run that failed for good. The error may quote the agent and what it was asked, so the log
// has it without quoted text, ids, paths and addresses; the run has it whole.
func (c *committer) logFailed(r *mailroom.Run) {
	if r.Status != mailroom.StatusFailed {
		return
	}
	args := []any{"run", r.ID, "thread", r.Thread, "agent", r.Agent, "attempt", r.Attempt, "failures", r.Failures}
	if r.Error != nil {
		args = append(args, "class", r.Error.Class, "group", r.ErrorGroup, "error", thread.DescribeError(r.Error.Message))
	}
	c.options.Log.Warn("run failed for good", args...)
}

// maxUnpriced bounds the models that one committer logs.
const maxUnpriced = 100

// logUnpriced logs once that a model has no price, if a step spent the dollars of a day or a month for that. The
// question whether to raise that budget names amounts only.
func (c *committer) logUnpriced(u thread.AttemptUse, owner string, now time.Time) {
	of := [2]string{u.Agent, u.Usage.Model}
	if !u.Unpriced || c.unpriced[of] || len(c.unpriced) >= maxUnpriced {
		return
	}
	pools := c.options.Budgets.Of(budget.Scope{Kind: budget.Agent, Name: u.Agent}, now)
	pools = append(pools, c.options.Budgets.Of(budget.Scope{Kind: budget.Owner, Name: owner}, now)...)
	if !slices.ContainsFunc(pools, func(p budget.Pool) bool { return p.Budget.MicroUSD > 0 }) {
		return
	}
	if c.unpriced == nil {
		c.unpriced = map[[2]string]bool{}
	}
	c.unpriced[of] = true
	c.options.Log.Warn("price of a model not known; its steps count as all dollars of budgets of days and months",
		"agent", u.Agent, "model", fmt.Sprintf("%.80s", u.Usage.Model))
}

// reportCommit reports a durable batch to the observer, if it changed a row.
func (b *batch) reportCommit(took time.Duration) {
	if b.written.Empty() {
		return
	}
	defer recovery.Log(b.c.options.Log, "the numbers of a commit")
	b.c.options.Observe.Commit(b.waiting.len(), took)
	for _, t := range b.tx.rows.order {
		for _, a := range t.Attempts.Started {
			b.c.options.Observe.AttemptStarted(a)
		}
		for _, a := range t.Attempts.Ended {
			b.c.options.Observe.AttemptEnded(a)
		}
		for _, u := range t.Attempts.Used {
			b.c.options.Observe.AttemptUsed(u)
			b.c.logUnpriced(u, t.Owner, b.tx.now())
		}
	}
	for _, r := range b.written.Runs {
		if r.Status.Finished() && r.FinishedAt.Equal(b.tx.now()) {
			b.c.options.Observe.RunFinished(r)
			b.c.logFailed(r)
		}
	}
}
