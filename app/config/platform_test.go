package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
	"mailroom/channel/irc"
	"mailroom/channel/matrix"
	"mailroom/channel/slack"
	"mailroom/channel/telegram"
	"mailroom/channel/webhook"
	"mailroom/internal/netguard"
)

// table returns the table of a channel c with an agent.
func table(kind, settings string) string {
	return "[channels.c]\nkind = \"" + kind + "\"\nagent = \"echo\"\n" + settings
}

const (
	slackTokens = "token_env = \"ENV\"\napp_token_env = \"APP\"\n"
	homeserver  = "homeserver = \"https://matrix.example.org\"\n"
	network     = "server = \"irc.example.org\"\nnick = \"bot\"\n"
)

// platformCase is a table of a channel and the expected result of parsing it.
type platformCase struct {
	kind, settings string
	want           any      // options without secrets
	secrets        []string // as secretsOf returns them
	pace           channel.ReconnectPolicy
	warnings       int
}

// platformCases returns cases of all chat platforms. Both files contain a secret, and other users can
// read the file open.
func platformCases(closed, open string) map[string]platformCase {
	inFile := "token_file = \"" + closed + "\"\n"
	pace := func(idle, connect time.Duration) channel.ReconnectPolicy {
		return channel.ReconnectPolicy{IdleTimeout: idle, ConnectTimeout: connect}
	}
	return map[string]platformCase{
		"discord": {
			"discord", "token_env = \"ENV\"", &discord.Options{API: discord.DefaultAPI, Heartbeat: discord.DefaultHeartbeat},
			[]string{"sesame"}, pace(time.Minute, 40*time.Second), 0,
		},
		"discord, all settings": {
			"discord", inFile + "api = \"http://127.0.0.1:8000/api/v10\"\nbeat = \"1s\"\nabout = \"https://example.org/bot\"",
			&discord.Options{API: "http://127.0.0.1:8000/api/v10", Heartbeat: time.Second, About: "https://example.org/bot"},
			[]string{"hush hush"}, pace(2*time.Second, 40*time.Second), 0,
		},
		"irc": {"irc", network, &irc.Options{Server: "irc.example.org", Nick: "bot", Gap: irc.DefaultGap,
			Fresh: irc.DefaultFresh}, nil, pace(30*time.Second, 0), 0},
		"irc, with an account": {
			"irc",
			network + inFile + "account = \"robot\"\njoin = [\"#dev\", \"#ops key\"]\ngap = \"2s\"\nreal_name = \"A bot\"",
			&irc.Options{Server: "irc.example.org", Nick: "bot", Name: "A bot", Account: "robot",
				Join: []string{"#dev", "#ops key"}, Gap: 2 * time.Second, Fresh: irc.DefaultFresh},
			[]string{"account: hush hush"}, pace(30*time.Second, 0), 0,
		},
		"irc, with a server's password and without TLS": {
			"irc", "server = \"127.0.0.1:6667\"\nnick = \"bot\"\ntls = false\nfresh = \"9s\"\ntoken_env = \"ENV\"",
			&irc.Options{Server: "127.0.0.1:6667", Nick: "bot", Plain: true, Gap: irc.DefaultGap, Fresh: 9 * time.Second},
			[]string{"server: sesame"}, pace(9*time.Second, 0), 0,
		},
		"matrix": {
			"matrix", homeserver + inFile, &matrix.Options{Homeserver: "https://matrix.example.org", Poll: 20 * time.Second,
				Gap: time.Second, EditGap: 6 * time.Second},
			[]string{"hush hush"}, pace(35*time.Second, 40*time.Second), 0,
		},
		"matrix, all settings": {
			"matrix", homeserver + inFile + "poll = \"5s\"\ngap = \"2s\"\nedit_gap = \"30s\"",
			&matrix.Options{Homeserver: "https://matrix.example.org", Poll: 5 * time.Second, Gap: 2 * time.Second,
				EditGap: 30 * time.Second},
			[]string{"hush hush"}, pace(10*time.Second, 40*time.Second), 0,
		},
		"slack": {
			"slack", slackTokens, &slack.Options{API: slack.DefaultAPI, IdleTimeout: slack.DefaultIdleTimeout},
			[]string{"sesame", "open up"}, pace(30*time.Second, 30*time.Second), 0,
		},
		"slack, all settings": {
			"slack", "token_env = \"ENV\"\napp_token_file = \"" + open +
				"\"\nthreads = false\napi = \"https://slack.example.org/api\"\nfresh = \"5s\"",
			&slack.Options{Flat: true, API: "https://slack.example.org/api", IdleTimeout: 5 * time.Second},
			[]string{"sesame", "hush hush"}, pace(5*time.Second, 30*time.Second), 1,
		},
		"telegram": {"telegram", inFile, &telegram.Options{API: telegram.DefaultAPI, Poll: telegram.DefaultPoll},
			[]string{"hush hush"}, pace(35*time.Second, 40*time.Second), 0},
		"telegram, all settings": {
			"telegram", "token_env = \"ENV\"\napi = \"http://127.0.0.1:8081\"\npoll = \"5s\"",
			&telegram.Options{API: "http://127.0.0.1:8081", Poll: 5 * time.Second},
			[]string{"sesame"}, pace(10*time.Second, 40*time.Second), 0,
		},
		"webhook": {"webhook", inFile, &webhook.Options{Anybody: true}, []string{"hush hush"}, pace(-1, 0), 0},
		"webhook, all settings": {
			"webhook",
			inFile +
				"url = \"http://10.1.2.3/hook\"\ninsecure = true\nallow = [\"10.0.0.0/8\", \"::1\"]\n" +
				"edits = true\nanybody = false\nusers = [\"ann\"]",
			&webhook.Options{URL: "http://10.1.2.3/hook", Insecure: true, Edits: true, Policy: allow("10.0.0.0/8", "::1/128")},
			[]string{"hush hush"}, pace(-1, 0), 0,
		},
		"webhook, on this machine": {
			"webhook", inFile + "url = \"http://localhost:9000/\"\nallow = [\"127.0.0.1\"]",
			&webhook.Options{Anybody: true, URL: "http://localhost:9000/", Policy: allow("127.0.0.1/32")}, []string{"hush hush"},
			pace(-1, 0), 0,
		},
	}
}

