package operate

import (
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/thread"
)

func TestWaitsOfConcurrencyKeysNameTheFirstKeysAndCountTheOthers(t *testing.T) {
	const begin = "the end of runs of agent slow with the same concurrency key: "
	for want, runs := range map[string]map[string]int{
		`"b" (2) and "a" (1)`:                        {"a": 1, "b": 2},
		`"b" (2), "a" (1) and "c" (1)`:               {"a": 1, "b": 2, "c": 1},
		`"d" (9), "b" (2), "a" (1) and 1 other key`:  {"a": 1, "b": 2, "c": 1, "d": 9},
		`"d" (9), "b" (2), "a" (1) and 2 other keys`: {"a": 1, "b": 2, "c": 1, "d": 9, "e": 1},
		`"a\nb" (1) and "c" (1)`:                     {"a\nb": 1, "c": 1},
	} {
		if got := keysText(thread.CauseLimit, "slow", runs); got != begin+want {
			t.Errorf("%v: %s, want %s", runs, got, begin+want)
		}
	}
}

// TestWaitsOfAKeyAreNotThoseOfTheAgent has two keys, and a run that the limit of the agent itself keeps.
func TestWaitsOfAKeyAreNotThoseOfTheAgent(t *testing.T) {
	groups := waitGroups{}
	for i, key := range []string{"acme", "bolt", "acme", "", "cube", "dune"} {
		of := "agent slow"
		if key != "" {
			of += ` with key "` + key + `"`
		}
		bound := thread.Bound{Of: of, Key: key, Limit: thread.Limit{Running: 1}}
		bound.Meter.Count = 1
		cause := thread.CauseLimit
		if i > 3 {
			cause, bound.Limit = thread.CauseRate, thread.Limit{Rate: thread.Rate{N: 1, Per: time.Hour, Burst: 1}}
		}
		groups.add(&mailroom.Run{ID: string(rune('a' + i))},
			ledger.Blocked{{Cause: cause, Agent: "slow", Bound: bound}})
	}
	var got []string
	for _, g := range groups.largest() {
		got = append(got, g.Text)
	}
	want := []string{`the end of runs of agent slow with the same concurrency key: "acme" (2) and "bolt" (1)`,
		`the next starts of agent slow with the same concurrency key: "cube" (1) and "dune" (1)`,
		"the end of a run: 1 of 1 runs of agent slow are running"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
