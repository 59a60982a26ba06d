package retry_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/internal/retry"
)

const ms = time.Millisecond

func TestEachLevelOverridesTheOneAbove(t *testing.T) {
	top := retry.Policy{Attempts: 5, First: 250 * ms, Most: 30 * time.Second}
	for _, c := range []struct {
		name           string
		own, above, is retry.Policy
	}{
		{"nothing of its own", retry.Policy{}, top, top},
		{"attempts", retry.Policy{Attempts: 9}, top, retry.Policy{Attempts: 9, First: 250 * ms, Most: 30 * time.Second}},
		{"first", retry.Policy{First: time.Second}, top, retry.Policy{Attempts: 5, First: time.Second, Most: 30 * time.Second}},
		{"most", retry.Policy{Most: time.Hour}, top, retry.Policy{Attempts: 5, First: 250 * ms, Most: time.Hour}},
		{"all", retry.Policy{Attempts: 1, First: ms, Most: 2 * ms}, top, retry.Policy{Attempts: 1, First: ms, Most: 2 * ms}},
		{"a first above the most of the level above", retry.Policy{First: time.Minute}, top,
			retry.Policy{Attempts: 5, First: time.Minute, Most: time.Minute}},
		{"a most below the first of the level above", retry.Policy{Most: 10 * ms}, top, retry.Policy{Attempts: 5, First: 10 * ms, Most: 10 * ms}},
	} {
		if got := c.own.Over(c.above); got != c.is {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.is)
		}
	}
}

func TestTheDefaultPolicyIsThatOfTheManual(t *testing.T) {
	if got, want := retry.Default(), (retry.Policy{Attempts: 5, First: 250 * ms, Most: 30 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := retry.Default().InOutage().Most; got != 5*time.Minute {
		t.Errorf("in an outage at most %v, want 5m", got)
	}
}

// drawDelays draws two delays within the bounds, the shorter one first. All magnitudes are as likely.
func drawDelays(t *rapid.T) retry.Policy {
	draw := func(name string) time.Duration {
		unit := rapid.SampledFrom([]time.Duration{ms, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t,
			name+" unit")
		return time.Duration(rapid.IntRange(1, 365).Draw(t, name)) * unit
	}
	first, most := draw("first"), draw("most")
	return retry.Policy{Attempts: 5, First: min(first, most), Most: max(first, most)}
}

// For any policy, the delays begin with First, double, and stay at Most; jitter adds at most a fifth.
func TestDelaysGrowFromFirstToMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawDelays(t)
		want := p.First
		for n := 1; n <= 2*retry.MaxAttempts; n++ {
			if got := p.Delay(n, 0); got != want {
				t.Fatalf("delay %d of %+v is %v, want %v", n, p, got, want)
			}
			jitter := rapid.Float64Range(0, 1).Draw(t, "jitter")
			if got := p.Delay(n, jitter); got < want || got > want+want/5 {
				t.Fatalf("delay %d of %+v with jitter %v is %v, want %v and up to a fifth more", n, p, jitter, got, want)
			}
			if want *= 2; want > p.Most { // twice MaxDelay is far from an overflow
				want = p.Most
			}
		}
	})
}

// For any two levels the result is within the bounds, and what the nearer level says is kept.
func TestFirstNeverExceedsMostInACombinedPolicy(t *testing.T) {
	open := func(t *rapid.T, p retry.Policy) retry.Policy {
		if rapid.Bool().Draw(t, "no first") {
			p.First = 0
		}
		if rapid.Bool().Draw(t, "no most") {
			p.Most = 0
		}
		return p
	}
	rapid.Check(t, func(t *rapid.T) {
		own, above := open(t, drawDelays(t)), drawDelays(t)
		got := own.Over(above)
		if got.First > got.Most || own.First != 0 && got.First != own.First || own.Most != 0 && got.Most != own.Most {
			t.Fatalf("%+v over %+v is %+v", own, above, got)
		}
		if own.First == 0 && own.Most == 0 && (got.First != above.First || got.Most != above.Most) {
			t.Fatalf("%+v over %+v is %+v", own, above, got)
		}
	})
}
