package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// occurrences are the times of a schedule, as times in UTC.
type occurrences interface {
	// Next returns the first occurrence after a time, or the zero time.
	Next(after time.Time) time.Time
}

// cronTimes are the occurrences of a cron expression in a time zone.
//
// The expression is evaluated on wall clocks, which the library gets as times in UTC, and our rule then turns a wall
// clock into a time. The library's own rule for zones fires twice when clocks go back, and leaves out a midnight that
// clocks jump over.
type cronTimes struct {
	expr cron.Schedule
	zone *time.Location
	// runsHourly reports that the expression fires in hours that it does not name, such as every half an hour. It
	// then fires each time that the clock shows one of its times. Otherwise it names times of day: one that comes
	// twice counts once, and one that is left out counts at the moment at which the clock jumps over it.
	runsHourly bool
}

// maxSearchYears is how far an expression is searched for its next time. A 29 February may be eight years away.
const maxSearchYears = 12

// parseCron reads five fields of cron (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/crontab.html), with
// L, W and # of Quartz, or a word such as @daily.
func parseCron(expr string, zone *time.Location) (occurrences, error) {
	fields := strings.Fields(expr)
	if len(fields) == 0 {
		return nil, fmt.Errorf("is empty: use five fields such as \"0 7 * * 1-5\": minute, hour, day of month, month, " +
			"day of week")
	}
	if err := checkCronForm(fields); err != nil {
		return nil, err
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor |
		cron.Extended | cron.DowOrDom)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.WithMaxSearchYears(maxSearchYears).Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, suggest(expr))
	}
	hourly := len(fields) == 5 && strings.HasPrefix(fields[1], "*") || fields[0] == "@hourly"
	return cronTimes{parsed, zone, hourly}, nil
}

// checkCronForm refuses what the library reads and a schedule says otherwise, or not at all.
func checkCronForm(fields []string) error {
	first := fields[0]
	switch {
	case strings.Contains(first, "TZ="):
		return fmt.Errorf("has a time zone: leave out %s and set the zone of the schedule", first)
	case first == "@every":
		return fmt.Errorf("is an interval: set every to %s instead of cron", strings.Join(fields[1:], " "))
	case first == "@reboot":
		return fmt.Errorf("is no time: a schedule does not fire when a server starts")
	case strings.HasPrefix(first, "@"):
		return nil
	case len(fields) == 6 && looksLikeField(fields[1]):
		return fmt.Errorf("has six fields: seconds cannot be set; leave out the first field: \"%s\"",
			strings.Join(fields[1:], " "))
	case len(fields) != 5:
		return fmt.Errorf("has %d fields instead of five: minute, hour, day of month, month, day of week%s",
			len(fields), suggest(strings.Join(fields, " ")))
	}
	return nil
}

// looksLikeField reports whether a word may be a field of cron that is no name.
func looksLikeField(word string) bool { return strings.Trim(word, "0123456789*/,-?LW#") == "" }

// Next implements [occurrences].
func (c cronTimes) Next(after time.Time) time.Time {
	if c.runsHourly {
		return c.nextShown(after)
	}
	// Wall clocks grow with the times that they stand for, so the first one whose time is later is the next.
	for wall := wallOf(after, c.zone); ; {
		if wall = c.expr.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		if at := timeOf(wall, c.zone); at.After(after) {
			return at
		}
	}
}

// nextShown returns the next time at which the clock shows a time of the expression.
func (c cronTimes) nextShown(after time.Time) time.Time {
	wall := c.expr.Next(wallOf(after, c.zone))
	for range 2 * maxSearchYears * 4 { // changes of the offset
		if wall.IsZero() {
			return time.Time{}
		}
		local := after.In(c.zone)
		_, offset := local.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		_, end := local.ZoneBounds()
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		after = end // the offset changes before that: look again from there, the end included
		wall = c.expr.Next(wallOf(end, c.zone).Add(-time.Second))
	}
	return time.Time{}
}

// wallOf returns what the clock of a zone shows at a time, as a time in UTC.
func wallOf(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// timeOf returns the first time at which the clock of a zone shows a wall clock. If the clock jumps over it, the time
// of the jump is returned.
func timeOf(wall time.Time, zone *time.Location) time.Time {
	// The offsets a day before and after are the only ones that count: no zone changes twice within two days.
	_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	early := wall.Add(-time.Duration(max(before, after)) * time.Second)
	late := wall.Add(-time.Duration(min(before, after)) * time.Second)
	for _, at := range []time.Time{early, late} {
		if wallOf(at, zone).Equal(wall) {
			return at
		}
	}
	_, jump := early.In(zone).ZoneBounds()
	return jump.UTC()
}

// interval is a grid of times: anchor, and each whole number of steps from it.
type interval struct {
	anchor time.Time
	every  time.Duration
}

// Next implements [occurrences].
func (i interval) Next(after time.Time) time.Time {
	since := after.Sub(i.anchor)
	n := since / i.every
	if since < 0 && since%i.every != 0 {
		n--
	}
	return i.anchor.Add((n + 1) * i.every).UTC()
}

// once is one time.
type once struct{ at time.Time }

// Next implements [occurrences].
func (o once) Next(after time.Time) time.Time {
	if o.at.After(after) {
		return o.at
	}
	return time.Time{}
}

// between limits times to those from start up to and including end. Zero times limit nothing.
type between struct {
	times      occurrences
	start, end time.Time
}

// Next implements [occurrences].
func (b between) Next(after time.Time) time.Time {
	if before := b.start.Add(-1); !b.start.IsZero() && after.Before(before) {
		after = before
	}
	at := b.times.Next(after)
	if !b.end.IsZero() && at.After(b.end) {
		return time.Time{}
	}
	return at
}