func TestTheSettingsOfAPlatformBecomeItsOptionsAndItsSecretsAreNotShown(t *testing.T) {
	dir := t.TempDir()
	closed, open := filepath.Join(dir, "closed"), filepath.Join(dir, "open")
	for file, mode := range map[string]os.FileMode{closed: 0o600, open: 0o640} {
		if err := os.WriteFile(file, []byte("hush hush\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range platformCases(closed, open) {
		t.Run(name, func(t *testing.T) {
			c1, err := parse("f.toml", []byte(table(c.kind, c.settings)))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := c1.JSON(true)
			shown := c1.TOML(true)
			if both := shown + string(raw); err != nil || strings.Contains(both, "hush") || strings.Contains(both, "sesame") ||
				strings.Contains(both, "workspace =") {
				t.Errorf("printed configuration: %s, %v; want no secret and no default", both, err)
			}
			again, err := parse("f.toml", []byte(shown))
			if err != nil {
				t.Fatal(err)
			}
			if twice := again.TOML(true); strings.ReplaceAll(twice, "(set)", "(default)") != strings.ReplaceAll(shown, "(set)",
				"(default)") {
				t.Errorf("printed configuration, parsed and printed again:\n%s\nwant\n%s", twice, shown)
			}
			for _, from := range []*Config{c1, again} {
				warnings := from.ReadTokens(func(name string) string {
					return map[string]string{"ENV": "sesame", "APP": "open up"}[name]
				})
				if len(warnings) != c.warnings {
					t.Errorf("ReadTokens() = %q, want %d warnings", warnings, c.warnings)
				}
				ch := from.Channels["c"]
				if diff := cmp.Diff(c.want, ch.Settings.Options, withoutFunctions(), cmpopts.EquateComparable(netip.Prefix{}),
					cmpopts.EquateEmpty()); diff != "" || !ch.Kind.Chat {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.secrets, secretsOf(t, ch.Settings.Options)); diff != "" {
					t.Error(diff)
				}
				if got := ch.Settings.ReconnectPolicy(); ch.Settings.Connect(ch.Chat) == nil || got != c.pace {
					t.Errorf("ReconnectPolicy() = %+v, want %+v", got, c.pace)
				}
			}
		})
	}
}

func TestWebhooksAdmitAllUsersUnlessConfiguredOtherwise(t *testing.T) {
	for _, anybody := range []bool{true, false} {
		if p := (&webhook.Options{Anybody: anybody}).AccessPolicy(chat.AccessPolicy{}); p.AllowAll != anybody {
			t.Errorf("anybody = %t: AccessPolicy() = %+v", anybody, p)
		}
	}
}

func allow(networks ...string) (p netguard.Policy) {
	for _, n := range networks {
		p.Allow = append(p.Allow, netip.MustParsePrefix(n))
	}
	return p
}

// withoutFunctions ignores functions, which return secrets, and Telegram's menu.
func withoutFunctions() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().Type().Kind() == reflect.Func || p.Last().String() == ".Commands"
	}, cmp.Ignore())
}

// secretsOf returns the secrets of options.
func secretsOf(t *testing.T, options any) (all []string) {
	t.Helper()
	var read []func() (string, error)
	switch o := options.(type) {
	case *discord.Options:
		read = append(read, o.Token)
	case *irc.Options:
		s, err := o.Secrets()
		if err != nil {
			t.Error(err)
		}
		if s.Account != "" {
			all = append(all, "account: "+s.Account)
		}
		if s.Server != "" {
			all = append(all, "server: "+s.Server)
		}
	case *matrix.Options:
		read = append(read, o.Token)
	case *slack.Options:
		read = append(read, o.Token, o.AppToken)
	case *telegram.Options:
		read = append(read, o.Token)
	case *webhook.Options:
		read = append(read, o.Secret)
	}
	for _, f := range read {
		s, err := f()
		if err != nil {
			t.Error(err)
		}
		all = append(all, s)
	}
	return all
}

