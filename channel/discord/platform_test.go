package discord_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
	"mailroom/channel/discord/discordtest"
)

// TestDiscordIsAChannel runs the suite with sessions that can be resumed and with sessions that
// are lost each time.
func TestDiscordIsAChannel(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"sessions are resumed": false, "sessions are lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
				dc := newDiscord(t)
				p := newPlatform(t, dc)
				if lost {
					p.Outages.Down, p.Outages.Hang = dc.Forget, dc.Forget
				}
				return p
			})
		})
	}
}

func TestDiscordIsAChatPlatform(t *testing.T) {
	t.Parallel()
	channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, newDiscord(t)) })
}

func TestDiscordIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
		dc := newDiscord(t)
		return newPlatform(t, dc, func(o *discord.Options) { o.API = proxied(dc.URL) })
	})
}

// secret is the part of the token that must not be revealed.
const secret = "TheSecretOfTheBotThatIsUsedInTests"

// newDiscord returns a fake that asks for frequent heartbeats.
func newDiscord(t *testing.T) *discordtest.Platform {
	dc := discordtest.New(t)
	dc.SetHeartbeatInterval(400 * time.Millisecond)
	return dc
}

// newRecorder returns a recorder of a fake Discord.
func newRecorder(t *testing.T, dc *discordtest.Platform, change ...func(*discord.Options)) *channeltest.Recorder {
	t.Helper()
	return channeltest.NewRecorder(t, newPlatform(t, dc, change...))
}

// newPlatform returns a fake Discord for the suite, and a channel with changed options. Its home is
// a channel of a server, because a private channel is known only once its person has written.
func newPlatform(t *testing.T, dc *discordtest.Platform, change ...func(*discord.Options)) *channeltest.Platform {
	token := channeltest.NewSetting(discordtest.Token)
	o := discord.Options{API: dc.URL, Heartbeat: time.Second, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond, Token: token.Get}
	for _, f := range change {
		f(&o)
	}
	people, at := newPeople(dc)
	denied := false
	return &channeltest.Platform{
		Kind:    discord.Kind,
		Dialer:  func() chat.Dialer { return o.Dialer() },
		Secrets: []string{secret},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
			IdleTimeout: 2500 * time.Millisecond,
		},
		People: people,
		Home:   channeltest.Dev,
		Outages: channeltest.Outages{
			HangReason: "heartbeat not acknowledged",
			Restore: func() {
				if denied {
					denied = false
					dc.SetToken(discordtest.Token)
				}
			},
			Fake: dc,
		},
		Credentials: channeltest.Credentials{
			Token: discordtest.Token,
			Hint:  "Developer Portal",
			Wrong: []channeltest.Login{
				channeltest.WrongToken("an unknown token", token, strings.Replace(discordtest.Token, "GfAkEt", "XxXxXx", 1), "token rejected (401 Unauthorized)"),
				channeltest.WrongToken("no token", token, "Bot "+discordtest.Token, "three parts"),
				channeltest.WrongToken("an empty token", token, "", "Developer Portal"),
				{
					Name: "a disabled intent", Want: "turn on the Message Content intent in the Developer Portal",
					Break: func() { dc.SetMessageContent(false) }, Fix: func() { dc.SetMessageContent(true) },
				},
			},
			Renew: func() func() {
				other := strings.Replace(discordtest.Token, "GfAkEt", "YyYyYy", 1)
				dc.SetToken(other)
				return func() { token.Set(other) }
			},
			Reject:      func() { denied = true; dc.SetToken("another." + discordtest.Token) },
			RejectCalls: func() { dc.ReplaceToken("another." + discordtest.Token) },
		},
		Events: channeltest.Events{
			Times:        true,
			Malformed:    func() { pushMalformed(dc) },
			MalformedLog: "type=MESSAGE_CREATE",
			Replies:      true,
			Positions:    true,
			StartsNow:    true,
			Forget:       dc.Forget,
			Redeliver:    dc.Redeliver,
			History:      true,
		},
		Calls: channeltest.Calls{
			Connect:       discordtest.Gateway,
			ConnectFaults: connectFaults(),
			Send:          discordtest.Send,
			SendFaults:    sendFaults(),
			File:          discordtest.File,
			Addr:          dc.Addr,
			NoRoom:        []string{"5"},
			Finds:         true,
			Limits: map[string]func(string, time.Duration){
				"a channel": func(place string, d time.Duration) { dc.Limit(at(place), d) },
				"the bot":   func(_ string, d time.Duration) { dc.LimitAll(d) },
			},
			Made:        channeltest.SendsOf(dc.Server, discordtest.Send, discordtest.Edit, discordtest.Typing),
			RefuseFiles: dc.ForbidFiles,
			LongReply:   20_000,
			ExactlyOnce: true,
		},
	}
}

