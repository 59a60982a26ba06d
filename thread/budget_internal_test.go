package thread

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/internal/budget"
)

// TestARaiseOfARunIsReadAsItWasAsked draws grants and usages up to the bounds of integers.
func TestARaiseOfARunIsReadAsItWasAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{10, 1e6, 1e15})
		amount := func(name string) int64 { return rapid.Int64Range(0, most.Draw(t, name)).Draw(t, name) }
		grant := mailroom.Amounts{MicroUSD: amount("usd"), Tokens: amount("tokens"), Turns: amount("turns")}
		used := func(name string) int64 { return rapid.Int64Range(0, math.MaxInt64).Draw(t, name) }
		r := &mailroom.Run{Usage: mailroom.Usage{InputTokens: used("input")}, Turns: used("used turns"),
			Budget: &mailroom.RunBudget{Grant: mailroom.Budget{Amounts: grant}, Limit: mailroom.Budget{Amounts: grant},
				Below: mailroom.Amounts{MicroUSD: used("below")}}}
		raise := nextRaise(r)
		for _, n := range []int64{raise.MicroUSD, raise.Tokens, raise.Turns} {
			if n < 0 || n > budget.MaxRaise {
				t.Fatalf("asks for %v", raise)
			}
		}
		raw, err := json.Marshal(raise)
		if err != nil {
			t.Fatal(err)
		}
		var back mailroom.Amounts
		if err := json.Unmarshal(raw, &back); err != nil || back != raise {
			t.Fatalf("%s is read as %v, %v", raw, back, err)
		}
	})
}
