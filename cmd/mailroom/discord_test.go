package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/channel/discord/discordtest"
)

// TestABotOfDiscordInABadWeek answers each message once, and is said to be what it is.
func TestABotOfDiscordInABadWeek(t *testing.T) {
	t.Parallel()
	c := newDiscordFixture(t, "")
	c.serve()
	c.waitChannel("dc", api.ChannelQueued)
	c.dc.Up(t)
	c.waitChannel("dc", api.ChannelConnected)
	c.say("one")
	c.waitTexts("ONE")
	c.dc.Down() // which a session outlives
	c.waitChannel("dc", api.ChannelQueued)
	c.say("two")
	c.dc.Up(t)
	c.waitTexts("ONE", "TWO")
	if began, resumed := c.dc.Sessions(); began != 1 || resumed != 1 {
		t.Errorf("%d sessions were begun, and %d resumed", began, resumed)
	}
	c.dc.Down() // which this one does not
	c.dc.Forget()
	c.waitChannel("dc", api.ChannelQueued)
	c.say("three")
	c.dc.Up(t)
	c.waitTexts("ONE", "TWO", "THREE")
	c.dc.SetMessageContent(false)
	c.dc.CloseWith(4014, "Disallowed intent(s).")
	if s := c.waitChannel("dc", api.ChannelFailed); !strings.Contains(*s.Reason, "Message Content intent") {
		t.Errorf("the reason is %s", *s.Reason)
	}
	c.dc.SetMessageContent(true)
	if code, stderr := c.run(t.Context(), io.Discard, "channels", "resume", "dc"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	c.waitChannel("dc", api.ChannelConnected)
	other := strings.Replace(discordtest.Token, "GfAkEt", "ZzZzZz", 1)
	c.dc.SetToken(other)
	c.waitChannel("dc", api.ChannelFailed)
	c.say("four")
	c.writeSecret("dc", "token", other)
	c.waitTexts("ONE", "TWO", "THREE", "FOUR")
	if told := c.agentInputs(); len(told) != 4 {
		t.Errorf("the agent was told %q", told)
	}
	if talk := c.server.talk.all(); strings.Contains(talk, "TheSecretOfTheBot") {
		t.Errorf("it tells a token: %s", talk)
	}
}

// TestDiscordIsAddedOnceItsTokenWasTried follows a new user.
func TestDiscordIsAddedOnceItsTokenWasTried(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	h := newFixture(t, "[agents.echo]\npace = \"0s\"")
	add := func(stdin string, more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "discord", "--api", dc.URL}, more...))
		return code, talk.String()
	}
	const secret = "TheSecretOfTheBot"
	for name, c := range map[string]struct{ token, want string }{
		"a wrong token": {strings.Replace(discordtest.Token, "GfAkEt", "XxXxXx", 1), "token rejected (401 Unauthorized): get the current token from the Developer Portal, under Bot: nothing was written"},
		"no token":      {"hello", "it has three parts separated by dots"},
	} {
		if code, talk := add("\n" + c.token + "\n"); code != exitFailed || !strings.Contains(talk, c.want) || strings.Contains(talk, secret) {
			t.Errorf("%s: exit code %d, %s; want %q", name, code, talk, c.want)
		}
	}
	dc.SetMessageContent(false)
	if code, talk := add("\n" + discordtest.Token + "\n"); code != exitFailed || !strings.Contains(talk, "turn on the Message Content intent") {
		t.Errorf("an intent that is off: exit code %d, %s", code, talk)
	}
	dc.SetMessageContent(true)
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	code, talk := add("\n" + discordtest.Token + "\n")
	invite := "https://discord.com/oauth2/authorize?client_id=" + discordtest.AppID + "&scope=bot&permissions=274877975552"
	if code != exitDone || !strings.Contains(talk, invite) || strings.Contains(talk, secret) {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	info, err := os.Stat(h.dir.ChannelSecret("discord", "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token is kept as %v, %v", info, err)
	}

	h.process(&process{})
	dc.WaitFor(t, "the bot", func() bool { return dc.Connections() == 1 })
	ann.Sends(ann.Private(), "hello")
	dc.WaitFor(t, "a code", func() bool { return len(ann.Private().Texts()) == 1 })
	found := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.Private().Texts()[0])
	if found == nil {
		t.Fatalf("a stranger is told %q", ann.Private().Texts())
	}
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", found[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.Sends(ann.Private(), "hello again")
	dc.WaitFor(t, "the answer", func() bool { return slices.Contains(ann.Private().Texts(), "hello again") })
}
