package cli

import (
	"maps"
	"strings"
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
		got, err := parseTime("at", at, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v; want %v", at, got, err, want)
		}
	}
	if got, err := parseTime("at", "", now); got != nil || err != nil {
		t.Errorf("no time: got %v, %v", got, err)
	}
	for _, at := range []string{"tomorrow", "-2h", "2026-02-30T18:00", "18:00", "2"} {
		if got, err := parseTime("at", at, now); err == nil {
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

func TestADeadlineIsATimeOrADuration(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 1, 8, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"": "", "90m": "90m", "2026-11-30T18:00": "2026-11-30T18:00:00+01:00", "2026-11-30T18:00:00Z": "2026-11-30T18:00:00Z",
	} {
		if got, err := parseDeadline(text, now); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-5m", "60"} {
		if got, err := parseDeadline(text, now); err == nil || !strings.Contains(err.Error(), "--deadline") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}
