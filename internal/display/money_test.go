package display_test

import (
	"strings"
	"testing"

	"mailroom/internal/display"
)

// TestMoneyNeverReadsAsNothing has the table of web/test/money.test.js.
func TestMoneyNeverReadsAsNothing(t *testing.T) {
	for _, c := range []struct {
		usd  float64
		want string
	}{
		{0, "$0"}, {5e-10, "<$0.000001"}, {0.000001, "$0.000001"}, {0.000012, "$0.000012"}, {0.00001, "$0.00001"},
		{0.0042, "$0.0042"}, {0.009, "$0.0090"}, {0.5, "$0.5000"}, {12.5, "$12.50"}, {999.99, "$999.99"},
		{35748.4, "$35748"},
	} {
		if got := display.Dollars(c.usd); got != c.want {
			t.Errorf("%g: %s, want %s", c.usd, got, c.want)
		}
	}
	for usd := 1e-12; usd < 1e9; usd *= 1.7 {
		got := display.Dollars(usd)
		if !strings.ContainsAny(got, "123456789") || display.Dollars(-usd) != "-"+got {
			t.Errorf("%g reads as %s", usd, got)
		}
	}
}

func TestAComputedCostIsMarked(t *testing.T) {
	for want, c := range map[string][2]float64{
		"$0": {}, "$1.20": {1.2, 0},
		"$0.000012 (computed)": {0.000012, 0.000012}, "$1.20 ($0.2000 computed)": {1.2, 0.2},
	} {
		if got := display.Cost(c[0], c[1]); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}
