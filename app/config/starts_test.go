package config

import (
	"strings"
	"testing"
	"time"

	"mailroom/thread"
)

// startKeys are the keys of the bounds of starts of an agent, as an error lists them.
const startKeys = "rate, burst, concurrency, key_limit, key_rate, key_burst, key_from"

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
	for _, key := range []string{"rate", "key_rate"} {
		refusesRates(t, key)
	}
}

func refusesRates(t *testing.T, key string) {
	t.Helper()
	for value, want := range map[string]string{
		`"30 per minute"`: `use "30/m"`, `"30"`: `use "30/m"`, `30`: `such as "30/m"`, `"0/m"`: "pause the agent",
	} {
		_, err := parse("f.toml", []byte("[agents.echo]\nkind = \"echo\"\n"+key+" = "+value+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "agents.echo."+key) {
			t.Errorf("%s = %s: got error %v, want one with %s", key, value, err, want)
		}
	}
}

func TestTheLimitOfKeysIsRead(t *testing.T) {
	c, err := parse("f.toml", []byte("[agents.far]\nkind = \"remote\"\nkey_limit = 2\n"+
		"key_rate = \"10/h\"\nkey_burst = 3\nkey_from = \"customer\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := thread.Limit{Rate: thread.Rate{N: 10, Per: time.Hour, Burst: 3}, Running: 2}
	if a := c.Agents["far"]; a.Keys.Limit() != want || a.KeyFrom != "customer" {
		t.Errorf("got %+v of keys from %q", a.Keys.Limit(), a.KeyFrom)
	}
	for file, want := range map[string]string{
		`key_from = "customer"`: "f.toml:3: agents.echo.key_from: bounds nothing without key_limit or key_rate; set one",
		`key_burst = 2`:         "f.toml:3: agents.echo.key_burst: bounds nothing without key_rate; set both",
		`key_burst = 0`:         "f.toml:3: agents.echo.key_burst: 0 is not a whole number from 1 to 100000",
		`key_limit = -1`:        "f.toml:3: agents.echo.key_limit: -1 is not a whole number from 0 to 100000",
	} {
		refused(t, "[agents.echo]\nkind = \"echo\"\n"+file, want)
	}
}
