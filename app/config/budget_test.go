package config

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/internal/budget"
)

func TestBudgetsOfAgentsAreRead(t *testing.T) {
	c, err := parse("f.toml", []byte(`
		budget_zone = "Europe/Berlin"
		[agents.coder]
		kind = "echo"
		budget = { day = "5usd", month = "$100, 2m tokens", run = "9 turns" }
		[agents.far]
		kind = "remote"
		[agents.far.budget]
		day = "1usd"
		[targets.phone]
		kind = "ntfy"
		topic = "x"
		[rules.money]
		when = ["budget"]
		to = ["phone"]`))
	if err != nil {
		t.Fatal(err)
	}
	month := mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: 100_000_000, Tokens: 2_000_000}}
	want := budget.Limits{Day: mailroom.Budget{Amounts: mailroom.Dollars(5)}, Month: month,
		Run: mailroom.Budget{Amounts: mailroom.Amounts{Turns: 9}}}
	if got := c.Agents["coder"].Budget; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := c.Agents["far"].Budget.Day.Amounts; got != mailroom.Dollars(1) {
		t.Errorf("got %s a day", got)
	}
	if zone := c.BudgetZone.String(); zone != "Europe/Berlin" || Default(Kinds()).BudgetZone != time.UTC {
		t.Errorf("budgets begin in %s", zone)
	}
	if when := c.Rules["money"].When; len(when) != 1 || when[0] != alert.KindBudget {
		t.Errorf("the rule is about %v", when)
	}
	const table = `budget = { day = "5.00 usd", month = "100.00 usd, 2m tokens", run = "9 turns" }`
	if shown := c.TOML(false); !strings.Contains(shown, table) {
		t.Error("the printed configuration does not have the budget")
	}
}

func TestARuleRemindsOfQuestions(t *testing.T) {
	const table = "[targets.phone]\nkind = \"ntfy\"\ntopic = \"x\"\n[rules.me]\nto = [\"phone\"]\n"
	c, err := parse("f.toml", []byte(table+"when = [\"ticket\"]\nremind_after = \"30m\""))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Rules["me"].Remind; got != 30*time.Minute || !strings.Contains(c.TOML(false), `remind_after = "30m"`) {
		t.Errorf("it reminds after %s", got)
	}
	for text, want := range map[string]string{
		"when = [\"ticket\"]\nremind_after = \"1ms\"": `a duration from 1s to 24h, such as "30m"`,
		"when = [\"failed\"]\nremind_after = \"30m\"": `rules.me.remind_after: is about questions; add "ticket" to when`,
	} {
		if _, err := parse("f.toml", []byte(table+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestBadBudgetsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`budget = "5usd"`:                                      `not a table of budgets, such as { day =`,
		`budget = { day = 5 }`:                                 `budget of a day: not a text such as "5usd" or "2m tokens"`,
		`budget = { day = "5" }`:                               `5 has no unit; write 5usd, 5 tokens or 5 turns`,
		`budget = { day = "5€" }`:                              `money is counted in US dollars; write 5usd`,
		`budget = { dya = "5usd"}`:                             `unknown period "dya" of a budget; use day, month or run`,
		`budget = { day = "5usd until 2027-01-01T00:00:00Z" }`: `has a time; leave it out`,
	} {
		_, err := parse("f.toml", []byte("[agents.echo]\n"+text))
		const place = "f.toml:2: agents.echo.budget"
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
