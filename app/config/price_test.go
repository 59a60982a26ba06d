package config

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/internal/price"
)

func TestPricesOfModelsAreRead(t *testing.T) {
	c, err := parse("f.toml", []byte(`
		[prices."gpt-5"]
		input = 2
		output = 0.5
		cache_read = 1e-7
		[prices."my/model:7b"]
		input = 0
		output = 0
		cache_write = 1`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]price.Price{
		"gpt-5":       {Input: 2_000_000, Output: 500_000, CacheRead: 1, CacheWrite: 2_000_000},
		"my/model:7b": {CacheWrite: 1_000_000},
		"gpt-5-mini":  {Input: 250_000, Output: 2_000_000, CacheRead: 25_000, CacheWrite: 250_000}, // of the table
	} {
		if r, ok := c.Prices().Find(model); !ok || r.Price != want {
			t.Errorf("%s: %+v, %t, want %+v", model, r, ok, want)
		}
	}
	shown := c.TOML(false)
	if !strings.Contains(shown, "[prices.\"my/model:7b\"]\n") || !strings.Contains(shown, "\noutput = 0.5\n") {
		t.Error("the printed configuration does not have the prices")
	}
	if _, err := parse("f.toml", []byte(shown)); err != nil {
		t.Errorf("the printed configuration is refused: %v", err)
	}
}

func TestBadPricesAreRefused(t *testing.T) {
	const number = "is not a number from 0 to 10000 such as 1.25, in US dollars for a million tokens"
	for text, want := range map[string]string{
		"[prices.m]\ninput = -1\noutput = 2":                `f.toml:2: prices.m.input: -1 ` + number,
		"[prices.m]\ninput = nan\noutput = 2":               number,
		"[prices.m]\ninput = inf\noutput = 2":               number,
		"[prices.m]\ninput = 10001\noutput = 2":             number,
		"[prices.m]\ninput = \"1\"\noutput = 2":             number,
		"[prices.m]\ninput = 1":                             "f.toml:1: prices.m: missing input or output",
		"[prices.m]\noutput = 1":                            "missing input or output",
		"[prices.m]\ninput = 1\noutput = 1\ncache_raed = 1": `prices.m.cache_raed: unknown key (did you mean "cache_read"?)`,
		"[prices]\nm = 1":                                   `use [prices."MODEL"]`,
		"[prices.gpt-5.1]\ninput = 1\noutput = 1":           `put quotes around a name with a dot: [prices."gpt-5.1"]`,
		"[prices.\"a b\"]\ninput = 1\noutput = 1":           "invalid name of a model",
		"prices = 1": `prices: not a table; use [prices."MODEL"]`,
	} {
		_, err := parse("f.toml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestABudgetThatAnAgentNeverReachesIsRefusedInTheFile(t *testing.T) {
	const ofDay = "budget = { day = \"5usd\" }"
	for _, test := range []struct{ table, want string }{
		{ofDay, `f.toml:2: agents.codex.budget: cannot bound agent codex in dollars`},
		{ofDay, `not its model: set model in [agents.codex], or use tokens`},
		{"model = \"newer\"\n" + ofDay, `the price of the model "newer" is not known: add [prices."newer"]`},
		{"model = \"newer\"\nbudget = { month = \"5usd, 1turn\" }", `the price of the model "newer" is not known`},
		{"kind = \"exec\"\ncommand = [\"cat\"]\nbudget = { day = \"1 turn\" }", "a command that reports no usage"},
		{"model = \"gpt-5\"\n" + ofDay, ""},
		{"model = \"own\"\n" + ofDay, ""},
		{`budget = { run = "5usd" }`, `f.toml:2: agents.codex.budget: cannot bound agent codex in dollars`},
		{`budget = { day = "1m tokens" }`, ""},
		{"kind = \"claude\"\n" + ofDay, ""},
		{"kind = \"remote\"\n" + ofDay, ""},
	} {
		_, err := parse("f.toml", []byte("[agents.codex]\n"+test.table+"\n[prices.own]\ninput = 0\noutput = 0"))
		got := fmt.Sprint(err)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.table, got, test.want)
		}
	}
}
