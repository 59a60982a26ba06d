package thread

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/reserved"
)

// Edit replaces the content of an unread message. The run that holds the message must be loaded.
func (t *State) Edit(message string, parts []mailroom.Part, now time.Time) error {
	if err := checkEditable(t.ID); err != nil {
		return err
	}
	if err := checkParts("", parts, typesOfSubmit()); err != nil {
		return err
	}
	r, in, err := t.Runs.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Seq = t.append(entry.KindEdited, r, now, entry.Edited{Message: message, Text: JoinText(parts), Parts: parts})
	r.InputText = ""
	t.touchRun(r)
	t.schedule(now)
	return nil
}

// Retract withdraws an unread message. Retracting the last message of a run cancels the run.
func (t *State) Retract(message string, now time.Time) error {
	if err := checkEditable(t.ID); err != nil {
		return err
	}
	r, in, err := t.Runs.findUnread(message)
	if err != nil {
		return err
	}
	t.promote(now)
	in.Retracted = true
	t.append(entry.KindRetracted, r, now, entry.MessageRef{Message: message})
	t.touchRun(r)
	if r.NeverStarted() && countInputs(r) == 0 {
		t.finish(r, cancelled(mailroom.ReasonRetracted, ""), now)
	}
	t.schedule(now)
	return nil
}

// checkEditable refuses to change the messages of a schedule and of a pull request: they are commands that the server
// has checked, and timers.
func checkEditable(thread string) error {
	if reserved.Prefix(thread) == reserved.Pulls {
		return mailroom.Errorf(mailroom.CodeForbidden, "messages of thread %q are the server's: cancel the run", thread)
	}
	if reserved.Prefix(thread) != reserved.Schedule {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeForbidden, "messages of thread %q are the server's: change the schedule", thread)
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

// findUnread returns the input of a message that can still be changed, and its run. Such a message is in a run that
// was never claimed, or was steered and is unread.
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
			return nil, nil, mailroom.Errorf(mailroom.CodeConflict,
				"message %s has answered a ticket; send another message instead of changing it", message)
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

// errTooLate is the refusal of a change to a read message. The text is the same whether the run
// that read it still holds the message or has ended.
func errTooLate(message, state string) error {
	return mailroom.Errorf(mailroom.CodeConflict,
		"message %s is %s; only an unread message can be changed", message, state)
}
