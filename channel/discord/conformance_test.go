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

// TestDiscordIsAChannel runs the conformance suite of channels, with sessions that can be
// resumed and with sessions that are lost each time.
func TestDiscordIsAChannel(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"sessions are resumed": false, "sessions are lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
				return newPlatform(t, func(addr string) string { return addr }, lost)
			})
		})
	}
}

// TestDiscordIsAChannelOverABadNetwork runs the suite with network faults. No reply arrives
// twice.
func TestDiscordIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(addr string) string) *channeltest.Platform {
		return newPlatform(t, proxied, false)
	})
}

// newPlatform returns a fake Discord for the suite: a channel of a server in which everyone may
// use the bot, and all messages address it. proxied maps its address to the one to connect to.
func newPlatform(t *testing.T, proxied func(addr string) string, lost bool) *channeltest.Platform {
	dc := discordtest.New(t)
	dc.SetHeartbeatInterval(400 * time.Millisecond)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	o := discord.Options{
		API: proxied(dc.URL), Heartbeat: time.Second, RoomInterval: time.Millisecond, EditInterval: time.Millisecond,
		Token: func() (string, error) { return discordtest.Token, nil },
	}
	posted, down, hangs, denied := map[string]bool{}, false, false, false
	forget := func() {
		if lost {
			dc.Forget()
		}
	}
	return &channeltest.Platform{
		Kind: discord.Kind,
		Connect: chat.Connect(chat.Options{
			Agent: channeltest.Agent, Access: chat.AccessPolicy{Chats: []string{dev.ID}, PerUser: true, AllGroupMessages: true},
		}, o.Dialer()),
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, IdleTimeout: 2500 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
		},
		Post: func(id, text string) {
			if posted[id] {
				dc.Redeliver()
				return
			}
			posted[id] = true
			ann.Sends(dev, text)
		},
		Sent:        dev.Texts,
		Down:        func() { down = true; dc.Down(); forget() },
		Hang:        func() { hangs = true; dc.Freeze(); forget() },
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
		History: true, ExactlyOnce: true,
	}
}
