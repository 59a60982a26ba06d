package alert

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// digestZones returns zones with offsets of hours, of half hours and of quarters, and with clocks that are changed by
// an hour and by half an hour.
func digestZones(t *testing.T) (all []*time.Location) {
	t.Helper()
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Lord_Howe",
		"America/St_Johns", "Pacific/Honolulu"} {
		place, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, place)
	}
	return all
}

func TestADigestHasATimeOrAPeriodThatDividesADay(t *testing.T) {
	const neither = `must be a time such as "08:00", or a period such as "15m"`
	nearest := func(period string) string {
		return `must be a period that divides an hour or a day evenly; the nearest one is "` + period + `"`
	}
	for given, want := range map[string]struct {
		at    Clock
		every time.Duration
		wrong string
	}{
		"08:00": {at: 8 * 60}, "00:00": {}, "15m": {every: 15 * time.Minute}, "1m": {every: time.Minute},
		"60m": {every: time.Hour}, "12h": {every: 12 * time.Hour}, "900s": {every: 15 * time.Minute},
		"14m": {wrong: nearest("15m")}, "45m": {wrong: nearest("30m")}, "50m": {wrong: nearest("1h")},
		"5h": {wrong: nearest("4h")}, "1s": {wrong: nearest("1m")}, "1m1s": {wrong: nearest("1m")},
		"11h": {wrong: nearest("12h")},
		"24h": {wrong: `must be a period of at most 12h, or a time such as "08:00" for one digest a day`},
		"":    {wrong: neither}, "0s": {wrong: neither}, "-15m": {wrong: neither}, "8:00": {wrong: neither},
		"25:00": {wrong: neither}, "often": {wrong: neither},
	} {
		if at, every, wrong := ParseDigest(given); at != want.at || every != want.every || wrong != want.wrong {
			t.Errorf("%q: %s, %s, %q; want %s, %s, %q", given, at, every, wrong, want.at, want.every, want.wrong)
		}
	}
	for _, every := range digestPeriods() {
		rule := Rule{Every: every}
		if _, got, wrong := ParseDigest(rule.DigestText()); got != every || 24*time.Hour%every != 0 {
			t.Errorf("%s reads back as %s (%s)", every, got, wrong)
		}
	}
}

// TestPeriodsOfDigestsFollowTheClock draws times around changes of the clock. A digest is due when the clock on the
// wall shows a multiple of the period since midnight, and at no other time but a change of the clock; the distances
// are the period, but for the length of the change.
func TestPeriodsOfDigestsFollowTheClock(t *testing.T) {
	zones := digestZones(t)
	rapid.Check(t, func(r *rapid.T) {
		rule := Rule{Every: rapid.SampledFrom(digestPeriods()).Draw(r, "every"),
			Zone: rapid.SampledFrom(zones).Draw(r, "zone")}
		day := rapid.SampledFrom([]time.Time{
			time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), // Berlin
			time.Date(2026, 4, 4, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 0, 0, 0, 0, time.UTC), // Lord Howe
			time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), // St. John's
		}).Draw(r, "day")
		now := day.Add(time.Duration(rapid.IntRange(0, 3*24*60*60).Draw(r, "second")) * time.Second)
		last := time.Time{}
		for range 200 {
			at := rule.lastDigest(now)
			local := at.In(rule.Zone)
			shown := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute
			_, is := local.Zone()
			_, was := local.Add(-time.Second).Zone()
			switch {
			case at.After(now) || at.Second() != 0:
				r.Fatalf("at %s the last digest is at %s", now, at)
			case shown%rule.Every != 0 && is == was:
				r.Fatalf("at %s the last digest is at %s, want one after a multiple of %s", now, local, rule.Every)
			case now.Sub(at) >= rule.Every+time.Hour:
				r.Fatalf("at %s the last digest is at %s, want one each %s", now, local, rule.Every)
			case at.Before(last):
				r.Fatalf("at %s the last digest is at %s, and was at %s before", now, local, last)
			}
			now, last = now.Add(max(time.Minute, rule.Every/7)), at
		}
	})
}

// TestADigestOfAPeriodStretchesOverQuietHours has quiet hours that end within a period.
func TestADigestOfAPeriodStretchesOverQuietHours(t *testing.T) {
	place := digestZones(t)[3]
	c := &clock{t: t, at: time.Date(2026, 6, 1, 20, 59, 30, 0, place), rule: Rule{Name: "r", When: []Kind{KindDigest},
		To: []string{"a"}, Every: 30 * time.Minute, Zone: place, Quiet: Quiet{From: 22 * 60, To: 7*60 + 10}}}
	for range 11 * 60 {
		c.step()
		c.at = c.at.Add(time.Minute)
	}
	var got []string
	for _, sent := range c.sent {
		got = append(got, sent.Alert.At.In(place).Format("15:04-")+sent.Alert.Until.In(place).Format("15:04, ")+
			sent.NotBefore.In(place).Format("15:04"))
	}
	want := []string{"20:30-21:00, 21:01", "21:00-21:30, 21:31", "21:30-07:00, 07:10", "07:00-07:30, 07:31"}
	if len(got) != len(want) {
		t.Fatalf("digests: %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("digests: %q, want %q", got, want)
		}
	}
}

// TestADigestOfAMinuteIsNotDueInQuietHours: its period ends a minute before the quiet hours begin.
func TestADigestOfAMinuteIsNotDueInQuietHours(t *testing.T) {
	c := &clock{t: t, at: time.Date(2026, 6, 1, 21, 58, 30, 0, time.UTC), rule: Rule{Name: "r", When: []Kind{KindDigest},
		To: []string{"a"}, Every: time.Minute, Zone: time.UTC, Quiet: Quiet{From: 22 * 60, To: 7 * 60}}}
	for range 3 {
		c.step()
		c.at = c.at.Add(time.Minute)
	}
	if len(c.sent) != 1 || c.sent[0].NotBefore.Hour() != 7 {
		t.Errorf("digests: %+v, want one at the end of the quiet hours", c.sent)
	}
}
