package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestATrackerRoundTrips(t *testing.T) {
	c, err := parse("f.toml",
		[]byte(
			"[tracker]\nfolder = \"/home/ann/roof\"\nagent = \"echo\"\nagents = [\"codex\", \"echo\"]\nlabels = [\"auto\"]\n"+
				"max_claimed = 3\nwhen_done = \"comment\"\ninterval = \"5s\"\nproject = \"shop\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Tracker{
		Folder: "/home/ann/roof", Agent: "echo", Agents: []string{"codex"}, Labels: []string{"auto"},
		Types: []string{"bug", "feature", "task", "chore"}, MaxClaims: 3, KeepOpen: true, Interval: 5 * time.Second,
		Project: "shop",
	}
	if diff := cmp.Diff(want, c.Tracker); diff != "" {
		t.Error(diff)
	}
	again, err := parse("again.toml", []byte(c.TOML(false)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again.Tracker); diff != "" {
		t.Errorf("printed and parsed again: %s", diff)
	}
	raw, err := c.JSON(false)
	var object struct {
		Tracker struct {
			MaxClaimed int `json:"max_claimed"`
		}
	}
	if err != nil || json.Unmarshal(raw, &object) != nil || object.Tracker.MaxClaimed != 3 {
		t.Errorf("JSON() = %s, %v", raw, err)
	}
}

func TestAConfigurationWithoutATrackerShowsNoTrackerTable(t *testing.T) {
	c := Default(nil)
	raw, err := c.JSON(false)
	if shown := c.TOML(false) + string(raw); err != nil || strings.Contains(shown, "tracker") {
		t.Errorf("printed configuration has a tracker: %s (%v)", shown, err)
	}
}

func TestTrackerDirAppendsBeadsUnlessTheFolderEndsInIt(t *testing.T) {
	for folder, want := range map[string]string{"/roof": "/roof/.beads", "/roof/.beads": "/roof/.beads",
		"/roof/.beads/": "/roof/.beads", ".": ".beads"} {
		if got := (&Tracker{Folder: folder}).Dir(); got != want {
			t.Errorf("%s: %s, want %s", folder, got, want)
		}
	}
}

func TestErrorsOfATrackerNameTheKey(t *testing.T) {
	const whole = "[tracker]\nfolder = \"/roof\"\nagent = \"echo\"\n"
	for name, test := range map[string]struct{ file, want string }{
		"no table": {"tracker = 1", `f.toml:1: tracker: not a table; use [tracker]`},
		"no folder": {"[tracker]\nagent = \"echo\"",
			`f.toml:1: tracker: missing folder of the project; set one such as folder = "/home/ann/roof"`},
		"no agent": {"[tracker]\nfolder = \"/roof\"",
			`f.toml:1: tracker: missing agent; set one such as agent = "codex"`},
		"unknown key": {whole + "when_dome = \"close\"",
			`f.toml:4: tracker.when_dome: unknown key (did you mean "when_done"?)`},
		"another end": {whole + "when_done = \"delete\"",
			`f.toml:4: tracker.when_done: "delete" is not one of close, comment`},
		"no agent name": {whole + "agents = [\"a b\"]", `f.toml:4: tracker.agents: "a b" is not an agent name`},
		"no claims": {whole + "max_claimed = 0",
			`f.toml:4: tracker.max_claimed: 0 is not a whole number from 1 to 10000`},
		"no project": {whole + "project = \"a/b\"",
			`f.toml:4: tracker.project: "a/b" is not a project name, such as "default"`},
		"a channel of its name": {
			whole + strings.Replace(good, "mol", "issue", 1) + "token_env = \"A\"",
			`f.toml:4: channels.issue: name is reserved for the tracker; choose another name`,
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}
