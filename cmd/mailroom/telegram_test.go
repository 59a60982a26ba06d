package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/telegram/telegramtest"
)

// TestAPictureIsAFileThatTheAgentCanRead has it copied by the agent's command.
func TestAPictureIsAFileThatTheAgentCanRead(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, `read -r word name path; test "$word $name" = "file photo.jpg" && cat "$path" >seen;`)
	b.tg.Up(t)
	b.serve()
	b.ann.Sends(b.ann.Private(), "what is this?", telegramtest.MessageOptions{File: "photo.jpg", Photo: true, Content: []byte("a cat")})
	b.tg.WaitFor(t, "the answer", func() bool { return slices.Equal(b.ann.Private().Texts(), []string{"WHAT IS THIS?"}) })
	if seen, err := os.ReadFile(filepath.Join(string(b.dir), "seen")); string(seen) != "a cat" || err != nil {
		t.Errorf("the agent saw %q, %v", seen, err)
	}
}

// TestTelegramIsAddedOnceItsTokenWasTried follows a new user.
func TestTelegramIsAddedOnceItsTokenWasTried(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	add := func(stdin string, more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "telegram", "--api", tg.URL}, more...))
		return code, talk.String()
	}
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	wrong := "700100200:" + strings.Repeat("x", len(secret))
	for name, c := range map[string]struct {
		stdin string
		more  []string
		code  int
		want  string
	}{
		"a wrong token":   {"\n" + wrong + "\n", nil, exitFailed, "token rejected (401 Unauthorized): get the current token from @BotFather: nothing was written"},
		"no token":        {"\nhello\n", nil, exitFailed, "it has the form 123456789:AAE…"},
		"nothing said":    {"", nil, exitUsage, "no answer to"},
		"no such agent":   {"missing\n", nil, exitUsage, `unknown agent "missing"`},
		"no name":         {"\n" + telegramtest.Token + "\n", []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
		"a missing file":  {"\n", []string{"--token-file", "none"}, exitUsage, "no such file"},
		"nothing listens": {"\n" + telegramtest.Token + "\n", []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
		"a strange place": {"\n" + telegramtest.Token + "\n", []string{"--api", "nowhere"}, exitUsage, "api"},
	} {
		code, talk := add(c.stdin, c.more...)
		if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, secret) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	code, talk := add("\n"+telegramtest.Token+"\n", "--name", "tg")
	if code != exitDone || !strings.Contains(talk, "@"+telegramtest.Username) || strings.Contains(talk, secret) {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	info, err := os.Stat(h.dir.ChannelSecret("tg", "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token is kept as %v, %v", info, err)
	}
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"tg\"]\n") || strings.Contains(string(settings), secret) {
		t.Errorf("the settings are\n%s%v", settings, err)
	}
	if code, talk := add("", "--name", "tg"); code != exitUsage || !strings.Contains(talk, "channel tg already") {
		t.Errorf("the same again: exit code %d, %s", code, talk)
	}

	h.process(&process{})
	ann.Sends(ann.Private(), "hello")
	tg.WaitFor(t, "a code", func() bool { return len(ann.Private().Texts()) == 1 })
	code2 := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.Private().Texts()[0])
	if code2 == nil {
		t.Fatalf("a stranger is told %q", ann.Private().Texts())
	}
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", code2[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.Sends(ann.Private(), "hello again")
	tg.WaitFor(t, "the answer", func() bool { return slices.Contains(ann.Private().Texts(), "hello again") })
	if n := tg.Commands(); n == 0 {
		t.Error("the bot has no menu")
	}
}
