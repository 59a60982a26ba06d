package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/app/config"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat/outbound"
	"mailroom/channel/irc"
	"mailroom/channel/irc/irctest"
	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// ircFixture is a real IRC server and a Mailroom server in its own process. The user al talks with
// the bot.
type ircFixture struct {
	*fixture
	irc *irctest.Server
	way *channeltest.Proxy // between bot and server
	al  *irctest.Person
}

// newIRCFixture returns a fixture with an agent in #dev; more is TOML before the channel's table.
func newIRCFixture(t *testing.T, agent, more string) *ircFixture {
	t.Helper()
	n := &ircFixture{irc: irctest.Start(t)}
	n.way = channeltest.NewProxy(t, n.irc.Addr)
	n.fixture = newFixture(t, more+fmt.Sprintf(`
[channels]
retry_first = "50ms"
retry_most = "200ms"

[channels.net]
kind = "irc"
agent = %q
server = %q
tls = false
nick = "bot"
join = ["#dev"]
join_within = "0s"
gap = "10ms"
users = ["al!~al@127.0.0.1"]
admins = ["root!~root@127.0.0.1"]
`, agent, n.way.Addr))
	n.al = n.irc.Connect("al", "JOIN #dev")
	n.al.Wait(" 366 ")
	return n
}

// start starts the server and waits until its bot has joined the channel.
func (n *ircFixture) start() {
	n.t.Helper()
	n.serve()
	n.al.Wait(" JOIN :#dev")
}

// waitGone waits until the IRC server has noticed that the bot's connection is closed.
func (n *ircFixture) waitGone() {
	n.t.Helper()
	for on := true; on; {
		n.al.Line("ISON bot")
		on = strings.HasSuffix(strings.TrimSpace(n.al.Wait(" 303 ")), ":bot")
	}
}

// waitIdle waits until all deliveries to #dev have ended.
func (n *ircFixture) waitIdle() {
	n.t.Helper()
	platformtest.WaitFor(n.t, "the end of all deliveries", func() bool {
		return n.count(devOut, entry.KindCompleted) == n.count(devOut, entry.KindQueued)
	})
}

// shoutConfig has an agent that records that it started, waits for the gate in its first attempt, and
// replies in upper case.
const shoutConfig = `
[agents.shout]
kind = "exec"
command = ["sh", "-c", "read -r from; read -r text; text=${text#> }; echo begun >>inputs; test $MAILROOM_ATTEMPT != 1 || cat gate >/dev/null; echo \"$text\" | tr a-z A-Z"]
`

// The threads of #dev.
const (
	devThread = "net:bot:%23dev"
	devOut    = "out:net:bot:%23dev"
)

