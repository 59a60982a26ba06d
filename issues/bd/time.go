package bd

import (
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// parseTime parses a date or time: absolute, or relative to now as in "+2w", "tomorrow" and "next
// monday". "" is the zero time.
func parseTime(text string) (time.Time, error) { return parseTimeAt(text, time.Now()) }

func parseTimeAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if at, ok := parseRelative(strings.ToLower(strings.TrimSpace(text)), now); ok {
		return at, nil
	}
	return time.Time{}, mailroom.Errorf(mailroom.CodeInvalid,
		"invalid time %q; use 2026-01-31, 2026-01-31T15:04:05Z, +6h, +1d, +2w, tomorrow or next monday", text)
}

func parseRelative(text string, now time.Time) (time.Time, bool) {
	const longest = 100_000 // largest number of any unit, so that the year fits RFC 3339
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, true
	case "today":
		return midnight, true
	case "tomorrow":
		return midnight.AddDate(0, 0, 1), true
	}
	if day, ok := strings.CutPrefix(text, "next "); ok {
		for n := 1; n <= 7; n++ {
			if at := midnight.AddDate(0, 0, n); strings.ToLower(at.Weekday().String()) == day {
				return at, true
			}
		}
		return time.Time{}, false
	}
	if len(text) < len("+1h") || text[0] != '+' && text[0] != '-' {
		return time.Time{}, false
	}
	n, err := strconv.Atoi(text[:len(text)-1])
	if err != nil || n < -longest || n > longest {
		return time.Time{}, false
	}
	switch text[len(text)-1] {
	case 'h':
		return now.Add(time.Duration(n) * time.Hour), true
	case 'd':
		return now.AddDate(0, 0, n), true
	case 'w':
		return now.AddDate(0, 0, 7*n), true
	case 'm':
		return now.AddDate(0, n, 0), true
	}
	return time.Time{}, false
}
