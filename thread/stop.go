package thread

import (
	"time"

	"mailroom"
	"mailroom/entry"
)

// Interrupted is the result of an interrupt.
type Interrupted struct {
	Superseded []string `json:"superseded"`
	Stopping   *string  `json:"stopping"`
}

// Cancel ends a run, or asks it to stop if a worker holds it. Cancelling a cancelled or stopping
// run changes nothing.
func (t *State) Cancel(run, by string, now time.Time) (*mailroom.Run, error) {
	r := t.Run(run)
	switch {
	case r == nil:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %s in thread %q", run, t.ID)
	case r.Status == mailroom.StatusCancelled:
		return r, nil
	case r.Status.Finished():
		return nil, mailroom.Errorf(mailroom.CodeConflict, "run %s has already %s", run, r.Status)
	}
	t.promote(now)
	if r.ID == t.Current {
		t.stopCurrent(mailroom.ReasonCancelled, by, now)
	} else {
		t.finish(r, cancelled(mailroom.ReasonCancelled, by), now)
	}
	t.schedule(now)
	return r, nil
}

// Interrupt supersedes the queue and stops the current run. A place above 0 limits it to runs with
// a lower place, so that a repeated call does not affect later runs.
func (t *State) Interrupt(place int64, by string, now time.Time) Interrupted {
	old := func(r *mailroom.Run) bool { return place <= 0 || r.Place < place }
	dropped := func(r *mailroom.Run) bool { return !isSent(r) && old(r) }
	out := Interrupted{Superseded: append(t.supersede(dropped, by, now), t.supersedeSteers(dropped, by, now)...)}
	t.promote(now) // afterwards: a scheduled run that is due takes a new place
	if c := t.current(); c != nil && old(c) {
		out.Stopping = t.stopCurrent(mailroom.ReasonInterrupted, by, now)
	}
	t.schedule(now)
	return out
}

// isSent reports whether another run has sent r and may wait for it. What people replace and interrupt are
// the messages of people: such runs stay.
func isSent(r *mailroom.Run) bool { return r.Parent != "" }

// stopCurrent asks the current run to stop if a worker holds it, and cancels it otherwise. It
// returns the id of a run that has yet to stop.
func (t *State) stopCurrent(why mailroom.Reason, by string, now time.Time) *string {
	r := t.current()
	if r == nil {
		return nil
	}
	if r.Status != mailroom.StatusRunning {
		r.Stop, r.StopBy = why, by
		t.finish(r, stopped(r, false), now)
		return nil
	}
	if r.Stop == "" || r.Stop == mailroom.ReasonBudget { // what was asked to stop for its budget now ends
		r.Stop, r.StopBy = why, by
		boundByGrace(r, now)
		t.touchRun(r)
		t.append(entry.KindStop, r, now, entry.RunStop{Reason: why, By: by})
	}
	id := r.ID
	return &id
}

// boundByGrace ends the claim of a run that is asked to stop after its grace.
func boundByGrace(r *mailroom.Run, now time.Time) {
	if ends := now.Add(r.StopGrace); r.StopGrace > 0 && (r.ClaimEnds.IsZero() || ends.Before(r.ClaimEnds)) {
		r.ClaimEnds = ends
	}
}

// supersede cancels the runs that the function these selects and that never started. It returns their ids.
func (t *State) supersede(these func(*mailroom.Run) bool, by string, now time.Time) []string {
	ids := []string{}
	for _, r := range t.Runs.queue.remove(these) {
		t.finish(r, cancelled(mailroom.ReasonSuperseded, by), now)
		ids = append(ids, r.ID)
	}
	return ids
}
