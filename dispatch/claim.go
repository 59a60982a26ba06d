package dispatch

import (
	"time"

	"mailroom"
)

// ClaimRequest requests due runs for a worker.
type ClaimRequest struct {
	Worker      string
	Round       int64          // number of the claim, increasing per worker
	Slots       int            // maximum number of runs
	Agents      map[string]int // maximum per agent
	LastAttempt bool           // may include one run on its last attempt
	Held        map[string]int // runs that the worker has, by owner of the thread
	FairSlots   int            // further runs beyond Slots, for owners without a run on the worker
	Wait        bool           // wait until a run is due
}

// Assignment is one claimed run.
type Assignment struct {
	Claim  mailroom.Claim
	Run    *mailroom.Run
	Thread *mailroom.Thread
	Input  []mailroom.Message // nil: read it from the log
	Due    time.Time          // when the run became due
	At     time.Time          // when it was claimed
}
