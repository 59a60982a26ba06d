package slack_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
)

func TestSlackIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, slacktest.New(t)) })
}

func TestSlackIsAChatPlatform(t *testing.T) {
	t.Parallel()
	channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, slacktest.New(t)) })
}

func TestSlackIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
		sl := slacktest.New(t)
		return newPlatform(t, sl, func(o *slack.Options) { o.API = proxied(sl.URL) })
	})
}

// newRecorder returns a recorder of a fake Slack.
func newRecorder(t *testing.T, sl *slacktest.Platform, change ...func(*slack.Options)) *channeltest.Recorder {
	t.Helper()
	return channeltest.NewRecorder(t, newPlatform(t, sl, change...))
}

// resumeAt returns a recorder that has started at a position.
func resumeAt(t *testing.T, sl *slacktest.Platform, position string) *channeltest.Recorder {
	t.Helper()
	r := newRecorder(t, sl)
	r.SetPosition(position)
	return r.Start()
}

// newPlatform returns a fake Slack for the suite, and a channel with changed options.
func newPlatform(t *testing.T, sl *slacktest.Platform, change ...func(*slack.Options)) *channeltest.Platform {
	token, appToken := channeltest.NewSetting(slacktest.Token), channeltest.NewSetting(slacktest.AppToken)
	o := slack.Options{
		API: sl.URL, IdleTimeout: time.Second, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond,
		Token: token.Get, AppToken: appToken.Get,
	}
	for _, f := range change {
		f(&o)
	}
	return &channeltest.Platform{
		Kind:    slack.Kind,
		Dialer:  func() chat.Dialer { return o.Dial },
		Secrets: []string{slacktest.Token, slacktest.AppToken, "?ticket="},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: time.Second,
			CloseTimeout: 2 * time.Second,
			IdleTimeout:  o.ReconnectPolicy().IdleTimeout,
		},
		People: people(sl),
		Outages: channeltest.Outages{
			Restore: func() { sl.Revoke(false) },
			Fake:    sl,
		},
		Credentials: channeltest.Credentials{
			Token: slacktest.Token,
			Wrong: []channeltest.Login{
				channeltest.WrongToken("an unknown bot", token, "xoxb-0-another-token-of-a-bot", "invalid_auth"),
				channeltest.WrongToken("an unknown app", appToken, "xapp-0-another-token-of-an-app", "invalid_auth"),
				channeltest.WrongToken("no token of a bot", token, slacktest.AppToken, "it starts with xoxb-"),
				channeltest.WrongToken("no token of an app", appToken, slacktest.Token, "it starts with xapp-"),
				channeltest.WrongToken("nothing for the bot", token, "", "it starts with xoxb-"),
				channeltest.WrongToken("nothing for the app", appToken, "", "it starts with xapp-"),
			},
			Renew: func() func() {
				const other = "xoxb-0-fake-token-that-is-new"
				sl.ReplaceToken(other)
				return func() { token.Set(other) }
			},
			Reject:      func() { sl.Revoke(true) },
			RejectCalls: func() { sl.RevokeBot(true) },
		},
		Events: channeltest.Events{
			Times:        true,
			Malformed:    func() { pushMalformed(sl) },
			MalformedLog: "unreadable envelope skipped",
			Pending:      sl.Pending,
			RepeatsAll:   true,
			Positions:    true,
			Forget:       sl.DropPending,
			Redeliver:    sl.Redeliver,
			History:      true,
		},
		Calls: channeltest.Calls{
			Connect:       "auth.test",
			ConnectFaults: connectFaults(),
			Send:          "chat.postMessage",
			SendFaults:    sendFaults(),
			File:          slacktest.Download,
			Addr:          sl.Addr,
			NoRoom:        []string{"C5"},
			Finds:         true,
			Limits: map[string]func(string, time.Duration){"the methods": func(_ string, d time.Duration) {
				sl.Limit("chat.update", d)
				sl.Limit("chat.postMessage", d)
			}},
			Made:        channeltest.SendsOf(sl.Server, "chat.postMessage", "chat.update"),
			RefuseFiles: func() { sl.RemoveScopes("files:write") },
			LongReply:   20_000,
			ExactlyOnce: true,
		},
	}
}

