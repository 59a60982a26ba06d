package engine

import (
	"time"

	"mailroom"
)

// Observe has callbacks for metrics; nil ones are skipped. They must be quick and must not block or
// call the engine. Goroutines call them concurrently.
type Observe struct {
	// Started is called before an agent is entered.
	Started func(Start)
	// Attempt is called when an attempt ends. outcome is that of its settle, or one of the
	// constants below.
	Attempt func(agent, outcome string)
	// Renewal is called after each renewal and each registration of the lease.
	Renewal func(err error)
}

// Outcomes of attempts that could not be settled.
const (
	WithoutClaim = "lease_lost" // its claim was taken away
	Unsettled    = "unsettled"  // the outcome of the settle is unknown; the claim ends with the lease
)

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
	if o.Attempt == nil {
		o.Attempt = func(string, string) {}
	}
	if o.Renewal == nil {
		o.Renewal = func(error) {}
	}
}
