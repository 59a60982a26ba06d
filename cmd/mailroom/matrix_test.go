package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/matrix/matrixtest"
)

// eachMatrixServer plays a test on all of them.
func eachMatrixServer(t *testing.T, play func(t *testing.T, h matrixServer)) {
	for name, start := range matrixHomes {
		t.Run(name, func(t *testing.T) { play(t, start(t)) })
	}
}

// addMatrix adds an account with typed answers.
func (h *fixture) addMatrix(stdin string, more ...string) (int, string) {
	h.t.Helper()
	var talk bytes.Buffer
	m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
	code := m.Run(h.t.Context(), append([]string{"channels", "add", "matrix"}, more...))
	return code, talk.String()
}

// TestAnAccountOfMatrixIsAddedOnceItWasTried follows a new user.
func TestAnAccountOfMatrixIsAddedOnceItWasTried(t *testing.T) {
	t.Parallel()
	eachMatrixServer(t, func(t *testing.T, at matrixServer) {
		bot, ann := matrixtest.NewPerson(t, at.url, "mybot", "My Bot"), matrixtest.NewPerson(t, at.url, "ann", "Ann")
		h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
		add := h.addMatrix
		for name, c := range map[string]struct {
			stdin string
			more  []string
			code  int
			want  string
		}{
			"a wrong password": {"\n" + at.url + "\nmybot\nguess\n", nil, exitFailed, "rejected the login of mybot (403"},
			"a wrong token":    {"\n" + at.url + "\n\nsyt_guess\n", nil, exitFailed, "access token was rejected (401"},
			"no token":         {"\n" + at.url + "\n\ntwo words\n", nil, exitFailed, "not a Matrix access token"},
			"nothing said":     {"", nil, exitUsage, "no answer to"},
			"no such agent":    {"missing\n", nil, exitUsage, `unknown agent "missing"`},
			"a missing file":   {"\n", []string{"--homeserver", at.url, "--token-file", "none"}, exitUsage, "no such file"},
			"nothing listens":  {"\nhttp://127.0.0.1:1\nmybot\n" + matrixtest.Password + "\n", nil, exitFailed, "connection refused"},
			"a strange place":  {"\nftp://x\n", nil, exitFailed, "not a base URL"},
			"no scheme":        {"\n127.0.0.1:1\n", nil, exitFailed, "connection refused"},
		} {
			code, talk := add(c.stdin, c.more...)
			if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, "guess") || strings.Contains(talk, matrixtest.Password) {
				t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
			}
		}
		if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
			t.Errorf("what was refused has left %v, %v", files, err)
		}
		code, talk := add("\n"+at.url+"/\nmybot\n"+matrixtest.Password+"\n", "--name", "mx")
		if code != exitDone || !strings.Contains(talk, bot.ID) || strings.Contains(talk, matrixtest.Password) {
			t.Fatalf("exit code %d: %s", code, talk)
		}
		t.Logf("\n%s", talk)
		info, err := os.Stat(h.dir.ChannelSecret("mx", "token"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token is kept as %v, %v", info, err)
		}
		token, err := os.ReadFile(h.dir.ChannelSecret("mx", "token"))
		if err != nil || strings.Contains(string(token), matrixtest.Password) || strings.Contains(talk, strings.TrimSpace(string(token))) {
			t.Errorf("the token is told, or is the password, %v", err)
		}
		settings, err := os.ReadFile(h.dir.Config())
		if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"mx\"]\n") || !strings.Contains(string(settings), fmt.Sprintf("homeserver = %q\n", at.url)) {
			t.Errorf("the settings are\n%s%v", settings, err)
		}
		if code, talk := add("\n"+at.url+"\n\n"+bot.Token+"\n", "--name", "mx2"); code != exitDone || strings.Contains(talk, bot.Token) {
			t.Errorf("with a token: exit code %d, %s", code, talk)
		}
		if err := os.WriteFile(h.dir.Config(), settings, 0o600); err != nil { // one is enough for what follows
			t.Fatal(err)
		}

		h.process(&process{})
		room := ann.NewRoom(true, bot)
		matrixtest.WaitFor(t, "the bot there", func() bool { return ann.IsIn(room, bot) })
		ann.Says(room, "hello")
		said := func(want string) (found string) {
			matrixtest.WaitFor(t, want, func() bool {
				i := slices.IndexFunc(ann.Texts(room, bot), func(s string) bool { return strings.Contains(s, want) })
				if i >= 0 {
					found = ann.Texts(room, bot)[i]
				}
				return i >= 0
			})
			return found
		}
		word := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(said("pair approve"))
		if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", word[1]); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		ann.Says(room, "hello again")
		said("hello again")
	})
}
