package config

import (
	"strings"
	"testing"
	"time"

	"mailroom/thread"
)

// startKeys are the keys of the bounds of starts of an agent, as an error lists them.
const startKeys = "rate, burst, concurrency, key_limit, key_from"

func TestBoundsOfStartsAreRead(t *testing.T) {
	c, err := parse("f.toml", []byte(`
[limits]
start_rate = "5/s"
start_burst = 10
running = 7
[agents.codex]
kind = "codex"
rate = "30/m"
burst = 3
concurrency = 2
[agents.far]
kind = "remote"
rate = "1/h"
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]thread.Limit{
		"token": c.Limits.Starts.Limit(), "codex": c.Agents["codex"].Starts.Limit(),
		"far":  c.Agents["far"].Starts.Limit(),
		"echo": c.Agents["echo"].Starts.Limit(),
	} {
		want := map[string]thread.Limit{
			"token": {Rate: thread.Rate{N: 5, Per: time.Second, Burst: 10}, Running: 7},
			"codex": {Rate: thread.Rate{N: 30, Per: time.Minute, Burst: 3}, Running: 2},
			"far":   {Rate: thread.Rate{N: 1, Per: time.Hour, Burst: 1}},
			"echo":  {Rate: thread.Rate{Burst: 1}},
		}[name]
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestAWrongRateIsRefusedWithTheRightForm(t *testing.T) {
	for value, want := range map[string]string{
		`"30 per minute"`: `use "30/m"`, `"30"`: `use "30/m"`, `30`: `such as "30/m"`, `"0/m"`: "pause the agent",
	} {
		_, err := parse("f.toml", []byte("[agents.echo]\nkind = \"echo\"\nrate = "+value+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "agents.echo.rate") {
			t.Errorf("%s: got error %v, want one with %s", value, err, want)
		}
	}
}

func TestTheLimitOfKeysIsRead(t *testing.T) {
	c, err := parse("f.toml", []byte("[agents.far]\nkind = \"remote\"\nkey_limit = 2\nkey_from = \"customer\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Agents["far"]; a.KeyLimit != 2 || a.KeyFrom != "customer" {
		t.Errorf("got key_limit %d and key_from %q", a.KeyLimit, a.KeyFrom)
	}
	for file, want := range map[string]string{
		`key_from = "customer"`: "f.toml:3: agents.echo.key_from: bounds nothing without key_limit; set both",
		`key_limit = -1`:        "f.toml:3: agents.echo.key_limit: -1 is not a whole number from 0 to 100000",
	} {
		refused(t, "[agents.echo]\nkind = \"echo\"\n"+file, want)
	}
}
