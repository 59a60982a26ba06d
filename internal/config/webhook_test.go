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
	ignored := cmpopts.IgnoreFields(webhook.Settings{}, "Token", "Options.Secret", "Options.Policy")
	for name, c := range map[string]struct {
		settings string
		want     webhook.Settings
		anybody  bool
	}{
		"by itself": {"", webhook.Settings{Anybody: true}, true},
		"with all": {
			"url = \"http://10.1.2.3/hook\"\ninsecure = true\nallow = [\"10.0.0.0/8\", \"::1\"]\nedits = true\nanybody = false\nusers = [\"ann\"]",
			webhook.Settings{Networks: []string{"10.0.0.0/8", "::1"}, Options: webhook.Options{URL: "http://10.1.2.3/hook", Insecure: true, Edits: true}}, false,
		},
		"on this machine": {"url = \"http://localhost:9000/\"\nallow = [\"127.0.0.1\"]", webhook.Settings{Anybody: true, Networks: []string{"127.0.0.1"}, Options: webhook.Options{URL: "http://localhost:9000/"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for text := base + c.settings; text != ""; {
				got, err := parse("f.toml", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				ch := got.Channels["ops"]
				settings := ch.Settings.(*webhook.Settings)
				if diff := cmp.Diff(&c.want, settings, cmpopts.EquateEmpty(), ignored); diff != "" {
					t.Error(diff)
				}
				if policy := settings.AccessPolicy(chat.AccessPolicy{}); policy.AllowAll != c.anybody || !ch.Kind.Chat {
					t.Errorf("who may talk: %+v", policy)
				}
				if n := len(settings.Options.Policy.Allow); n != len(c.want.Networks) {
					t.Errorf("%d networks are allowed", n)
				}
				if secret, err := settings.Options.Secret(); secret != "hush hush" || err != nil {
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
