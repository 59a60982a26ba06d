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

	"mailroom/channel/discord/discordtest"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/channel/platformtest"
	"mailroom/channel/slack/slacktest"
	"mailroom/channel/telegram/telegramtest"
)

// newUser is a user who runs mailroom channels add.
type newUser struct {
	args    []string // of the command
	refused map[string]refusedAnswers
	answers string
	name    string   // name of the channel
	says    []string // substrings of the output
	secrets []string // must not be in the output
	files   []string // files of the secrets
	config  string   // substring of the configuration

	meet  func()            // connects Ann and the bot, after the server has started
	say   func(text string) // sends a message of Ann
	texts func() []string   // messages that Ann received
	after func(t *testing.T, h *fixture, output string)
}

// refusedAnswers are answers that make the command fail and write nothing.
type refusedAnswers struct {
	answers string
	more    []string // further arguments
	code    int
	want    string // substring of the output
}

// addChannel runs the command with answers on standard input.
func (h *fixture) addChannel(answers string, args ...string) (int, string) {
	h.t.Helper()
	var output bytes.Buffer
	m := Main{Stdin: strings.NewReader(answers), Stdout: io.Discard, Stderr: &output, Env: h.env}
	code := m.Run(h.t.Context(), append([]string{"channels", "add"}, args...))
	return code, output.String()
}

// TestAChannelIsAddedAfterItsCredentialsAreTested adds a channel of each platform, pairs Ann, and waits
// for the first reply.
func TestAChannelIsAddedAfterItsCredentialsAreTested(t *testing.T) {
	t.Parallel()
	users := map[string]func(t *testing.T) *newUser{"Telegram": telegramUser, "Slack": slackUser, "Discord": discordUser}
	for name, start := range matrixHomes {
		users["Matrix "+name] = func(t *testing.T) *newUser { return matrixUser(t, start(t).url) }
	}
	for name, make := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make(t).play(t)
		})
	}
}

func (u *newUser) play(t *testing.T) {
	const before = "# mine\n[agents.echo]\npace = \"0s\""
	h := newFixture(t, before)
	leaks := func(output string) bool {
		return slices.ContainsFunc(u.secrets, func(secret string) bool { return strings.Contains(output, secret) })
	}
	for name, c := range u.refused {
		code, output := h.addChannel(c.answers, append(slices.Clone(u.args), c.more...)...)
		if code != c.code || !strings.Contains(output, c.want) || leaks(output) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, output, c.code, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("refused commands left the files %v, %v", files, err)
	}
	code, output := h.addChannel(u.answers, append(slices.Clone(u.args), "--name", u.name)...)
	if code != exitDone || leaks(output) {
		t.Fatalf("exit code %d: %s", code, output)
	}
	for _, want := range u.says {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q: %s", want, output)
		}
	}
	t.Logf("\n%s", output)
	for _, file := range u.files {
		if info, err := os.Stat(h.dir.ChannelSecret(u.name, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file of the secret is %v, %v; want mode 0600", info, err)
		}
	}
	settings, err := os.ReadFile(h.dir.Config())
	if all := string(settings); err != nil || !strings.HasPrefix(all, before+"\n\n[channels.\""+u.name+"\"]\n") ||
		!strings.Contains(all, u.config) || leaks(all) {
		t.Errorf("configuration:\n%s%v", settings, err)
	}
	if code, output := h.addChannel("", append(slices.Clone(u.args), "--name", u.name)...); code != exitUsage ||
		!strings.Contains(output, "channel "+u.name+" already") {
		t.Errorf("the same name again: exit code %d, %s", code, output)
	}
	if u.after != nil {
		u.after(t, h, output)
	}
	h.process(&process{})
	if u.meet != nil {
		u.meet()
	}
	u.say("hello")
	word := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(u.read(t, "pair approve"))
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", word[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	u.say("hello again")
	u.read(t, "hello again")
}

// read waits for a message to Ann that contains words, and returns it.
func (u *newUser) read(t *testing.T, words string) (found string) {
	t.Helper()
	platformtest.WaitFor(t, "a message to Ann with "+words, func() bool {
		texts := u.texts()
		i := slices.IndexFunc(texts, func(s string) bool { return strings.Contains(s, words) })
		if i >= 0 {
			found = texts[i]
		}
		return i >= 0
	})
	return found
}

