package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom/api"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/irc/irctest"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/client"
)

// outageFixture is a server with two channels for one agent: "tg" on a failing Telegram, and "net" on a
// healthy IRC server.
type outageFixture struct {
	*telegramFixture
	al *irctest.Person

	rows  []observation
	shown map[string]string   // by channel, the last observed state
	seen  map[string][]string // by channel, all observed states
	asked int                 // messages sent on IRC
}

// observation is an action of the test, or a new state of a channel.
type observation struct {
	at                time.Time
	did, tg, net, log string
}

func newOutageFixture(t *testing.T) *outageFixture {
	t.Helper()
	p := &outageFixture{telegramFixture: newTelegramFixture(t, ""), shown: map[string]string{},
		seen: map[string][]string{}}
	irc := irctest.Start(t)
	settings, err := os.ReadFile(p.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	p.configure(string(settings) + fmt.Sprintf(`[channels.net]
kind = "irc"
agent = "shout"
server = %q
tls = false
nick = "bot"
join = ["#dev"]
join_within = "0s"
gap = "10ms"
per_user = true
users = ["al!~al@127.0.0.1"]
`, irc.Addr))
	p.al = irc.Connect("al", "JOIN #dev")
	p.al.Wait(" 366 ")
	return p
}

func (p *outageFixture) logAction(what string) {
	p.rows = append(p.rows, observation{at: time.Now(), did: what})
}

// observe records the states in GET /v1/channels that have changed.
func (p *outageFixture) observe() {
	p.t.Helper()
	all, err := p.client().Channels(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range all {
		line := c.State
		if c.Reason != nil {
			line += ": " + *c.Reason
		}
		if p.shown[c.Name] == line {
			continue
		}
		p.shown[c.Name] = line
		p.seen[c.Name] = append(p.seen[c.Name], c.State)
		r := observation{at: time.Now(), tg: line}
		if c.Name == "net" {
			r.tg, r.net = "", line
		}
		p.rows = append(p.rows, r)
	}
}

// waitState waits until the Telegram channel has a state.
func (p *outageFixture) waitState(state string) {
	p.t.Helper()
	p.waitFor("the state of the channel", func() string {
		now, _, _ := strings.Cut(p.shown["tg"], ":")
		return now
	}, state)
}

// waitFor polls until get returns want.
func (p *outageFixture) waitFor(what string, get func() string, want string) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitTimeout); ; <-tick.C {
		if p.observe(); get() == want {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("timeout waiting for %s %q, got %q\n%s", what, want, get(), p.observations())
		}
	}
}

// waitReplies waits until Ann has received exactly these replies on Telegram.
func (p *outageFixture) waitReplies(want ...string) {
	p.t.Helper()
	p.waitFor("the messages to Ann", func() string { return fmt.Sprint(p.ann.Private().Texts()) }, fmt.Sprint(want))
}

// checkIRC sends a message on IRC and waits for the reply.
func (p *outageFixture) checkIRC() {
	p.t.Helper()
	p.asked++
	p.al.Say("#dev", fmt.Sprintf("bot: irc-%d", p.asked))
	p.al.WaitMessage("bot", fmt.Sprintf("IRC-%d", p.asked))
}

// stopTelegram stops Telegram during a poll.
func (p *outageFixture) stopTelegram() {
	p.t.Helper()
	polls := len(p.tg.Calls("getUpdates"))
	p.tg.WaitFor(p.t, "a poll", func() bool { return len(p.tg.Calls("getUpdates")) > polls })
	p.logAction("Telegram stops during a poll")
	p.tg.Down()
	p.waitState(api.ChannelQueued)
}

// observations formats all observations and log entries in order of time.
func (p *outageFixture) observations() string {
	rows := slices.Clone(p.rows)
	for _, c := range p.changes() {
		line := string(c.State)
		if c.Reason != "" {
			line += ": " + c.Reason
		}
		rows = append(rows, observation{at: c.At, log: line})
	}
	slices.SortStableFunc(rows, func(a, b observation) int { return a.at.Compare(b.at) })
	var text strings.Builder
	tab := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "TIME\tWHAT HAPPENS\tIRC, GET /v1/channels\tTELEGRAM, GET /v1/channels\tTHREAD channel:tg")
	for _, r := range rows {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", r.at.UTC().Format("15:04:05.000"), r.did, r.net, r.tg, r.log)
	}
	if err := tab.Flush(); err != nil {
		p.t.Fatal(err)
	}
	return text.String()
}

