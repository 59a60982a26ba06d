package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNothingIsSentInTheQuietWindow looks at each occurrence of a day, also of days on which clocks change.
func TestNothingIsSentInTheQuietWindow(t *testing.T) {
	for _, c := range []struct{ zone, quiet, day, want string }{
		{"UTC", "22:00-07:00", "2026-01-10", "07:00 to 21:45"},
		{"Europe/Berlin", "22:00-07:00", "2026-01-10", "06:00 to 20:45"},
		{"Europe/Berlin", "22:00-07:00", "2026-07-10", "05:00 to 19:45"},
		{"Europe/Berlin", "00:00-06:00", "2026-03-29", "04:00 to 21:45"},    // at 02:00 it becomes 03:00
		{"Europe/Berlin", "00:00-06:00", "2026-10-25", "05:00 to 22:45"},    // at 03:00 it becomes 02:00
		{"America/New_York", "02:15-02:45", "2026-03-08", "05:00 to 03:45"}, // 02:15 does not exist: no minute is quiet
		{"America/New_York", "01:30-02:00", "2026-11-01", "04:00 to 05:15, 06:00 to 06:15, 07:00 to 04:45"},
		{"Australia/Lord_Howe", "01:30-02:00", "2026-04-05", "13:00 to 14:15, 15:30 to 13:15"}, // 01:30 comes twice
		{"Asia/Kolkata", "12:00-12:15", "2026-01-10", "18:30 to 06:15, 06:45 to 18:15"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.ParseInLocation("2006-01-02", c.day, zone)
		if err != nil {
			t.Fatal(err)
		}
		s := Spec{Every: 15 * time.Minute, Anchor: day, Zone: c.zone, Quiet: c.quiet, Text: "x"}
		if err := s.Check(day.Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		times, err := s.NextTimes(day.Add(-time.Second), 110)
		if err != nil {
			t.Fatal(err)
		}
		var spans []string
		var first, last time.Time
		for _, at := range times {
			if at.Before(day.AddDate(0, 0, 1)) && at.Equal(last.Add(15*time.Minute)) {
				last = at
				continue
			}
			if !first.IsZero() {
				spans = append(spans, first.UTC().Format("15:04")+" to "+last.UTC().Format("15:04"))
			}
			if first, last = at, at; !at.Before(day.AddDate(0, 0, 1)) {
				break
			}
		}
		if got := strings.Join(spans, ", "); got != c.want {
			t.Errorf("%s %s on %s: %s, want %s", c.zone, c.quiet, c.day, got, c.want)
		}
	}
}

func TestQuietTimesAreSkippedWithTheReason(t *testing.T) {
	begin := time.Date(2026, 1, 10, 21, 0, 0, 0, time.UTC)
	s := newState("schedule:admin:x", "", Spec{Every: time.Hour, Anchor: begin, Quiet: "22:00-07:00", Text: "x",
		Window: 3 * time.Hour, CatchUp: catchUpOne, Overlap: OverlapOne}, begin)
	at := func(hour, minute int) time.Time {
		return begin.Add(time.Duration(hour-21)*time.Hour + time.Duration(minute)*time.Minute)
	}
	if got := s.NextFire(); !got.Equal(at(24+7, 0)) {
		t.Errorf("it wakes at %s in the night", got)
	}
	m := s.Advance(at(24+7, 0))
	if len(m.Skips) != 1 || m.Skips[0].Reason != skipQuiet || m.Skips[0].Count != 9 || len(s.Due) != 1 {
		t.Errorf("in the morning: skips %+v, due %+v", m.Skips, s.Due)
	}
	s.Accept("run")
	s.Advance(at(24+21, 0)) // one waits for the end of the run
	s.Open = nil
	if m = s.Advance(at(24+22, 30)); len(s.Due) != 0 || len(m.Skips) == 0 ||
		m.Skips[len(m.Skips)-1].Reason != skipQuiet || !s.Buffered.IsZero() {
		t.Errorf("what waited until the night: skips %+v, due %+v", m.Skips, s.Due)
	}
	if m = s.Advance(at(48+23, 10)); len(s.Due) != 0 || m.Skips[len(m.Skips)-1].Reason != skipQuiet {
		t.Errorf("after an outage until the night: skips %+v, due %+v", m.Skips, s.Due)
	}
}

func TestAQuietWindowThatIsNoneIsRefused(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	for quiet, want := range map[string]string{
		"22-7": "two different times", "22:00": "two different times", "22:00-22:00": "two different times",
		"22:00-24:00": "two different times", "7:00-08:00": "two different times", "22:00-07:00-08:00": "two different times",
		"08:00-07:00": "has all times of 0 9 * * *",
	} {
		s := Spec{Cron: "0 9 * * *", Quiet: quiet, Text: "x"}
		if err := s.Check(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", quiet, err, want)
		}
	}
	once := Spec{At: now.Add(11 * time.Hour), Quiet: "22:00-07:00", Text: "x"}
	if err := once.Check(now); err == nil {
		t.Error("a single time in the window is accepted")
	}
}

func FuzzQuiet(f *testing.F) {
	f.Add("22:00-07:00", int64(1_774_750_000))
	f.Add("00:00-23:59", int64(0))
	f.Fuzz(func(t *testing.T, text string, sec int64) {
		zone, err := time.LoadLocation("Australia/Lord_Howe")
		if err != nil {
			t.Fatal(err)
		}
		w, err := parseQuiet(text, zone)
		if err != nil || w == nil {
			return
		}
		if again := fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/60, w.from%60, w.to/60, w.to%60); again != text {
			t.Errorf("%q reads as %s", text, again)
		}
		at := time.Unix(sec%4e9, 0)
		rest := &quietWindow{w.to, w.from, zone}
		if w.has(at) == rest.has(at) {
			t.Errorf("%s is in both or none of %s and the rest of the day", at, text)
		}
	})
}
