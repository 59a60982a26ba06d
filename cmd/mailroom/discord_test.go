package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/api"
	"mailroom/channel/chat"
	"mailroom/channel/discord/discordtest"
	"mailroom/entry"
)

// discordFixture is a server in a process of its own with a channel "dc" at Discord, whose
// agent is a command that notes what it was told and answers in capitals. Ann may talk.
type discordFixture struct {
	*bridgeFixture
	dc      *discordtest.Platform
	ann     *discordtest.Person
	private *discordtest.Channel
}

// newDiscordFixture makes one at a Discord that is down.
func newDiscordFixture(t *testing.T, more string) *discordFixture {
	t.Helper()
	c := &discordFixture{bridgeFixture: &bridgeFixture{fixture: newFixture(t, "")}, dc: discordtest.NewDown(t)}
	c.ann = c.dc.Person("Ann")
	c.private = c.ann.Private()
	c.setToken(discordtest.Token)
	command, err := json.Marshal(c.command(more))
	if err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`[agents.shout]
kind = "exec"
command = %s
[channels.dc]
kind = "discord"
agent = "shout"
token_file = %q
api = %q
beat = "1s"
retry_first = "100ms"
retry_most = "400ms"
previews = false
users = [%q]
`, command, c.dir.ChannelSecret("dc", "token"), c.dc.URL, c.ann.ID)
	if err := os.WriteFile(c.dir.Config(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// setToken puts one into the channel's file.
func (c *discordFixture) setToken(token string) {
	c.t.Helper()
	if err := os.WriteFile(c.dir.ChannelSecret("dc", "token"), []byte(token), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// serve starts the server until it is killed.
func (c *discordFixture) serve() {
	c.t.Helper()
	c.process = &process{}
	c.fixture.process(c.process)
	c.waitChannel("dc", api.ChannelConnected)
}

// thread and out are those of Ann.
func (c *discordFixture) thread() string { return "dc:" + discordtest.BotID + ":" + c.private.ID }

func (c *discordFixture) out() string { return "out:" + c.thread() }

// waitReplies waits until these are all replies.
func (c *discordFixture) waitReplies(want ...string) {
	c.t.Helper()
	c.dc.WaitFor(c.t, fmt.Sprintf("Ann read %q", want), func() bool { return slices.Equal(c.private.Texts(), want) })
}

// TestAServerThatIsKilledAnswersEachMessageOfDiscord kills the server where it hurts.
func TestAServerThatIsKilledAnswersEachMessageOfDiscord(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREPLIES OUT\tMARKED AS REPEATED")
	hold := make(chan struct{})
	for _, k := range []struct {
		when  string
		more  string // of the agent's command
		fault discordtest.Fault
		until func(c *discordFixture)
		told  int
		in    []string // messages of Ann while the server is off
	}{
		{
			when: "after the inbound commit, while the agent runs", more: "test $text != one || test $MAILROOM_ATTEMPT != 1 || cat gate;", told: 2,
			until: func(c *discordFixture) { c.waitReplyCount(1) },
		},
		{
			when: "after the run, before the send", fault: discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 1}, told: 1,
			until: func(c *discordFixture) { c.waitEntries(c.out(), entry.KindRescheduled, 1) },
		},
		{
			when: "after the send, before its receipt", fault: discordtest.Fault{Hold: hold}, told: 1,
			until: func(c *discordFixture) { c.waitReplies("ONE") },
		},
		{
			when: "before two more messages", in: []string{"two", "three"}, told: 3,
			until: func(c *discordFixture) { c.waitEntries(c.out(), entry.KindCompleted, 1) },
		},
	} {
		t.Run(k.when, func(t *testing.T) {
			c := newDiscordFixture(t, k.more)
			c.dc.Up(t)
			if k.fault.Status != 0 || k.fault.Hold != nil {
				c.dc.Fail(discordtest.Send, k.fault)
			}
			c.serve()
			c.ann.Sends(c.private, "one")
			k.until(c)
			c.process.kill()
			c.dc.WaitFor(t, "the end of the connection", func() bool { return c.dc.Connections() == 0 })
			want := []string{"ONE"}
			for _, text := range k.in {
				c.ann.Sends(c.private, text)
				want = append(want, strings.ToUpper(text))
			}
			c.serve()
			c.ann.Sends(c.private, "last") // behind everything
			c.waitReplies(append(want, "LAST")...)
			c.waitEntries(c.out(), entry.KindCompleted, len(want)+1)
			told, marked, runs := len(c.agentInputs())-1, c.count(c.out(), chat.KindRepeated), c.count(c.thread(), entry.KindQueued)-1
			if told != k.told || marked != 0 || runs != len(want) {
				t.Errorf("%d runs, started %d times, replies %q, %d marked", runs, told, c.private.Texts(), marked)
			}
			fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\t%d\n", k.when, len(want), runs, told, len(c.private.Texts())-1, marked)
		})
	}
	close(hold)
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestABotOfDiscordInABadWeek answers each message once, and is said to be what it is.
func TestABotOfDiscordInABadWeek(t *testing.T) {
	t.Parallel()
	c := newDiscordFixture(t, "")
	c.process = &process{}
	c.fixture.process(c.process)
	c.waitChannel("dc", api.ChannelQueued)
	c.dc.Up(t)
	c.waitChannel("dc", api.ChannelConnected)
	c.ann.Sends(c.private, "one")
	c.waitReplies("ONE")
	c.dc.Down() // which a session outlives
	c.waitChannel("dc", api.ChannelQueued)
	c.ann.Sends(c.private, "two")
	c.dc.Up(t)
	c.waitReplies("ONE", "TWO")
	if began, resumed := c.dc.Sessions(); began != 1 || resumed != 1 {
		t.Errorf("%d sessions were begun, and %d resumed", began, resumed)
	}
	c.dc.Down() // which this one does not
	c.dc.Forget()
	c.waitChannel("dc", api.ChannelQueued)
	c.ann.Sends(c.private, "three")
	c.dc.Up(t)
	c.waitReplies("ONE", "TWO", "THREE")
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
	c.ann.Sends(c.private, "four")
	c.setToken(other)
	c.waitReplies("ONE", "TWO", "THREE", "FOUR")
	if told := c.agentInputs(); len(told) != 4 {
		t.Errorf("the agent was told %q", told)
	}
	if talk := c.process.talk.all(); strings.Contains(talk, "TheSecretOfTheBot") {
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
