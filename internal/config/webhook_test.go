package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel/chat"
	"mailroom/channel/webhook"
)

const hooked = `[channels.ops]
kind = "webhook"
agent = "echo"
token_file = "/secret"
`

func TestAWebhookIsReadAndItsSecretIsNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hush hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := strings.Replace(hooked, "/secret", file, 1)
	ignored := cmpopts.IgnoreFields(webhook.Options{}, "Secret", "Policy")
	for name, c := range map[string]struct {
		settings string
		want     webhook.Options
		networks int
	}{
		"by itself": {"", webhook.Options{Anybody: true}, 0},
		"with all": {
			"url = \"http://10.1.2.3/hook\"\ninsecure = true\nallow = [\"10.0.0.0/8\", \"::1\"]\nedits = true\nanybody = false\nusers = [\"ann\"]",
			webhook.Options{URL: "http://10.1.2.3/hook", Insecure: true, Edits: true}, 2,
		},
		"on this machine": {"url = \"http://localhost:9000/\"\nallow = [\"127.0.0.1\"]", webhook.Options{Anybody: true, URL: "http://localhost:9000/"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for text := base + c.settings; text != ""; {
				got, err := parse("f.toml", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				ch := got.Channels["ops"]
				o := ch.Settings.Options.(*webhook.Options)
				if diff := cmp.Diff(&c.want, o, ignored); diff != "" || !ch.Kind.Chat {
					t.Error(diff)
				}
				if policy := o.AccessPolicy(chat.AccessPolicy{}); policy.AllowAll != c.want.Anybody {
					t.Errorf("who may talk: %+v", policy)
				}
				if n := len(o.Policy.Allow); n != c.networks {
					t.Errorf("%d networks are allowed, want %d", n, c.networks)
				}
				if secret, err := o.Secret(); secret != "hush hush" || err != nil {
					t.Errorf("the secrets are %q, %v", secret, err)
				}
				if pace := ch.Settings.ReconnectPolicy(); pace.IdleTimeout >= 0 {
					t.Errorf("the pace is %+v", pace)
				}
				shown := got.TOML(true)
				if strings.Contains(shown, "hush") {
					t.Errorf("shown as %s", shown)
				}
				if text == shown {
					break
				}
				text = shown // is read as what it was made of
			}
		})
	}
}

func TestWhatIsWrongWithAWebhookIsNamed(t *testing.T) {
	for setting, want := range map[string]string{
		`urls = "https://example.org"`:        `f.toml:5: channels.ops.urls: unknown key (did you mean "url"?)`,
		`url = "http://example.org/hush"`:     `f.toml:1: channels.ops: url: it is not https: the connection would not be encrypted`,
		`url = "https://u:hush@example.org/"`: `f.toml:5: channels.ops.url: it contains a user name or password, which is not supported: remove it`,
		`url = "example.org/hush"`:            `f.toml:5: channels.ops.url: it is not a URL such as "https://example.org/hook"`,
		`url = 7`:                             `f.toml:5: channels.ops.url: 7 is not a URL such as "https://example.org/hook"`,
		`url = "https://10.0.0.1/"`:           `f.toml:1: channels.ops: url: the address is not allowed: 10.0.0.1 is in a private network; to allow it, add it to allow`,
		`url = "http://localhost:9000/"`:      `f.toml:1: channels.ops: url: the address is not allowed: 127.0.0.1 is a loopback address; to allow it, add it to allow`,
		`allow = ["ten"]`:                     `f.toml:5: channels.ops.allow: "ten" is neither an address nor a network such as "10.0.0.0/8"`,
		`allow = "10.0.0.0/8"`:                `f.toml:5: channels.ops.allow: "10.0.0.0/8" is not a list of strings, such as ["a", "b"]`,
		`token_env = "A"`:                     `f.toml:1: channels.ops: missing token; set either token_env or token_file (the configuration never contains the token itself)`,
		`anybody = "yes"`:                     `f.toml:5: channels.ops.anybody: "yes" is not true or false`,
	} {
		refused(t, hooked+setting, want)
	}
}
