package dispatch

import (
	"time"

	"mailroom"
)

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
