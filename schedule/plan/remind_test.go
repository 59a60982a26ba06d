package plan

import (
	"strings"
	"testing"
	"time"
)

func TestAReminderSaysItsTimeExactly(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 28, 16, 30, 0, 0, berlin) // the night before clocks go forward
	for text, want := range map[string]string{
		"in 20 minutes look": "03-28 16:50 look", "in 20m  look at it": "03-28 16:50 look at it",
		"in 1h30m x":   "03-28 18:00 x",
		"In 2 Hours x": "03-28 18:30 x", "in 1 day x": "03-29 17:30 x", "17:30 call Bob": "03-28 17:30 call Bob",
		"9:00 x": "03-29 09:00 x", "16:30 x": "03-29 16:30 x", "tomorrow 9:00 x": "03-29 09:00 x",
		"tomorrow 2:30 x": "03-29 03:00 x", "2026-12-24 18:00 x\ny": "12-24 18:00 x\ny",
		"": "is missing", "in": "not clear", "in a while x": "not clear", "in 20 x": "not clear", "in 5 moons x": "not clear",
		"next week x": "not clear", "at 17:30 x": "not clear", "25:00 x": "not clear", "tomorrow x": "not clear",
		"in 0 minutes x": "not clear", "in 99999999 days x": "not clear",
		"in 20m": "text is missing", "17:30 ": "text is missing",
		"2026-01-01 10:00 x": "has passed", "2026-13-01 10:00 x": "not clear", "tomorrow at 9 x": "not clear",
	} {
		at, rest, err := ReadReminder(text, now, berlin)
		got := at.In(berlin).Format("01-02 15:04 ") + rest
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestARepeatedMessageHasCronOrAnInterval(t *testing.T) {
	for text, want := range map[string]string{
		"0 7 * * 1-5 look around": "0 7 * * 1-5||look around", "every 90m look": "|90m|look", "@daily x": "@daily||x",
		"0 7 * * mon x": "0 7 * * mon||x",
	} {
		cron, every, rest, err := ReadRepeated(text)
		if got := cron + "|" + every + "|" + rest; err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"every weekday at 7 look": `use "0 7 * * 1-5"`, "": "are not clear",
		"look": "are not clear", "0 7 * *": "are not clear",
	} {
		if _, _, _, err := ReadRepeated(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadReminder(f *testing.F) {
	f.Add("tomorrow 2:30 x", int64(1_774_700_000))
	f.Add("in 3 days x", int64(0))
	f.Fuzz(func(t *testing.T, text string, sec int64) {
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(sec%4e9, 0)
		at, rest, err := ReadReminder(text, now, zone)
		if err == nil && (!at.After(now) || rest == "" || !strings.HasSuffix(strings.TrimSpace(text), rest)) {
			t.Errorf("%q at %s: %s, %q", text, now, at, rest)
		}
	})
}
