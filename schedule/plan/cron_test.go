package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/netresearch/go-cron"
	"pgregory.net/rapid"
)

// form is how tests write a time: with its zone, because a clock may show it twice.
const form = "01-02 15:04 MST"

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestTimesWhereClocksChange(t *testing.T) {
	for _, c := range []struct{ expr, zone, after, want string }{
		// A time that clocks jump over counts at the moment of the jump, once.
		{"30 2 * * *", "America/New_York", "2026-03-07 12:00", "03-08 03:00 EDT, 03-09 02:30 EDT"},
		{"0 2 * * *", "America/New_York", "2026-03-07 12:00", "03-08 03:00 EDT, 03-09 02:00 EDT"},
		{"0 2,3 * * *", "America/New_York", "2026-03-07 12:00", "03-08 03:00 EDT, 03-09 02:00 EDT, 03-09 03:00 EDT"},
		{"30 1 * * *", "Europe/London", "2026-03-28 12:00", "03-29 02:00 BST, 03-30 01:30 BST"},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23 12:00", "04-24 01:00 EEST, 04-25 00:00 EEST"},
		// One that comes twice counts the first time.
		{"30 1 * * *", "America/New_York", "2026-10-31 12:00", "11-01 01:30 EDT, 11-02 01:30 EST"},
		{"30 1 * * *", "Europe/London", "2026-10-24 12:00", "10-25 01:30 BST, 10-26 01:30 GMT"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00", "04-05 01:45 +11, 04-06 01:45 +1030"},
		// What names no hour goes on in real time.
		{"30 * * * *", "America/New_York", "2026-11-01 00:45", "11-01 01:30 EDT, 11-01 01:30 EST, 11-01 02:30 EST"},
		{"*/30 * * * *", "America/New_York", "2026-03-08 01:15", "03-08 01:30 EST, 03-08 03:00 EDT, 03-08 03:30 EDT"},
		{"0 */2 * * *", "America/New_York", "2026-03-07 23:00", "03-08 00:00 EST, 03-08 04:00 EDT, 03-08 06:00 EDT"},
		{"@hourly", "America/New_York", "2026-11-01 00:30", "11-01 01:00 EDT, 11-01 01:00 EST, 11-01 02:00 EST"},
		// A day that a zone leaves out.
		{"0 9 30 12 *", "Pacific/Apia", "2011-12-01 00:00", "12-31 00:00 +14, 12-30 09:00 +14"},
		// Months, days and years of other lengths.
		{"0 0 29 2 *", "UTC", "2096-03-01 00:00", "02-29 00:00 UTC"}, // of 2104
		{"0 0 31 12 *", "UTC", "2026-12-30 00:00", "12-31 00:00 UTC"},
		{"0 0 1 1 *", "UTC", "2026-12-31 00:00", "01-01 00:00 UTC"},
		{"0 9 L * *", "UTC", "2026-11-01 00:00", "11-30 09:00 UTC, 12-31 09:00 UTC"},
		{"0 9 15W * *", "UTC", "2026-11-01 00:00", "11-16 09:00 UTC, 12-15 09:00 UTC"},
		{"0 9 * * 5#3", "UTC", "2026-11-01 00:00", "11-20 09:00 UTC, 12-18 09:00 UTC"},
		// Day of month or day of week.
		{"0 0 13 * 5", "UTC", "2026-11-07 00:00", "11-13 00:00 UTC, 11-20 00:00 UTC, 11-27 00:00 UTC"},
		{"0 7 * * mon-fri", "UTC", "2026-11-06 08:00", "11-09 07:00 UTC"},
	} {
		zone := mustZone(t, c.zone)
		at, err := time.ParseInLocation("2006-01-02 15:04", c.after, zone)
		if err != nil {
			t.Fatal(err)
		}
		times, err := parseCron(c.expr, zone)
		if err != nil {
			t.Fatal(c.expr, err)
		}
		var got []string
		for range strings.Count(c.want, ",") + 1 {
			at = times.Next(at)
			got = append(got, at.In(zone).Format(form))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s in %s after %s\n got %s\nwant %s", c.expr, c.zone, c.after, got, c.want)
		}
	}
}

// TestTimesAreThoseOfTheClock compares Next with a look at the clock of each minute of five days in which clocks
// change.
func TestTimesAreThoseOfTheClock(t *testing.T) {
	changes := []struct{ zone, day string }{
		{"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"}, {"Europe/London", "2026-03-29"},
		{"Europe/London", "2026-10-25"}, {"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"},
		{"Africa/Cairo", "2026-04-24"}, {"Africa/Cairo", "2026-10-30"}, {"Pacific/Apia", "2011-12-30"}, {"UTC", "2024-02-29"},
		{"Asia/Kathmandu", "1986-01-01"}, {"America/Sao_Paulo", "2018-11-04"}, {"Africa/Casablanca", "2026-02-15"},
	}
	minutes := []string{"0", "30", "*/15", "59", "1,31", "45"}
	hours := []string{"0", "1", "2", "3", "23", "1-3", "0,2", "*", "*/2", "1-23/2"}
	days := []string{"* * *", "* * 0", "L * *", "1-15 * *", "* * 1-5"}
	rapid.Check(t, func(t *rapid.T) {
		c := changes[rapid.IntRange(0, len(changes)-1).Draw(t, "change")]
		expr := strings.Join([]string{rapid.SampledFrom(minutes).Draw(t, "minute"),
			rapid.SampledFrom(hours).Draw(t, "hour"), rapid.SampledFrom(days).Draw(t, "days")}, " ")
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.ParseInLocation("2006-01-02", c.day, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		from, to := day.Add(-48*time.Hour), day.Add(72*time.Hour)
		times, err := parseCron(expr, zone)
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Time
		for at := times.Next(from); !at.IsZero() && !at.After(to); at = times.Next(at) {
			got = append(got, at)
		}
		if want := lookedAt(times.(cronTimes), from, to); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s in %s\n got %v\nwant %v", expr, c.zone, got, want)
		}
	})
}

// lookedAt returns the occurrences after from up to to, found by a look at the clock of each minute.
func lookedAt(c cronTimes, from, to time.Time) (all []time.Time) {
	fires := func(wall time.Time) bool { return c.expr.(*cron.SpecSchedule).Next(wall.Add(-time.Minute)).Equal(wall) }
	seen := map[time.Time]bool{}
	before := wallOf(from.Add(-24*time.Hour), c.zone)
	for at := from.Add(-24*time.Hour + time.Minute); !at.After(to); at = at.Add(time.Minute) {
		wall := wallOf(at, c.zone)
		hit := fires(wall) && (c.runsHourly || !seen[wall])
		for gap := before.Add(time.Minute); !c.runsHourly && gap.Before(wall); gap = gap.Add(time.Minute) {
			hit = hit || fires(gap)
		}
		seen[wall], before = true, wall
		if hit && at.After(from) {
			all = append(all, at)
		}
	}
	return all
}

func TestRefusedExpressionsSayWhatToUse(t *testing.T) {
	for expr, want := range map[string]string{
		"":                         "is empty",
		"0 7 * *":                  "has 4 fields instead of five",
		"0 0 7 * * 1":              `leave out the first field: "0 7 * * 1"`,
		"every weekday at 7":       `use "0 7 * * 1-5"`,
		"every day at 7:30 pm":     `use "30 19 * * *"`,
		"every 15 minutes":         `use "*/15 * * * *"`,
		"hourly":                   `use "0 * * * *"`,
		"Mondays at 9":             `use "0 9 * * 1"`,
		"every day at 25":          `fields instead of five`,
		"sometimes":                "has 1 fields",
		"@every 1h30m":             "set every to 1h30m",
		"@reboot":                  "does not fire when a server starts",
		"TZ=Europe/Rome 0 * * * *": "leave out TZ=Europe/Rome",
		"0 24 * * *":               "above maximum",
		"*/0 * * * *":              "positive",
	} {
		_, err := parseCron(expr, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", expr, err, want)
		}
	}
}

func TestAnIntervalIsAGrid(t *testing.T) {
	anchor := time.Date(2026, 11, 1, 0, 0, 7, 0, time.UTC)
	times := interval{anchor, 90 * time.Minute}
	for _, c := range []struct{ after, want time.Duration }{
		{0, 90}, {-1, 0}, {-90, 0}, {-91, -90}, {89, 90}, {90, 180}, {24 * 60, 24*60 + 90},
	} {
		if got := times.Next(anchor.Add(c.after * time.Minute)); !got.Equal(anchor.Add(c.want * time.Minute)) {
			t.Errorf("after %d minutes: %s, want minute %d", c.after, got, c.want)
		}
	}
}

func FuzzCron(f *testing.F) {
	f.Add("0 7 * * 1-5", int64(1772900000))
	f.Add("*/0 L 15W 5#3 @", int64(0))
	f.Add("@daily", int64(1<<33))
	zone := mustZone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, expr string, sec int64) {
		times, err := parseCron(expr, zone)
		if err != nil || len(expr) > 100 {
			return
		}
		after := time.Unix(sec%(1<<33), 0)
		if at := times.Next(after); !at.IsZero() && !at.After(after) {
			t.Errorf("%q after %s is %s", expr, after, at)
		}
	})
}
