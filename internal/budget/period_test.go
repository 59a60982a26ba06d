package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestEachMomentIsInOnePeriod draws moments near the changes of clocks of zones that change at midnight, in which a
// midnight is missing or comes twice, or a whole day is missing.
func TestEachMomentIsInOnePeriod(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "America/Havana", "America/Santiago",
		"Asia/Beirut", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Tehran", "America/Sao_Paulo", "Africa/Cairo"} {
		zone := zoneOf(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			now := time.Unix(r.Int64N(45*365*86400), r.Int64N(1e9)).UTC()
			if _, change := now.In(zone).ZoneBounds(); !change.IsZero() && r.IntN(2) == 0 {
				now = change.Add(time.Duration(r.Int64N(int64(50*time.Hour))) - 25*time.Hour).UTC()
			}
			for _, p := range Periods() {
				checkPeriod(t, p, now, zone)
			}
		}
	}
}

func checkPeriod(t *testing.T, p Period, now time.Time, zone *time.Location) {
	t.Helper()
	begin, end := p.Bounds(now, zone)
	where := fmt.Sprintf("%s %s of %s: %s to %s", zone, p, now.In(zone), begin.In(zone), end.In(zone))
	if now.Before(begin) || !now.Before(end) {
		t.Fatalf("%s: does not contain it", where)
	}
	for _, at := range []time.Time{begin, end.Add(-1)} {
		if b, e := p.Bounds(at, zone); !b.Equal(begin) || !e.Equal(end) {
			t.Fatalf("%s: the period of %s is %s to %s", where, at.In(zone), b.In(zone), e.In(zone))
		}
	}
	if b, _ := p.Bounds(end, zone); !b.Equal(end) {
		t.Fatalf("%s: the next one begins at %s", where, b.In(zone))
	}
	first, before := begin.In(zone), begin.Add(-1).In(zone)
	if p == Month && (first.Day() != 1 && zone.String() != "Pacific/Apia" || first.Month() == before.Month()) ||
		p == Day && first.Day() == before.Day() {
		t.Fatalf("%s: begins between %s and %s", where, before, first)
	}
}

func TestADayIsThatOfTheZone(t *testing.T) {
	for _, test := range []struct {
		zone, now, begin, end string
		period                Period
	}{
		{"Europe/Berlin", "2026-11-29T22:59:59Z", "2026-11-28T23:00:00Z", "2026-11-29T23:00:00Z", Day},
		{"Europe/Berlin", "2026-11-29T23:00:00Z", "2026-11-29T23:00:00Z", "2026-11-30T23:00:00Z", Day},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", Day}, // 23 hours
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", Day}, // 25 hours
		{"Europe/Berlin", "2026-10-31T23:30:00Z", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z", Month},
		{"America/Santiago", "2024-09-08T12:00:00Z", "2024-09-08T04:00:00Z", "2024-09-09T03:00:00Z", Day}, // no midnight
		{"America/Havana", "2024-11-03T04:30:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z", Day},   // two midnights
		{"Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", Day},     // no 30th
		{"America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z", Day}, // 23:16 again
		{"UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", Month},
	} {
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := test.period.Bounds(now, zoneOf(t, test.zone))
		if got := begin.Format(time.RFC3339); got != test.begin {
			t.Errorf("%s %s of %s begins at %s, want %s", test.zone, test.period, test.now, got, test.begin)
		}
		if got := end.Format(time.RFC3339); got != test.end {
			t.Errorf("%s %s of %s ends at %s, want %s", test.zone, test.period, test.now, got, test.end)
		}
	}
}
