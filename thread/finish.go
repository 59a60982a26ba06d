package thread

import (
	"cmp"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// ending is how a run ends: its final status, and the entry that says so.
type ending struct {
	status mailroom.Status
	reason mailroom.Reason    // reason of a cancelled run
	err    *mailroom.RunError // error of a failed run
	kind   string
	body   any
}

func completed(r *mailroom.Run) ending {
	return ending{
		status: mailroom.StatusCompleted,
		kind:   entry.KindCompleted, body: entry.RunCompleted{Reply: r.Reply, Steps: r.Step, Usage: r.Usage},
	}
}

// failed returns the end of a run that becomes a dead letter with this error.
func failed(r *mailroom.Run, err *mailroom.RunError) ending {
	return ending{
		status: mailroom.StatusFailed, err: err,
		kind: entry.KindFailed, body: entry.RunFailed{Error: *err, Failures: r.Failures, Crashes: r.Crashes},
	}
}

func cancelled(reason mailroom.Reason, by string) ending {
	return ending{
		status: mailroom.StatusCancelled, reason: reason,
		kind: entry.KindCancelled, body: entry.RunStop{Reason: reason, By: by},
	}
}

// stopped is the end of a run that was asked to stop. forced says that its agent did not stop in time.
func stopped(r *mailroom.Run, forced bool) ending {
	e := cancelled(r.Stop, r.StopBy)
	e.body = entry.RunStop{Reason: r.Stop, By: r.StopBy, Forced: forced}
	return e
}

// finish ends a run. Its unread steered messages become runs in the queue, at the place of their
// submission.
func (t *State) finish(r *mailroom.Run, e ending, now time.Time) {
	r.Status, r.FinishedAt, r.LastError = e.status, now, nil
	switch e.status {
	case mailroom.StatusCancelled, mailroom.StatusCompleted:
		r.Reason = e.reason
	case mailroom.StatusFailed:
		r.Error, r.ErrorGroup = e.err, ErrorGroup(cmp.Or(e.err.Message, string(e.err.Class)))
	}
	if t.Current == r.ID {
		t.Current = ""
		t.release(r)
	}
	seq := t.append(e.kind, r, now, e.body)
	t.Tickets.void(r.ID)
	t.Outbox.reportEnd(&t.Thread, r, seq)
	returnLease(t, r)
	r.Wait, r.Resumes, r.InputText = nil, false, ""
	for _, own := range detachSteers(r, now, func(*mailroom.Run) bool { return true }) {
		t.touchRun(own)
		t.append(entry.KindQueued, own, now, queuedBody(own))
	}
	r.Steers = slices.DeleteFunc(slices.Clone(r.Steers), func(s mailroom.Steer) bool {
		return s.Read && e.status == mailroom.StatusCompleted // a manual retry reads the others again
	})
	trimSpent(r)
	countEnd(t, r)
	r.Counted = mailroom.Counted{At: now, InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens,
		CostUSD: r.Usage.CostUSD}
	t.touchRun(r)
}

// countEnd adds the end of a run to the summary, and to the rows of its label.
func countEnd(t *State, r *mailroom.Run) {
	end := store.EndOf(r)
	t.ends = append(t.ends, end)
	r.Labelled = mailroom.Labelled{}
	if t.Label == nil {
		return
	}
	if key := t.Label(r.Metadata); key != "" {
		r.Labelled = mailroom.Labelled{At: r.FinishedAt, Key: key}
		t.ends = append(t.ends, store.LabelEnd(r, end))
	}
}

// release removes the claim from the thread's row, and the limits of the claim and the flushed text from the run. It
// drops the uploads of the attempt.
func (t *State) release(r *mailroom.Run) {
	t.Worker, t.Round, t.Meters = "", 0, nil
	dropUploads(t)
	r.ClaimEnds, r.StopGrace, r.ClaimSpare = time.Time{}, 0, 0
	r.WaitsOn, r.WaitsSince = "", time.Time{}
	if t.Partials.drop(r) || r.LastMessage != "" {
		r.LastMessage = ""
		t.touchRun(r)
	}
}
