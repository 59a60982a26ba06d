package thread

import (
	"time"

	"mailroom"
	"mailroom/entry"
)

// AttemptStart describes a claim that a transition made, for an engine of the server or for a remote worker.
type AttemptStart struct {
	Agent   string
	Attempt int
	Created time.Time // time when the run was created
	Due     time.Time // since when the run could be claimed
	At      time.Time
}

// AttemptEnd is how an attempt ended. Outcome is the outcome of its settle, or OutcomeLost. Class
// is the class of its failure, or "".
type AttemptEnd struct {
	Agent   string
	Outcome Outcome
	Class   mailroom.Class
}

// OutcomeLost is the end of an attempt whose claim was taken away from its worker.
const OutcomeLost Outcome = "lease_lost"

// AttemptUse is what a step of an attempt added to the usage of its run, and the effects whose outcome it found to be
// unknown.
type AttemptUse struct {
	Agent          string
	Usage          mailroom.Usage
	UnknownEffects int
	Unpriced       bool // see [StepCommit]
}

// Attempts are the attempts that the transitions of a transaction started and ended, for metrics. A repeat
// of a settle, which changes nothing, is not among them.
type Attempts struct {
	Started []AttemptStart
	Ended   []AttemptEnd
	Used    []AttemptUse
}

func (s *Attempts) start(r *mailroom.Run, due, now time.Time) {
	s.Started = append(s.Started,
		AttemptStart{Agent: r.Agent, Attempt: r.Attempt, Created: r.CreatedAt, Due: due, At: now})
}

func (s *Attempts) end(r *mailroom.Run, how Outcome, class mailroom.Class) {
	s.Ended = append(s.Ended, AttemptEnd{Agent: r.Agent, Outcome: how, Class: class})
}

// use adds a step, unless it used nothing.
func (s *Attempts) use(r *mailroom.Run, step *StepCommit) {
	used := AttemptUse{Agent: r.Agent, Usage: step.Step.Usage, Unpriced: step.Unpriced}
	for _, e := range step.Effects {
		if e.Kind == entry.KindEffectUnknown {
			used.UnknownEffects++
		}
	}
	if used.UnknownEffects > 0 || used.Usage != (mailroom.Usage{}) {
		s.Used = append(s.Used, used)
	}
}
