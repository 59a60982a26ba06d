package engine

import (
	"time"

	"mailroom"
)

// Observe has callbacks for metrics; nil ones are skipped. They must be quick and must not block or
// call the engine. Goroutines call them concurrently.
type Observe struct {
	// Started is called before an agent is entered. The ledger reports claims and ends of attempts
	// of all workers.
	Started func(Start)
	// Renewal is called after each renewal and each registration of the lease.
	Renewal func(err error)
}

// Start describes the start of one attempt. The run is as it was claimed and must not be modified.
type Start struct {
	Run     *mailroom.Run
	Due     time.Time // since when it was claimable
	Claimed time.Time
	Entered time.Time
}

func (o *Observe) fill() {
	if o.Started == nil {
		o.Started = func(Start) {}
	}
	if o.Renewal == nil {
		o.Renewal = func(error) {}
	}
}
