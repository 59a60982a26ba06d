package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel/kind"
	"mailroom/channel/poll"
)

const good = `[channels.mol]
kind = "poll"
agent = "echo"
url = "https://platform.example.org"
workspace = "ws-1"
`

func TestAChannelIsReadAndItsTokenIsNotShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hush\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := parse("f.toml", []byte(good+"token_file = \""+file+"\"\ninterval = \"5s\""))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*Channel{"mol": {
		Kind: kind.Kind{Name: poll.Kind}, Agent: "echo",
		Settings: &kind.Settings{Options: &poll.Options{URL: "https://platform.example.org", Workspace: "ws-1",
			Interval: 5 * time.Second}},
		ReconnectSettings: ReconnectSettings{RetryFirst: time.Second, RetryMost: time.Minute, Attempts: 20,
			ProbeEvery: 15 * time.Minute},
	}}
	if diff := cmp.Diff(want, c.Channels, cmpopts.IgnoreFields(kind.Kind{}, "New"),
		cmpopts.IgnoreFields(kind.Settings{}, "Keys", "Check", "Connect", "ReconnectPolicy")); diff != "" {
		t.Error(diff)
	}
	warnings := c.ReadTokens(func(string) string { return "" })
	if len(warnings) != 1 || !strings.Contains(warnings[0], "chmod 600") {
		t.Errorf("warnings for a file that other users can read: %q, want one with chmod 600", warnings)
	}
	if token, err := c.Channels["mol"].Secrets()[0].Get(); token != "hush" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	raw, err := c.JSON(true)
	if shown := c.TOML(true) + string(raw); err != nil || strings.Contains(shown, "hush") ||
		!strings.Contains(shown, "[channels.mol]") {
		t.Errorf("printed configuration: %s", shown)
	}
}

func TestAMissingTokenFailsItsChannelOnly(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		`token_env = "HUSH"`: "HUSH is not set", `token_file = "` + dir + `/none"`: "no such file", `token_file = "` + empty +
			`"`: "is empty",
	} {
		c, err := parse("f.toml", []byte(good+setting))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := c.ReadTokens(func(string) string { return "" }); len(warnings) > 0 {
			t.Errorf("%s: warnings %q, want none", setting, warnings)
		}
		if token, err := c.Channels["mol"].Secrets()[0].Get(); err == nil || token != "" ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", setting, token, err, want)
		}
	}
}

const allKinds = "discord, irc, matrix, poll, slack, telegram, webhook"

