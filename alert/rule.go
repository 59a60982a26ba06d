package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/auth"
)

// Rule selects events and the targets that get alerts about them.
type Rule struct {
	// Owner is the name of the token that owns the rule; the rule applies to its threads only. Rules of the operator,
	// and rules of the configuration, whose Owner is "", apply to all threads.
	Owner string
	Place string // thread that gets the alerts for the first target; "": the target's own thread
	Name  string // unique for the owner
	When  []Kind
	// To are names of targets. Alerts go to the first target; the others are fallbacks, in this order.
	To []string
	// Agents and Threads limit the rule to agents by name, and to threads by a prefix of their id. Empty: no limit.
	// Neither applies to channels and digests, and Threads does not apply to events about an agent.
	Agents  []string
	Threads []string
	Text    Text
	// Quiet is when the rule sends no alerts. At its end, it sends alerts about what happened in between.
	Quiet  Quiet
	Digest Clock // time of the digest
	// Every is the period of digests, in place of Digest; 0: they come once a day. See [ParseDigest].
	Every time.Duration
	// Outage is how long runs of an agent must wait because of an outage before the rule alerts; 0: DefaultOutage.
	Outage time.Duration
	// Remind is how long after the alert about a question the rule reminds people of it for the first time, if it is
	// still open; 0: never.
	Remind time.Duration
	Zone   *time.Location // zone of Quiet and Digest
}

// DefaultOutage is the Outage of a rule that sets none.
const DefaultOutage = 5 * time.Minute

// Bounds of the Outage of a rule.
const (
	MinOutage = time.Second
	MaxOutage = 24 * time.Hour
)

// Clock is a time of day, in minutes since midnight.
type Clock int

// ParseClock parses a time such as "22:00".
func ParseClock(s string) (Clock, bool) {
	t, err := time.Parse("15:04", s)
	return Clock(t.Hour()*60 + t.Minute()), err == nil && len(s) == len("15:04")
}

func clockOf(t time.Time) Clock { return Clock(t.Hour()*60 + t.Minute()) }

// on returns the time of day c on the day of t, in the location of t. If the change to summer time skips c, the
// result is later by the length of the change; if c occurs twice, the result is one of the two times (see
// [time.Date]).
func (c Clock) on(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, int(c), 0, 0, t.Location())
}

// Quiet is a part of each day, over midnight if From is after To. Equal values mean no quiet hours.
type Quiet struct{ From, To Clock }

// ParseQuiet parses hours such as "22:00-07:00". "" means no quiet hours.
func ParseQuiet(s string) (Quiet, bool) {
	if s == "" {
		return Quiet{}, true
	}
	from, to, _ := strings.Cut(s, "-")
	a, ok := ParseClock(from)
	b, also := ParseClock(to)
	return Quiet{a, b}, ok && also && a != b
}

// End returns when the quiet hours around t end, or zero if t is not in them. The hours are what a clock
// on the wall of t's location shows, also on the days on which it is changed.
func (q Quiet) End(t time.Time) time.Time {
	at := clockOf(t)
	switch {
	case q.From == q.To, q.From < q.To && (at < q.From || at >= q.To), q.From >= q.To && at < q.From && at >= q.To:
		return time.Time{}
	case at >= q.To: // over midnight
		t = t.AddDate(0, 0, 1)
	}
	return q.To.on(t)
}

// wants reports whether the rule applies to an event.
func (r *Rule) wants(e *Event) bool {
	if !slices.Contains(r.When, e.Kind) || r.ofToken() && e.Owner != r.Owner {
		return false
	}
	if len(r.Agents) > 0 && e.Agent != "" && !slices.Contains(r.Agents, e.Agent) {
		return false
	}
	return len(r.Threads) == 0 || e.Thread == "" || slices.ContainsFunc(r.Threads, func(p string) bool {
		return strings.HasPrefix(e.Thread, p)
	})
}

// String returns the time as ParseClock reads it.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// String returns the hours as ParseQuiet reads them.
func (q Quiet) String() string {
	if q.From == q.To {
		return ""
	}
	return q.From.String() + "-" + q.To.String()
}

// delivered reports whether the thread of an event delivers it to the rule's first target by itself.
func (r *Rule) delivered(e *Event) bool { return e.Delivery != "" && e.DeliverTo == r.To[0] }

// ofToken reports whether the rule is a token's, about its own threads.
func (r *Rule) ofToken() bool { return r.Owner != "" && r.Owner != auth.Operator }

// id identifies the rule among all.
func (r *Rule) id() string {
	if r.Owner == "" {
		return r.Name
	}
	return r.Owner + "/" + r.Name // unique, because no name of a rule has a slash
}
