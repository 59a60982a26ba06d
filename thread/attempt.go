package thread

import (
	"time"

	"mailroom"
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

// Attempts are the attempts that the transitions of a transaction started and ended, for metrics. A repeat
// of a settle, which changes nothing, is not among them.
type Attempts struct {
	Started []AttemptStart
	Ended   []AttemptEnd
}

func (s *Attempts) start(r *mailroom.Run, due, now time.Time) {
	s.Started = append(s.Started,
		AttemptStart{Agent: r.Agent, Attempt: r.Attempt, Created: r.CreatedAt, Due: due, At: now})
}

func (s *Attempts) end(r *mailroom.Run, how Outcome, class mailroom.Class) {
	s.Ended = append(s.Ended, AttemptEnd{Agent: r.Agent, Outcome: how, Class: class})
}
