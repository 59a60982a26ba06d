package program

import (
	"strconv"
	"strings"
	"time"

	"mailroom/internal/lazyregexp"
	"mailroom/internal/retry"
)

// maxRetryAfter bounds how far in the future the end of a limit may be.
const maxRetryAfter = retry.MaxNamed

// A time of day that has passed today means tomorrow, unless it passed at most justPassed ago. recheck is
// the delay of the retry if it just passed, because providers round the end of a limit and lift the limit a moment
// later.
const (
	justPassed = 10 * time.Minute
	recheck    = time.Minute
)

// The forms in which codex and claude, and the APIs behind them, name the end of a limit. limit_test.go has an example
// of each. The first form that matches decides.
//
//	epoch    Claude AI usage limit reached|1749924000 (anthropics/claude-code#2087, #11429), in seconds or
//	         milliseconds; "resets_at":1777936568 of the error that codex passes on (earendil-works/pi#4172)
//	rfc3339  "resets_at":"2026-09-07T12:00:00Z" (the usage file of claude)
//	seconds  "resets_in_seconds":13872 (earendil-works/pi#4172), Retry-After: 120
//	amount   try again in 2 days 17 hours 14 minutes. (openai/codex#3124, #3899), in 11.054s (the API),
//	         resets in 3h 20m, Your quota will reset after 5s.. Retrying after 6173ms (google-gemini/gemini-cli#22107),
//	         Please wait 2 minutes before trying again (github/copilot-cli#2740), "retryDelay": "34s" (Google's APIs)
//	date     try again at Jul 5th, 2026 8:19 PM. (openai/codex#26668), Aug 20, 2026, 7:38 AM (#39603);
//	         resets Oct 6, 1pm, resets Feb 22 at 9:30am, Resets Aug 17, 3pm (PDT) (claude-code#86710)
//	weekday  resets Mon 9:00 AM, resets tomorrow at 3pm
//	clock    try again at 3:28 PM. (codex), resets 4:50am (Europe/Rome) (claude-code#52575), reset at 9am
//	         (America/Chicago) (#15064), 5-hour limit reached ∙ resets 1am (Claude-Autopilot#25), resets 15:00 UTC,
//	         Access resets at 10:57 PM GMT-3. (gemini-cli#22643), resets 16:21 on 19 May (openai/codex#22650)
var (
	epochForm   = lazyregexp.New(`(?i)(?:limit reached[^|]{0,40}\||resets?_?at"?\s*[:=]\s*)([0-9]{10}|[0-9]{13})\b`)
	rfc3339Form = lazyregexp.New(
		`(?i)resets?_?at"?\s*[:=]\s*"?([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2}))`)
	secondsForm = lazyregexp.New(`(?i)(?:resets_in_seconds"?|retry[-_]after"?)\s*[:=]\s*([0-9]{1,9})\b`)
	amountForm  = lazyregexp.New(`(?i)(?:(?:try again|retry|resets?)(?: in| after):?|please wait|retry_?delay"?[:=]) ?"?((?:[0-9.]+ ?[a-z]+,? ?(?:and )?)+)`)
	amount      = lazyregexp.New(`(?i)([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d|w)[a-z]*`)
	wordForm    = lazyregexp.New(`(?i)(?:try again|resets?|available again|retry)(?: (?:at|on))? +(` + dayPart + `)?(` +
		clockPart + `)?`)
	dateAfter = lazyregexp.New(`(?i)^,? ?on ([0-9]{1,2}) (jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b`)
	zoneForm  = lazyregexp.New(
		`^[ ,]*\(?((?:UTC|GMT)[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Z][A-Za-z]+(?:/[A-Za-z0-9_+-]+){1,2}|[A-Z]{3,5})\b`)
)

const (
	dayPart = `(?:(?:on )?(today|tomorrow|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*|` +
		`(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? [0-9]{1,2}(?:st|nd|rd|th)?(?:,? [0-9]{4})?)\b(?:,? at|,)? ?)`
	clockPart = `(?:([0-9]{1,2})(?::([0-9]{2}))?(?::[0-9]{2})? ?([ap]\.?m\b\.?)?)`
)

// limitEnd returns the time at which a limit ends according to an error message, or zero if the message names no
// time. A time without a zone is in the zone of now, which is the server's, because the program runs there.
func limitEnd(text string, now time.Time) time.Time {
	at := limitTime(text, now)
	if at.IsZero() || !at.After(now) {
		return time.Time{}
	}
	if most := now.Add(maxRetryAfter); at.After(most) {
		return most
	}
	return at
}

func limitTime(text string, now time.Time) time.Time {
	if m := epochForm().FindStringSubmatch(text); m != nil {
		return epochTime(m[1])
	}
	if m := rfc3339Form().FindStringSubmatch(text); m != nil {
		if at, err := time.Parse(time.RFC3339, m[1]); err == nil {
			return at
		}
	}
	if m := secondsForm().FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return now.Add(time.Duration(n) * time.Second)
		}
	}
	if m := amountForm().FindStringSubmatch(text); m != nil {
		return now.Add(sumOf(m[1]))
	}
	for _, m := range wordForm().FindAllStringSubmatchIndex(text, 8) {
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		if group(1) == "" && group(4) == "" {
			continue
		}
		day := group(2)
		if d := dateAfter().FindStringSubmatch(text[m[1]:]); day == "" && d != nil {
			day = d[2] + " " + d[1]
		}
		if at := wordTime(strings.ToLower(day), clock{group(4), group(5), strings.ToLower(group(6))},
			zoneAfter(text[m[1]:], now), now); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// epochTime returns the time of a count of seconds, or of milliseconds if it has 13 digits.
func epochTime(digits string) time.Time {
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
		return time.Time{}
	case len(digits) > 10:
		return time.UnixMilli(n)
	}
	return time.Unix(n, 0)
}

