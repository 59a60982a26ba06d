package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel/slack"
)

const workspace = `[channels.work]
kind = "slack"
agent = "echo"
token_env = "BOT"
`

func TestAnAppOfSlackIsReadAndItsTokensAreNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(file, []byte("hush\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	ignoreTokens := cmpopts.IgnoreFields(slack.Options{}, "Token", "AppToken")
	for name, c := range map[string]struct {
		settings string
		want     slack.Options
		warned   int
	}{
		"by itself": {workspace + `app_token_env = "APP"`, slack.Options{API: slack.DefaultAPI, IdleTimeout: slack.DefaultIdleTimeout}, 0},
		"with everything": {
			workspace + "app_token_file = \"" + file + "\"\nthreads = false\napi = \"https://slack.example.org/api\"\nfresh = \"5s\"",
			slack.Options{Flat: true, API: "https://slack.example.org/api", IdleTimeout: 5 * time.Second}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c1, err := parse("f.toml", []byte(c.settings))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, slackOptions(c1), ignoreTokens); diff != "" {
				t.Error(diff)
			}
			warnings := c1.ReadTokens(func(name string) string { return map[string]string{"BOT": "sesame", "APP": "hush"}[name] })
			if len(warnings) != c.warned {
				t.Errorf("warned is of %q", warnings)
			}
			ch := c1.Channels["work"]
			if all := ch.Secrets(); len(all) != 2 {
				t.Errorf("it has %d secrets", len(all))
			}
			app, err := slackOptions(c1).AppToken()
			if bot, botErr := slackOptions(c1).Token(); bot != "sesame" || app != "hush" || err != nil || botErr != nil {
				t.Errorf("the tokens are %q and %q, %v, %v", bot, app, err, botErr)
			}
			raw, err := c1.JSON(true)
			if err != nil {
				t.Fatal(err)
			}
			shown := c1.TOML(true)
			if both := shown + string(raw); strings.Contains(both, "hush") || strings.Contains(both, "sesame") {
				t.Errorf("shown as %s", both)
			}
			again, err := parse("g.toml", []byte(shown))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, slackOptions(again), ignoreTokens); diff != "" {
				t.Errorf("what is shown is read otherwise: %s", diff)
			}
		})
	}
}

// slackOptions are those of the channel "work".
func slackOptions(c *Config) slack.Options {
	return *c.Channels["work"].Settings.Options.(*slack.Options)
}

func TestWhatIsWrongWithAnAppOfSlackIsNamed(t *testing.T) {
	const app = "app_token_env = \"APP\"\n"
	for settings, want := range map[string]string{
		workspace:                                `f.toml:1: channels.work: missing app-level token; set either app_token_env or app_token_file`,
		workspace + app + `app_token_file = "x"`: `f.toml:1: channels.work: missing app-level token; set either app_token_env or app_token_file`,
		strings.Replace(workspace, `token_env = "BOT"`, app, 1): `f.toml:1: channels.work: missing token; set either token_env or token_file (the configuration never contains the token itself)`,
		workspace + app + `thread = true`:                       `f.toml:6: channels.work.thread: unknown key (did you mean "threads"?)`,
		workspace + app + `threads = "no"`:                      `f.toml:6: channels.work.threads: "no" is not true or false`,
		workspace + app + `api = "slack"`:                       `f.toml:6: channels.work.api: "slack" is not an address, such as "https://platform.example.org"`,
		workspace + app + `fresh = "1h"`:                        `f.toml:6: channels.work.fresh: "1h" is not a duration from 300ms to 10m, such as "1m30s"`,
	} {
		refused(t, settings, want)
	}
}
