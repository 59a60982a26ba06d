package price

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"mailroom"
)

func TestACostIsExactAndRoundedUp(t *testing.T) {
	p := Price{Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000, CacheWrite: 1_500_000}
	for name, test := range map[string]struct {
		used mailroom.Usage
		want int64
	}{
		"a million of each": {mailroom.Usage{InputTokens: 1e6, OutputTokens: 1e6}, 11_250_000},
		"one token":         {mailroom.Usage{InputTokens: 1}, 2}, // 1.25
		"one cached token":  {mailroom.Usage{InputTokens: 1, CacheReadTokens: 1}, 1},
		"parts of input": {mailroom.Usage{InputTokens: 1000, CacheReadTokens: 600, CacheWriteTokens: 300, OutputTokens: 10},
			100*5/4 + 600/8 + 300*3/2 + 100},
		"more from the cache than input": {mailroom.Usage{InputTokens: 8, CacheReadTokens: 9, CacheWriteTokens: 9}, 1},
		"reasoning is a part of output":  {mailroom.Usage{OutputTokens: 2, ReasoningTokens: 2}, 20},
		"negative":                       {mailroom.Usage{InputTokens: -5, OutputTokens: 1, CacheReadTokens: -1}, 10},
		"beyond all bounds":              {mailroom.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, maxCost},
		"nothing":                        {mailroom.Usage{}, 0},
	} {
		if got := p.Cost(test.used); got != test.want {
			t.Errorf("%s: %d microdollars, want %d", name, got, test.want)
		}
	}
}

// TestNoCostIsTooLow compares costs with fractions.
func TestNoCostIsTooLow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		p := Price{r.Int64N(1e8), r.Int64N(1e8), r.Int64N(1e8), r.Int64N(1e8)}
		u := mailroom.Usage{InputTokens: r.Int64N(1e7), OutputTokens: r.Int64N(1e7)}
		u.CacheReadTokens = r.Int64N(u.InputTokens + 1)
		u.CacheWriteTokens = r.Int64N(u.InputTokens - u.CacheReadTokens + 1)
		exact := new(big.Rat)
		for _, part := range [][2]int64{{u.InputTokens - u.CacheReadTokens - u.CacheWriteTokens, p.Input},
			{u.CacheReadTokens, p.CacheRead}, {u.CacheWriteTokens, p.CacheWrite}, {u.OutputTokens, p.Output}} {
			exact.Add(exact, new(big.Rat).Mul(big.NewRat(part[0], million), big.NewRat(part[1], 1)))
		}
		got := p.Cost(u)
		if more := new(big.Rat).Sub(big.NewRat(got, 1), exact); more.Sign() < 0 || more.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("%+v for %+v: %d, want %s rounded up", p, u, got, exact.FloatString(3))
		}
		if back := mailroom.Dollars(mailroom.Amounts{MicroUSD: got}.USD()).MicroUSD; back != got {
			t.Fatalf("%d microdollars are %d after a number of dollars", got, back)
		}
	}
}

func TestTheTableHasAPriceInEachLine(t *testing.T) {
	l := NewList(nil)
	if want := strings.Count(table, "\n"); len(l.Rows()) != want || want < 80 {
		t.Errorf("%d prices in %d lines", len(l.Rows()), want)
	}
	for _, r := range l.Rows() {
		if r.Input <= 0 || r.Output <= 0 || r.CacheRead <= 0 || r.CacheRead > r.Input || r.CacheWrite < r.Input {
			t.Errorf("%+v", r)
		}
	}
	for _, line := range []string{"a 1 2 3", "a 1 2 3 4 5", "a 1 2 3 x"} {
		if _, err := parse(line); err == nil {
			t.Errorf("%q is read", line)
		}
	}
}

func TestAPriceIsFoundByTheNameThatTheProviderUses(t *testing.T) {
	own := Price{Input: 7}
	l := NewList(map[string]Price{"gpt-5": own, "mine": own, "gpt-5-mini-2026-01-02": own})
	for model, want := range map[string]string{
		"gpt-5": "gpt-5", "gpt-5-2025-08-07": "gpt-5", "mine-20260101": "mine", "gpt-5-mini": "gpt-5-mini",
		"gpt-5-mini-2026-01-02": "gpt-5-mini-2026-01-02", "gpt-5-mini-2026-01-03": "gpt-5-mini",
		"claude-haiku-4-5-20251001": "claude-haiku-4-5-20251001",
		"claude-haiku-4-5":          "", "gpt-5-2025-08-0": "", "gpt-5-2025080": "", "-20260101": "", "": "",
		"GPT-5": "", "gpt-5 ": "",
	} {
		r, ok := l.Find(model)
		if r.Model != want || ok != (want != "") {
			t.Errorf("%q has the price of %q", model, r.Model)
		}
	}
	if r, _ := l.Find("gpt-5"); r.Price != own || !r.Own {
		t.Errorf("the configuration does not override the table: %+v", r)
	}
}

func TestAReportedCostIsKept(t *testing.T) {
	l := NewList(map[string]Price{"m": {Input: 1_000_000, Output: 2_000_000}, "free": {}})
	in := mailroom.Usage{InputTokens: 3, OutputTokens: 1, ComputedUSD: 9}
	const cost = 0.000005
	with := func(change func(u *mailroom.Usage)) mailroom.Usage {
		u := in
		u.ComputedUSD = 0
		change(&u)
		return u
	}
	for name, test := range map[string]struct {
		change func(u *mailroom.Usage)
		before string
		cost   float64
		known  bool
	}{
		"computed":           {func(u *mailroom.Usage) { u.Model, u.CostUSD, u.ComputedUSD = "m", cost, cost }, "", 0, true},
		"of the step before": {func(u *mailroom.Usage) { u.CostUSD, u.ComputedUSD = cost, cost }, "m", 0, true},
		"reported":           {func(u *mailroom.Usage) { u.Model, u.CostUSD = "m", 0.5 }, "", 0.5, true},
		"free":               {func(u *mailroom.Usage) { u.Model = "free" }, "", 0, true},
		"unknown":            {func(u *mailroom.Usage) { u.Model = "other" }, "m", 0, false},
		"no model":           {func(*mailroom.Usage) {}, "", 0, false},
		"no tokens":          {func(u *mailroom.Usage) { u.InputTokens, u.OutputTokens = 0, 0 }, "", 0, true},
	} {
		want := with(test.change)
		u := want
		u.CostUSD, u.ComputedUSD = test.cost, 9
		if got, known := l.Charge(u, test.before); got != want || known != test.known {
			t.Errorf("%s: %+v, %t, want %+v, %t", name, got, known, want, test.known)
		}
	}
	var none *List
	if got, known := none.Charge(in, ""); got != with(func(*mailroom.Usage) {}) || !known {
		t.Errorf("a server without prices: %+v, %t", got, known)
	}
}

func TestDollarsOfAPriceAreRoundedUp(t *testing.T) {
	for usd, want := range map[float64]int64{0: 0, 1.25: 1_250_000, 0.1: 100_000, 0.0028: 2_800, 1e-7: 1,
		0.39999999999999997: 400_000} {
		if got := Micro(usd); got != want {
			t.Errorf("%g dollars are %d, want %d", usd, got, want)
		}
	}
}