// sumOf adds up amounts such as "2 days, 3 hours". It returns 0 if an amount is too large for a delay.
func sumOf(text string) (sum time.Duration) {
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
		"w": 7 * 24 * time.Hour,
	}
	for _, part := range amount().FindAllStringSubmatch(text, 16) {
		n, err := strconv.ParseFloat(part[1], 64)
		unit := units[strings.ToLower(part[2])]
		if err != nil || n*float64(unit) > float64(10*maxRetryAfter) {
			return 0
		}
		sum += time.Duration(n * float64(unit))
	}
	return sum
}

// clock is a time of day as it was written.
type clock struct{ hour, minute, half string }

// of returns the hour and the minute of c; ok is false if c is not a valid time of day. The zero clock is midnight at
// the start of the day.
func (c clock) of() (hour, minute int, ok bool) {
	if c.hour == "" {
		return 0, 0, true
	}
	hour, err := strconv.Atoi(c.hour)
	if c.minute != "" && err == nil {
		minute, err = strconv.Atoi(c.minute)
	}
	switch {
	case err != nil, hour > 23, minute > 59, c.minute == "" && c.half == "":
		return 0, 0, false // a bare "4" may be any number
	case c.half == "":
		return hour, minute, true
	case hour == 0 || hour > 12:
		return 0, 0, false
	}
	hour %= 12
	if c.half[0] == 'p' {
		hour += 12
	}
	return hour, minute, true
}

// wordTime returns the next time in zone at which a clock shows c on the named weekday. If day is "", any day counts.
func wordTime(day string, c clock, zone *time.Location, now time.Time) time.Time {
	hour, minute, ok := c.of()
	if !ok {
		return time.Time{}
	}
	here := now.In(zone)
	on := func(days int) time.Time {
		return time.Date(here.Year(), here.Month(), here.Day()+days, hour, minute, 0, 0, zone)
	}
	switch weekday, isWeekday := weekdayOf(day); {
	case day == "", day == "today":
		at := on(0)
		switch {
		case at.After(now):
			return at
		case now.Sub(at) <= justPassed:
			return now.Add(recheck)
		}
		return on(1)
	case day == "tomorrow":
		return on(1)
	case isWeekday:
		days := (int(weekday-here.Weekday()) + 7) % 7
		if at := on(days); at.After(now) {
			return at
		}
		return on(7)
	}
	return dateTime(day, hour, minute, zone, here)
}

func weekdayOf(day string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if len(day) >= 3 && strings.HasPrefix(strings.ToLower(d.String()), day[:3]) {
			return d, true
		}
	}
	return 0, false
}

// dateTime returns the given time on a date such as "jul 5th, 2026". If the date has no year, it uses the year that
// is nearest to now.
func dateTime(day string, hour, minute int, zone *time.Location, now time.Time) time.Time {
	words := strings.Fields(strings.NewReplacer(",", " ", ".", " ").Replace(day))
	if len(words) < 2 {
		return time.Time{}
	}
	date, err := strconv.Atoi(strings.TrimRight(words[1], "sthndr"))
	if err != nil || date < 1 || date > 31 {
		return time.Time{}
	}
	var month time.Month
	for m := time.January; m <= time.December; m++ {
		if strings.HasPrefix(strings.ToLower(m.String()), words[0][:3]) {
			month = m
		}
	}
	if len(words) > 2 {
		year, err := strconv.Atoi(words[2])
		if err != nil {
			return time.Time{}
		}
		return time.Date(year, month, date, hour, minute, 0, 0, zone)
	}
	at := time.Date(now.Year(), month, date, hour, minute, 0, 0, zone)
	if now.Sub(at) > 180*24*time.Hour { // in December, "January" means the next year
		at = time.Date(now.Year()+1, month, date, hour, minute, 0, 0, zone)
	}
	return at
}

// zoneAfter returns the time zone that stands at the beginning of text. If text begins with no known zone, it returns
// the zone of now.
func zoneAfter(text string, now time.Time) *time.Location {
	m := zoneForm().FindStringSubmatch(text)
	if m == nil {
		return now.Location()
	}
	// Abbreviations that the programs write for time zones of the systems they run on. If an abbreviation has several
	// meanings, it means the server's own time zone if that is one of them.
	hours := map[string]float64{
		"UTC": 0, "GMT": 0, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4,
		"WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "IST": 5.5, "SGT": 8, "HKT": 8,
		"JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
	}
	name := m[1]
	if abbreviation, _ := now.Zone(); abbreviation == name {
		return now.Location()
	}
	if h, ok := hours[name]; ok {
		return time.FixedZone(name, int(h*3600))
	}
	if rest := strings.TrimLeft(name, "UTCGM"); rest != name && (rest[0] == '+' || rest[0] == '-') {
		return offsetZone(name, rest)
	}
	if strings.Contains(name, "/") {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return now.Location()
}

// offsetZone returns the zone of an offset such as "+5:30" or "-0800".
func offsetZone(name, offset string) *time.Location {
	h, m, _ := strings.Cut(offset[1:], ":")
	if len(h) > 2 {
		h, m = h[:len(h)-2], h[len(h)-2:]
	}
	hours, _ := strconv.Atoi(h) // digits, as the form says
	minutes, _ := strconv.Atoi(m)
	seconds := min(hours, 14)*3600 + minutes*60
	if offset[0] == '-' {
		seconds = -seconds
	}
	return time.FixedZone(name, seconds)
}
