package mailroom_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

func amounts(micro, tokens, turns int64) mailroom.Amounts {
	return mailroom.Amounts{MicroUSD: micro, Tokens: tokens, Turns: turns}
}

func TestABudgetIsReadAsPeopleWriteIt(t *testing.T) {
	until := time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]mailroom.Budget{
		"1.50usd":        {Amounts: amounts(1_500_000, 0, 0)},
		"$1":             {Amounts: amounts(1_000_000, 0, 0)},
		"1$":             {Amounts: amounts(1_000_000, 0, 0)},
		"US$ 0.25":       {Amounts: amounts(250_000, 0, 0)},
		"2 dollars":      {Amounts: amounts(2_000_000, 0, 0)},
		"USD 3":          {Amounts: amounts(3_000_000, 0, 0)},
		"0.000001usd":    {Amounts: amounts(1, 0, 0)},
		"200k tokens":    {Amounts: amounts(0, 200_000, 0)},
		"1.5M tokens":    {Amounts: amounts(0, 1_500_000, 0)},
		"200_000 tokens": {Amounts: amounts(0, 200_000, 0)},
		"1 turn":         {Amounts: amounts(0, 0, 1)},
		"1usd 200ktokens, 30 turns until 2026-12-01T18:00:00Z": {Amounts: amounts(1_000_000, 200_000, 30), Until: until},
		"until 2026-12-01T19:00:00+01:00":                      {Until: until},
	} {
		got, err := mailroom.ParseBudget(text)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := mailroom.ParseBudget(got.String()); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%q is written as %q, which reads as %+v, %v", text, got.String(), again, err)
		}
	}
}

func TestARefusedBudgetNamesTheNearestRightForm(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "write for example 1.50usd",
		"1eur":                 "a budget in EUR is not possible, money is counted in US dollars; write 1usd",
		"€2.50":                "in EUR is not possible, money is counted in US dollars; write 2.50usd",
		"3 CHF":                "in CHF is not possible",
		"5":                    "5 has no unit; write 5usd, 5 tokens or 5 turns",
		"200k":                 "has no unit",
		"1,50usd":              "has a comma; write 1.50",
		"1,000 tokens":         "write 1000, or 1.000 for a fraction",
		"10 toks":              `unit "toks" is unknown; write 10 tokens`,
		"10 tunrs":             "write 10 turns",
		"7 apples":             `unit "apples" is unknown; use usd, tokens or turns`,
		"50 cents":             "write 0.50usd for 50 cents",
		"2h":                   "2h is a duration; write until and a time",
		"-1usd":                "-1 usd is negative",
		"0 tokens":             "is nothing; write an amount above 0, or leave it out",
		"1.5 turns":            "write a whole number such as 30 turns",
		"1.2345678usd":         "at most six decimals",
		"1..5usd":              "is not an amount",
		"9999999999usd":        "out of range; the most is 1000000000",
		"1usd 2usd":            "usd is given twice",
		"until noon":           `until "noon" is not a time; write for example until 2026`,
		"tokens":               "is not an amount with a unit",
		"1usd\x00 \xff tokens": "is unknown; write 1 usd",
	} {
		got, err := mailroom.ParseBudget(text)
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v, want code invalid with %q", text, got, err, want)
		}
	}
}

