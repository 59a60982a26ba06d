package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/agent/exec/program"
	"mailroom/internal/retry"
)

// policies returns what a file says about retries, by agent; "" is [retry], and found is a codex in PATH without a
// table.
func policies(c *Config) map[string]retry.Policy {
	all := map[string]retry.Policy{"": c.Retry, "found": c.ProgramAgent(program.Find("codex")).Retry}
	for name, a := range c.Agents {
		all[name] = a.Retry
	}
	return all
}

func TestAnAgentIsRetriedAsItsTableSaysElseAsTheServer(t *testing.T) {
	const s, m = time.Second, time.Minute
	file := `
		[retry]
		attempts = 8
		first = "2s"
		most = "10m"
		factor = 3
		outage = "2h"
		[agents.echo]
		attempts = 1
		[agents.command]
		kind = "exec"
		command = ["cat"]
		retry_first = "20m"
		[agents.claude]
		retry_most = "1s"
		[agents.elsewhere]
		kind = "remote"
		attempts = 3
		retry_first = "1s"
		retry_most = "1m"
		retry_factor = 1.5
		retry_outage_most = "1h"
		retry_outage = "72h"
		[agents.open]
		kind = "exec"
		command = ["cat"]
		attempts = 0
	`
	with := func(attempts int, first, most time.Duration) retry.Policy {
		return retry.Policy{Attempts: attempts, First: first, Factor: 3, Most: most, OutageMost: 5 * m, Outage: 120 * m}
	}
	top := with(8, 2*s, 10*m)
	want := map[string]retry.Policy{
		"": top, "found": top, "inbox": top, "tour": top, "open": top,
		"echo": with(1, 2*s, 10*m), "command": with(8, 20*m, 20*m), "claude": with(8, s, s),
		"elsewhere": {Attempts: 3, First: s, Factor: 1.5, Most: m, OutageMost: 60 * m, Outage: 72 * 60 * m},
	}
	c, err := parse("f.toml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, policies(c)); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
	again, err := parse("g.toml", []byte(c.TOML(true)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, policies(again)); diff != "" {
		t.Errorf("retries of the printed file (-want +got):\n%s", diff)
	}
}

func TestTheServerAloneMaySayOneDelay(t *testing.T) {
	c, err := parse("f.toml", []byte("[retry]\nfirst = \"1h\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (retry.Policy{First: time.Hour}.Over(retry.Default())); want.Most != time.Hour || c.Retry != want ||
		c.Agents["echo"].Retry != want {
		t.Errorf("retries of the server %+v and of echo %+v, want %+v", c.Retry, c.Agents["echo"].Retry, want)
	}
}

// Files of before have retry_pause, and 0s for no pause.
func TestTheOlderNameOfTheFirstDelayIsRead(t *testing.T) {
	const agent = "[agents.x]\nkind = \"exec\"\ncommand = [\"cat\"]\n"
	for table, want := range map[string]retry.Policy{
		"attempts = 2\nretry_pause = \"10ms\"":      {Attempts: 2, First: 10 * time.Millisecond},
		"retry_pause = \"1h\"":                      {First: time.Hour},
		"retry_pause = \"0s\"":                      {},
		"retry_pause = \"1us\"":                     {First: time.Millisecond},
		"retry_pause = \"1m\"\nretry_most = \"2m\"": {First: time.Minute, Most: 2 * time.Minute},
	} {
		c, err := parse("f.toml", []byte(agent+table))
		if err != nil {
			t.Fatal(err)
		}
		if want = want.Over(retry.Default()); c.Agents["x"].Retry != want {
			t.Errorf("%s: %+v, want %+v", table, c.Agents["x"].Retry, want)
		}
		if printed := c.TOML(true); strings.Contains(printed, "retry_pause") {
			t.Errorf("%s: the printed file has the older name:\n%s", table, printed)
		}
	}
	env := func(name string) string {
		return map[string]string{"MAILROOM_AGENTS_X_RETRY_PAUSE": "4s", "MAILROOM_RETRY_ATTEMPTS": "7"}[name]
	}
	c, err := Parse("f.toml", []byte(agent), Kinds(), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Agents["x"].Retry; got.First != 4*time.Second || got.Attempts != 7 {
		t.Errorf("from variables: %+v, want attempts 7 and first 4s", got)
	}
}

const delayKeys = "retry_first, retry_factor, retry_most, retry_outage_most, retry_outage"

// Each file has one mistake, and the report has its place.
func TestBadRetriesAreRefused(t *testing.T) {
	for file, want := range map[string]string{
		"[retry]\nattempts = 0":                                       `f.toml:2: retry.attempts: 0 is not a whole number from 1 to 100`,
		"[retry]\nattempts = 101":                                     `f.toml:2: retry.attempts: 101 is not a whole number from 1 to 100`,
		"[retry]\nfirst = 5":                                          `f.toml:2: retry.first: 5 is not a duration from 1ms to 8760h, such as "1m30s"`,
		"[retry]\nfirst = \"0s\"":                                     `f.toml:2: retry.first: "0s" is not a duration from 1ms to 8760h, such as "1m30s"`,
		"[retry]\nmost = \"9000h\"":                                   `f.toml:2: retry.most: "9000h" is not a duration from 1ms to 8760h, such as "1m30s"`,
		"[retry]\nfactor = 0.5":                                       `f.toml:2: retry.factor: 0.5 is not a number from 1 to 10`,
		"[retry]\nfactor = \"2\"":                                     `f.toml:2: retry.factor: "2" is not a number from 1 to 10`,
		"[retry]\noutage = \"1ms\"":                                   `f.toml:2: retry.outage: "1ms" is not a duration from 1s to 8760h, such as "1m30s"`,
		"[retry]\nattempt = 5":                                        `f.toml:2: retry.attempt: unknown key (did you mean "attempts"?)`,
		"retry = 5":                                                   `f.toml:1: retry: not a table; use [retry]`,
		"[agents.echo]\nattempts = -1":                                `f.toml:2: agents.echo.attempts: -1 is not a whole number from 0 to 100`,
		"[retry]\nfirst = \"1m\"\nmost = \"10s\"":                     `f.toml:3: retry.most: 10s is shorter than first, 1m; use at least that`,
		"[agents.echo]\nretry_most = \"10s\"\nretry_first = \"1m\"":   `f.toml:2: agents.echo.retry_most: 10s is shorter than retry_first, 1m; use at least that`,
		"[agents.codex]\nretry_pause = \"10s\"\nretry_first = \"1m\"": `f.toml:2: agents.codex.retry_pause: is the older name of retry_first; remove it`,
		"[agents.codex]\nretry_pause = \"10s\"\nretry_most = \"1s\"":  `f.toml:3: agents.codex.retry_most: 1s is shorter than retry_first, 10s; use at least that`,
		"[agents.echo]\nretry_pause = \"1s\"": `f.toml:2: agents.echo.retry_pause: unknown key; ` +
			`known keys: kind, budget, limit, deadline, ` + startKeys + `, attempts, ` +
			delayKeys + `, pace`,
		"[agents.x]\nkind = \"remote\"\nlimit = 3": `f.toml:3: agents.x.limit: unknown key; ` +
			`known keys: kind, budget, ` + startKeys + `, attempts, ` + delayKeys,
		"[agents.remote]\nattempts = 3": `f.toml:1: agents.remote: missing kind; use one of echo, exec, acp, inbox, tour, remote, claude, codex`,
	} {
		t.Run(file, func(t *testing.T) { refused(t, file, want) })
	}
}