// people returns Ann, Bob, their private chats and their channel.
func people(sl *slacktest.Platform) channeltest.People {
	who := map[string]*slacktest.Person{channeltest.Ann: sl.Person("Ann"), channeltest.Bob: sl.Person("Bob")}
	at := func(place string) *slacktest.Channel {
		if place == channeltest.Dev {
			return sl.Channel("dev")
		}
		return who[place].Private()
	}
	ts := func(id string) string { _, ts, _ := strings.Cut(id, ":"); return ts }
	return channeltest.People{
		ID:   func(person string) string { return who[person].ID },
		Room: func(place string) chat.Room { return chat.Room{Chat: at(place).ID, Group: place == channeltest.Dev} },
		Say: func(m channeltest.Message) string {
			if m.ToBot {
				m.Text = mention + " " + m.Text
			}
			return at(m.Place).ID + ":" + who[m.From].Sends(at(m.Place), m.Text, slacktest.MessageOptions{Thread: ts(m.ReplyTo)})
		},
		Shown: func(place string) []channeltest.Shown {
			return channeltest.ShownIn(at(place).Room, func(n string) string { return at(place).ID + ":" + n })
		},
		Upload: func(person, place, name string, content []byte) {
			who[person].Sends(at(place), "", slacktest.MessageOptions{File: name, Content: content})
		},
		Forward: func(person, place, text string) {
			who[person].Sends(at(place), "", slacktest.MessageOptions{Forwarded: text})
		},
		Quote: func(person, place, text string) { who[person].Sends(at(place), "&gt; "+mention+" do it\n"+text) },
		Topic: func(person string) (func(string), func()) {
			return func(text string) { who[person].Sends(at(channeltest.Dev), mention+" "+text) },
				func() { sl.Fail("chat.postMessage", slacktest.Fault{Code: "thread_not_found"}) }
		},
		Unknown: func(person, place string) { who[person].Sends(at(place), "") },
		Edit:    func(person, place, id, text string) { who[person].Edits(at(place), ts(id), text) },
		Delete:  func(person, place, id string) { who[person].Deletes(at(place), ts(id)) },
		Press: func(person, place, id, data string) func() []string {
			before := len(at(place).Ephemeral(who[person]))
			who[person].PressesData(at(place), ts(id), data)
			return func() []string { return at(place).Ephemeral(who[person])[before:] }
		},
	}
}

func connectFaults() []channeltest.ConnectFault {
	return []channeltest.ConnectFault{
		channeltest.OnConnect("too many, at the start", "auth.test", slacktest.Fault{Code: "ratelimited", RetryAfter: 1},
			"ratelimited", time.Second),
		channeltest.OnConnect("too many sockets", "apps.connections.open",
			slacktest.Fault{Code: "ratelimited", RetryAfter: 1}, "ratelimited", time.Second),
		channeltest.OnConnect("an internal error", "apps.connections.open", slacktest.Fault{Code: "internal_error"},
			"internal_error", 0),
		channeltest.OnConnect("another's page", "apps.connections.open",
			slacktest.Fault{Status: 502, Raw: "<html>no " + slacktest.AppToken + "</html>"}, "(token)", 0),
		channeltest.OnConnect("a missing page", "auth.test", slacktest.Fault{Status: 404, Raw: "nothing"},
			"not from the Web API (404 Not Found)", 0),
		channeltest.OnConnect("nonsense", "auth.test", slacktest.Fault{Raw: "\x00\xff{"}, "not from the Web API", 0),
		channeltest.OnConnect("other JSON", "auth.test", slacktest.Fault{Raw: `{"ok":true,"user_id":7}`},
			"unexpected response", 0),
		channeltest.OnConnect("no bot", "auth.test", slacktest.Fault{Raw: `{"ok":true}`}, "names no bot", 0),
		channeltest.OnConnect("a socket elsewhere", "apps.connections.open",
			slacktest.Fault{Raw: `{"ok":true,"url":"wss://wss.example.org/link?ticket=1"}`}, "not on a Slack host", 0),
		channeltest.OnConnect("no socket", "apps.connections.open", slacktest.Fault{Raw: `{"ok":true}`},
			"not on a Slack host", 0),
	}
}

// pushMalformed sends envelopes that are unreadable or not messages of people.
func pushMalformed(sl *slacktest.Platform) {
	ann, dev := sl.Person("Cy"), sl.Channel("dev")
	ann.Sends(dev, "from another bot", slacktest.MessageOptions{Bot: true})
	ann.Sends(dev, "from another bot", slacktest.MessageOptions{Bot: true, Subtype: "bot_message"})
	ann.Sends(dev, "Ann has joined", slacktest.MessageOptions{Subtype: "channel_join"})
	sl.Push("events_api", map[string]any{"type": "event_callback",
		"event": map[string]any{"type": "reaction_added", "user": ann.ID}})
	sl.Push("events_api", map[string]any{"type": "event_callback", "event": map[string]any{"type": "message", "text": 7}})
	sl.Push("slash_commands", map[string]any{"command": "/x"})
	sl.Push("interactive", map[string]any{"type": "view_submission"})
	sl.Push("what_is_new", map[string]any{})
}

// sendFaults returns failures besides those of documentedErrors.
func sendFaults() []channeltest.SendFault {
	return []channeltest.SendFault{
		channeltest.OnSend(slacktest.Fault{Code: "ratelimited", RetryAfter: 5}, mailroom.ClassUnavailable),
		channeltest.OnSend(slacktest.Fault{Status: 429, Raw: "<html>slow</html>", RetryAfter: 5}, mailroom.ClassUnavailable),
		channeltest.OnSend(slacktest.Fault{Status: 302, Raw: "<html>elsewhere</html>"}, mailroom.ClassUnavailable),
		channeltest.OnSend(slacktest.Fault{Raw: `{}`}, channeltest.ClassUnknown),
		channeltest.OnSend(slacktest.Fault{Raw: `{"ok":true}`}, channeltest.ClassUnknown),
		channeltest.OnSend(slacktest.Fault{Raw: `{"ok":true,"channel":7}`}, channeltest.ClassUnknown),
	}
}
