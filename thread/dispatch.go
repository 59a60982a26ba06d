package thread

// This file is the hand-over of runs between the ledger and its workers: a worker states its free capacity, the ledger
// assigns due runs to it in the commit that claims them, and the worker's lease keeps the claims.

import (
	"time"

	"mailroom"
	"mailroom/internal/retry"
)

// Claimer is a worker that is subscribed to due runs. The committer calls its methods, without
// holding a lock: they must be fast and must not wait for the ledger.
type Claimer interface {
	// NextClaim returns the worker's free capacity and the number of the round that may use it. It
	// is called at the start of each batch; a worker without slots is skipped. Wait is ignored.
	NextClaim() ClaimRequest
	// OnClaimed passes on the runs claimed in a round, after their entries were published and before
	// any later entry is: a worker that subscribes to the threads here misses no stop and no steer.
	// After an error, the outcome of the claim is unknown.
	OnClaimed(asked ClaimRequest, work []ClaimedRun, err error)
}

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
	// Node is the worker's server, among others on the store, whose sessions it can continue; "" for
	// none.
	Node string
	// Retry is how the worker wants failures of its runs to be retried; a zero field: as the ledger says.
	Retry retry.Policy
}

// ClaimedRun is one claimed run.
type ClaimedRun struct {
	Claim  mailroom.Claim
	Run    *mailroom.Run
	Thread *mailroom.Thread
	Input  []mailroom.Message // nil: read it from the log
	Due    time.Time          // when the run became due
	At     time.Time          // when it was claimed
	Limit  time.Duration      // how long the attempt may take, as the server says; 0: it says nothing
}

// Renewal is a worker's heartbeat.
type Renewal struct {
	Worker string
	Round  int64 // last claim round whose answer it received
	Held   []mailroom.Claim
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	Until time.Time        // end of the lease
	Lost  []mailroom.Claim // held claims that the worker has lost
	Stops []Stop           // held runs that were asked to stop
	Steer []string         // held runs with steered messages
}

// Stop reports that a run was asked to stop.
type Stop struct {
	Run    string
	Reason mailroom.Reason
}