func TestErrorsOfAChannelNameTheKey(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"no table": {"channels = 1", `f.toml:1: channels: not a table; use [channels.NAME]`},
		"no name": {"[channels]\nkind = \"poll\"",
			`f.toml:2: channels.kind: "kind" is not a table; use [channels.NAME] for the settings of one channel`},
		"no kind":      {"[channels.x]\nagent = \"echo\"", "f.toml:1: channels.x: missing kind; use one of " + allKinds},
		"another kind": {"[channels.x]\nkind = \"pigeon\"", `f.toml:2: channels.x.kind: "pigeon" is not one of ` + allKinds},
		"unknown key": {good + "tokenfile = \"x\"",
			`f.toml:6: channels.mol.tokenfile: unknown key (did you mean "token_file"?)`},
		"no token": {good,
			`f.toml:1: channels.mol: missing token; set either token_env or token_file (the configuration never contains the token itself)`},
		"two tokens": {good + "token_env = \"A\"\ntoken_file = \"b\"",
			`f.toml:1: channels.mol: missing token; set either token_env or token_file (the configuration never contains the token itself)`},
		"an url with a password": {
			"[channels.x]\nkind = \"poll\"\nurl = \"https://u:p@example.org\"",
			`f.toml:3: channels.x.url: "…@…" is not an address, such as "https://platform.example.org"`,
		},
		"a misspelt common setting": {"[channels]\nretry_frist = \"1s\"",
			`f.toml:2: channels.retry_frist: unknown key (did you mean "retry_first"?)`},
		"a common setting as a name": {"[channels.attempts]\nkind = \"poll\"",
			`f.toml:1: channels.attempts: map[kind:poll] is not a whole number from 0 to 1000000`},
		"an unknown action": {"[channels]\nwhen_all_down = \"panic\"",
			`f.toml:2: channels.when_all_down: "panic" is not one of stay, exit`},
		"swapped delays": {"[channels]\nretry_first = \"1h\"\nretry_most = \"1m\"",
			`f.toml:3: channels.retry_most: 1m is shorter than retry_first, 1h`},
		"only a kind": {"[channels.x]\nkind = \"poll\"",
			`f.toml:1: channels.x: missing agent; set one such as agent = "codex"`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}

func TestReconnectSettingsComeFromTheChannelThenAllChannelsThenItsKind(t *testing.T) {
	first := func(d time.Duration) ReconnectSettings {
		return ReconnectSettings{RetryFirst: d, RetryMost: time.Minute, Attempts: 20, ProbeEvery: 15 * time.Minute}
	}
	all := ReconnectSettings{RetryFirst: 2 * time.Second, RetryMost: 4 * time.Second, Attempts: 3, ProbeEvery: time.Minute,
		GiveUpAfter: 5}
	const ofAll = "[channels]\nwhen_all_down = \"exit\"\nretry_first = \"2s\"\nretry_most = \"4s\"\nattempts = 3\nprobe_every = \"1m\"\ngive_up_after = 5\n"
	own := all
	own.RetryMost, own.Attempts, own.GiveUpAfter = time.Hour, 0, 0
	for name, c := range map[string]struct {
		before, after string
		want          ReconnectSettings
	}{
		"of the kind":         {"", "", first(time.Second)},
		"of all channels":     {ofAll, "", all},
		"of the channel":      {"", "retry_first = \"3s\"", first(3 * time.Second)},
		"some of the channel": {ofAll, "retry_most = \"1h\"\nattempts = 0\ngive_up_after = 0", own},
		"a long first delay":  {"", "retry_first = \"2h\"", func() ReconnectSettings { p := first(2 * time.Hour); p.RetryMost = 2 * time.Hour; return p }()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse("f.toml", []byte(c.before+good+"token_env = \"X\"\n"+c.after))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Channels["mol"].ReconnectSettings); diff != "" {
				t.Error(diff)
			}
			if again, err := parse("g.toml", []byte(got.TOML(true))); err != nil ||
				again.Channels["mol"].ReconnectSettings != c.want || again.WhenAllDown != got.WhenAllDown {
				t.Errorf("printed configuration is parsed as %+v, %v", again, err)
			}
			if want := map[bool]string{true: AllDownExit, false: AllDownStay}[c.before != ""]; got.WhenAllDown != want {
				t.Errorf("WhenAllDown = %s, want %s", got.WhenAllDown, want)
			}
		})
	}
}

func TestTwoChannelsOfOneKindCannotShareAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("123456:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		return map[string]string{"ONE": "123456:secret", "OTHER": "123457:secret"}[name]
	}
	for name, c := range map[string]struct{ a, b, want string }{
		"one variable": {"kind = \"telegram\"\ntoken_env = \"ONE\"", "kind = \"telegram\"\ntoken_env = \"ONE\"",
			"channels a and b have the same token"},
		"a variable, a file": {"kind = \"telegram\"\ntoken_env = \"ONE\"", "kind = \"telegram\"\ntoken_file = \"" + file +
			"\"", "channels a and b have the same token"},
		"two tokens":       {"kind = \"telegram\"\ntoken_env = \"ONE\"", "kind = \"telegram\"\ntoken_env = \"OTHER\"", ""},
		"two kinds":        {"kind = \"telegram\"\ntoken_env = \"ONE\"", "kind = \"discord\"\ntoken_env = \"ONE\"", ""},
		"no existing file": {"kind = \"telegram\"\ntoken_env = \"NONE\"", "kind = \"telegram\"\ntoken_env = \"NONE\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := parse("f.toml", []byte("[channels.a]\nagent = \"echo\"\n"+c.a+"\n[channels.b]\nagent = \"echo\"\n"+
				c.b+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			parsed.ReadTokens(env)
			err = parsed.CheckTokens()
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
