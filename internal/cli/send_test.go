package cli

import (
	"maps"
	"testing"
	"time"
)

func TestTheStartOfARunIsATimeOrADuration(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 1, 8, 30, 0, 0, zone)
	for at, want := range map[string]time.Time{
		"2h":                        now.Add(2 * time.Hour),
		"0s":                        now,
		"2026-11-30T18:00":          time.Date(2026, 11, 30, 18, 0, 0, 0, zone),
		"2026-11-30 18:00":          time.Date(2026, 11, 30, 18, 0, 0, 0, zone),
		"2026-11-30T18:00:05":       time.Date(2026, 11, 30, 18, 0, 5, 0, zone),
		"2026-11-30T18:00:00Z":      time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC),
		"2026-11-30T18:00:00-05:00": time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC),
	} {
		got, err := parseStart(at, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v; want %v", at, got, err, want)
		}
	}
	if got, err := parseStart("", now); got != nil || err != nil {
		t.Errorf("no time: got %v, %v", got, err)
	}
	for _, at := range []string{"tomorrow", "-2h", "2026-02-30T18:00", "18:00", "2"} {
		if got, err := parseStart(at, now); err == nil {
			t.Errorf("%q: got %v", at, got)
		}
	}
}

func TestLabelsAreNamesWithValues(t *testing.T) {
	got, err := parseMetadata([]string{"a=1", "b=x=y", "c="})
	if want := map[string]string{"a": "1", "b": "x=y", "c": ""}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, pairs := range [][]string{{"a"}, {"=1"}, {"a=1", "a=2"}} {
		if got, err := parseMetadata(pairs); err == nil {
			t.Errorf("%q: got %v", pairs, got)
		}
	}
}
