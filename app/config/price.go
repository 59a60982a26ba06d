package config

import (
	"fmt"
	"math"
	"unicode"

	"mailroom"
	"mailroom/internal/price"
	"mailroom/internal/setting"
)

// priceTable is one [prices."MODEL"] table.
type priceTable struct {
	input, output         int64 // millionths of a dollar
	cacheRead, cacheWrite int64
}

func (p *priceTable) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("input", "US dollars for a million tokens of input.", dollars(&p.input)),
		setting.New("output", "US dollars for a million tokens of output.", dollars(&p.output)),
		setting.New("cache_read",
			"US dollars for a million tokens of input from the provider's cache; default: input.", dollars(&p.cacheRead)),
		setting.New("cache_write",
			"US dollars for a million tokens of input that goes to the provider's cache; default: input.",
			dollars(&p.cacheWrite)),
	}
}

// dollars is the value of a setting that is a price, in *p in millionths of a dollar.
func dollars(p *int64) setting.Value {
	allowed := fmt.Sprintf("a number from 0 to %d such as 1.25, in US dollars for a million tokens", price.Most)
	return setting.Of(p, allowed, func(v any) (int64, bool) {
		var usd float64
		switch v := v.(type) {
		case int64:
			usd = float64(v)
		case float64:
			usd = v
		default:
			usd = math.NaN()
		}
		if !(usd >= 0 && usd <= price.Most) {
			return 0, false
		}
		return price.Micro(usd), true
	}, func(micro int64) any { return mailroom.Amounts{MicroUSD: micro}.USD() })
}

// prices reads the tables of prices.
func (r *reader) prices(tables map[string]any) {
	for _, model := range sorted(tables) {
		key := "prices." + model
		table, ok := tables[model].(map[string]any)
		if !ok {
			r.report(key, fmt.Sprintf(`%q is not a table; use [prices."MODEL"] with input and output, and quotes around a name `+
				`with a dot`, model))
			continue
		}
		if !isModel(model) {
			r.report(key, fmt.Sprintf("invalid name of a model: use 1 to %d bytes without spaces", mailroom.MaxLabel))
			continue
		}
		p, before := &priceTable{}, len(r.problems)
		for _, k := range sorted(table) {
			if _, nested := table[k].(map[string]any); nested {
				r.report(key+"."+k, fmt.Sprintf("put quotes around a name with a dot: [prices.%q]", model+"."+k))
			}
		}
		if len(r.problems) > before {
			continue
		}
		r.table(key+".", table, p.settings())
		if len(r.problems) > before {
			continue
		}
		if !r.config.set[key+".input"] || !r.config.set[key+".output"] {
			r.report(key, "missing input or output; set both, in US dollars for a million tokens")
			continue
		}
		if !r.config.set[key+".cache_read"] {
			p.cacheRead = p.input
		}
		if !r.config.set[key+".cache_write"] {
			p.cacheWrite = p.input
		}
		r.config.prices[model] = p
	}
}

// AddPrice adds a price of nothing for a model.
func (c *Config) AddPrice(model string) { c.prices[model] = &priceTable{} }

func isModel(name string) bool {
	if name == "" || len(name) > mailroom.MaxLabel {
		return false
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// Prices returns what models cost: by the file, else by the table of the program.
func (c *Config) Prices() *price.List {
	own := map[string]price.Price{}
	for model, p := range c.prices {
		own[model] = price.Price{Input: p.input, Output: p.output, CacheRead: p.cacheRead, CacheWrite: p.cacheWrite}
	}
	return price.NewList(own)
}

// CheckBudget returns why amounts cannot bound an agent with this name: it would never reach them, because it does not
// report what they count. model is the one of a run, "" for the one of the configuration. Workers elsewhere report what
// they want.
func (a *Agent) CheckBudget(name, model string, b mailroom.Amounts, prices *price.List) error {
	if model == "" {
		model = a.Model
	}
	p := a.Profile()
	_, known := prices.Find(model)
	switch {
	case a.Kind == KindExec && b != (mailroom.Amounts{}):
		return fmt.Errorf("cannot bound agent %s, a command that reports no usage: use until, or a deadline", name)
	case p == nil || p.ReportsCost || b.MicroUSD == 0 || known:
		return nil
	case model == "":
		return fmt.Errorf("cannot bound agent %s in dollars, because %s reports tokens only, and not its model: set "+
			"model in [agents.%s], or use tokens, such as 2m tokens", name, p.Name, name)
	}
	return fmt.Errorf("cannot bound agent %s in dollars, because the price of the model %q is not known: add [prices.%q] "+
		"with input and output to mailroom.toml, or use tokens, such as 2m tokens", name, model, model)
}

// checkBudgets returns the problems of budgets that their agents never reach.
func (c *Config) checkBudgets() (found []problem) {
	prices := c.Prices()
	for _, name := range sorted(c.Agents) {
		a := c.Agents[name]
		for _, b := range []mailroom.Budget{a.Budget.Day, a.Budget.Month, a.Budget.Run} {
			if err := a.CheckBudget(name, "", b.Amounts, prices); err != nil {
				found = append(found, problem{key: "agents." + name + ".budget", what: err.Error()})
				break
			}
		}
	}
	return found
}
