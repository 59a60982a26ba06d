package mailroom

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Amounts are quantities of what runs use. All are integers, so that sums are exact.
type Amounts struct {
	MicroUSD int64 // millionths of a US dollar
	Tokens   int64 // input and output of models, with what they read from a cache
	Turns    int64 // reports of what a call of a model used: steps with a Usage
}

// Budget bounds what is used. A member that is 0 is no bound.
type Budget struct {
	Amounts
	Until time.Time // nothing begins from this time on; zero: no bound
}

// Bounds of a [Budget], and of sums of [Amounts], which are far from the limits of an int64.
const (
	maxBudgetUSD = 1_000_000_000
	maxBudget    = 1_000_000_000_000_000 // of each amount
	maxSum       = 2 * maxBudget         // of sums, also in rows
	microUSD     = 1_000_000             // in a dollar
)

// lowPercent is the share of a budget from which on it is low.
const lowPercent = 80

// Plus returns the sum of a and b, at most two billion dollars, and as many millionths of tokens and turns.
func (a Amounts) Plus(b Amounts) Amounts {
	a, b = a.bounded(), b.bounded()
	return Amounts{a.MicroUSD + b.MicroUSD, a.Tokens + b.Tokens, a.Turns + b.Turns}.bounded()
}

// Minus returns a without b, with the bounds of Plus. A member is negative if b has more of it.
func (a Amounts) Minus(b Amounts) Amounts {
	a, b = a.bounded(), b.bounded()
	return Amounts{a.MicroUSD - b.MicroUSD, a.Tokens - b.Tokens, a.Turns - b.Turns}.bounded()
}

// bounded returns a within the bounds of sums. Beyond them a row of a store could not be read.
func (a Amounts) bounded() Amounts {
	one := func(n int64) int64 { return min(max(n, -maxSum), maxSum) }
	return Amounts{one(a.MicroUSD), one(a.Tokens), one(a.Turns)}
}

// Positive returns a with 0 for each negative member.
func (a Amounts) Positive() Amounts {
	return Amounts{max(a.MicroUSD, 0), max(a.Tokens, 0), max(a.Turns, 0)}
}

// USD returns the amount of money in dollars.
func (a Amounts) USD() float64 { return float64(a.MicroUSD) / microUSD }

// Dollars returns a number of dollars as an amount, rounded to a millionth.
func Dollars(usd float64) Amounts { return Amounts{MicroUSD: int64(math.Round(usd * microUSD))} }

// bound is one member of a budget: its name in JSON and in texts, how much it allows, and how much was used.
type bound struct {
	name       string
	most, used int64
}

// bounds returns the members that b bounds.
func (b Budget) bounds(used Amounts) []bound {
	all := []bound{
		{"usd", b.MicroUSD, used.MicroUSD}, {"tokens", b.Tokens, used.Tokens}, {"turns", b.Turns, used.Turns},
	}
	kept := all[:0]
	for _, x := range all {
		if x.most > 0 {
			kept = append(kept, x)
		}
	}
	return kept
}

// IsZero reports whether b bounds nothing.
func (b Budget) IsZero() bool { return b.Amounts == Amounts{} && b.Until.IsZero() }

// Of returns the members of a that b bounds, and 0 for the others.
func (b Budget) Of(a Amounts) Amounts {
	if b.MicroUSD == 0 {
		a.MicroUSD = 0
	}
	if b.Tokens == 0 {
		a.Tokens = 0
	}
	if b.Turns == 0 {
		a.Turns = 0
	}
	return a
}

// Left returns what is left of each bound after used: 0 or less if nothing is, and 0 where b has no bound.
func (b Budget) Left(used Amounts) Amounts { return b.Amounts.Minus(b.Of(used)) }

// Over returns the JSON name of the first bound that used has reached: usd, tokens or turns. It returns "" while
// something is left of each bound. Until is not looked at.
func (b Budget) Over(used Amounts) string {
	for _, x := range b.bounds(used) {
		if x.used >= x.most {
			return x.name
		}
	}
	return ""
}

// Low returns the name of the first bound that used has reached to 80 %, or "".
func (b Budget) Low(used Amounts) string {
	for _, x := range b.bounds(used) {
		if x.used >= (x.most*lowPercent+99)/100 {
			return x.name
		}
	}
	return ""
}

