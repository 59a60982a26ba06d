package engine

import (
	"time"

	"mailroom"
)

// Observe is told what the engine does, for metrics. Its functions must be quick
// and must not block or call the engine; nil ones are not called. They are
// called by many goroutines at once.
type Observe struct {
	// Started: an agent is about to be entered.
	Started func(Start)
	// Attempt ended: outcome is that of its settle, or one of those below.
	Attempt func(agent, outcome string)
	// Renewal of the lease was answered; a registration counts as one.
	Renewal func(err error)
}

// Outcomes of attempts that could not be settled.
const (
	WithoutClaim = "lease_lost" // its claim was taken away
	Unsettled    = "unsettled"  // nobody knows; its claim is freed with the lease
)

// Start is the start of one attempt. The run is as it was claimed and must not
// be changed.
type Start struct {
	Run     *mailroom.Run
	Due     time.Time // since when it could have been claimed
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
