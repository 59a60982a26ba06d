package config

import (
	"strings"
	"testing"
	"time"

	"mailroom/schedule/plan"
)

func TestSchedulesAreReadWithTheirPolicies(t *testing.T) {
	c, err := parse("mailroom.toml", []byte(`
		[agents.far]
		kind = "remote"
		[schedules.report]
		cron = "0 7 * * 1-5"
		zone = "Europe/Berlin"
		agent = "far"
		thread = "inbox"
		text = "Summarize\nwhat is new."
		busy = "skip"
		overlap = "one"
		catch_up = "none"
		window = "2h"
		jitter = "5m"
		timeout = "1h"
		pause_after = 0
		[schedules.watch]
		every = "90m"
		text = "Anything new?"
		[schedules.past]
		at = 2020-01-31T18:00:00Z
		text = "It was sent, and stops no start."
	`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Schedules["report"].Spec
	if got.Cron != "0 7 * * 1-5" || got.Zone != "Europe/Berlin" || got.Agent != "far" || got.Thread != "inbox" ||
		got.Busy != plan.BusySkip || got.Overlap != "one" || got.CatchUp != "none" || got.Window != 2*time.Hour ||
		got.Jitter != 5*time.Minute || got.Timeout != time.Hour || got.PauseAfter != 0 ||
		got.Text != "Summarize\nwhat is new." {
		t.Errorf("read %+v", got)
	}
	if got := c.Schedules["watch"].Spec; got.Every != 90*time.Minute || got.PauseAfter != plan.DefaultPauseAfter {
		t.Errorf("read %+v", got)
	}
	if got := c.Schedules["past"].Spec.At; !got.Equal(time.Date(2020, 1, 31, 18, 0, 0, 0, time.UTC)) {
		t.Errorf("read at %s", got)
	}
}

func TestBadSchedulesAreRefusedByName(t *testing.T) {
	for table, want := range map[string]string{
		`cron = "every weekday at 7"`:               `cron: "every weekday at 7" has 4 fields`,
		`cron = "every weekday at 7" `:              `use "0 7 * * 1-5"`,
		`cron = "0 0 31 2 *"`:                       `cron: "0 0 31 2 *" never fires`,
		`cron = "0 7 * * *"` + "\nevery = \"1h\"":   "exactly one of cron, every and at",
		"cron = \"0 7 * * *\"\nzone = \"new york\"": `zone: "new york" is not the name of a time zone: use America/New_York`,
		"cron = \"0 7 * * *\"\nagent = \"ecko\"":    `agent: unknown agent "ecko" (did you mean "echo"?)`,
		"cron = \"0 7 * * *\"\noverlap = \"never\"": `overlap: "never" is unknown: use one of skip, one, all`,
		"cron = \"0 7 * * *\"\nbusy = \"steer\"":    "needs a thread",
		"cron = \"0 7 * * *\"\npause-after = 3":     `pause-after: unknown key (did you mean "pause_after"?)`,
		`every = "30s"`:                             `every: "30s" is shorter than 1m0s`,
		`every = 90`:                                "every: 90 is not a duration",
		`at = "30m"`:                                "a duration would begin at each start",
		"every = \"1h\"\njitter = \"an hour\"":      "jitter",
		"every = \"1h\"\nthread = \"a/b\"":          "thread",
		``:                                          "missing times",
		"every = \"1h\"\ntimeout = \"100000h\"":     "timeout",
	} {
		_, err := parse("mailroom.toml", []byte("[schedules.x]\ntext = \"go\"\n"+table))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "mailroom.toml:") {
			t.Errorf("%s: %v, want %s", table, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one sentence: %v", table, err)
		}
	}
	for doc, want := range map[string]string{
		"[schedules.\"of.x\"]\nevery = \"1h\"":              "use another name",
		`schedules = 5`:                                     "use [schedules.NAME]",
		"[schedules]\nevery = \"1h\"":                       "use [schedules.NAME]",
		"[schedules.\"a b\"]\nevery = \"1h\"":               "invalid name",
		"[schedules.x]\nevery = \"1h\"":                     "missing text",
		"[schedules.x]\nevery = \"1h\"\ntext = \" \"":       "is empty",
		"[schedules.x]\nevery = \"1h\"\ntext = \"\\u0000\"": "text",
	} {
		if _, err := parse("mailroom.toml", []byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}