func telegramUser(t *testing.T) *newUser {
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	wrong, right := "700100200:"+strings.Repeat("x", len(secret)), "\n"+telegramtest.Token+"\n"
	return &newUser{
		args: []string{"telegram", "--api", tg.URL}, answers: right, name: "tg", says: []string{"@" + telegramtest.Username},
		secrets: []string{secret}, files: []string{"token"},
		refused: map[string]refusedAnswers{
			"a wrong token": {"\n" + wrong + "\n", nil, exitFailed,
				"token rejected (401 Unauthorized): get the current token from @BotFather: nothing was written"},
			"no token":        {"\nhello\n", nil, exitFailed, "it has the form 123456789:AAE…"},
			"no answer":       {"", nil, exitUsage, "no answer to"},
			"no such agent":   {"missing\n", nil, exitUsage, `unknown agent "missing"`},
			"no name":         {right, []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
			"a missing file":  {"\n", []string{"--token-file", "none"}, exitUsage, "no such file"},
			"nothing listens": {right, []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
			"an invalid URL":  {right, []string{"--api", "nowhere"}, exitUsage, "api"},
		},
		meet: func() {
			tg.WaitFor(t, "a menu of the bot", func() bool { return tg.Commands() > 0 })
		},
		say: func(text string) { ann.Sends(ann.Private(), text) }, texts: ann.Private().Texts,
	}
}

func slackUser(t *testing.T) *newUser {
	sl := slacktest.New(t)
	sl.RemoveScopes("files:read")
	ann := sl.Person("Ann")
	both := "\n" + slacktest.Token + "\n" + slacktest.AppToken + "\n"
	return &newUser{
		args: []string{"slack", "--api", sl.URL}, answers: both, name: "work",
		says:    []string{"@mailroom in Work", "reinstall the app: files:read"},
		secrets: []string{slacktest.Token, slacktest.AppToken}, files: []string{"token", "app-token"},
		refused: map[string]refusedAnswers{
			"a wrong token": {"\nxoxb-0-another-token\n" + slacktest.AppToken + "\n", nil, exitFailed,
				"Slack answered invalid_auth: get the current tokens at https://api.slack.com/apps: nothing was written"},
			"a wrong app": {"\n" + slacktest.Token + "\nxapp-0-another-token\n", nil, exitFailed,
				"open socket: Slack answered invalid_auth"},
			"swapped tokens": {"\n" + slacktest.AppToken + "\n" + slacktest.Token + "\n", nil, exitFailed,
				"it starts with xoxb-"},
			"one token":       {"\n" + slacktest.Token + "\n", nil, exitUsage, "no answer to"},
			"no such agent":   {"missing\n", nil, exitUsage, `unknown agent "missing"`},
			"a missing file":  {both, []string{"--app-token-file", "none"}, exitUsage, "read the app-level token"},
			"nothing listens": {both, []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
			"an invalid URL":  {both, []string{"--api", "nowhere"}, exitUsage, "api"},
			"no name":         {both, []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
		},
		say: func(text string) { ann.Sends(ann.Private(), text) }, texts: ann.Private().Texts,
	}
}

func discordUser(t *testing.T) *newUser {
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	unread := discordtest.New(t)
	unread.SetMessageContent(false)
	right := "\n" + discordtest.Token + "\n"
	return &newUser{
		args: []string{"discord", "--api", dc.URL}, answers: right, name: "discord", secrets: []string{"TheSecretOfTheBot"},
		files: []string{"token"},
		says: []string{"https://discord.com/oauth2/authorize?client_id=" + discordtest.AppID +
			"&scope=bot&permissions=274877975552"},
		refused: map[string]refusedAnswers{
			"a wrong token": {"\n" + strings.Replace(discordtest.Token, "GfAkEt", "XxXxXx", 1) + "\n", nil, exitFailed,
				"token rejected (401 Unauthorized): get the current token from the Developer Portal, under Bot: nothing was written"},
			"no token":              {"\nhello\n", nil, exitFailed, "it has three parts separated by dots"},
			"an intent that is off": {right, []string{"--api", unread.URL}, exitFailed, "turn on the Message Content intent"},
		},
		meet: func() {
			dc.WaitFor(t, "the bot", func() bool { return dc.Connections() == 1 })
		},
		say: func(text string) { ann.Sends(ann.Private(), text) }, texts: ann.Private().Texts,
	}
}

// matrixUser logs in with a password, which the command does not store.
func matrixUser(t *testing.T, at string) *newUser {
	bot, ann := matrixtest.NewPerson(t, at, "mybot", "My Bot"), matrixtest.NewPerson(t, at, "ann", "Ann")
	room := ""
	return &newUser{
		args: []string{"matrix"}, answers: "\n" + at + "/\nmybot\n" + matrixtest.Password + "\n", name: "mx",
		says:    []string{bot.ID},
		secrets: []string{matrixtest.Password, bot.Token, "guess"}, files: []string{"token"},
		config: fmt.Sprintf("homeserver = %q\n", at),
		refused: map[string]refusedAnswers{
			"a wrong password": {"\n" + at + "\nmybot\nguess\n", nil, exitFailed, "rejected the login of mybot (403"},
			"a wrong token":    {"\n" + at + "\n\nsyt_guess\n", nil, exitFailed, "access token was rejected (401"},
			"no token":         {"\n" + at + "\n\ntwo words\n", nil, exitFailed, "not a Matrix access token"},
			"no answer":        {"", nil, exitUsage, "no answer to"},
			"no such agent":    {"missing\n", nil, exitUsage, `unknown agent "missing"`},
			"a missing file":   {"\n", []string{"--homeserver", at, "--token-file", "none"}, exitUsage, "no such file"},
			"nothing listens": {"\nhttp://127.0.0.1:1\nmybot\n" + matrixtest.Password + "\n", nil, exitFailed,
				"connection refused"},
			"an invalid URL": {"\nftp://x\n", nil, exitFailed, "not a base URL"},
			"no scheme":      {"\n127.0.0.1:1\n", nil, exitFailed, "connection refused"},
		},
		after: func(t *testing.T, h *fixture, output string) {
			token, err := os.ReadFile(h.dir.ChannelSecret("mx", "token"))
			settings, err2 := os.ReadFile(h.dir.Config())
			if err != nil || err2 != nil || strings.Contains(string(token), matrixtest.Password) ||
				strings.Contains(output+string(settings), strings.TrimSpace(string(token))) {
				t.Errorf("the token is in the output or the configuration, or it is the password: %v, %v", err, err2)
			}
			if code, output := h.addChannel("\n"+at+"\n\n"+bot.Token+"\n", "matrix", "--name", "mx2"); code != exitDone ||
				strings.Contains(output, bot.Token) {
				t.Errorf("channels add with a token: exit code %d, %s", code, output)
			}
			h.configure(string(settings)) // without the second channel
		},
		meet: func() {
			room = ann.NewRoom(true, bot)
			matrixtest.WaitFor(t, "the bot to join", func() bool { return ann.IsIn(room, bot) })
		},
		say: func(text string) { ann.Says(room, text) }, texts: func() []string { return ann.Texts(room, bot) },
	}
}
