package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const good = `[channels.mol]
kind = "poll"
agent = "echo"
url = "https://platform.example.org"
workspace = "ws-1"
`

func TestAChannelIsReadAndItsTokenIsNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hush\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("f.toml", []byte(good+"token_file = \""+file+"\"\ninterval = \"5s\""))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*Channel{"mol": {
		Kind: KindPoll, Agent: "echo", URL: "https://platform.example.org", Workspace: "ws-1", TokenFile: file, Interval: 5 * time.Second,
	}}
	if diff := cmp.Diff(want, c.Channels, cmpopts.IgnoreUnexported(Channel{})); diff != "" {
		t.Error(diff)
	}
	warnings := c.ReadTokens(func(string) string { return "" })
	if len(warnings) != 1 || !strings.Contains(warnings[0], "chmod 600") {
		t.Errorf("of a file that everybody may read: %q", warnings)
	}
	if token, err := c.Channels["mol"].Token(); token != "hush" || err != nil {
		t.Errorf("the token is %q, %v", token, err)
	}
	raw, err := c.JSON(true)
	if shown := c.TOML(true) + string(raw); err != nil || strings.Contains(shown, "hush") || !strings.Contains(shown, "[channels.mol]") {
		t.Errorf("shown as %s", shown)
	}
}

func TestATokenThatIsMissingIsTheChannelsFailure(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		`token_env = "HUSH"`: "HUSH is not set", `token_file = "` + dir + `/none"`: "no such file", `token_file = "` + empty + `"`: "is empty",
	} {
		c, err := Parse("f.toml", []byte(good+setting))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := c.ReadTokens(func(string) string { return "" }); len(warnings) > 0 {
			t.Errorf("%s: %q", setting, warnings)
		}
		if token, err := c.Channels["mol"].Token(); err == nil || token != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", setting, token, err, want)
		}
	}
}

func TestWhatIsWrongWithAChannelIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"no table":     {"channels = 1", `f.toml:1: channels: it is not a table; write [channels.NAME]`},
		"no name":      {"[channels]\nkind = \"poll\"", `f.toml:2: channels.kind: "kind" is not a table; write [channels.NAME] with the settings of one channel`},
		"no kind":      {"[channels.x]\nagent = \"echo\"", `f.toml:1: channels.x: it needs a kind: poll`},
		"another kind": {"[channels.x]\nkind = \"pigeon\"", `f.toml:2: channels.x.kind: "pigeon" is not one of poll`},
		"unknown key":  {good + "tokenfile = \"x\"", `f.toml:6: channels.mol.tokenfile: unknown key (did you mean "token_file"?)`},
		"no token":     {good, `f.toml:1: channels.mol: it needs token_env or token_file, one of them: the token itself is in no configuration`},
		"two tokens":   {good + "token_env = \"A\"\ntoken_file = \"b\"", `f.toml:1: channels.mol: it needs token_env or token_file, one of them: the token itself is in no configuration`},
		"an url with a password": {
			"[channels.x]\nkind = \"poll\"\nurl = \"https://u:p@example.org\"",
			`f.toml:3: channels.x.url: "…@…" is not an address, such as "https://platform.example.org"`,
		},
		"nothing else": {"[channels.x]\nkind = \"poll\"", `f.toml:1: channels.x: it needs an agent, such as agent = "codex"`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}
