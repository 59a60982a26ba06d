package mailroom

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ParseBudget reads a budget as people write it, such as "1.50usd", "$1", "200k tokens", "30 turns", or several of them
// with spaces or commas between: "1usd, 200k tokens, until 2026-12-01T18:00:00Z". Its errors have CodeInvalid, name
// what was written, and say how to write it.
func ParseBudget(text string) (Budget, error) {
	p := budgetParser{text: text, rest: text}
	for p.skip(" \t,;+"); p.rest != ""; p.skip(" \t,;+") {
		if err := p.item(); err != nil {
			return Budget{}, err
		}
	}
	if len(p.given) == 0 {
		return Budget{}, Errorf(CodeInvalid, "a budget needs an amount; write for example 1.50usd or 200k tokens")
	}
	if err := p.budget.Check(); err != nil {
		return Budget{}, err
	}
	return p.budget, nil
}

type budgetParser struct {
	text, rest string
	budget     Budget
	given      []string // units so far
}

func (p *budgetParser) skip(these string) { p.rest = strings.TrimLeft(p.rest, these) }

// take removes the longest prefix of bytes among these and returns it.
func (p *budgetParser) take(these string) string {
	n := len(p.rest) - len(strings.TrimLeft(p.rest, these))
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// word removes what comes before the next separator, digit or sign of a currency.
func (p *budgetParser) word() string {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return strings.ContainsRune(" \t,;+$0123456789", r) })
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

// item reads one amount with its unit, or until with a time.
func (p *budgetParser) item() error {
	rest := p.rest
	if strings.HasPrefix(strings.ToLower(rest), "until") {
		p.rest = strings.TrimLeft(rest[len("until"):], " \t")
		n := strings.IndexAny(p.rest, " ,;")
		if n < 0 {
			n = len(p.rest)
		}
		at, err := time.Parse(time.RFC3339, p.rest[:n])
		if err != nil {
			return p.refuse("until %q is not a time; write for example until 2026-12-01T18:00:00Z", p.rest[:n])
		}
		p.rest = p.rest[n:]
		p.budget.Until = at.UTC()
		return p.once("until")
	}
	before := ""
	if !strings.ContainsAny(rest[:1], "-.0123456789") {
		if before = strings.TrimSpace(p.word()); strings.HasPrefix(p.rest, "$") {
			before, p.rest = before+"$", p.rest[1:]
		}
		p.skip(" \t")
	}
	number := p.take("-.0123456789_")
	if strings.HasPrefix(p.rest, ",") && len(p.rest) > 1 && p.rest[1] >= '0' && p.rest[1] <= '9' && number != "" {
		return p.comma(number)
	}
	if number == "" {
		return p.refuse("%q is not an amount with a unit; write for example 1.50usd, 200k tokens or 30 turns",
			strings.TrimSpace(rest))
	}
	p.skip(" \t")
	return p.amount(before, number)
}

// comma refuses a number with a comma in it, which means thousands to some people and decimals to others.
func (p *budgetParser) comma(number string) error {
	tail := (&budgetParser{rest: p.rest[1:]}).take("0123456789")
	if len(tail) == 3 {
		return p.refuse("%s,%s has a comma; write %s%s, or %s.%s for a fraction", number, tail, number, tail, number, tail)
	}
	return p.refuse("%s,%s has a comma; write %s.%s, or a space between two amounts", number, tail, number, tail)
}

// amount adds a number whose unit is before it or follows.
func (p *budgetParser) amount(before, number string) error {
	unit := strings.ToLower(before)
	if unit == "" {
		if strings.HasPrefix(p.rest, "$") {
			unit, p.rest = "$", p.rest[1:]
		} else {
			unit = strings.ToLower(p.word())
		}
	}
	factor := int64(1)
	switch unit {
	case "k", "m", "ktokens", "mtokens", "kturns":
		if factor = 1000; unit[0] == 'm' {
			factor = 1_000_000
		}
		if unit = unit[1:]; unit == "" {
			p.skip(" \t")
			unit = strings.ToLower(p.word())
		}
	}
	name, known := unitNames()[unit]
	if !known {
		return p.badUnit(number, unit)
	}
	value, err := p.number(number, name, factor)
	if err != nil {
		return err
	}
	switch name {
	case "usd":
		p.budget.MicroUSD = value
	case "tokens":
		p.budget.Tokens = value
	case "turns":
		p.budget.Turns = value
	}
	return p.once(name)
}

