package ledger

import (
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// Observe is told what the ledger does, for metrics. Its functions must be quick
// and must not block or call the ledger; nil ones are not called.
type Observe struct {
	// Operation ended, with the error it was answered with. took is from
	// call to answer, 0 for a claim that stood until something was due.
	Operation func(name string, err error, took time.Duration)
	// Commit of a batch of operations succeeded; took is the transaction's.
	Commit func(operations int, took time.Duration)
	// RunFinished is called for each run that has finished, once it is durable, on
	// whatever operation ended it. The run must not be kept or changed.
	RunFinished func(r *mailroom.Run)
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
}

// Every other write waits while the committer applies an operation or commits a
// batch, so both are bounded. What takes longer than this is logged; a commit waits
// for the disk, which may be slow by itself.
const (
	slowOperation = 50 * time.Millisecond
	slowCommit    = 500 * time.Millisecond
)

// logSlow logs an operation of the committer, or a commit, that others waited for.
func (l *Ledger) logSlow(operation string, took time.Duration) {
	switch {
	case operation == "commit" && took > slowCommit:
		l.options.Log.Warn("slow commit", "took", took)
	case operation != "commit" && took > slowOperation:
		l.options.Log.Warn("slow operation in the committer", "operation", operation, "took", took)
	}
}

// logFailed logs a run that failed for good, without its message: that may quote what the agent said.
func (l *Ledger) logFailed(r *mailroom.Run) {
	if r.Status != mailroom.StatusFailed {
		return
	}
	args := []any{"run", r.ID, "thread", r.Thread, "agent", r.Agent, "attempt", r.Attempt, "failures", r.Failures}
	if r.Error != nil {
		args = append(args, "class", r.Error.Class)
	}
	l.options.Log.Warn("run failed for good", args...)
}

// reportCommit tells about a batch that is durable.
func (b *batch) reportCommit(took time.Duration) {
	defer recovery.Log(b.l.options.Log, "the numbers of a commit")
	b.l.options.Observe.Commit(len(b.ops)+len(b.claims), took)
	for _, r := range b.changes.Runs {
		if r.Status.Finished() && r.FinishedAt.Equal(b.now) {
			b.l.options.Observe.RunFinished(r)
			b.l.logFailed(r)
		}
	}
}
