package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/slack/slacktest"
)

// TestSlackIsAddedOnceItsTokensWereTried follows a new user.
func TestSlackIsAddedOnceItsTokensWereTried(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("files:read")
	ann := sl.Person("Ann")
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	add := func(stdin string, more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "slack", "--api", sl.URL}, more...))
		return code, talk.String()
	}
	both := "\n" + slacktest.Token + "\n" + slacktest.AppToken + "\n"
	for name, c := range map[string]struct {
		stdin string
		more  []string
		code  int
		want  string
	}{
		"a wrong token":     {"\nxoxb-0-another-token\n" + slacktest.AppToken + "\n", nil, exitFailed, "Slack answered invalid_auth: get the current tokens at https://api.slack.com/apps: nothing was written"},
		"a wrong app":       {"\n" + slacktest.Token + "\nxapp-0-another-token\n", nil, exitFailed, "open socket: Slack answered invalid_auth"},
		"the wrong way":     {"\n" + slacktest.AppToken + "\n" + slacktest.Token + "\n", nil, exitFailed, "it starts with xoxb-"},
		"one token":         {"\n" + slacktest.Token + "\n", nil, exitUsage, "no answer to"},
		"no such agent":     {"missing\n", nil, exitUsage, `unknown agent "missing"`},
		"a missing file":    {both, []string{"--app-token-file", "none"}, exitUsage, "read the app-level token"},
		"nothing listens":   {both, []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
		"a strange address": {both, []string{"--api", "nowhere"}, exitUsage, "api"},
		"no name":           {both, []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
	} {
		code, talk := add(c.stdin, c.more...)
		if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, slacktest.Token) || strings.Contains(talk, slacktest.AppToken) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	code, talk := add(both, "--name", "work")
	if code != exitDone || !strings.Contains(talk, "@mailroom in Work") || !strings.Contains(talk, "reinstall the app: files:read") || strings.Contains(talk, slacktest.Token) {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	for _, file := range []string{h.dir.ChannelSecret("work", "token"), h.dir.ChannelSecret("work", "app-token")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a token is kept as %v, %v", info, err)
		}
	}
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"work\"]\n") || strings.Contains(string(settings), slacktest.Token) {
		t.Errorf("the settings are\n%s%v", settings, err)
	}

	h.process(&process{})
	ann.Sends(ann.Private(), "hello")
	sl.WaitFor(t, "a code", func() bool { return len(ann.Private().Texts()) == 1 })
	found := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.Private().Texts()[0])
	if found == nil {
		t.Fatalf("a stranger is told %q", ann.Private().Texts())
	}
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", found[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.Sends(ann.Private(), "hello again")
	sl.WaitFor(t, "the answer", func() bool { return slices.Contains(ann.Private().Texts(), "hello again") })
}
