package main

import (
	"io"
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
