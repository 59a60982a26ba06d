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
		{"factor", retry.Policy{Factor: 2}, top, retry.Policy{Attempts: 5, First: 250 * ms, Factor: 2, Most: 30 * time.Second}},
		{"an outage", retry.Policy{OutageMost: ms, Outage: time.Hour}, retry.Default(), retry.Policy{Attempts: 5,
			First: 5 * time.Second, Factor: 5, Most: 10 * time.Minute, OutageMost: ms, Outage: time.Hour}},
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
	p := retry.Default()
	if got, want := p.String(), "attempts=5,first=5s,factor=5,most=10m,outage_most=5m,outage=24h"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	const delivery = "attempts=5,first=250ms,factor=2,most=30s,outage_most=5m,outage=24h"
	if got := retry.Delivery().String(); got != delivery {
		t.Errorf("what the server sends: %s, want %s", got, delivery)
	}
}

// What an agent needs may be away for ten minutes. Neither class of error ends a run by then, without any jitter.
func TestTheDefaultsOutliveTenMinutes(t *testing.T) {
	p, sum := retry.Default(), time.Duration(0)
	for n := 1; n < p.Attempts; n++ {
		sum += p.Delay(n, 0)
	}
	if sum < 12*time.Minute || p.Outage < time.Hour {
		t.Errorf("the last attempt follows %v after the first one, and an outage ends after %v", sum, p.Outage)
	}
	if first := p.Delay(1, 1); first > 6*time.Second {
		t.Errorf("a fault of a moment costs %v", first)
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
	return retry.Policy{Attempts: 5, First: min(first, most), Most: max(first, most),
		Factor: rapid.SampledFrom([]float64{1, 1.5, 2, 5, 10}).Draw(t, "factor")}
}

// For any policy, the delays begin with First, grow by Factor, and stay at Most; jitter adds at most a fifth.
func TestDelaysGrowFromFirstToMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawDelays(t)
		want := float64(p.First)
		for n := 1; n <= 2*retry.MaxAttempts; n++ {
			d := time.Duration(want)
			if got := p.Delay(n, 0); (got - d).Abs() > time.Microsecond { // fractions of a factor are rounded
				t.Fatalf("delay %d of %+v is %v, want %v", n, p, got, d)
			}
			jitter := rapid.Float64Range(0, 1).Draw(t, "jitter")
			if got := p.Delay(n, jitter); got < d-time.Microsecond || got > d+d/5+time.Microsecond {
				t.Fatalf("delay %d of %+v with jitter %v is %v, want %v and up to a fifth more", n, p, jitter, got, d)
			}
			want = min(want*p.Factor, float64(p.Most))
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

// The provider of 500 runs names one time. None of them comes back before it, and they do not come back together.
func TestRunsThatWereToldOneTimeDoNotComeBackTogether(t *testing.T) {
	for _, named := range []time.Duration{time.Second, time.Minute, 3 * time.Hour, retry.MaxNamed, 2 * retry.MaxNamed} {
		least, seen := min(named, retry.MaxNamed), map[time.Duration]bool{}
		for i := range 500 {
			got := retry.Named(named, float64(i)/500)
			if got < least || got > least+min(least/5, 2*time.Minute) {
				t.Fatalf("told to wait %v, a run waits %v", named, got)
			}
			seen[got] = true
		}
		if len(seen) != 500 {
			t.Errorf("told to wait %v, 500 runs come back at %d times", named, len(seen))
		}
	}
	if got := retry.Named(0, 1); got != 0 {
		t.Errorf("told nothing, a run waits %v", got)
	}
}

func TestTheTextOfAPolicy(t *testing.T) {
	for text, want := range map[string]retry.Policy{
		"":                     {},
		"first=10s":            {First: 10 * time.Second},
		"most=1h,factor=1.5":   {Most: time.Hour, Factor: 1.5},
		"attempts=3,outage=1s": {Attempts: 3, Outage: time.Second},
		"outage_most=8760h":    {OutageMost: retry.MaxDelay},
	} {
		if got, err := retry.Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"pause=1s":          `unknown part "pause"; use ` + retry.Parts,
		"first":             `first: "" is not a duration such as 30s`,
		"first=1s,first=2s": "first is given twice",
		"first=1s,":         `unknown part ""; use ` + retry.Parts,
		"first=0s":          `first: "0s" is not from 1ms to 8760h`,
		"outage=10ms":       `outage: "10ms" is not from 1s to 8760h`,
		"factor=0.5":        `factor: "0.5" is not a number from 1 to 10`,
		"factor=NaN":        `factor: "NaN" is not a number from 1 to 10`,
		"factor=11":         `factor: "11" is not a number from 1 to 10`,
		"attempts=0":        `attempts: "0" is not a number from 1 to 100`,
		"first=1m,most=2s":  "most: 2s is shorter than first, 1m",
	} {
		if got, err := retry.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, error %v, want %s", text, got, err, want)
		}
	}
}

// FuzzParse: what is read is within its bounds and is written as it is read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "first=10s,factor=2", retry.Default().String()} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := retry.Parse(text)
		if err != nil {
			return
		}
		if err := p.Check(); err != nil {
			t.Fatalf("%q was read as %+v: %v", text, p, err)
		}
		if again, err := retry.Parse(p.String()); err != nil || again != p {
			t.Fatalf("%q is written as %q, which is read as %+v, %v", text, p, again, err)
		}
	})
}
