package datadir

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestFrequentStartsBackOff(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		lived []time.Duration // time between the start of each server, after its pause, and the next start
		want  []time.Duration
	}{
		"rarely":       {slices.Repeat([]time.Duration{30 * second}, 8), slices.Repeat([]time.Duration{0}, 8)},
		"five at once": {slices.Repeat([]time.Duration{second}, 5), slices.Repeat([]time.Duration{0}, 5)},
		"thirteen at once": {slices.Repeat([]time.Duration{second}, 13),
			[]time.Duration{0, 0, 0, 0, 0, 10 * second, 20 * second, 40 * second, 80 * second, 160 * second, 300 * second,
				300 * second, 300 * second}},
		"one lasts": {[]time.Duration{0, 0, 0, 0, 0, 0, 120 * second, 0},
			[]time.Duration{0, 0, 0, 0, 0, 10 * second, 20 * second, 0}},
		"one nearly lasts": {[]time.Duration{0, 0, 0, 0, 0, 119 * second, 0},
			[]time.Duration{0, 0, 0, 0, 0, 10 * second, 20 * second}},
		"the clock is back": {[]time.Duration{0, 0, 0, 0, -time.Hour, 0}, make([]time.Duration, 6)},
	} {
		t.Run(name, func(t *testing.T) {
			now, s := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), startHistory{}
			var got []time.Duration
			for _, lived := range c.lived {
				var pause time.Duration
				s, pause = s.add(now)
				got = append(got, pause)
				now = now.Add(pause + lived)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("pauses %v, want %v", got, c.want)
			}
		})
	}
}

func TestStartsAreRecordedUntilAServerIsStopped(t *testing.T) {
	dir := Dir(t.TempDir())
	held, err := dir.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	}()
	start := func() time.Duration {
		t.Helper()
		pause, err := held.RecordStart(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return pause
	}
	for range 5 {
		if pause := start(); pause != 0 {
			t.Errorf("pause of one of the first five starts: %s, want 0", pause)
		}
	}
	if pause := start(); pause != minRestartPause {
		t.Errorf("pause of the sixth start: %s, want %s", pause, minRestartPause)
	}
	for range 2 {
		if err := held.ClearStarts(); err != nil {
			t.Fatal(err)
		}
	}
	if pause := start(); pause != 0 {
		t.Errorf("pause after ClearStarts: %s, want 0", pause)
	}
	if err := os.WriteFile(dir.path(startsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pause := start(); pause != 0 {
		t.Errorf("pause after a truncated file: %s, want 0", pause)
	}
}
