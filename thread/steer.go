package thread

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// unreadSteers counts the runs that the unread steered messages of r, which may be nil, would become.
func unreadSteers(r *mailroom.Run) int {
	n := 0
	if r == nil {
		return n
	}
	for _, s := range r.Steers {
		if s.Own != nil {
			n++
		}
	}
	return n
}

// checkSteer returns an error if the run has too many steered messages: each new one rewrites all
// of them. A message that answers a question is always accepted, because it is read next.
func checkSteer(r *mailroom.Run, in *Submit) error {
	size := len(in.Options)
	for k, v := range in.Metadata {
		size += len(k) + len(v)
	}
	for _, s := range r.Steers {
		if s.Own == nil {
			continue
		}
		size += len(s.Own.Options)
		for k, v := range s.Own.Metadata {
			size += len(k) + len(v)
		}
	}
	if len(r.Steers)+len(in.Messages) > MaxSteers || size > MaxSteersSize {
		return errRateLimited(
			"run %s has the maximum of %d steered messages that no step covers yet: submit with mode queue, or wait",
			r.ID, len(r.Steers))
	}
	return nil
}

// steer hands the messages to the current run c. If c ends before it reads them, they become a run of their own, at
// the place of their submission.
func (s *submission) steer(c *mailroom.Run) store.Submitted {
	own := s.newRun()
	if own.Budget != nil && own.Budget.Lender != "" {
		// The sender has lent nothing to a run that may never be. If it becomes one, it asks first.
		own.Budget = &mailroom.RunBudget{Limit: own.Budget.Limit, Grant: own.Budget.Grant, Closed: true}
	}
	s.appendMessages(own, c.ID)
	last := own.Inputs[len(own.Inputs)-1]
	for i, input := range own.Inputs {
		steer := mailroom.Steer{Input: input}
		if i == 0 {
			steer.Own = own
		}
		c.Steers = append(c.Steers, steer)
	}
	own.Inputs = nil // edits apply to the steers
	s.t.touchRun(c)
	out := submittedTo(c, last, store.DispositionSteered)
	out.Place = own.Place
	return out
}

// ReadSteers marks the unread steered messages as read. It returns all that no step covers yet, so
// a repeated call returns them again.
func (t *State) ReadSteers(c mailroom.Claim, now time.Time) ([]mailroom.Input, error) {
	r, err := t.claimedRun(c)
	if err != nil {
		return nil, err
	}
	var all []mailroom.Input
	for i := range r.Steers {
		s := &r.Steers[i]
		if s.Own != nil {
			s.Own = nil
			t.touchRun(r)
		}
		if s.Retracted {
			continue
		}
		if !s.Read {
			s.Read = true
			t.append(entry.KindMessageRead, r, now, entry.MessageRef{Message: s.Message, Seq: s.Seq})
			t.touchRun(r)
		}
		all = append(all, s.Input)
	}
	return all, nil
}

// dropCovered drops the read steered messages up to seq, which a step covers.
func dropCovered(r *mailroom.Run, seq int64) {
	kept := r.Steers[:0:0]
	for _, s := range r.Steers {
		if !s.Read || s.Seq > seq {
			kept = append(kept, s)
		}
	}
	r.Steers = kept
	trimSpent(r)
}

// trimSpent drops the messages from Spent that are no longer in Steers.
func trimSpent(r *mailroom.Run) {
	if len(r.Spent) == 0 {
		return
	}
	var spent []string
	for _, s := range r.Steers {
		if slices.Contains(r.Spent, s.Message) {
			spent = append(spent, s.Message)
		}
	}
	r.Spent = spent
}

// detachSteers removes the unread steered messages from r whose run take accepts, and returns those
// runs with their current content. They are created now, not when their messages were submitted, so
// that runs in the order of their keys are in the order of their creation.
func detachSteers(r *mailroom.Run, now time.Time, take func(own *mailroom.Run) bool) []*mailroom.Run {
	var runs []*mailroom.Run
	kept := r.Steers[:0:0]
	for i, n := 0, 0; i < len(r.Steers); i += n {
		n = 1
		own := r.Steers[i].Own
		if own == nil {
			kept = append(kept, r.Steers[i])
			continue
		}
		for i+n < len(r.Steers) && r.Steers[i+n].Own == nil {
			n++
		}
		group := r.Steers[i : i+n]
		own.Inputs = nil
		for _, s := range group {
			own.Inputs = append(own.Inputs, s.Input)
		}
		if countInputs(own) > 0 && take(own) {
			own.CreatedAt = now
			runs = append(runs, own)
		} else {
			kept = append(kept, group...)
		}
	}
	r.Steers = kept
	return runs
}

// supersedeSteers cancels the runs that unread steered messages would become and that the function these selects. An
// interrupt replaces such runs like queued ones.
func (t *State) supersedeSteers(these func(*mailroom.Run) bool, by string, now time.Time) []string {
	ids := []string{}
	c := t.current()
	if c == nil {
		return ids
	}
	for _, own := range detachSteers(c, now, these) {
		t.append(entry.KindQueued, own, now, queuedBody(own)) // the log must name the run before its end
		t.finish(own, cancelled(mailroom.ReasonSuperseded, by), now)
		ids = append(ids, own.ID)
	}
	t.touchRun(c)
	return ids
}
