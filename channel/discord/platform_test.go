package discord_test

import (
	"testing"
	"time"

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
				dc := discordtest.New(t)
				p := newPlatform(t, dc)
				if lost {
					down, hang := p.Down, p.Hang
					p.Down = func() { down(); dc.Forget() }
					p.Hang = func() { hang(); dc.Forget() }
				}
				return p
			})
		})
	}
}

func TestDiscordIsAChatPlatform(t *testing.T) {
	t.Parallel()
	channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, discordtest.New(t)) })
}

func TestDiscordIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
		dc := discordtest.New(t)
		return newPlatform(t, dc, func(o *discord.Options) { o.API = proxied(dc.URL) })
	})
}

// secret is the part of the token that must not be revealed.
const secret = "TheSecretOfTheBotThatIsUsedInTests"

// newPlatform returns a fake Discord for the suite, and a channel with changed options. Its home is
// a channel of a server, because a private channel is known only once its person has written.
func newPlatform(t *testing.T, dc *discordtest.Platform, change ...func(*discord.Options)) *channeltest.Platform {
	token := channeltest.NewSetting(discordtest.Token)
	o := discord.Options{API: dc.URL, Heartbeat: time.Second, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond, Token: token.Get}
	for _, f := range change {
		f(&o)
	}
	dc.SetHeartbeatInterval(400 * time.Millisecond)
	people, at := newPeople(dc)
	down, hangs, denied := false, false, false
	return &channeltest.Platform{
		Kind: discord.Kind, Dialer: func() chat.Dialer { return o.Dialer() }, Secrets: []string{secret},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
			IdleTimeout: 2500 * time.Millisecond,
		},
		People: people, Home: channeltest.Dev,
		Redeliver:   dc.Redeliver,
		Down:        func() { down = true; dc.Down() },
		HangReason:  "heartbeat not acknowledged",
		Hang:        func() { hangs = true; dc.Freeze() },
		RejectLogin: func() { denied = true; dc.SetToken("another." + discordtest.Token) },
		Restore: func() {
			if denied {
				denied = false
				dc.SetToken(discordtest.Token)
			}
			if hangs {
				hangs = false
				dc.Thaw()
			}
			if down {
				down = false
				dc.Up(t)
			}
		},
		LoseSend: func() { dc.Fail(discordtest.Send, discordtest.Fault{Lose: true}) },
		Limits: map[string]func(string, time.Duration){
			"a channel": func(place string, d time.Duration) { dc.Limit(at(place), d) },
			"the bot":   func(_ string, d time.Duration) { dc.LimitAll(d) },
		},
		Sends:     channeltest.SendsOf(dc.Server, discordtest.Send, discordtest.Edit, discordtest.Typing),
		LongReply: 20_000,
		History:   true, ExactlyOnce: true,
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
		Shown: func(place string) (shown []channeltest.Shown) {
			for _, m := range at(place).Replies() {
				s := channeltest.Shown{ID: m.ID, Text: m.Text}
				for _, b := range m.Buttons {
					s.Buttons = append(s.Buttons, chat.Button{Label: b.Label, Data: b.Data})
				}
				shown = append(shown, s)
			}
			return shown
		},
		Edit:   func(person, place, id, text string) { who[person].Edits(at(place), id, text) },
		Delete: func(person, place, id string) { who[person].Deletes(at(place), id) },
		Press: func(person, place, id, data string) func() []string {
			return who[person].PressesData(at(place), id, data).Answers
		},
	}
	return people, at
}
