package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/channel/platformtest"
	"mailroom/channel/slack/slacktest"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/client"
)

// agentInputs returns the inputs that the agent recorded, one per line of its file.
func (h *fixture) agentInputs() []string {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(h.dir), "inputs"))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// command returns the command of an agent: it records its input, runs the shell commands in more, and
// replies in upper case.
func (h *fixture) command(more string) []string {
	return []string{"sh", "-c", fmt.Sprintf("cd %q; read -r text; echo \"$text\" >>inputs; %s echo \"$text\" | tr a-z A-Z",
		string(h.dir), more)}
}

func (h *fixture) configure(settings string) {
	h.t.Helper()
	if err := os.WriteFile(h.dir.Config(), []byte(settings), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// writeSecret writes a file with a secret of a channel.
func (h *fixture) writeSecret(channel, name, secret string) {
	h.t.Helper()
	if err := os.WriteFile(h.dir.ChannelSecret(channel, name), []byte(secret), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// serve starts the server until it is killed.
func (h *fixture) serve() {
	h.t.Helper()
	h.server = &process{}
	h.process(h.server)
}

// count returns the number of entries of a kind in a thread.
func (h *fixture) count(thread, kind string) (n int) {
	h.t.Helper()
	page, err := h.client().Entries(h.t.Context(), thread, client.EntriesQuery{Limit: 500})
	if err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
		h.t.Fatal(err)
	}
	for _, e := range page.Items {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// waitEntries waits until the log of a thread has at least n entries of a kind.
func (h *fixture) waitEntries(thread, kind string, n int) {
	h.t.Helper()
	platformtest.WaitFor(h.t, fmt.Sprintf("%d entries %s in thread %s", n, kind, thread), func() bool {
		return h.count(thread, kind) >= n
	})
}

// waitAgentInputs waits until the agent has received n messages.
func (h *fixture) waitAgentInputs(n int) {
	h.t.Helper()
	platformtest.WaitFor(h.t, fmt.Sprintf("%d inputs of the agent", n), func() bool { return len(h.agentInputs()) >= n })
}

// waitChannel waits until a channel has a state, and returns it.
func (h *fixture) waitChannel(name, state string) (found api.Channel) {
	h.t.Helper()
	platformtest.WaitFor(h.t, fmt.Sprintf("channel %s to be %s", name, state), func() bool {
		all, err := h.client().Channels(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(c api.Channel) bool { return c.Name == name && c.State == state })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// chatFixture is a server in its own process, with a channel of a platform. Its agent records its
// inputs and replies in upper case. Ann is an allowed user.
type chatFixture struct {
	*fixture
	channel string // name of the channel
	thread  string // the conversation with Ann
	say     func(text string)
	texts   func() []string // messages that Ann received
	secrets []string        // that the server's output must not contain

	// Faults of sends.
	failSend func(platformtest.Fault)
	sends    func() int         // attempts so far
	limit    platformtest.Fault // a rate limit with a retry delay
	repeats  bool               // a reply with an unknown outcome is sent again and marked

	// Behavior of the platform; nil: none.
	early       bool              // it keeps messages for the first connection
	loseAcks    func(lost bool)   // drops acknowledgements while true
	pending     func() int        // unacknowledged messages
	whileKilled func()            // runs after a kill
	forget      func()            // drops undelivered messages
	restarted   func()            // runs after the next start
	check       func(limited int) // checks the number of requests, of which so many were refused
}

// newChatFixture returns a fixture without a platform. more is shell code of the agent, and settings
// are lines of the channel's table.
func newChatFixture(t *testing.T, channel, kind, more string, secrets map[string]string, settings string) *chatFixture {
	t.Helper()
	c := &chatFixture{fixture: newFixture(t, ""), channel: channel}
	command, err := json.Marshal(c.command(more))
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range secrets {
		c.writeSecret(channel, name, secret)
		c.secrets = append(c.secrets, secret)
		settings += fmt.Sprintf("%s_file = %q\n", strings.ReplaceAll(name, "-", "_"), c.dir.ChannelSecret(channel, name))
	}
	if !strings.Contains(settings, "join_within") {
		settings += "join_within = \"0s\"\n" // each message is a run
	}
	c.configure(
		fmt.Sprintf("[agents.shout]\nkind = \"exec\"\ncommand = %s\n[channels.%s]\nkind = %q\nagent = \"shout\"\n%s", command,
			channel, kind, settings))
	return c
}

// retryQuickly has settings of a channel with short retry delays.
const retryQuickly = "retry_first = \"100ms\"\nretry_most = \"400ms\"\n"

// out returns Ann's delivery thread.
func (c *chatFixture) out() string { return "out:" + c.thread }

// waitTexts waits until Ann has received exactly these texts.
func (c *chatFixture) waitTexts(want ...string) {
	c.t.Helper()
	platformtest.WaitFor(c.t, fmt.Sprintf("messages to Ann: %q", want), func() bool {
		return slices.Equal(c.texts(), want)
	})
}

// telegramFixture is a chatFixture with a fake Telegram.
type telegramFixture struct {
	*chatFixture
	tg  *telegramtest.Platform
	ann *telegramtest.Person
}

// newTelegramFixture returns a fixture whose Telegram is down.
func newTelegramFixture(t *testing.T, more string) *telegramFixture {
	t.Helper()
	tg := telegramtest.NewDown(t)
	ann := tg.Person("Ann")
	c := newChatFixture(t, "tg", "telegram", more, map[string]string{"token": telegramtest.Token},
		fmt.Sprintf("%sapi = %q\npoll = \"1s\"\npreviews = false\nusers = [\"%d\"]\n", retryQuickly, tg.URL, ann.ID))
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	c.secrets, c.thread, c.early, c.repeats = []string{secret}, fmt.Sprintf("tg:%d:%d", telegramtest.BotID, ann.ID), true,
		true
	c.say, c.texts = func(text string) { ann.Sends(ann.Private(), text) }, ann.Private().Texts
	c.failSend = func(f platformtest.Fault) { tg.Fail("sendMessage", f) }
	c.sends = func() int { return len(tg.Calls("sendMessage")) }
	c.limit = platformtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}
	c.pending = tg.Pending
	c.loseAcks = func(lost bool) {
		if lost {
			tg.Fail("getUpdates", platformtest.Fault{}, platformtest.Fault{Hang: true}) // the second poll confirms the update
		}
	}
	return &telegramFixture{c, tg, ann}
}

// newSlackFixture returns a fixture with a fake Slack.
func newSlackFixture(t *testing.T, more string) *chatFixture {
	t.Helper()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	c := newChatFixture(t, "sl", "slack", more, map[string]string{"token": slacktest.Token,
		"app-token": slacktest.AppToken},
		fmt.Sprintf("%sapi = %q\npreviews = false\nusers = [%q]\n", retryQuickly, sl.URL, ann.ID))
	c.secrets = append(c.secrets, "ticket=")
	c.thread, c.early = "sl:"+slacktest.TeamID+"."+slacktest.BotID+":"+ann.Private().ID, true
	c.say, c.texts = func(text string) { ann.Sends(ann.Private(), text) }, ann.Private().Texts
	c.failSend = func(f platformtest.Fault) { sl.Fail("chat.postMessage", f) }
	c.sends = func() int { return len(sl.Calls("chat.postMessage")) }
	c.limit = platformtest.Fault{Code: "ratelimited", RetryAfter: 1}
	c.loseAcks, c.pending, c.forget = sl.LoseAcks, sl.Pending, sl.DropPending
	return c
}

// discordFixture is a chatFixture with a fake Discord.
type discordFixture struct {
	*chatFixture
	dc *discordtest.Platform
}

// newDiscordFixture returns a fixture whose Discord is down.
func newDiscordFixture(t *testing.T, more string) *discordFixture {
	t.Helper()
	dc := discordtest.NewDown(t)
	ann := dc.Person("Ann")
	private := ann.Private()
	c := newChatFixture(t, "dc", "discord", more, map[string]string{"token": discordtest.Token},
		fmt.Sprintf("%sapi = %q\nbeat = \"1s\"\npreviews = false\nusers = [%q]\n", retryQuickly, dc.URL, ann.ID))
	c.secrets, c.thread = []string{"TheSecretOfTheBot"}, "dc:"+discordtest.BotID+":"+private.ID
	c.say, c.texts = func(text string) { ann.Sends(private, text) }, private.Texts
	c.failSend = func(f platformtest.Fault) { dc.Fail(discordtest.Send, f) }
	c.sends = func() int { return len(dc.Calls(discordtest.Send)) }
	c.limit = platformtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 1}
	c.whileKilled = func() {
		dc.WaitFor(t, "the end of the connection", func() bool { return dc.Connections() == 0 })
	}
	return &discordFixture{c, dc}
}

// matrixServer is a homeserver.
type matrixServer struct {
	url string
	// again restarts it after a crash, without its transaction ids.
	again func()
}

// matrixHomes has the homeservers that the tests run on. The build tag realchannels adds Dendrite.
var matrixHomes = map[string]func(t *testing.T) matrixServer{
	"made here": func(t *testing.T) matrixServer {
		h := matrixtest.Start(t)
		return matrixServer{h.URL, h.ForgetTransactions}
	},
}

// newMatrixFixture returns a fixture whose bot has a unique name on a homeserver.
func newMatrixFixture(t *testing.T, h matrixServer, name, more string) *chatFixture {
	t.Helper()
	way := matrixtest.NewProxy(t, h.url)
	bot, ann := matrixtest.NewPerson(t, h.url, name, "Mailroom"), matrixtest.NewPerson(t, h.url, name+"-ann", "Ann")
	room := ann.NewRoom(true, bot)
	bot.Joins(room)
	c := newChatFixture(t, "mx", "matrix", more, map[string]string{"token": bot.Token},
		fmt.Sprintf(
			"%shomeserver = %q\npoll = \"3s\"\ngap = \"10ms\"\nedit_gap = \"200ms\"\npreviews = false\nadmins = [%q]\n",
			retryQuickly, way.URL, ann.ID))
	c.thread, c.early = "mx:"+url.QueryEscape(bot.ID)+":"+url.QueryEscape(room), true
	c.say, c.texts = func(text string) { ann.Says(room, text) }, func() []string { return ann.Texts(room, bot) }
	c.failSend = func(f platformtest.Fault) { way.Fail("send", f) }
	c.sends = func() int { return len(way.Calls("send")) }
	c.limit = platformtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", RetryAfter: 1}
	return c
}

// newWebhookFixture returns a fixture with a program that repeats unanswered requests and recognizes
// messages by their ids. It does not read the response to its first request.
func newWebhookFixture(t *testing.T, more string) *chatFixture {
	t.Helper()
	receiver := platformtest.NewWebhookReceiver(t)
	c := newChatFixture(t, "ops", "webhook", more, map[string]string{"token": platformtest.WebhookSecret},
		fmt.Sprintf("url = %q\nallow = [\"127.0.0.1\"]\n", receiver.URL))
	raw := strings.TrimPrefix(platformtest.WebhookSecret, "whsec_")
	c.secrets, c.thread, c.texts = []string{raw}, "ops:webhook:lobby",
		receiver.Texts
	c.failSend, c.limit = func(f platformtest.Fault) { receiver.Fail(f) }, platformtest.Fault{Status: 429, RetryAfter: 1}
	c.sends = func() int { return len(receiver.Posts()) }
	program := func() *platformtest.WebhookProgram {
		at, err := c.dir.Address()
		if err != nil {
			t.Fatal(err)
		}
		return &platformtest.WebhookProgram{URL: at.URL, Key: platformtest.WebhookKey}
	}
	var texts []string
	posted, off := 0, false
	post := func() { // the next message
		t.Helper()
		receiver.WaitFor(t, fmt.Sprintf("message %d to be accepted", posted), func() bool {
			message := platformtest.WebhookMessage("lobby", "ann", texts[posted])
			a, err := program().Post("ops", fmt.Sprint("msg-", posted), message, nil)
			return err == nil && a.Code == 202
		})
		posted++
	}
	var unread net.Conn
	c.say = func(text string) {
		t.Helper()
		texts = append(texts, text)
		var err error
		switch {
		case unread == nil:
			message := platformtest.WebhookMessage("lobby", "ann", text)
			if unread, err = program().PostUnread("ops", "msg-0", message); err != nil {
				t.Fatal(err)
			}
		case !off:
			post()
		}
	}
	c.whileKilled = func() {
		off = true
		if err := unread.Close(); err != nil {
			t.Error(err)
		}
	}
	c.restarted = func() {
		for off = false; posted < len(texts); {
			post()
		}
	}
	c.check = func(failed int) {
		if n := len(receiver.Posts()); n != len(texts)+failed {
			t.Errorf("%d requests, want %d: %q", n, len(texts)+failed, receiver.Texts())
		}
	}
	return c
}
