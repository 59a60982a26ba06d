// Package retry says how often a failed attempt of a run is repeated, and after which delay.
//
// The claim decides, from what the worker says over what the server says, and it is stored in the
// row of the run: MaxAttempts, unless the submit gave it, RetryFirst and RetryMost. Any end of the
// attempt finds it there. If the settle decided, a settle that reaches another server than the
// claim did, or the end of a claim that no worker settles, would follow other settings.
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

// MaxNamed bounds the delay that a failure names itself, such as the end of a provider's limit: longer than any window
// of a provider, a month. A longer delay counts as MaxNamed.
const MaxNamed = 35 * 24 * time.Hour

const (
	defaultFirst = 250 * time.Millisecond
	defaultMost  = 30 * time.Second
	outageMost   = 5 * time.Minute // an outage lasts longer than a fault; Policy.Most may be more
)

// Policy is how failed attempts of a run are repeated. A zero field is left to the level above, see [Policy.Over].
type Policy struct {
	Attempts int           // failures after which the run fails for good
	First    time.Duration // delay of the first retry; each further one is twice as long
	Most     time.Duration // longest delay, without jitter
}

// Default returns the policy of an agent that has none.
func Default() Policy {
	return Policy{Attempts: mailroom.DefaultAttempts, First: defaultFirst, Most: defaultMost}
}

// Over returns p with what it leaves open from the level above. If p sets only one of First and Most, and the other
// one of the level above would cross it, the other one is the same: the nearer level says what it wants, and often
// cannot know the rest.
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

// InOutage returns the policy of retries in an outage. Attempts does not count there.
func (p Policy) InOutage() Policy {
	p.Most = max(p.Most, outageMost)
	return p
}