// unitNames returns the names of the members of a budget by what people write for them.
func unitNames() map[string]string {
	return map[string]string{
		"$": "usd", "usd": "usd", "us$": "usd", "usd$": "usd", "dollar": "usd", "dollars": "usd",
		"token": "tokens", "tokens": "tokens", "tok": "tokens", "turn": "turns", "turns": "turns",
	}
}

// number returns the value of digits with a factor, for money in millionths.
func (p *budgetParser) number(digits, name string, factor int64) (int64, error) {
	if strings.HasPrefix(digits, "-") {
		return 0, p.refuse("%s %s is negative; write an amount above 0", digits, name)
	}
	decimals, form := 0, "write a whole number such as 30 "+name
	if name == "usd" {
		decimals, form = 6, "write a number such as 1.50usd, with at most six decimals"
	} else if factor > 1 {
		decimals, form = 3, "write a number such as 1.5k "+name
	}
	whole, frac, _ := strings.Cut(strings.ReplaceAll(digits, "_", ""), ".")
	if whole+frac == "" || strings.Trim(whole+frac, "0123456789") != "" || len(frac) > decimals {
		return 0, p.refuse("%s %s is not an amount; %s", digits, name, form)
	}
	scale := factor
	if name == "usd" {
		scale = microUSD * factor
	}
	value := int64(0)
	for i, c := range whole + frac {
		if value > maxBudget {
			break
		}
		value = value*10 + int64(c-'0')
		if i >= len(whole) {
			scale /= 10
		}
	}
	if value > 0 && scale > maxBudget/value || value > maxBudget {
		return 0, p.refuse("%s %s is out of range; the most is %d", digits, name, boundOf(name))
	}
	if value *= scale; value == 0 {
		return 0, p.refuse("%s %s is nothing; write an amount above 0, or leave it out", digits, name)
	}
	return value, nil
}

// once records that a member was given, and refuses it the second time.
func (p *budgetParser) once(name string) error {
	if slices.Contains(p.given, name) {
		return p.refuse("%s is given twice; write it once", name)
	}
	p.given = append(p.given, name)
	return nil
}

// badUnit refuses a unit, with the nearest form that is right.
func (p *budgetParser) badUnit(number, unit string) error {
	currencies := map[string]string{"€": "EUR", "£": "GBP", "¥": "JPY", "euro": "EUR", "euros": "EUR", "pound": "GBP",
		"pounds": "GBP", "yen": "JPY", "₹": "INR", "fr.": "CHF", "c$": "CAD", "a$": "AUD"}
	code := currencies[unit]
	if code == "" && len(unit) == 3 && strings.Trim(unit, "abcdefghijklmnopqrstuvwxyz") == "" &&
		!slices.Contains([]string{"min", "sec", "hrs", "day", "tkn"}, unit) {
		code = strings.ToUpper(unit)
	}
	switch {
	case code != "":
		return p.refuse("a budget in %s is not possible, money is counted in US dollars; write %susd", code, number)
	case unit == "":
		return p.refuse("%s has no unit; write %susd, %s tokens or %s turns", number, number, number, number)
	case unit == "cent" || unit == "cents" || unit == "¢" || unit == "ct":
		return p.refuse("money is written in dollars; write 0.50usd for 50 cents")
	case slices.Contains([]string{"s", "sec", "min", "h", "hour", "hours", "hrs", "d", "day", "days", "minutes", "minute"},
		unit):
		return p.refuse("%s%s is a duration; write until and a time, such as until 2026-12-01T18:00:00Z", number, unit)
	}
	near := ""
	for _, name := range []string{"usd", "tokens", "turns"} {
		if near == "" && strings.HasPrefix(unit, name[:2]) {
			near = name
		}
	}
	if near != "" {
		return p.refuse("unit %q is unknown; write %s %s", unit, number, near)
	}
	return p.refuse("unit %q is unknown; use usd, tokens or turns, as in %susd", unit, number)
}

func (p *budgetParser) refuse(format string, args ...any) error {
	shown := p.text
	if len(shown) > 80 {
		shown = strings.ToValidUTF8(shown[:80], "") + "…"
	}
	return Errorf(CodeInvalid, "budget %q: %s", shown, fmt.Sprintf(format, args...))
}
