// Package retry says how often a failed attempt of a run is repeated, and after which delay.
//
// The claim of a run decides on its policy: what the submit says takes precedence over the worker's settings, and these
// over the server's. The claim stores the policy in the row of the run, as MaxAttempts and Retry, and the end of the
// attempt uses it. The rejected alternative is that the settle decides: a settle at another server than the
// claim's, or the end of a claim that no worker settles, would then use other settings.
package retry

import (
	"cmp"
	"math"
	"time"

	"mailroom"
)

// Bounds of the fields of a Policy.
const (
	MaxAttempts = 100
	MinDelay    = time.Millisecond
	MaxDelay    = 365 * 24 * time.Hour
)

// MaxNamed bounds a delay that the failure itself asks for, such as the end of a provider's usage limit. It is longer
// than a month, the longest period of a provider's limits. A longer delay counts as MaxNamed.
const MaxNamed = 35 * 24 * time.Hour

// Bounds of Policy.Factor.
const (
	MinFactor = 1
	MaxFactor = 10
)

// MinOutage is the least Policy.Outage.
const MinOutage = time.Second

// Policy is how failed attempts of a run are repeated. A field that is zero is taken from the level above, see
// [Policy.Over].
//
// The class of the error selects the fields. A failure (ClassTransient: an error of the agent, a time limit) counts
// towards Attempts and is delayed up to Most. An outage (ClassUnavailable: a provider that is away or limits its use)
// counts as no failure, is delayed up to OutageMost and retried for Outage. A permanent error, such as bad input, is
// not retried, and a fault of the agent itself pauses the agent instead.
type Policy struct {
	Attempts   int           // failures after which the run fails for good
	First      time.Duration // delay of the first retry
	Factor     float64       // each further delay is so many times as long
	Most       time.Duration // longest delay after a failure, without jitter
	OutageMost time.Duration // longest delay in an outage, without jitter; below First, it counts as First
	Outage     time.Duration // how long an outage is retried, from its first failed attempt
}

// Default returns the policy for agents without retry settings: 5 s, 25 s, 2 min and 10 min after the failures. An
// agent is a program that needs others, and these are away for minutes, while they are restarted or deployed. The last
// of five attempts follows the first one after 12 minutes.
func Default() Policy {
	return Policy{Attempts: mailroom.DefaultAttempts, First: 5 * time.Second, Factor: 5, Most: 10 * time.Minute,
		OutageMost: 5 * time.Minute, Outage: 24 * time.Hour}
}

// Delivery returns the policy for what the server sends by itself, replies to chats and alerts. A person waits for
// these, and a repeated call costs nothing.
func Delivery() Policy {
	p := Default()
	p.First, p.Factor, p.Most = 250*time.Millisecond, 2, 30*time.Second
	return p
}

// Over returns p, with its zero fields taken from above, the next level of settings. If p sets only one of First and
// Most, and First would exceed Most with the value from above, both get the value that p sets: the nearer level wins,
// and its author often does not know the other value.
func (p Policy) Over(above Policy) Policy {
	out := Policy{
		Attempts:   cmp.Or(p.Attempts, above.Attempts),
		First:      cmp.Or(p.First, above.First),
		Factor:     cmp.Or(p.Factor, above.Factor),
		Most:       cmp.Or(p.Most, above.Most),
		OutageMost: cmp.Or(p.OutageMost, above.OutageMost),
		Outage:     cmp.Or(p.Outage, above.Outage),
	}
	switch {
	case out.First <= out.Most:
	case p.First != 0:
		out.Most = out.First
	default:
		out.First = out.Most
	}
	return out
}

// Delay returns the delay before retry n = 1, 2, 3, …: First, times Factor for each further one, up to Most, plus up
// to a fifth. jitter is 0 to 1.
func (p Policy) Delay(n int, jitter float64) time.Duration {
	d := float64(p.First) * math.Pow(p.Factor, float64(n-1)) // infinite if it is too large
	return time.Duration(min(d, float64(p.Most)) * (1 + 0.2*jitter))
}

// InOutage returns the policy for retries in an outage. Attempts is not used in an outage.
func (p Policy) InOutage() Policy {
	p.Most = max(p.OutageMost, p.First)
	return p
}

// Named returns the delay for a time that a provider or an agent has named: never less, and up to a fifth more, at
// most maxSpread. All runs of an agent get the same time, and would come back in the same moment.
func Named(named time.Duration, jitter float64) time.Duration {
	named = min(named, MaxNamed)
	return named + time.Duration(jitter*float64(min(named/5, maxSpread)))
}

const maxSpread = 2 * time.Minute
