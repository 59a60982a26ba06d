package thread

// This file defines how a worker gets runs. The ledger asks the worker for its next claim, claims due runs for it
// in a commit, and tells it which runs it has. The worker keeps them while its lease is live.
//
// The ledger asks at each batch, after the operations that fill or free slots. So the commit that ends a run, or
// accepts a submit, also starts the next run. A worker that polled for due runs would need a further commit for
// each run, and would often look in vain. A worker that got runs in advance, like a consumer of a queue with a
// prefetch, would keep them from idle workers, and hold claims of runs that do not start.
//
// The answer to a claim may be lost on its way to another process. So each claim has a number, the round. A renewal
// names the last round whose answer arrived, and the claims that the worker holds. The ledger releases the worker's
// other claims of that round and of earlier ones.

import (
	"time"

	"mailroom"
	"mailroom/internal/retry"
)

// Claimer is a worker for which the ledger claims due runs. The committer calls its methods, without
// holding a lock: they must be fast and must not wait for the ledger.
type Claimer interface {
	// NextClaim returns what the worker has room for, and the number of the round that may use it. It
	// is called at the start of each batch; a worker without slots is skipped. Wait is ignored.
	NextClaim() ClaimRequest
	// OnClaimed gets the runs that were claimed in a round. It is called after the entries of the claim were
	// published and before any later entry is: a worker that subscribes to the threads here misses no stop and no
	// steer. After an error, the outcome of the claim is unknown.
	OnClaimed(asked ClaimRequest, work []ClaimedRun, err error)
}

// ClaimRequest requests due runs for a worker.
type ClaimRequest struct {
	Worker      string
	Round       int64          // number of the claim, increasing per worker
	Slots       int            // maximum number of runs
	Agents      map[string]int // maximum per agent
	LastAttempt bool           // may include one run on its last attempt
	Held        map[string]int // number of runs that the worker has, by owner of the thread
	FairSlots   int            // further runs beyond Slots, for owners without a run on the worker
	Wait        bool           // wait until a run is due
	// Node is the id of the worker's server, if other servers share its store: sessions on that server can continue
	// there. "" means none.
	Node string
	// Retry is the worker's policy for retries of its runs. The ledger's policy sets the fields that are zero.
	Retry retry.Policy
}

// ClaimedRun is one claimed run.
type ClaimedRun struct {
	Claim  mailroom.Claim
	Run    *mailroom.Run
	Thread *mailroom.Thread
	Input  []mailroom.Message // messages of the run; nil: read them from the log
	Due    time.Time          // when the run became due
	At     time.Time          // when it was claimed
	Limit  time.Duration      // how long the attempt may take; 0: the worker decides
}

// Renewal is a worker's heartbeat.
//
// A worker that says what it holds gets rid of claims whose answer was lost: the claims of the rounds up to Round that
// the renewal does not name are released. Then Round and Held must be of one moment: a claim that was answered between
// them would be released while the worker works on it. A worker that cannot promise that sets Keep. It repeats an
// unanswered claim under the same round instead, which returns the claims.
type Renewal struct {
	Worker string
	Round  int64 // last claim round whose answer it received
	Held   []mailroom.Claim
	Keep   bool // releases nothing; Round and Held are not set
	// WaitsOn has, by claim, what the agent says that it waits for. It has no entry for an agent that says nothing.
	WaitsOn map[mailroom.Claim]string
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	Until  time.Time        // end of the lease
	Lost   []mailroom.Claim // held claims that the worker has lost
	Claims []mailroom.Claim // with Keep: all claims that the worker holds
	Stops  []Stop           // held runs that were asked to stop
	Steer  []string         // held runs with steered messages
	// WaitsOn has the texts of the renewal that are new, as they were recorded.
	WaitsOn map[mailroom.Claim]string
}

// Leave ends a worker's lease.
type Leave struct {
	Worker string
	// Release gives back the claims that are not among Entered: the worker has not begun to work on them, because the
	// answer to its claim request was lost. Its last claim request must have ended. The other claims are lost.
	Release bool
	Entered []mailroom.Claim
}

// Stop reports that a run was asked to stop.
type Stop struct {
	Run    string
	Reason mailroom.Reason
}
