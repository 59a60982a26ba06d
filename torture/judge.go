package main

import (
	"slices"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/doctor/fold"
	"mailroom/store"
)

// judge checks that the log of a thread has what an operation's answer says.
func (t *torture) judge(o *operation) {
	if o.Outcome == refused && !t.mayRefuse(o) {
		t.violation(o.Thread, "operation %d, %s, was refused: %s: %s", o.N, o.Kind, o.Code, o.Why)
	}
	if o.Outcome != done || o.Thread == "" || strings.HasPrefix(o.Thread, "gone-") {
		return
	}
	l := t.log(o.Thread)
	if l.isIncomplete() {
		return
	}
	l.inspect(func(s *threadState) {
		if what := answered(o, s); what != "" {
			t.violation(o.Thread, "operation %d, %s: %s", o.N, o.Kind, what)
		}
	})
	if o.Submitted != nil && o.Submit.Key != "" {
		t.judgeKey(o)
	}
}

// mayRefuse reports whether the server may refuse the operation with its error: a conflict if another operation came
// first, not found if the object was purged, busy if the thread is busy. A list must succeed.
func (t *torture) mayRefuse(o *operation) bool {
	switch o.Code {
	case mailroom.CodeConflict, mailroom.CodeBusy, mailroom.CodeGone:
		return o.Kind != "list"
	case mailroom.CodeNotFound:
		return o.Kind != "list" && t.purges.Load()
	}
	return false
}

// judgeKey checks that every answer for a key names the same message and run.
func (t *torture) judgeKey(o *operation) {
	id := o.Thread + " " + o.Submit.Key
	first := t.keys[id]
	if first == nil {
		t.keys[id] = o
		return
	}
	if first.Message != o.Message || first.Run != o.Run || first.Submitted.Seq != o.Submitted.Seq ||
		first.Submitted.Place != o.Submitted.Place {
		t.violation(o.Thread, "key %s returned %+v in operation %d but %+v in operation %d",
			o.Submit.Key, *first.Submitted, first.N, *o.Submitted, o.N)
	}
	t.counts.repeats.Add(1)
}

// answered returns what the log lacks of an operation's answer, or "" if it lacks nothing.
func answered(o *operation, s *threadState) string {
	switch o.Kind {
	case "submit", "repeat":
		return submitted(o, s)
	case "edit":
		if !slices.Contains(s.edits[o.Message], o.Text) {
			return "the edit is not in the log"
		}
	case "retract":
		if m := s.log.Message(o.Message); m == nil || m.Fate != fold.FateRetracted {
			return "the message is not retracted in the log"
		}
	case "cancel", "cancel tree":
		return cancelled(o.State, s.runs[o.Run])
	case "retry":
		if r := s.runs[o.Run]; r == nil || r.retries == 0 {
			return "the retry is not in the log"
		}
	case "interrupt":
		for _, id := range o.Interrupted.Superseded {
			if r := s.runs[id]; r == nil || r.ends == 0 {
				return "run " + id + " was not superseded in the log"
			}
		}
		if id := o.Interrupted.Stopping; id != nil && (s.runs[*id] == nil || s.runs[*id].stops == 0) {
			return "run " + *id + " was not asked to stop in the log"
		}
	case "decide":
		return decided(o, s)
	case "wait":
		r := s.runs[o.Run]
		if r == nil || o.State.Status.Finished() && r.ends == 0 {
			return "the run has not ended in the log"
		}
	}
	return ""
}

func submitted(o *operation, s *threadState) string {
	out := o.Submitted
	m := s.log.Message(out.Message)
	if m == nil {
		return "message " + out.Message + " is not in the log"
	}
	r := s.log.Runs[out.Run]
	if r == nil {
		return "run " + out.Run + " is not in the log"
	}
	if s.texts[out.Message] != o.Text || m.Seq != out.Seq || m.Run != r {
		return "message " + out.Message + " is not what was submitted"
	}
	if o.Ticket != "" && decided(o, s) != "" {
		return decided(o, s)
	}
	steered := out.Disposition == store.DispositionSteered || out.Disposition == store.DispositionResumed
	switch {
	case out.Disposition == store.DispositionDuplicate:
	case steered != m.Steered:
		return "message " + out.Message + " did not get the disposition " + string(out.Disposition)
	case out.Disposition == store.DispositionQueued && o.Submit.Priority != nil && r.Priority != *o.Submit.Priority:
		return "run " + out.Run + " has a different priority"
	}
	for _, id := range out.Superseded {
		if other := s.runs[id]; other == nil || other.ends == 0 {
			return "run " + id + " was not superseded in the log"
		}
	}
	if id := out.Stopping; id != nil && (s.runs[*id] == nil || s.runs[*id].stops == 0) {
		return "run " + *id + " was not asked to stop in the log"
	}
	return ""
}

func cancelled(state *api.Run, r *runState) string {
	switch {
	case r == nil:
		return "the run is not in the log"
	case state.Status == mailroom.StatusCancelled && r.ends == 0:
		return "the run has not ended in the log"
	case state.Stopping && r.stops == 0:
		return "the run was not asked to stop in the log"
	}
	return ""
}

func decided(o *operation, s *threadState) string {
	for _, d := range s.decided[o.Ticket] {
		if verdict(d.Decision, d.Answer) == o.Verdict {
			return ""
		}
	}
	return "ticket " + o.Ticket + " has a different decision in the log"
}

// judgeTexts checks that the text of an answered submit is in the logs, and the text of a refused submit or decision
// is not.
func (t *torture) judgeTexts(ops []*operation) {
	for _, o := range ops {
		if o.Kind == "submit" && o.Outcome == refused && t.texts[o.Text] > 0 {
			t.violation(o.Thread, "operation %d was refused (%s), but its message is in the log", o.N, o.Why)
		}
	}
}
