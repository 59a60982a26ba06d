package budget

import "time"

// Period is how long a budget lasts.
type Period string

const (
	Day   Period = "day"   // a day of the calendar, however long it is
	Month Period = "month" // a month of the calendar
	Life  Period = "life"  // of a thread: it never begins again
)

// Periods returns the periods of the calendar, the shortest first.
func Periods() []Period { return []Period{Day, Month} }

// ThreadPeriods returns the periods for which a thread may have a budget, the shortest first.
func ThreadPeriods() []Period { return []Period{Day, Month, Life} }

// never is the end of a life: a time after all others that a store has.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// Bounds returns the begin of the period in which now is, and its end, which is the begin of the next one. A period
// begins at the first moment at which the clocks of the zone show its first date, or a later one. So each moment is in
// one period, also where a change of clocks leaves midnight out or repeats it.
//
// A life begins at now.
func (p Period) Bounds(now time.Time, zone *time.Location) (begin, end time.Time) {
	if p == Life {
		return now.UTC(), never()
	}
	year, month, day := now.In(zone).Date()
	months, days := 0, 1
	if p == Month {
		months, days, day = 1, 0, 1
	}
	at := func(n int) time.Time { return startOf(year, month+time.Month(n*months), day+n*days, zone) }
	n := 0
	for !at(n + 1).After(now) { // clocks that went back after midnight show the day before once more
		n++
	}
	return at(n).UTC(), at(n + 1).UTC()
}

// startOf returns the first moment at which the clocks of a zone show the date or a later one. Month and day may be out
// of range, as in [time.Date].
func startOf(year int, month time.Month, day int, zone *time.Location) time.Time {
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if shown := wall(t); shown.Before(date) { // there is no such midnight, and t is before the gap
		_, t = t.ZoneBounds()
		return t
	}
	change, _ := t.ZoneBounds()
	if change.IsZero() {
		return t
	}
	if last := change.Add(-1); !wall(last).Before(date) { // the clocks showed the date before they went back
		return last.Add(date.Sub(wall(last)))
	} else if wall(change).After(date) { // there is no such midnight, and t is behind the gap
		return change
	}
	return t
}

// wall returns what the clock shows at t, as a time in UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
