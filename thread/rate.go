package thread

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate bounds how often runs start: N in each Per on average, and up to Burst at once. The zero Rate bounds nothing.
//
// It is a generic cell rate algorithm: all that it has to know of the past is the time until which the starts so far
// use it up. So a rate is one row, however many starts it counts, and no window has edges at which twice as many start.
type Rate struct {
	N     int
	Per   time.Duration // a second, a minute, an hour or a day
	Burst int           // at least 1
}

// Limit bounds the runs of an agent, an owner or a key, on all servers together.
type Limit struct {
	Rate    Rate
	Running int // runs at the same time; 0: no bound
}

// Any reports whether the limit bounds anything.
func (l Limit) Any() bool { return l.Rate.N > 0 || l.Running > 0 }

// MeterPrefix begins the keys of the meters of limits. Their At is the time until which a rate is used up, and their
// Count the number of threads whose Meters have the key.
const MeterPrefix = "limit:"

// AgentMeter returns the key of the meter of an agent's limit.
func AgentMeter(agent string) string { return MeterPrefix + "agent:" + agent }

// OwnerMeter returns the key of the meter of an owner's limit.
func OwnerMeter(owner string) string { return MeterPrefix + "owner:" + owner }

// MaxLimit bounds the burst of a rate, and the number of runs of a Limit.
const MaxLimit = 100_000

func (r Rate) each() time.Duration { return r.Per / time.Duration(r.N) }

// Starts returns how many runs may start at now, at most most, if used is what Take returned last. If none may start,
// next is the time of the next start.
func (r Rate) Starts(used, now time.Time, most int) (n int, next time.Time) {
	if r.N <= 0 {
		return most, time.Time{}
	}
	spare := time.Duration(r.Burst-1) * r.each()
	ahead := r.from(used, now).Sub(now)
	if ahead > spare {
		return 0, now.Add(ahead - spare)
	}
	return int(min(int64(most), int64((spare-ahead)/r.each())+1)), time.Time{}
}

// Take returns the time until which the rate is used up after one more start at now.
func (r Rate) Take(used, now time.Time) time.Time {
	if r.N <= 0 {
		return used
	}
	return r.from(used, now).Add(r.each()).Truncate(time.Microsecond)
}

// Cut returns used, but no time further ahead than the rate can lead: such a time was written by a slower rate, or
// before a clock stepped back. The result has to be written: from each later time, used would be too far ahead again.
func (r Rate) Cut(used, now time.Time) time.Time {
	if r.N <= 0 {
		return used
	}
	if latest := now.Add(time.Duration(r.Burst) * r.each()).Truncate(time.Microsecond); used.After(latest) {
		return latest
	}
	return used
}

// from returns the time from which the next start uses the rate.
func (r Rate) from(used, now time.Time) time.Time {
	if used.Before(now) {
		return now
	}
	return r.Cut(used, now)
}

// unitOf returns the unit that a word of a rate names, and its letter; 0 for none.
func unitOf(word string) (unit time.Duration, letter string) {
	switch strings.ToLower(word) {
	case "s", "sec", "second", "seconds":
		return time.Second, "s"
	case "m", "min", "minute", "minutes":
		return time.Minute, "m"
	case "h", "hr", "hour", "hours":
		return time.Hour, "h"
	case "d", "day", "days":
		return 24 * time.Hour, "d"
	}
	return 0, ""
}

// ParseRate reads a rate such as "30/m", a number of starts per s, m, h or d, with a burst of 1. "" is no rate. The
// error names the nearest right form.
func ParseRate(text string) (Rate, error) {
	if text == "" {
		return Rate{}, nil
	}
	const form = `use a number of starts per s, m, h or d, such as "30/m"`
	number, word, found := strings.Cut(strings.ReplaceAll(text, " per ", "/"), "/")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	unit, letter := unitOf(strings.TrimSpace(word))
	switch {
	case err != nil || n < 0:
		return Rate{}, fmt.Errorf("%q is no rate; %s", text, form)
	case !found && n > 0:
		return Rate{}, fmt.Errorf(`%q has no unit; use "%d/m" for starts per minute, or s, h, d`, text, n)
	case n == 0:
		return Rate{}, fmt.Errorf("%q starts nothing; pause the agent instead, or %s", text, form)
	case unit == 0:
		return Rate{}, fmt.Errorf("%q has an unknown unit; %s", text, form)
	case n > 1000*int(unit/time.Second):
		return Rate{}, fmt.Errorf("%q is too fast to count; use at most 1000/s, or no rate", text)
	}
	if nearest := fmt.Sprintf("%d/%s", n, letter); nearest != text {
		return Rate{}, fmt.Errorf("%q is no rate; use %q", text, nearest)
	}
	return Rate{N: n, Per: unit, Burst: 1}, nil
}

// String returns the rate as ParseRate reads it.
func (r Rate) String() string {
	if r.N == 0 {
		return ""
	}
	_, letter := unitOf(r.unit())
	return fmt.Sprintf("%d/%s", r.N, letter)
}

// Text says the rate in words, such as "30 a minute".
func (r Rate) Text() string {
	if r.Per == time.Hour {
		return fmt.Sprintf("%d an hour", r.N)
	}
	return fmt.Sprintf("%d a %s", r.N, r.unit())
}

func (r Rate) unit() string {
	switch r.Per {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return "day"
}
