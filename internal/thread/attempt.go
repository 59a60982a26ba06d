package thread

import (
	"time"

	"mailroom"
)

// AttemptStart is a claim that a transition made, by any kind of worker.
type AttemptStart struct {
	Agent   string
	Attempt int
	Created time.Time // of the run
	Due     time.Time // since when the run could be claimed
	At      time.Time
}

// AttemptEnd is how an attempt ended. Outcome is that of its settle, or OutcomeLost. Class is that of
// its failure, "" if it did not fail.
type AttemptEnd struct {
	Agent   string
	Outcome Outcome
	Class   mailroom.Class
}

// OutcomeLost is the end of an attempt whose claim was taken away from its worker.
const OutcomeLost Outcome = "lease_lost"

// Attempts returns the attempts that the transitions started and ended. A repeat of a settle, which
// changes nothing, is not among them.
func (t *State) Attempts() ([]AttemptStart, []AttemptEnd) { return t.starts, t.attempts }

func (t *State) attemptStarted(r *mailroom.Run, due, now time.Time) {
	t.starts = append(t.starts, AttemptStart{Agent: r.Agent, Attempt: r.Attempt, Created: r.CreatedAt, Due: due, At: now})
}

func (t *State) attemptEnded(r *mailroom.Run, how Outcome, class mailroom.Class) {
	t.attempts = append(t.attempts, AttemptEnd{Agent: r.Agent, Outcome: how, Class: class})
}