// TestAKilledServerAnswersTheMessagesItAcceptedOnIRC kills the server between commits, sends and receipts.
func TestAKilledServerAnswersTheMessagesItAcceptedOnIRC(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tATTEMPTS OF THE AGENT\tREPLIES OUT\tMARKED AS REPEATED")
	for _, c := range []struct {
		when    string
		prepare func(n *ircFixture) // runs while the agent waits for its gate
		before  func(n *ircFixture) // waits for the time of the kill
		mended  func(n *ircFixture)
		inputs  int
		replies int
		marked  int
	}{
		{when: "after the inbound commit", inputs: 2, replies: 1},
		{when: "after the run, before the send",
			prepare: func(n *ircFixture) {
				n.al.Line("MODE #dev +i")
				n.al.Line("KICK #dev bot :wait")
				n.al.Wait(" KICK #dev bot")
				n.openGate("go\n")
			},
			before: func(n *ircFixture) { n.waitEntries(devOut, entry.KindRescheduled, 1) },
			mended: func(n *ircFixture) { n.al.Line("MODE #dev -i") }, inputs: 1, replies: 1},
		{when: "after the send, before its receipt",
			prepare: func(n *ircFixture) {
				n.way.SetFaults(channeltest.Netfaults{DropDownstream: true})
				n.openGate("go\n")
			},
			before: func(n *ircFixture) { n.al.WaitMessage("bot", "HELLO") },
			mended: func(n *ircFixture) { n.way.SetFaults(channeltest.Netfaults{}) }, inputs: 1, replies: 2, marked: 1},
		{when: "after everything",
			prepare: func(n *ircFixture) { n.openGate("go\n") },
			before:  func(n *ircFixture) { n.waitEntries(devOut, entry.KindCompleted, 1) }, inputs: 1, replies: 1},
	} {
		t.Run(c.when, func(t *testing.T) {
			n := newIRCFixture(t, "shout", shoutConfig)
			n.start()
			n.al.Say("#dev", "bot: hello")
			platformtest.WaitFor(n.t, "the start of the agent", func() bool { return len(n.agentInputs()) == 1 })
			if c.prepare != nil {
				c.prepare(n)
				c.before(n)
			}
			n.server.kill()
			if c.mended != nil {
				c.mended(n)
			}
			n.waitGone()
			n.start()
			n.waitEntries(devOut, entry.KindCompleted, 1)
			n.al.Sync()
			replies, marked := n.al.Messages("bot"), n.count(devOut, outbound.KindRepeated)
			if len(n.agentInputs()) != c.inputs || len(replies) != c.replies || marked != c.marked {
				t.Errorf("%d attempts, replies %q, %d marked; want %d, %d replies, %d", len(n.agentInputs()), replies, marked,
					c.inputs, c.replies, c.marked)
			}
			fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\n", c.when, n.count(devThread, entry.KindQueued), len(n.agentInputs()),
				len(replies), marked)
		})
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestAConversationOnIRC plays a conversation: a stranger is ignored, an admin approves, the server is
// killed before that, and a run is stopped.
func TestAConversationOnIRC(t *testing.T) {
	t.Parallel()
	n := newIRCFixture(t, "tour", "[agents.tour]\nkind = \"tour\"\npace = \"1ms\"\n")
	n.start()
	mallory, root := n.irc.Connect("mallory", "JOIN #dev"), n.irc.Connect("root", "JOIN #dev")
	n.al.Say("#dev", "bot: show me")
	asked := n.al.WaitMessage("bot", "To allow it: ")
	n.al.WaitMessage("bot", "To refuse it: ")
	approve := strings.TrimPrefix(asked, "To allow it: ")
	mallory.Say("#dev", approve) // ignored: mallory is not an allowed user
	n.al.Say("#dev", approve)
	n.al.WaitMessage("bot", "Only an admin may")
	n.waitIdle()
	n.server.kill()
	n.waitGone()
	n.start()
	n.al.Say("#dev", "bot: !status")
	n.al.WaitMessage("bot", "It asks: May I send this postcard?")
	root.Say("#dev", approve)
	n.al.WaitMessage("bot", "Approved by root: May I send this postcard?")
	n.al.WaitMessage("bot", "and it was sent once")

	n.al.Say("#dev", "bot: once more")
	n.al.WaitMessage("bot", "To refuse it: ")
	n.al.Say("#dev", "bot: !stop")
	n.al.WaitMessage("bot", "Stopping.")
	n.al.Say("#dev", "bot: !status")
	n.al.WaitMessage("bot", "is idle")

	n.al.Say("#dev", "no one in particular")
	n.al.Say("bot", "!status") // a private chat is a separate conversation
	n.al.WaitMessage("bot", "This conversation has no messages yet.")
	if got := n.count(devThread, entry.KindQueued); got != 2 {
		t.Errorf("%d runs, want 2", got)
	}
	if repeated := n.count(devOut, outbound.KindRepeated); repeated != 0 {
		t.Errorf("%d replies are marked as repeated, want none", repeated)
	}
	for _, line := range n.al.Lines() {
		if _, message, ok := strings.Cut(line, " PRIVMSG "); ok {
			t.Log(strings.TrimPrefix(strings.SplitN(line, "!", 2)[0], ":") + " to " + message)
		}
	}
}

// TestAnIRCNetworkIsAddedAfterItsTest answers the prompts of the command.
func TestAnIRCNetworkIsAddedAfterItsTest(t *testing.T) {
	t.Parallel()
	server := irctest.Start(t, "[Global]", "Password = sesame")
	h := newFixture(t, "# mine\n")
	password := filepath.Join(t.TempDir(), "password")
	add := func(secret, answers string, more ...string) (int, string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		m := Main{Stdin: strings.NewReader(answers), Stdout: &output, Stderr: &output, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "irc", "--plain", "--token-file", password}, more...))
		return code, output.String()
	}
	code, output := add("wrong", "echo\n"+server.Addr+"\nbot\n")
	if code != exitFailed || !strings.Contains(output, "rejected its password") || strings.Contains(output, "wrong") {
		t.Errorf("channels add with a wrong password: exit code %d, %s", code, output)
	}
	if raw, err := os.ReadFile(h.dir.Config()); err != nil || string(raw) != "# mine\n" {
		t.Errorf("configuration after that: %s, %v; want it unchanged", raw, err)
	}
	code, output = add("sesame", "echo\n"+server.Addr+"\nbot\n", "--join", "#dev", "--join", "#ops key")
	if code != exitDone || !strings.Contains(output, "as bot") || !strings.Contains(output, "pair approve --admin CODE") {
		t.Errorf("channels add with the right password: exit code %d, %s", code, output)
	}
	c, err := config.Load(h.dir.Config(), true, config.Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Channels["irc"].Settings.Options.(*irc.Options)
	secrets, err := o.Secrets()
	if err != nil || o.Server != server.Addr || o.Nick != "bot" || len(o.Join) != 2 || secrets.Server != "sesame" {
		t.Errorf("options %+v, %v", o, err)
	}
	if code, output := add("sesame", "", "--agent", "echo"); code != exitUsage ||
		!strings.Contains(output, "channel irc already") {
		t.Errorf("the same name again: exit code %d, %s", code, output)
	}
}