func TestABudgetKeepsItsFormInJSON(t *testing.T) {
	want := `{"usd":1.5,"tokens":200000,"turns":30,"until":"2026-12-01T18:00:00Z"}`
	var b mailroom.Budget
	if err := json.Unmarshal([]byte(`{"eur": 2, `+want[1:]), &b); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(b); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for micro := int64(1); micro < 2_000_000_000_000; micro = micro*3 + 1 { // fractions of dollars stay exact
		var back mailroom.Amounts
		raw, err := json.Marshal(amounts(micro, 0, 0))
		if err == nil {
			err = json.Unmarshal(raw, &back)
		}
		if err != nil || back.MicroUSD != micro || mailroom.Dollars(back.USD()) != back {
			t.Fatalf("%d reads back as %d from %s, %v", micro, back.MicroUSD, raw, err)
		}
	}
	for _, bad := range []string{`{"usd":1e300}`, `{"usd":"1"}`, `{"tokens":1.5}`, `{"until":"noon"}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s was accepted as %v", bad, b)
		}
	}
}

func TestABudgetSaysWhatIsLeftLowAndOver(t *testing.T) {
	b := mailroom.Budget{Amounts: amounts(1_000_000, 0, 5)}
	for _, c := range []struct {
		used, left mailroom.Amounts
		low, over  string
	}{
		{amounts(0, 9999, 0), amounts(1_000_000, 0, 5), "", ""},
		{amounts(799_999, 0, 3), amounts(200_001, 0, 2), "", ""},
		{amounts(800_000, 0, 3), amounts(200_000, 0, 2), "usd", ""},
		{amounts(0, 0, 4), amounts(1_000_000, 0, 1), "turns", ""},
		{amounts(999_999, 0, 5), amounts(1, 0, 0), "usd", "turns"},
		{amounts(1_200_000, 0, 6), amounts(-200_000, 0, -1), "usd", "usd"},
	} {
		if got := b.Left(c.used); got != c.left || b.Low(c.used) != c.low || b.Over(c.used) != c.over {
			t.Errorf("used %v: left %v, low %q, over %q, want %v, %q, %q",
				c.used, got, b.Low(c.used), b.Over(c.used), c.left, c.low, c.over)
		}
	}
	tiny := mailroom.Budget{Amounts: amounts(0, 0, 1)}
	if tiny.Low(amounts(0, 0, 0)) != "" || tiny.Low(amounts(0, 0, 1)) != "turns" {
		t.Error("a budget of one turn is low before it is used, or not after")
	}
}

func TestAPartFitsOnlyIntoWhatIsLeft(t *testing.T) {
	until := time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC)
	b := mailroom.Budget{Amounts: amounts(1_000_000, 1000, 0), Until: until}
	used := amounts(400_000, 900, 7)
	for _, c := range []struct {
		part mailroom.Budget
		want string
	}{
		{mailroom.Budget{Amounts: amounts(600_000, 100, 0), Until: until}, ""},
		{mailroom.Budget{Amounts: amounts(1, 1, 50), Until: until.Add(-1)}, ""},
		{mailroom.Budget{Amounts: amounts(600_001, 100, 0), Until: until}, "usd"},
		{mailroom.Budget{Amounts: amounts(600_000, 0, 0), Until: until}, "tokens"},
		{mailroom.Budget{Amounts: amounts(1, 1, 0)}, "until"},
		{mailroom.Budget{Amounts: amounts(1, 1, 0), Until: until.Add(1)}, "until"},
	} {
		if got := b.Fits(c.part, used); got != c.want {
			t.Errorf("%v: got %q, want %q", c.part, got, c.want)
		}
	}
}

func FuzzSumsOfAmounts(f *testing.F) {
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64))
	f.Add(int64(2_000_000_000_000_000), int64(1))
	f.Add(int64(3), int64(-4))
	f.Fuzz(func(t *testing.T, x, y int64) {
		const most = 2_000_000_000_000_000
		a, b := amounts(x, x, x), amounts(y, y, y)
		for _, got := range []mailroom.Amounts{a.Plus(b), a.Minus(b)} {
			if got.MicroUSD > most || got.MicroUSD < -most || got.Tokens != got.MicroUSD || got.Turns != got.MicroUSD {
				t.Errorf("%d and %d: got %v", x, y, got)
			}
			raw, err := json.Marshal(got)
			var back mailroom.Amounts
			if err == nil {
				err = json.Unmarshal(raw, &back)
			}
			if err != nil || back != got {
				t.Errorf("%v is written as %s, which is read as %v, %v", got, raw, back, err)
			}
		}
		if small := max(x, y, -x, -y) <= most/2 && min(x, y, -x, -y) >= -most/2; small &&
			(a.Plus(b) != amounts(x+y, x+y, x+y) || a.Minus(b) != amounts(x-y, x-y, x-y)) {
			t.Errorf("%d and %d: got %v and %v", x, y, a.Plus(b), a.Minus(b))
		}
	})
}

func FuzzParseBudget(f *testing.F) {
	for _, seed := range []string{
		"1.50usd", "$1, 200k tokens", "30 turns until 2026-12-01T18:00:00Z", "€1", "1,5usd", "-1",
		"1.5m tokens;+2 turns", "k", "until", "9999999999999999usd",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := mailroom.ParseBudget(text)
		if err != nil {
			if mailroom.CodeOf(err) != mailroom.CodeInvalid || !b.IsZero() {
				t.Errorf("%q: got %v with the error %v", text, b, err)
			}
			return
		}
		if err := b.Check(); err != nil {
			t.Errorf("%q was read as %v, which is refused: %v", text, b, err)
		}
		if again, err := mailroom.ParseBudget(b.String()); err != nil || !cmp.Equal(again, b) {
			t.Errorf("%q is written as %q, which reads as %v, %v", text, b, again, err)
		}
		raw, err := json.Marshal(b)
		var back mailroom.Budget
		if err == nil {
			err = json.Unmarshal(raw, &back)
		}
		if err != nil || back.Amounts != b.Amounts || !back.Until.Equal(b.Until) {
			t.Errorf("%q: %s reads back as %v, %v", text, raw, back, err)
		}
	})
}
