package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel/matrix"
)

const account = `[channels.mx]
kind = "matrix"
agent = "echo"
homeserver = "https://matrix.example.org"
`

func TestAnAccountOfMatrixIsReadAndItsTokenIsNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("syt_hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]matrix.Options{
		"": {Homeserver: "https://matrix.example.org", Poll: 20 * time.Second, Gap: time.Second, EditGap: 6 * time.Second},
		"poll = \"5s\"\ngap = \"2s\"\nedit_gap = \"30s\"": {Homeserver: "https://matrix.example.org", Poll: 5 * time.Second, Gap: 2 * time.Second, EditGap: 30 * time.Second},
	} {
		c, err := parse("f.toml", []byte(account+"token_file = \""+file+"\"\n"+more))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, matrixOptions(c), cmpopts.IgnoreFields(matrix.Options{}, "Token")); diff != "" {
			t.Error(diff)
		}
		c.ReadTokens(func(string) string { return "" })
		if token, err := matrixOptions(c).Token(); token != "syt_hush" || err != nil {
			t.Errorf("the token is %q, %v", token, err)
		}
		raw, err := c.JSON(true)
		shown := c.TOML(true)
		if err != nil || strings.Contains(shown+string(raw), "syt_hush") {
			t.Errorf("shown as %s%s", shown, raw)
		}
		again, err := parse("g.toml", []byte(shown))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, matrixOptions(again), cmpopts.IgnoreFields(matrix.Options{}, "Token")); diff != "" {
			t.Errorf("what is shown is read otherwise: %s", diff)
		}
		pace := c.Channels["mx"].Settings.ReconnectPolicy()
		if pace.IdleTimeout < want.Poll {
			t.Errorf("an answer is fresh for %s, and the next one takes %s", pace.IdleTimeout, want.Poll)
		}
	}
}

// matrixOptions are those of the channel "mx".
func matrixOptions(c *Config) matrix.Options {
	return *c.Channels["mx"].Settings.Options.(*matrix.Options)
}

func TestWhatIsWrongWithAnAccountOfMatrixIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"no homeserver": {
			"[channels.mx]\nkind = \"matrix\"\nagent = \"echo\"\ntoken_env = \"X\"",
			`f.toml:1: channels.mx: missing homeserver; set one such as homeserver = "https://matrix.example.org"`,
		},
		"no token":                   {account, `f.toml:1: channels.mx: missing token; set either token_env or token_file (the configuration never contains the token itself)`},
		"a homeserver without a way": {strings.Replace(account, "https://", "", 1) + "token_env = \"X\"", `f.toml:4: channels.mx.homeserver: "matrix.example.org" is not an address, such as "https://platform.example.org"`},
		"a poll without an end":      {account + "token_env = \"X\"\npoll = \"10m\"", `f.toml:6: channels.mx.poll: "10m" is not a duration from 1s to 50s, such as "1m30s"`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}