// newPeople returns Ann, Bob, their private channels and a channel of a server.
func newPeople(dc *discordtest.Platform) (people channeltest.People, at func(place string) *discordtest.Channel) {
	who := map[string]*discordtest.Person{channeltest.Ann: dc.Person("Ann"), channeltest.Bob: dc.Person("Bob")}
	dev := dc.Channel("dev")
	at = func(place string) *discordtest.Channel {
		if place == channeltest.Dev {
			return dev
		}
		return who[place].Private()
	}
	people = channeltest.People{
		ID:   func(person string) string { return who[person].ID },
		Room: func(place string) chat.Room { return room(at(place)) },
		Say: func(m channeltest.Message) string {
			if m.ToBot {
				m.Text = bot + " " + m.Text
			}
			return who[m.From].Sends(at(m.Place), m.Text, discordtest.MessageOptions{ReplyTo: m.ReplyTo})
		},
		Shown: func(place string) []channeltest.Shown {
			return channeltest.ShownIn(at(place).Room, func(id string) string { return id })
		},
		Upload: func(person, place, name string, content []byte) {
			who[person].Sends(at(place), "", discordtest.MessageOptions{File: name, Content: content})
		},
		Forward: func(person, place, text string) {
			who[person].Sends(at(place), "", discordtest.MessageOptions{Forwarded: text})
		},
		Quote: func(person, place, text string) { who[person].Sends(at(place), "> "+bot+" do it\n"+text) },
		Wordless: func(person, place string) string {
			who[person].Sends(at(place), "",
				discordtest.MessageOptions{Fields: map[string]any{"sticker_items": []any{map[string]any{"id": "7",
					"name": "Wave"}}}})
			return "(sent a sticker: Wave)"
		},
		Topic: func(person string) (func(string), func()) {
			thread := dev.Thread("plans", false)
			return func(text string) { who[person].Sends(thread, bot+" "+text) }, thread.Destroy
		},
		Unknown: func(person, place string) {
			who[person].Sends(at(place), "", discordtest.MessageOptions{Fields: map[string]any{"hologram": 1}})
		},
		Edit:   func(person, place, id, text string) { who[person].Edits(at(place), id, text) },
		Delete: func(person, place, id string) { who[person].Deletes(at(place), id) },
		Press: func(person, place, id, data string) func() []string {
			return who[person].PressesData(at(place), id, data).Answers
		},
	}
	return people, at
}

func connectFaults() []channeltest.ConnectFault {
	return []channeltest.ConnectFault{
		channeltest.OnConnect("too many", discordtest.Gateway,
			discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 0.5}, "rate limited",
			500*time.Millisecond),
		channeltest.OnConnect("an internal error", discordtest.Gateway,
			discordtest.Fault{Status: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0),
		channeltest.OnConnect("nonsense", discordtest.Gateway, discordtest.Fault{Raw: "\x00\xff{"}, "unexpected response", 0),
		channeltest.OnConnect("no address", discordtest.Gateway, discordtest.Fault{Raw: `{"url":""}`}, "invalid gateway URL",
			0),
		channeltest.OnConnect("another address", discordtest.Gateway, discordtest.Fault{Raw: `{"url":"https://example.org"}`},
			"invalid gateway URL", 0),
		channeltest.OnConnect("a missing page", discordtest.Gateway, discordtest.Fault{Status: 404, Raw: "<html>404</html>"},
			"not from the Discord API (404 Not Found)", 0),
	}
}

// pushMalformed sends events that are unreadable or of an unknown type.
func pushMalformed(dc *discordtest.Platform) {
	for _, body := range []map[string]any{
		{"id": 17, "channel_id": "x"}, {}, {"id": "1", "channel_id": "2"}, {"id": "1", "author": map[string]any{"id": "3"}},
		{"id": "1", "channel_id": "2", "author": "a string"},
	} {
		for _, kind := range []string{"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "INTERACTION_CREATE",
			"GUILD_CREATE", "GUILD_DELETE", "THREAD_CREATE", "GUILD_ROLE_CREATE"} {
			if kind != "MESSAGE_DELETE" || body["channel_id"] == nil {
				dc.PushEvent(kind, body)
			}
		}
	}
	dc.PushEvent("SOMETHING_NEW", map[string]any{"a": 1})
}

// sendFaults returns failures besides those of TestNoErrorOfAConversationEndsTheBot.
func sendFaults() []channeltest.SendFault {
	return []channeltest.SendFault{
		channeltest.OnSend(discordtest.Fault{Status: 429, Message: "slowly", RetryAfter: 0.01}, mailroom.ClassUnavailable),
		channeltest.OnSend(discordtest.Fault{Status: 429, Raw: `{"message":"slowly","retry_after":0.01,"global":true}`},
			channeltest.ClassEverywhere),
		// a proxy in front of Discord
		channeltest.OnSend(discordtest.Fault{Status: 429, Raw: "<html>error 1015</html>", RetryAfter: 1},
			channeltest.ClassEverywhere),
	}
}
