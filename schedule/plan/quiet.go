package plan

import (
	"fmt"
	"strings"
	"time"

	"mailroom/internal/check"
)

// quietWindow is a part of each day in which a schedule sends nothing: from a minute of the day, up to another one. It
// may go over midnight.
type quietWindow struct {
	from, to int
	zone     *time.Location
}

// parseQuiet reads a window such as 22:00-07:00; it returns nil for an empty text.
func parseQuiet(text string, zone *time.Location) (*quietWindow, error) {
	if text == "" {
		return nil, nil
	}
	from, to, found := strings.Cut(text, "-")
	w := &quietWindow{zone: zone}
	var ok [2]bool
	w.from, ok[0] = minuteOfDay(from)
	w.to, ok[1] = minuteOfDay(to)
	if !found || !ok[0] || !ok[1] || w.from == w.to {
		return nil, check.Invalid("quiet", "must be two different times of day such as 22:00-07:00", text)
	}
	return w, nil
}

// minuteOfDay reads a time of day such as 07:00.
func minuteOfDay(text string) (n int, ok bool) {
	at, err := time.Parse("15:04", text)
	return at.Hour()*60 + at.Minute(), err == nil && len(text) == len("15:04")
}

// has reports whether the clock of the zone shows a time of the window. A time of day that comes twice is in it both
// times, so a night in which clocks change is quiet from its begin to its end.
func (w *quietWindow) has(at time.Time) bool {
	if w == nil {
		return false
	}
	local := at.In(w.zone)
	n := local.Hour()*60 + local.Minute()
	if w.from < w.to {
		return w.from <= n && n < w.to
	}
	return n >= w.from || n < w.to
}

// maxQuiet bounds how many occurrences in a row are looked at for one that is not quiet. A window of a day without a
// minute has 1,439 of the densest schedule.
const maxQuiet = 1500

// loud are the occurrences outside of a quiet window.
type loud struct {
	times occurrences
	quiet *quietWindow
}

// Next implements [occurrences].
func (l loud) Next(after time.Time) time.Time {
	for range maxQuiet {
		if after = l.times.Next(after); after.IsZero() || !l.quiet.has(after) {
			return after
		}
	}
	return time.Time{}
}

// checkQuiet refuses a window that has all occurrences. The first one comes after now.
func (s *Spec) checkQuiet(now time.Time) error {
	l, err := s.loudTimes()
	if err == nil && l.Next(now).IsZero() {
		err = check.Invalid("quiet", fmt.Sprintf("has all times of %s", s.when()), s.Quiet)
	}
	return err
}

// loudTimes returns the occurrences outside of the quiet window, without jitter.
func (s *Spec) loudTimes() (l loud, err error) {
	zone, err := s.Location()
	if err != nil {
		return l, err
	}
	if l.times, err = s.times(); err == nil {
		l.quiet, err = parseQuiet(s.Quiet, zone)
	}
	return l, err
}
