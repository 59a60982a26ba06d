package mailroom

import (
	"encoding/json"
	"slices"
	"time"
)

// Retry is a retry by hand of a run that failed or was cancelled.
type Retry struct {
	Run          string
	By           string
	Fresh        bool   // forget the checkpoint, the effects and the decisions
	SameVersion  bool   // keep the agent version it was pinned to
	AgentVersion string // the current one
}

// ThreadPatch changes what a thread says of itself; nil leaves it.
type ThreadPatch struct {
	By        *Token // who asks: threads that it does not see are refused. nil: the server itself
	Agent     *string
	DeliverTo *string         // "" for none
	Metadata  json.RawMessage // a JSON object

	// With a DeliverTo, what the rule about delivery threads looks at.
	Target *Thread // the row of DeliverTo, there or not
	Source *Thread // a thread that delivers to the one that is changed, or nil
}

// Retry puts a finished run back at the end of the queue. The attempt goes on
// counting, so that a write of an old attempt can never fit again.
func (t *ThreadState) Retry(in Retry, now time.Time) (*Run, error) {
	r := t.runs[in.Run]
	if r == nil {
		return nil, Errorf(CodeNotFound, "no run %s in thread %q", in.Run, t.ID)
	}
	if r.Status != StatusFailed && r.Status != StatusCancelled {
		return nil, Errorf(CodeConflict, "run %s is %s; only a failed or cancelled run can be retried", r.ID, r.Status)
	}
	if r.countInputs() == 0 {
		return nil, Errorf(CodeConflict, "all messages of run %s were retracted", r.ID)
	}
	t.promote(now)
	r.Status, r.Place = StatusQueued, t.nextPlace()
	r.Failures, r.Crashes, r.Lost, r.Outages, r.OutageSince = 0, 0, 0, 0, time.Time{}
	r.Stop, r.StopBy, r.Reason, r.Error, r.Reply = "", "", "", nil, nil
	r.StartedAt, r.FinishedAt = time.Time{}, time.Time{}
	r.Scheduled, r.NotBefore, r.AvailableAt = false, time.Time{}, now
	r.Wait, r.Resumes = nil, false
	if in.Fresh {
		r.Checkpoint, r.Progress = nil, 0
		for _, k := range t.ticketsOf(r) {
			k.State = TicketVoid
			t.touchTicket(k)
		}
	}
	if !in.SameVersion {
		r.AgentVersion = in.AgentVersion
	}
	t.touchRun(r)
	t.append(KindRetried, r, now, RunRetried{By: in.By, Fresh: in.Fresh})
	t.schedule(now)
	return r, nil
}

// Edit replaces the content of a message that nobody has read. The run that
// holds it must be loaded.
func (t *ThreadState) Edit(message string, parts []Part, now time.Time) error {
	if err := checkParts("", parts); err != nil {
		return err
	}
	r, in, err := t.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Seq = t.append(KindEdited, r, now, Edited{Message: message, Text: JoinText(parts), Parts: parts})
	t.touchRun(r)
	t.schedule(now)
	return nil
}

// Retract takes a message back that nobody has read. A run whose last message
// goes is cancelled.
func (t *ThreadState) Retract(message string, now time.Time) error {
	r, in, err := t.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Retracted = true
	t.append(KindRetracted, r, now, MessageRef{Message: message})
	t.touchRun(r)
	if r.NeverStarted() && r.countInputs() == 0 {
		r.Reason = ReasonRetracted
		t.finish(r, StatusCancelled, now, KindCancelled, RunStop{Reason: ReasonRetracted})
	}
	t.schedule(now)
	return nil
}

// countInputs counts the inputs that were not retracted.
func (r *Run) countInputs() int {
	n := 0
	for _, in := range r.Inputs {
		if !in.Retracted {
			n++
		}
	}
	return n
}

