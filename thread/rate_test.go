package thread_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mailroom/thread"
)

func rate(t testing.TB, text string, burst int) thread.Rate {
	t.Helper()
	r, err := thread.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	r.Burst = burst
	return r
}

// In any window of length d start at most d/each + burst runs, whenever they are asked for.
func TestARateIsNeverExceededInAnyWindow(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := rate(t, []string{"30/m", "7/s", "1/h", "1000/s"}[random.IntN(4)], 1+random.IntN(5))
		each := r.Per / time.Duration(r.N)
		now, used := time.UnixMicro(1e15).UTC(), time.Time{}
		var starts []time.Time
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(3 * each)))).Truncate(time.Microsecond)
			n, next := r.Starts(used, now, 3)
			if (n == 0) != next.After(now) {
				t.Fatalf("%v: %d may start, the next at %v, now %v", r, n, next, now)
			}
			for range n {
				used = r.Take(used, now)
				starts = append(starts, now)
			}
			if n == 0 { // and exactly then one starts
				if got, _ := r.Starts(used, next, 3); got < 1 {
					t.Fatalf("%v: none may start at the time that was named", r)
				}
			}
		}
		for i := range starts {
			for j := i; j < len(starts); j++ {
				// A microsecond a start is lost to the precision of the store.
				took := starts[j].Sub(starts[i])
				if most := int((took+time.Duration(j-i)*time.Microsecond)/each) + r.Burst; j-i+1 > most {
					t.Fatalf("seed %d, %v: %d starts in %v, at most %d", seed, r, j-i+1, took, most)
				}
			}
		}
	}
}

func TestAnIdleRateSavesNoMoreThanItsBurst(t *testing.T) {
	r, now := rate(t, "30/m", 3), time.UnixMicro(1e15).UTC()
	if n, _ := r.Starts(time.Time{}, now, 100); n != 3 {
		t.Errorf("%d of 100 start, want the burst 3", n)
	}
	used := r.Take(time.Time{}, now)
	if n, _ := r.Starts(used, now, 100); n != 2 {
		t.Errorf("after one start %d start, want 2", n)
	}
	if n, _ := r.Starts(used, now.Add(time.Hour), 100); n != 3 {
		t.Errorf("after an hour %d start, want 3", n)
	}
}

// A clock that steps back, or a configuration with a faster rate, must not block starts for the time of the past.
func TestATimeFarAheadDelaysNoLongerThanTheRateItself(t *testing.T) {
	r, now := rate(t, "30/m", 1), time.UnixMicro(1e15).UTC()
	n, next := r.Starts(now.Add(24*time.Hour), now, 1)
	if n != 0 || next.Sub(now) > 2*time.Second {
		t.Errorf("%d start, the next after %v, want one after 2 s", n, next.Sub(now))
	}
	if used := r.Take(now.Add(24*time.Hour), now); used.Sub(now) > 4*time.Second {
		t.Errorf("used up for %v", used.Sub(now))
	}
}

func TestARateIsRefusedWithTheNearestRightForm(t *testing.T) {
	for text, want := range map[string]string{
		"30": `"30/m"`, "30 per minute": `"30/m"`, "30/min": `"30/m"`,
		" 30/m": `"30/m"`, "030/m": `"30/m"`, "2 / h": `"2/h"`,
		"x/m": "30/m", "-1/m": "30/m", "3/week": "unknown unit", "3/": "unknown unit", "0/m": "pause the agent",
		"1001/s": "1000/s",
		"1/2/m":  "unknown unit",
	} {
		if _, err := thread.ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %s", text, err, want)
		}
	}
	for text, words := range map[string]string{"30/m": "30 a minute", "1/d": "1 a day", "1000/s": "1000 a second",
		"9/h": "9 an hour"} {
		if r := rate(t, text, 1); r.String() != text || r.Text() != words {
			t.Errorf("%q reads back as %q, %q", text, r.String(), r.Text())
		}
	}
}
