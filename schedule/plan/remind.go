package plan

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// remindForms are the forms of a reminder.
const remindForms = "use \"in 20m TEXT\", \"17:30 TEXT\", \"tomorrow 9:00 TEXT\" or \"2030-01-31 18:00 TEXT\""

// ReadReminder reads the time at the begin of a reminder, on the clock of zone, and returns the rest, its text.
// A time of day without a day is the next one. Other words are refused with the forms, because a wrong guess is noticed
// too late.
func ReadReminder(text string, now time.Time, zone *time.Location) (at time.Time, rest string, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return at, "", fmt.Errorf("the time is missing: %s", remindForms)
	}
	used, local := 0, now.In(zone)
	switch first := strings.ToLower(words[0]); {
	case first == "in":
		var d time.Duration
		if d, used = readAfter(words[1:]); used > 0 {
			at, used = now.Add(d), used+1
		}
	case first == "tomorrow" && len(words) > 1:
		if hour, minute, ok := readClock(words[1]); ok {
			at, used = clockTime(local.Year(), local.Month(), local.Day()+1, hour, minute, zone), 2
		}
	case strings.Contains(first, ":"):
		if hour, minute, ok := readClock(first); ok {
			if at, used = clockTime(local.Year(), local.Month(), local.Day(), hour, minute, zone), 1; !at.After(now) {
				at = clockTime(local.Year(), local.Month(), local.Day()+1, hour, minute, zone)
			}
		}
	case len(words) > 1:
		day, bad := time.Parse(time.DateOnly, first)
		if hour, minute, ok := readClock(words[1]); ok && bad == nil {
			at, used = clockTime(day.Year(), day.Month(), day.Day(), hour, minute, zone), 2
		}
	}
	switch rest = cutWords(text, used); {
	case used == 0:
		return at, "", fmt.Errorf("the time is not clear: %s", remindForms)
	case rest == "":
		return at, "", fmt.Errorf("the text is missing: %s", remindForms)
	case !at.After(now):
		return at, "", fmt.Errorf("%s has passed", at.In(zone).Format("2006-01-02 15:04"))
	}
	return at, rest, nil
}

// readAfter reads a duration such as 20m, 1h30m, 20 minutes or 3 days, and returns how many words it has, 0 for other
// words.
func readAfter(words []string) (d time.Duration, used int) {
	if len(words) == 0 {
		return 0, 0
	}
	if d, err := time.ParseDuration(words[0]); err == nil && d > 0 && d <= maxEvery {
		return d, 1
	}
	n, digits := 0, words[0]
	for _, c := range digits {
		if c < '0' || c > '9' || n > 99_999 {
			return 0, 0
		}
		n = n*10 + int(c-'0')
	}
	if n == 0 || len(words) < 2 {
		return 0, 0
	}
	switch strings.ToLower(words[1]) {
	case "minute", "minutes", "min":
		d = time.Duration(n) * time.Minute
	case "hour", "hours":
		d = time.Duration(n) * time.Hour
	case "day", "days":
		d = time.Duration(n) * 24 * time.Hour
	}
	if d == 0 || d > maxEvery {
		return 0, 0
	}
	return d, 2
}

// readClock reads a time of day such as 9:00 or 17:30.
func readClock(text string) (hour, minute int, ok bool) {
	at, err := time.Parse("15:04", text)
	return at.Hour(), at.Minute(), err == nil
}

// clockTime returns when the clock of a zone shows a time first; see [timeOf].
func clockTime(year int, month time.Month, day, hour, minute int, zone *time.Location) time.Time {
	return timeOf(time.Date(year, month, day, hour, minute, 0, 0, time.UTC), zone)
}

// cutWords returns a text without its first n words.
func cutWords(text string, n int) string {
	for range n {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
			text = text[end:]
		} else {
			text = ""
		}
	}
	return strings.TrimSpace(text)
}

// ReadRepeated reads the times at the begin of a repeated message, five fields of cron or an interval, into a
// copy of spec, and returns the rest as its text. Natural words are refused with the cron form of the guess.
func ReadRepeated(text string) (cron, every, rest string, err error) {
	words := strings.Fields(text)
	if len(words) > 1 && strings.EqualFold(words[0], "every") {
		if d, bad := time.ParseDuration(words[1]); bad == nil && d > 0 {
			return "", words[1], cutWords(text, 2), nil
		}
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		return words[0], "", cutWords(text, 1), nil
	}
	if len(words) >= 5 && looksLikeField(words[0]) && looksLikeField(words[1]) {
		return strings.Join(words[:5], " "), "", cutWords(text, 5), nil
	}
	return "", "", "", fmt.Errorf("the times are not clear: use five fields of cron such as \"0 7 * * 1-5 TEXT\", or "+
		"\"every 90m TEXT\"%s", suggest(strings.Join(words[:min(len(words), 6)], " ")))
}
