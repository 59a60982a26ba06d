// Package retry says how often a failed attempt of a run is repeated, and after which delay.
//
// The claim of a run decides on its policy: the worker's settings take precedence over the server's. The claim stores
// the policy in the row of the run, as MaxAttempts (unless the submit set it), RetryFirst and RetryMost, and the end
// of the attempt uses it. The rejected alternative is that the settle decides: a settle at another server than the
// claim's, or the end of a claim that no worker settles, would then use other settings.
package retry

import (
	"cmp"
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

const (
	defaultFirst = 250 * time.Millisecond
	defaultMost  = 30 * time.Second
	outageMost   = 5 * time.Minute // an outage lasts longer than a fault; Policy.Most may be more
)

// Policy is how failed attempts of a run are repeated. A field that is zero is taken from the level above, see
// [Policy.Over].
type Policy struct {
	Attempts int           // failures after which the run fails for good
	First    time.Duration // delay of the first retry; each further one is twice as long
	Most     time.Duration // longest delay, without jitter
}

// Default returns the policy for agents without retry settings.
func Default() Policy {
	return Policy{Attempts: mailroom.DefaultAttempts, First: defaultFirst, Most: defaultMost}
}

// Over returns p, with its zero fields taken from above, the next level of settings. If p sets only one of First and
// Most, and First would exceed Most with the value from above, both get the value that p sets: the nearer level wins,
// and its author often does not know the other value.
func (p Policy) Over(above Policy) Policy {
	out := Policy{
		Attempts: cmp.Or(p.Attempts, above.Attempts),
		First:    cmp.Or(p.First, above.First),
		Most:     cmp.Or(p.Most, above.Most),
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

// Delay returns the delay before retry n = 1, 2, 3, …: First, doubled up to Most, plus up to a fifth. jitter is 0 to 1.
func (p Policy) Delay(n int, jitter float64) time.Duration {
	d := p.Most
	if doublings := n - 1; p.First <= p.Most>>doublings { // the shift of First could overflow
		d = p.First << doublings
	}
	return d + time.Duration(float64(d)*0.2*jitter)
}

// InOutage returns the policy for retries in an outage, with longer delays. Attempts is not used in an outage.
func (p Policy) InOutage() Policy {
	p.Most = max(p.Most, outageMost)
	return p
}
