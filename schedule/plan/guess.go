package plan

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// suggest returns the cron form of a text in words, as the end of an error; "" if it finds no form. Words are not
// accepted, because what they leave open costs money: "every Monday" has no time of day.
func suggest(text string) string {
	expr := guess(text)
	if expr == "" {
		return ""
	}
	return fmt.Sprintf("; for %q use \"%s\"", strings.TrimSpace(text), expr)
}

// guess returns a cron expression for a text such as "every weekday at 7", "" if it finds no form.
func guess(text string) string {
	words := " " + strings.Join(strings.Fields(strings.ToLower(text)), " ") + " "
	if m := regexp.MustCompile(` every (\d+) ?(m|min|mins|minutes|h|hours) `).FindStringSubmatch(words); m != nil {
		n, err := strconv.Atoi(m[1])
		if step := "*/" + m[1]; err == nil && n > 0 {
			switch {
			case m[2][0] == 'm' && n < 60:
				return step + " * * * *"
			case m[2][0] == 'h' && n < 24:
				return "0 " + step + " * * *"
			}
		}
		return ""
	}
	for word, expr := range map[string]string{
		" every minute ": "* * * * *", " minutely ": "* * * * *", " every hour ": "0 * * * *", " hourly ": "0 * * * *",
	} {
		if strings.Contains(words, word) {
			return expr
		}
	}
	day, ok := guessDay(words)
	hour, minute, timed := guessTime(words)
	if !ok && !timed {
		return ""
	}
	return fmt.Sprintf("%d %d %s", minute, hour, day)
}

// guessDay returns the last three fields for the days that words name.
func guessDay(words string) (fields string, ok bool) {
	for _, d := range []struct{ word, fields string }{
		{"weekday", "* * 1-5"}, {"workday", "* * 1-5"}, {"weekend", "* * 0,6"}, {"monday", "* * 1"}, {"tuesday", "* * 2"},
		{"wednesday", "* * 3"}, {"thursday", "* * 4"}, {"friday", "* * 5"}, {"saturday", "* * 6"}, {"sunday", "* * 0"},
		{"monthly", "1 * *"}, {"every month", "1 * *"}, {"weekly", "* * 1"}, {"every week ", "* * 1"},
		{"every day", "* * *"}, {"daily", "* * *"}, {"each day", "* * *"}, {"every morning", "* * *"},
		{"every night", "* * *"},
	} {
		if strings.Contains(words, d.word) {
			return d.fields, true
		}
	}
	return "* * *", false
}

// guessTime returns the time of day that words name, 9:00 without one.
func guessTime(words string) (hour, minute int, ok bool) {
	m := regexp.MustCompile(` (?:at )?(\d{1,2})(?::(\d\d))? ?(am|pm)? `).FindStringSubmatch(words)
	if m == nil {
		return 9, 0, false
	}
	hour, _ = strconv.Atoi(m[1]) // at most two digits
	minute, _ = strconv.Atoi(m[2])
	if m[3] == "pm" && hour < 12 {
		hour += 12
	}
	if m[3] == "am" && hour == 12 {
		hour = 0
	}
	return hour, minute, hour < 24 && minute < 60
}

// guessZone returns the name of the time zone of a city such as "new york", "" if none is known.
func guessZone(city string) string {
	if len(city) > 40 || strings.ContainsAny(city, "/.\\") {
		return ""
	}
	name, start := "", true
	for _, c := range strings.ReplaceAll(strings.TrimSpace(city), " ", "_") {
		if start {
			c = unicode.ToUpper(c)
		}
		name, start = name+string(c), c == '_'
	}
	for _, region := range []string{
		"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian",
	} {
		if zone, err := time.LoadLocation(region + "/" + name); err == nil && name != "" {
			return zone.String()
		}
	}
	return ""
}
