package mailroom

import "time"

// Interrupted is the answer to an interrupt.
type Interrupted struct {
	Superseded []string `json:"superseded"`
	Stopping   *string  `json:"stopping"`
}

// Cancel ends a run, or asks it to stop if a worker holds it. Cancelling a
// cancelled run, or one that stops already, changes nothing.
func (t *ThreadState) Cancel(run, by string, now time.Time) (*Run, error) {
	r := t.runs[run]
	switch {
	case r == nil:
		return nil, Errorf(CodeNotFound, "no run %s in thread %q", run, t.ID)
	case r.Status == StatusCancelled:
		return r, nil
	case r.Status.Finished():
		return nil, Errorf(CodeConflict, "run %s has %s already", run, r.Status)
	}
	t.promote(now)
	if r.ID == t.Current {
		t.stopCurrent(ReasonCancelled, by, now)
	} else {
		r.Reason = ReasonCancelled
		t.finish(r, StatusCancelled, now, KindCancelled, RunStop{Reason: ReasonCancelled, By: by})
	}
	t.schedule(now)
	return r, nil
}

// Interrupt supersedes what is queued and stops the current run. With a place above
// 0 it does so to what has a place before that one, and leaves alone what came
// later: said again, it stops nothing else.
func (t *ThreadState) Interrupt(place int64, by string, now time.Time) Interrupted {
	t.promote(now)
	old := func(r *Run) bool { return place <= 0 || r.Place < place }
	out := Interrupted{Superseded: append(t.supersede(old, by, now), t.supersedeSteers(old, by, now)...)}
	if c := t.current(); c != nil && old(c) {
		out.Stopping = t.stopCurrent(ReasonInterrupted, by, now)
	}
	t.schedule(now)
	return out
}

func everyRun(*Run) bool { return true }

// stopCurrent marks the current run if a worker holds it, and ends it at once
// if none does. It returns the id of a run that has yet to stop.
func (t *ThreadState) stopCurrent(why Reason, by string, now time.Time) *string {
	r := t.current()
	if r == nil {
		return nil
	}
	if r.Status != StatusRunning {
		r.Stop, r.StopBy = why, by
		t.endStopped(r, false, now)
		return nil
	}
	if r.Stop == "" {
		r.Stop, r.StopBy = why, by
		if ends := now.Add(r.StopGrace); r.StopGrace > 0 && (r.ClaimEnds.IsZero() || ends.Before(r.ClaimEnds)) {
			r.ClaimEnds = ends
		}
		t.touchRun(r)
		t.append(KindStop, r, now, RunStop{Reason: why, By: by})
	}
	id := r.ID
	return &id
}

// supersede cancels every run that never started, is nobody's child, and is one of
// these.
func (t *ThreadState) supersede(these func(*Run) bool, by string, now time.Time) []string {
	ids := []string{}
	var old []*Run
	for _, w := range []*window{&t.queue, &t.scheduled} {
		var kept []*Run // taken out at once: one by one costs the square of a backlog
		for _, r := range w.runs {
			if r.Parent != "" || !these(r) {
				kept = append(kept, r)
			} else {
				old = append(old, r)
			}
		}
		w.runs = kept
	}
	for _, r := range old {
		r.Reason = ReasonSuperseded
		t.finish(r, StatusCancelled, now, KindCancelled, RunStop{Reason: ReasonSuperseded, By: by})
		ids = append(ids, r.ID)
	}
	return ids
}