// inOrder reports whether want is a subsequence of got.
func inOrder(got, want []string) bool {
	for _, s := range got {
		if len(want) > 0 && s == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// TestAFailingPlatformIsReportedAndAffectsNoOther plays a series of outages and prints the reported
// states. The bot on the other platform keeps replying, and each message gets one reply.
func TestAFailingPlatformIsReportedAndAffectsNoOther(t *testing.T) {
	p := newOutageFixture(t)
	private := p.ann.Private()
	p.ann.Sends(private, "one")
	p.logAction("the server starts; Telegram is down and has a message")
	p.serve()
	p.waitState(api.ChannelQueued)
	p.al.Wait(" JOIN :#dev")
	p.checkIRC()
	p.logAction("IRC has replied")
	p.waitState(api.ChannelQueued)
	p.logAction("Telegram comes up")
	p.tg.Up(t)
	p.waitState(api.ChannelConnected)
	p.waitReplies("ONE")
	p.logAction("the message has a reply")

	p.stopTelegram()
	p.checkIRC()
	p.ann.Sends(private, "two")
	p.logAction("Telegram starts again, with another message")
	p.tg.Up(t)
	p.waitState(api.ChannelConnected)
	p.waitReplies("ONE", "TWO")

	// a frozen answer to the second message would have it sent again
	p.waitEntries("out:tg:700100200:1001", "run.completed", 2)
	p.logAction("Telegram's connections are half-open")
	p.tg.Freeze()
	p.waitState(api.ChannelSilent)
	p.checkIRC()
	p.ann.Sends(private, "three")
	p.logAction("Telegram responds again")
	p.tg.Thaw()
	p.waitState(api.ChannelConnected)
	p.waitReplies("ONE", "TWO", "THREE")

	wrong := "700100200:" + strings.Repeat("x", 35)
	p.logAction("the token file gets a wrong token")
	p.writeSecret("tg", "token", wrong)
	p.stopTelegram()
	p.logAction("Telegram starts again")
	p.tg.Up(t)
	p.waitState(api.ChannelFailed)
	p.checkIRC()
	p.ann.Sends(private, "four")
	other := "700100200:" + strings.Repeat("z", 35)
	p.tg.AddBot(other, telegramtest.BotID, telegramtest.Username)
	p.logAction("the token file gets a new token of the same bot")
	p.writeSecret("tg", "token", other)
	p.waitState(api.ChannelConnected)
	p.waitReplies("ONE", "TWO", "THREE", "FOUR")
	p.checkIRC()

	want := []string{
		api.ChannelQueued, api.ChannelConnected, api.ChannelQueued, api.ChannelConnected,
		api.ChannelSilent, api.ChannelConnected, api.ChannelQueued, api.ChannelFailed, api.ChannelConnected,
	}
	t.Logf("\n%s", p.observations())
	if got := p.seen["tg"]; !inOrder(got, want) {
		t.Errorf("states of Telegram in /v1/channels: %q, want %q", got, want)
	}
	if got := states(p.changes()); !inOrder(got, want) {
		t.Errorf("states of Telegram in its log: %q, want %q", got, want)
	}
	net := slices.Compact(p.seen["net"])
	if i := slices.Index(net, api.ChannelConnected); i < 0 || i < len(net)-1 {
		t.Errorf("states of IRC: %q, want connected at the end only", net)
	}
	if inputs := p.agentInputs(); len(inputs) != 4+p.asked || len(p.al.Messages("bot")) != p.asked {
		t.Errorf("%d inputs of the agent, want %d: %q; replies on IRC: %q", len(inputs), 4+p.asked, inputs,
			p.al.Messages("bot"))
	}
	output := p.server.output.all()
	for _, token := range []string{telegramtest.Token, wrong, other} {
		if _, secret, _ := strings.Cut(token, ":"); strings.Contains(output, secret) {
			t.Errorf("the server's output contains a token: %s", output)
		}
	}
}

// TestAPollThatOutlivesItsServerDelaysTheNextConnection kills the server while the network hides the
// closed connection from Telegram, which refuses other polls for a while.
func TestAPollThatOutlivesItsServerDelaysTheNextConnection(t *testing.T) {
	b := newTelegramFixture(t, "")
	way := channeltest.NewProxy(t, strings.TrimPrefix(b.tg.URL, "http://"))
	settings, err := os.ReadFile(b.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	b.configure(strings.ReplaceAll(string(settings), b.tg.URL, "http://"+way.Addr))
	b.tg.Up(t)
	b.serve()
	b.waitChannel("tg", api.ChannelConnected)
	polls := len(b.tg.Calls("getUpdates"))
	b.tg.WaitFor(t, "a poll", func() bool { return len(b.tg.Calls("getUpdates")) > polls })
	way.BlackholeOpen()
	b.server.kill()
	b.ann.Sends(b.ann.Private(), "one")
	conflict := telegramtest.Fault{Status: 409,
		Message: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
	b.tg.Fail("getUpdates", conflict, conflict)
	b.serve()
	b.tg.WaitFor(t, "the answer", func() bool { return slices.Equal(b.ann.Private().Texts(), []string{"ONE"}) })
	got := states(b.changes())
	got = got[slices.Index(got[1:], api.ChannelStarting)+1:] // of the second process
	if want := []string{api.ChannelStarting, api.ChannelQueued,
		api.ChannelConnected}; !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("states %q, want %q", got, want)
	}
	if inputs := b.agentInputs(); len(inputs) != 1 || b.tg.Pending() > 1 {
		t.Errorf("inputs of the agent %q, want 1; %d pending updates, want at most 1", inputs, b.tg.Pending())
	}
}

// changes returns the state changes in the channel's log.
func (b *telegramFixture) changes() (all []channel.Change) {
	b.t.Helper()
	page, err := b.client().Entries(b.t.Context(), channel.LogThreadID("tg"), client.EntriesQuery{Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range page.Items {
		var c channel.Change
		if err := json.Unmarshal(e.Body, &c); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func states(changes []channel.Change) (all []string) {
	for _, c := range changes {
		all = append(all, string(c.State))
	}
	return all
}

// TestDiscordRecoversFromASeriesOfOutages checks that each message gets one reply and that each state
// is reported.
func TestDiscordRecoversFromASeriesOfOutages(t *testing.T) {
	t.Parallel()
	c := newDiscordFixture(t, "")
	c.serve()
	c.waitChannel("dc", api.ChannelQueued)
	c.dc.Up(t)
	c.waitChannel("dc", api.ChannelConnected)
	c.say("one")
	c.waitTexts("ONE")
	c.dc.Down() // the session can be resumed
	c.waitChannel("dc", api.ChannelQueued)
	c.say("two")
	c.dc.Up(t)
	c.waitTexts("ONE", "TWO")
	if began, resumed := c.dc.Sessions(); began != 1 || resumed != 1 {
		t.Errorf("%d sessions started, %d resumed; want 1 and 1", began, resumed)
	}
	c.dc.Down() // the session is lost
	c.dc.Forget()
	c.waitChannel("dc", api.ChannelQueued)
	c.say("three")
	c.dc.Up(t)
	c.waitTexts("ONE", "TWO", "THREE")
	c.dc.SetMessageContent(false)
	c.dc.Forget() // Discord does not resume a session that it ended because of a disallowed intent
	c.dc.CloseWith(4014, "Disallowed intent(s).")
	if s := c.waitChannel("dc", api.ChannelQueued); !strings.Contains(*s.Reason, "Message Content intent") {
		t.Errorf("reason %q", *s.Reason)
	}
	c.dc.SetMessageContent(true)
	if code, stderr := c.run(t.Context(), io.Discard, "channels", "resume", "dc"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	c.waitChannel("dc", api.ChannelConnected)
	other := strings.Replace(discordtest.Token, "GfAkEt", "ZzZzZz", 1)
	c.dc.SetToken(other)
	c.waitChannel("dc", api.ChannelQueued) // the token worked before, so the channel retries after the first refusal
	c.say("four")
	c.writeSecret("dc", "token", other)
	c.waitTexts("ONE", "TWO", "THREE", "FOUR")
	if inputs := c.agentInputs(); len(inputs) != 4 {
		t.Errorf("inputs of the agent %q, want 4", inputs)
	}
	if output := c.server.output.all(); strings.Contains(output, "TheSecretOfTheBot") {
		t.Errorf("the server's output contains a token: %s", output)
	}
}