func TestErrorsOfAPlatformNameTheKey(t *testing.T) {
	const (
		env     = "token_env = \"ENV\"\n"
		noToken = `f.toml:1: channels.c: missing token; set either token_env or token_file (the configuration never contains the token itself)`
		noApp   = `f.toml:1: channels.c: missing app-level token; set either app_token_env or app_token_file`
		noURL   = `is not an address, such as "https://platform.example.org"`
	)
	for _, c := range []struct{ kind, settings, want string }{
		{"discord", env + `beats = "1s"`, `f.toml:5: channels.c.beats: unknown key (did you mean "beat"?)`},
		{"discord", env + `beat = "1ms"`, `f.toml:5: channels.c.beat: "1ms" is not a duration from 100ms to 10m, such as "1m30s"`},
		{"discord", env + `api = "discord.com"`, `f.toml:5: channels.c.api: "discord.com" ` + noURL},
		{"discord", env + `api = "https://u:p@x.y"`, `f.toml:5: channels.c.api: "…@…" ` + noURL},
		{"discord", env + `token_file = "b"`, noToken},
		{"irc", network + `sever = "x"`, `f.toml:6: channels.c.sever: unknown key (did you mean "server"?)`},
		{"irc", network + `account = "robot"`, `f.toml:1: channels.c: missing password of the account; set token_env or token_file`},
		{"irc", network + "token_env = \"A\"\ntoken_file = 'b'", `f.toml:1: channels.c: token_env and token_file are both set; use one`},
		{"irc", network + `join = ["dev"]`, `f.toml:1: channels.c: invalid channel "dev": use "#name", or "#name key" if it has a key`},
		{"irc", network + `tls = "no"`, `f.toml:6: channels.c.tls: "no" is not true or false`},
		{"irc", `server = "irc.example.org"`, `f.toml:1: channels.c: missing nick; set one such as nick = "mybot"`},
		{"irc", `nick = "bot"`, `f.toml:1: channels.c: missing server; set one such as server = "irc.example.org"`},
		{"matrix", env, `f.toml:1: channels.c: missing homeserver; set one such as homeserver = "https://matrix.example.org"`},
		{"matrix", homeserver, noToken},
		{"matrix", env + `homeserver = "matrix.example.org"`, `f.toml:5: channels.c.homeserver: "matrix.example.org" ` + noURL},
		{"matrix", homeserver + env + `poll = "10m"`, `f.toml:6: channels.c.poll: "10m" is not a duration from 1s to 50s, such as "1m30s"`},
		{"slack", env, noApp},
		{"slack", slackTokens + `app_token_file = "x"`, noApp},
		{"slack", `app_token_env = "APP"`, noToken},
		{"slack", slackTokens + `thread = true`, `f.toml:6: channels.c.thread: unknown key (did you mean "threads"?)`},
		{"slack", slackTokens + `threads = "no"`, `f.toml:6: channels.c.threads: "no" is not true or false`},
		{"slack", slackTokens + `api = "slack"`, `f.toml:6: channels.c.api: "slack" ` + noURL},
		{"slack", slackTokens + `fresh = "1h"`, `f.toml:6: channels.c.fresh: "1h" is not a duration from 300ms to 10m, such as "1m30s"`},
		{"webhook", env + `urls = "https://example.org"`, `f.toml:5: channels.c.urls: unknown key (did you mean "url"?)`},
		{"webhook", env + `url = "http://example.org/hush"`, `f.toml:1: channels.c: url: it is not https: the connection would not be encrypted`},
		{"webhook", env + `url = "https://u:hush@example.org/"`,
			`f.toml:5: channels.c.url: it contains a user name or password, which is not supported: remove it`},
		{"webhook", env + `url = "example.org/hush"`, `f.toml:5: channels.c.url: it is not a URL such as "https://example.org/hook"`},
		{"webhook", env + `url = 7`, `f.toml:5: channels.c.url: 7 is not a URL such as "https://example.org/hook"`},
		{"webhook", env + `url = "https://10.0.0.1/"`,
			`f.toml:1: channels.c: url: the address is not allowed: 10.0.0.1 is in a private network; to use it, add it to the setting allow`},
		{"webhook", env + `url = "http://localhost:9000/"`,
			`f.toml:1: channels.c: url: the address is not allowed: 127.0.0.1 is a loopback address; to use it, add it to the setting allow`},
		{"webhook", env + `allow = ["ten"]`, `f.toml:5: channels.c.allow: "ten" is neither an address nor a network such as "10.0.0.0/8"`},
		{"webhook", env + `allow = "10.0.0.0/8"`, `f.toml:5: channels.c.allow: "10.0.0.0/8" is not a list of strings, such as ["a", "b"]`},
		{"webhook", env + `token_file = "A"`, noToken},
		{"webhook", env + `anybody = "yes"`, `f.toml:5: channels.c.anybody: "yes" is not true or false`},
	} {
		t.Run(c.kind+" "+c.settings, func(t *testing.T) { refused(t, table(c.kind, c.settings), c.want) })
	}
}
