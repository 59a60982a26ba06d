package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel/irc"
)

const network = `[channels.net]
kind = "irc"
agent = "echo"
server = "irc.example.org"
nick = "bot"
`

func TestANetworkIsReadAndItsPasswordIsNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := irc.Options{Server: "irc.example.org", Nick: "bot", Gap: irc.DefaultGap, Fresh: irc.DefaultFresh}
	account, open := plain, plain
	account.Account, account.Join, account.Gap = "robot", []string{"#dev", "#ops key"}, 2*time.Second
	open.Plain, open.Server = true, "127.0.0.1:6667"
	for name, c := range map[string]struct {
		settings string
		want     irc.Options
		secrets  irc.Secrets
	}{
		"by itself": {network, plain, irc.Secrets{}},
		"with an account": {
			network + "account = \"robot\"\ntoken_file = \"" + file + "\"\njoin = [\"#dev\", \"#ops key\"]\ngap = \"2s\"", account, irc.Secrets{Account: "hush"},
		},
		"with a server's password": {network + "token_env = \"DOOR\"", plain, irc.Secrets{Server: "sesame"}},
		"without TLS":              {strings.Replace(network, "irc.example.org", "127.0.0.1:6667", 1) + "tls = false", open, irc.Secrets{}},
	} {
		t.Run(name, func(t *testing.T) {
			c1, err := parse("f.toml", []byte(c.settings))
			if err != nil {
				t.Fatal(err)
			}
			c1.ReadTokens(func(name string) string { return map[string]string{"DOOR": "sesame"}[name] })
			got := ircOptions(c1)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(irc.Options{}, "Secrets"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if s, err := got.Secrets(); s != c.secrets || err != nil {
				t.Errorf("the passwords are %+v, %v", s, err)
			}
			raw, err := c1.JSON(true)
			shown := c1.TOML(true)
			if both := shown + string(raw); err != nil || strings.Contains(both, "hush") || strings.Contains(both, "sesame") || strings.Contains(both, "workspace =") {
				t.Errorf("shown as %s", both)
			}
			again, err := parse("g.toml", []byte(shown))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, ircOptions(again), cmpopts.IgnoreFields(irc.Options{}, "Secrets"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what is shown is read otherwise: %s", diff)
			}
		})
	}
}

// ircOptions are those of the channel "net".
func ircOptions(c *Config) irc.Options {
	return *c.Channels["net"].Settings.Options.(*irc.Options)
}

func TestWhatIsWrongWithANetworkIsNamed(t *testing.T) {
	for setting, want := range map[string]string{
		`sever = "x"`:                         `f.toml:6: channels.net.sever: unknown key (did you mean "server"?)`,
		`account = "robot"`:                   `f.toml:1: channels.net: missing password of the account; set token_env or token_file`,
		"token_env = \"A\"\ntoken_file = 'b'": `f.toml:1: channels.net: token_env and token_file are both set; use one`,
		`join = ["dev"]`:                      `f.toml:1: channels.net: invalid channel "dev": use "#name", or "#name key" if it has a key`,
		`tls = "no"`:                          `f.toml:6: channels.net.tls: "no" is not true or false`,
	} {
		refused(t, network+setting, want)
	}
	refused(t, strings.Replace(network, `nick = "bot"`, "", 1), `f.toml:1: channels.net: missing nick; set one such as nick = "mybot"`)
	refused(t, strings.Replace(network, `server = "irc.example.org"`, "", 1), `f.toml:1: channels.net: missing server; set one such as server = "irc.example.org"`)
}
