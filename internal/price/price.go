// Package price computes what the use of a model costs, for agents that report tokens and no dollars.
package price

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"mailroom"
)

// Most is the highest price, in dollars for a million tokens.
const Most = 10_000

const (
	million = 1_000_000             // tokens of a price, and microdollars of a dollar
	maxCost = 1_000_000_000_000_000 // microdollars of a step
)

// Price is what a million tokens of a model cost, in millionths of a US dollar.
type Price struct {
	Input, Output         int64
	CacheRead, CacheWrite int64 // of input that was read from the provider's cache, or written to it
}

// Micro returns dollars as millionths of a dollar, rounded up.
func Micro(usd float64) int64 {
	micro := usd * million
	if near := math.Round(micro); math.Abs(micro-near) < 1e-3 { // 0.1 has no exact float
		return int64(near)
	}
	return int64(math.Ceil(micro))
}

// Cost returns what usage costs in millionths of a dollar, rounded up, and at most a billion dollars.
func (p Price) Cost(u mailroom.Usage) int64 {
	tokens := func(n, most int64) int64 { return min(max(n, 0), most) }
	in, out := tokens(u.InputTokens, math.MaxInt64), tokens(u.OutputTokens, math.MaxInt64)
	read := tokens(u.CacheReadTokens, in)
	write := tokens(u.CacheWriteTokens, in-read)
	sum := big.NewInt(million - 1)
	for _, part := range [][2]int64{{in - read - write, p.Input}, {read, p.CacheRead}, {write, p.CacheWrite},
		{out, p.Output}} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	sum.Quo(sum, big.NewInt(million))
	if !sum.IsInt64() {
		return maxCost
	}
	return min(sum.Int64(), maxCost)
}

// Row is the price of a model in a list.
type Row struct {
	Model string
	Price
	Own bool // the configuration sets it
}

// List has the prices of models by name. A nil list prices nothing. It is safe for concurrent use.
type List struct {
	rows map[string]Row
}

// NewList returns the prices of the table, with others in their place or beside them.
func NewList(own map[string]Price) *List {
	l := &List{rows: map[string]Row{}}
	for line := range strings.Lines(table) {
		r, err := parse(line)
		if err != nil {
			panic(err) // the table is generated, and a test reads it
		}
		l.rows[r.Model] = r
	}
	for model, p := range own {
		l.rows[model] = Row{Model: model, Price: p, Own: true}
	}
	return l
}

// Find returns the price of a model as its provider names it: by that name, else by the name without the date of a
// version at its end, such as -2026-08-07.
func (l *List) Find(model string) (Row, bool) {
	for _, name := range []string{model, undated(model)} {
		if r, ok := l.rows[name]; ok {
			return r, true
		}
	}
	return Row{}, false
}

// undated returns a name without the date at its end: -20260807 or -2026-08-07.
func undated(model string) string {
	for _, form := range []string{"-dddddddd", "-dddd-dd-dd"} {
		cut := len(model) - len(form)
		if cut <= 0 {
			continue
		}
		shape := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return 'd'
			}
			return r
		}, model[cut:])
		if shape == form {
			return model[:cut]
		}
	}
	return model
}

// Rows returns the prices by the names of models.
func (l *List) Rows() []Row {
	var all []Row
	for _, name := range slices.Sorted(maps.Keys(l.rows)) {
		all = append(all, l.rows[name])
	}
	return all
}

// Charge returns the usage of a step with its cost, and whether the cost is known. A cost that the agent reports is
// kept. Otherwise tokens cost what the list says of their model, else of before, the model that the run used last.
func (l *List) Charge(u mailroom.Usage, before string) (mailroom.Usage, bool) {
	u.ComputedUSD = 0 // an agent computes nothing
	if l == nil || u.CostUSD != 0 || u.InputTokens <= 0 && u.OutputTokens <= 0 {
		return u, true
	}
	r, ok := l.Find(cmp.Or(u.Model, before))
	if ok {
		u.CostUSD = mailroom.Amounts{MicroUSD: r.Cost(u)}.USD()
		u.ComputedUSD = u.CostUSD
	}
	return u, ok
}

// parse reads a line of the table.
func parse(line string) (Row, error) {
	words := strings.Fields(line)
	if len(words) != 5 {
		return Row{}, fmt.Errorf("prices: line %q has no five words", line)
	}
	var micro [4]int64
	for i, word := range words[1:] {
		usd, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return Row{}, fmt.Errorf("prices: line %q: %w", line, err)
		}
		micro[i] = Micro(usd)
	}
	return Row{Model: words[0],
		Price: Price{Input: micro[0], Output: micro[1], CacheRead: micro[2], CacheWrite: micro[3]}}, nil
}
