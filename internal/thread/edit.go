package thread

import (
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
)

// Retry is a manual retry of a failed or cancelled run.
type Retry struct {
	Run          string
	By           string
	Fresh        bool   // drop the checkpoint, the effects and the decisions
	SameVersion  bool   // keep the agent version of the run
	AgentVersion string // current version of the agent
}

// Patch changes settings of a thread. A nil field keeps its value.
type Patch struct {
	By        *auth.Token // caller, who must see the thread; nil: the server itself
	Agent     *string
	DeliverTo *string         // "" removes it
	Metadata  json.RawMessage // a JSON object

	// Rows that the check of DeliverTo needs.
	Target *mailroom.Thread // row of DeliverTo, which may not exist
	Source *mailroom.Thread // a thread that delivers to the changed one, or nil
}

// Retry puts a finished run at the end of the queue. The attempt number keeps counting up, so a
// write of an old attempt never matches a new claim.
func (t *State) Retry(in Retry, now time.Time) (*mailroom.Run, error) {
	r := t.Run(in.Run)
	if r == nil {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %s in thread %q", in.Run, t.ID)
	}
	if r.Status != mailroom.StatusFailed && r.Status != mailroom.StatusCancelled {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "run %s is %s; only a failed or cancelled run can be retried", r.ID, r.Status)
	}
	if countInputs(r) == 0 {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "all messages of run %s were retracted", r.ID)
	}
	t.promote(now)
	r.Status, r.Place = mailroom.StatusQueued, takePlace(&t.Thread)
	r.Failures, r.Crashes, r.Lost, r.Outages, r.OutageSince = 0, 0, 0, 0, time.Time{}
	r.Stop, r.StopBy, r.Reason, r.Error, r.Reply = "", "", "", nil, nil
	r.StartedAt, r.FinishedAt = time.Time{}, time.Time{}
	r.Scheduled, r.NotBefore, r.AvailableAt = false, time.Time{}, now
	r.Wait, r.Resumes = nil, false
	if in.Fresh {
		r.Checkpoint, r.Progress = nil, 0
		for _, k := range t.Tickets.of(r.ID) {
			k.State = mailroom.TicketVoid
			t.Tickets.touch(k)
		}
	}
	if !in.SameVersion {
		r.AgentVersion = in.AgentVersion
	}
	t.touchRun(r)
	t.append(entry.KindRetried, r, now, entry.RunRetried{By: in.By, Fresh: in.Fresh})
	t.schedule(now)
	return r, nil
}

// Edit replaces the content of an unread message. The run that holds it must be loaded.
func (t *State) Edit(message string, parts []mailroom.Part, now time.Time) error {
	if err := checkParts("", parts); err != nil {
		return err
	}
	r, in, err := t.Runs.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Seq = t.append(entry.KindEdited, r, now, entry.Edited{Message: message, Text: JoinText(parts), Parts: parts})
	t.touchRun(r)
	t.schedule(now)
	return nil
}

// Retract withdraws an unread message. Retracting the last message of a run cancels the run.
func (t *State) Retract(message string, now time.Time) error {
	r, in, err := t.Runs.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Retracted = true
	t.append(entry.KindRetracted, r, now, entry.MessageRef{Message: message})
	t.touchRun(r)
	if r.NeverStarted() && countInputs(r) == 0 {
		r.Reason = mailroom.ReasonRetracted
		t.finish(r, mailroom.StatusCancelled, now, entry.KindCancelled, entry.RunStop{Reason: mailroom.ReasonRetracted})
	}
	t.schedule(now)
	return nil
}

// countInputs returns the number of inputs that were not retracted.
func countInputs(r *mailroom.Run) int {
	n := 0
	for _, in := range r.Inputs {
		if !in.Retracted {
			n++
		}
	}
	return n
}

// findUnread returns the input of a message that can still be changed: in a run that was never
// claimed, or steered and unread.
func (s *Runs) findUnread(message string) (*mailroom.Run, *mailroom.Input, error) {
	for _, r := range s.byID {
		state, ok := r.MessageState(message)
		if !ok {
			continue
		}
		if state != mailroom.MessageAccepted {
			return nil, nil, errTooLate(message, state)
		}
		if slices.Contains(r.Spent, message) {
			return nil, nil, mailroom.Errorf(mailroom.CodeConflict, "message %s has answered a ticket; send another message instead of changing it", message)
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
	return nil, nil, errTooLate(message, mailroom.MessageRead)
}

// Patch changes the agent, the metadata or the delivery target of the thread.
func (t *State) Patch(p Patch, now time.Time) error {
	if err := t.CheckVisibleTo(p.By); err != nil {
		return err
	}
	if p.Metadata != nil {
		if err := check.JSON("metadata", p.Metadata, mailroom.MaxMetadata); err != nil {
			return err
		}
		if !check.IsObject(p.Metadata) {
			return check.Invalid("metadata", "must be a JSON object", truncate(string(p.Metadata), 80))
		}
	}
	if p.Agent != nil && !check.IsClean(*p.Agent) {
		return check.Invalid("agent", "must be valid UTF-8 without NUL", *p.Agent)
	}
	if err := p.checkDelivery(t.ID); err != nil {
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
	t.Touch()
	return nil
}

// checkDelivery refuses a target of thread that the caller cannot see, and chains: a delivery
// thread must not deliver itself, or a reply could be delivered forever.
func (p *Patch) checkDelivery(thread string) error {
	switch {
	case p.DeliverTo == nil || *p.DeliverTo == "":
		return nil
	case *p.DeliverTo == thread:
		return check.Invalid("deliver_to", "is the thread itself", *p.DeliverTo)
	case p.Target != nil && !p.Target.CreatedAt.IsZero() && p.By != nil && !p.By.CanSee(p.Target):
		return errNoThread(p.Target.ID)
	case p.Target != nil && p.Target.DeliverTo != "":
		return mailroom.Errorf(mailroom.CodeConflict, "thread %q delivers to %q; a delivery thread must not have a deliver_to", p.Target.ID, p.Target.DeliverTo)
	case p.Source != nil && p.By != nil && !p.By.CanSee(p.Source):
		return mailroom.Errorf(mailroom.CodeConflict, "another thread delivers to this one; a delivery thread must not have a deliver_to")
	case p.Source != nil:
		return mailroom.Errorf(mailroom.CodeConflict, "thread %q delivers to this one; a delivery thread must not have a deliver_to", p.Source.ID)
	}
	return nil
}

// CheckDeletable returns an error unless the thread exists and is idle.
func (t *State) CheckDeletable() error {
	switch {
	case t.CreatedAt.IsZero():
		return mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", t.ID)
	case !isIdle(&t.Thread):
		return mailroom.Errorf(mailroom.CodeConflict, "thread %q has open runs; cancel them first", t.ID)
	}
	return nil
}

// Purge drops the entries below seq from the row's totals; they have the given size in bytes.
func (t *State) Purge(seq, bytes int64) {
	t.FirstSeq = seq
	t.Bytes -= bytes
	t.Touch()
}

// MarkDeleted hides the thread from every caller before its rows are dropped.
func (t *State) MarkDeleted(now time.Time) {
	t.DeletedAt = now
	t.Touch()
}

// errTooLate is the refusal of a change to a read message. The text is the same whether the run
// that read it still holds the message or has ended.
func errTooLate(message, state string) error {
	return mailroom.Errorf(mailroom.CodeConflict, "message %s is %s; only an unread message can be changed", message, state)
}