// Fits returns the name of the first bound of b that does not have this part of it left, or "". A part without a bound
// that b has does not fit.
func (b Budget) Fits(part Budget, used Amounts) string {
	parts := []int64{part.MicroUSD, part.Tokens, part.Turns}
	for i, most := range []int64{b.MicroUSD, b.Tokens, b.Turns} {
		left := most - []int64{used.MicroUSD, used.Tokens, used.Turns}[i]
		if most > 0 && (parts[i] <= 0 || parts[i] > left) {
			return []string{"usd", "tokens", "turns"}[i]
		}
	}
	if !b.Until.IsZero() && (part.Until.IsZero() || part.Until.After(b.Until)) {
		return "until"
	}
	return ""
}

// Check returns an error with CodeInvalid unless b bounds something, with amounts that are not negative and not out of
// range.
func (b Budget) Check() error {
	if b.IsZero() {
		return Errorf(CodeInvalid, "a budget needs a bound: usd, tokens, turns or until")
	}
	for _, x := range []bound{{name: "usd", most: b.MicroUSD}, {name: "tokens", most: b.Tokens},
		{name: "turns", most: b.Turns}} {
		if x.most < 0 || x.most > maxBudget {
			return Errorf(CodeInvalid, "%s of a budget must be from 0, which is no bound, to %d", x.name, boundOf(x.name))
		}
	}
	if y := b.Until.UTC().Year(); !b.Until.IsZero() && (y < 1970 || y > 9999) {
		return Errorf(CodeInvalid, "until of a budget must be between the years 1970 and 9999")
	}
	return nil
}

func boundOf(name string) int64 {
	if name == "usd" {
		return maxBudgetUSD
	}
	return maxBudget
}

// budgetJSON is the form of amounts and budgets in JSON. Members that are zero are left out.
type budgetJSON struct {
	USD    float64   `json:"usd,omitempty"` // exact to a millionth
	Tokens int64     `json:"tokens,omitempty"`
	Turns  int64     `json:"turns,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

func (a Amounts) MarshalJSON() ([]byte, error) { return Budget{Amounts: a}.MarshalJSON() }

func (b Budget) MarshalJSON() ([]byte, error) {
	return json.Marshal(budgetJSON{b.USD(), b.Tokens, b.Turns, b.Until.UTC().Truncate(time.Microsecond)})
}

func (a *Amounts) UnmarshalJSON(raw []byte) error {
	var b Budget
	err := b.UnmarshalJSON(raw)
	*a = b.Amounts
	return err
}

// UnmarshalJSON decodes an object with the members usd, tokens, turns and until. It ignores others: a row of a newer
// version may have them.
func (b *Budget) UnmarshalJSON(raw []byte) error {
	var in budgetJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if in.USD > 2*maxBudgetUSD || in.USD < -2*maxBudgetUSD {
		return fmt.Errorf("usd is out of range: %g", in.USD)
	}
	*b = Budget{Amounts{Dollars(in.USD).MicroUSD, in.Tokens, in.Turns}, in.Until}
	return nil
}

// String returns a in the form that [ParseBudget] reads, or "nothing".
func (a Amounts) String() string { return Budget{Amounts: a}.String() }

// String returns b in the form that [ParseBudget] reads, or "nothing".
func (b Budget) String() string {
	var all []string
	if b.MicroUSD != 0 {
		all = append(all, usdText(b.MicroUSD)+" usd")
	}
	if b.Tokens != 0 {
		all = append(all, countText(b.Tokens)+" tokens")
	}
	if b.Turns == 1 {
		all = append(all, "1 turn")
	} else if b.Turns != 0 {
		all = append(all, countText(b.Turns)+" turns")
	}
	if !b.Until.IsZero() {
		all = append(all, "until "+b.Until.UTC().Format(time.RFC3339Nano))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// usdText returns millionths of a dollar with at least two decimals.
func usdText(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	frac := strings.TrimRight(fmt.Sprintf("%06d", micro%microUSD), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, micro/microUSD, frac)
}

// countText returns n, in thousands or millions if that is exact.
func countText(n int64) string {
	switch {
	case n != 0 && n%1_000_000 == 0:
		return strconv.FormatInt(n/1_000_000, 10) + "m"
	case n != 0 && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}