// findUnread finds a message that may still be changed: of a run that was never
// claimed, or steered and not yet taken.
func (t *ThreadState) findUnread(message string) (*Run, *Input, error) {
	for _, r := range t.runs {
		state, ok := r.MessageState(message)
		if !ok {
			continue
		}
		if state != MessageAccepted {
			return nil, nil, errTooLate(message, state)
		}
		if slices.Contains(r.Spent, message) {
			return nil, nil, Errorf(CodeConflict, "message %s has answered a ticket; send another message instead of changing it", message)
		}
		for i := range r.Steers {
			if s := &r.Steers[i]; s.Message == message {
				return r, &s.Input, nil
			}
		}
		for i := range r.Inputs {
			if r.Inputs[i].Message == message {
				return r, &r.Inputs[i], nil
			}
		}
	}
	return nil, nil, errTooLate(message, MessageRead)
}

// Patch changes the agent, the metadata or the delivery of the thread.
func (t *ThreadState) Patch(p ThreadPatch, now time.Time) error {
	if err := t.CheckVisibleTo(p.By); err != nil {
		return err
	}
	if p.Metadata != nil {
		if err := checkJSON("metadata", p.Metadata, MaxMetadata); err != nil {
			return err
		}
		if !isObject(p.Metadata) {
			return invalid("metadata", "must be a JSON object", truncate(string(p.Metadata), 80))
		}
	}
	if p.Agent != nil && !cleanText(*p.Agent) {
		return invalid("agent", "must be valid UTF-8 without NUL", *p.Agent)
	}
	if err := t.checkDelivery(p); err != nil {
		return err
	}
	if p.Metadata != nil {
		t.Metadata = p.Metadata
	}
	if p.Agent != nil {
		t.Agent = *p.Agent
	}
	if p.DeliverTo != nil {
		t.DeliverTo = *p.DeliverTo
	}
	t.UpdatedAt = now
	t.touchRow()
	return nil
}

// checkDelivery refuses what may not be reached, and chains: a delivery thread has
// no DeliverTo, or a reply would be delivered on and on.
func (t *ThreadState) checkDelivery(p ThreadPatch) error {
	switch {
	case p.DeliverTo == nil || *p.DeliverTo == "":
		return nil
	case *p.DeliverTo == t.ID:
		return invalid("deliver_to", "is the thread itself", *p.DeliverTo)
	case p.Target != nil && !p.Target.CreatedAt.IsZero() && p.By != nil && !p.By.CanSee(p.Target):
		return errNoThread(p.Target.ID)
	case p.Target != nil && p.Target.DeliverTo != "":
		return Errorf(CodeConflict, "thread %q delivers to %q itself; a delivery thread has no deliver_to", p.Target.ID, p.Target.DeliverTo)
	case p.Source != nil && p.By != nil && !p.By.CanSee(p.Source):
		return Errorf(CodeConflict, "another thread delivers to this one; a delivery thread has no deliver_to")
	case p.Source != nil:
		return Errorf(CodeConflict, "thread %q delivers to this one; a delivery thread has no deliver_to", p.Source.ID)
	}
	return nil
}

// CheckDeletable refuses unless the thread exists and is idle.
func (t *ThreadState) CheckDeletable() error {
	switch {
	case t.CreatedAt.IsZero():
		return Errorf(CodeNotFound, "no thread %q", t.ID)
	case !t.idle():
		return Errorf(CodeConflict, "thread %q has work; cancel its runs first", t.ID)
	}
	return nil
}

// Purge forgets the entries below seq, which have so many bytes.
func (t *ThreadState) Purge(seq, bytes int64) {
	t.FirstSeq = seq
	t.Bytes -= bytes
	t.touchRow()
}

// MarkDeleted makes the thread one that is gone for every caller, before its rows are
// dropped.
func (t *ThreadState) MarkDeleted(now time.Time) {
	t.DeletedAt = now
	t.touchRow()
}

// errTooLate refuses a change in the same words, whether the run that read the
// message still holds it or has ended.
func errTooLate(message, state string) error {
	return Errorf(CodeConflict, "message %s is %s; only an unread message can be changed", message, state)
}
