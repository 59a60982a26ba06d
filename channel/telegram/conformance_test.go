package telegram_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
)

// TestTelegramIsAChannel plays what all channels keep to, from what somebody says to
// the reply.
func TestTelegramIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		return newPlatform(t, func(addr string) string { return addr })
	})
}

// TestTelegramIsAChannelOverABadNetwork plays what networks do.
func TestTelegramIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, newPlatform)
}

// newPlatform is a Telegram for the plays, by way of what through makes of its address.
func newPlatform(t *testing.T, through func(addr string) string) *channeltest.Platform {
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	o := telegram.Options{
		API: through(tg.URL), Poll: time.Second, RoomInterval: time.Millisecond, EditInterval: time.Millisecond,
		Token: func() (string, error) { return telegramtest.Token, nil },
	}
	said, down, hangs := map[string]bool{}, false, false
	return &channeltest.Platform{
		Kind:    telegram.Kind,
		Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{fmt.Sprint(ann.ID)}}}, o.Dial),
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, IdleTimeout: 2500 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
		},
		Post: func(id, text string) {
			if said[id] {
				tg.Redeliver()
				return
			}
			said[id] = true
			ann.Sends(ann.Private(), text)
		},
		Sent:        func() []string { return ann.Private().Texts() },
		Down:        func() { down = true; tg.Down() },
		Hang:        func() { hangs = true; tg.Freeze() },
		RejectLogin: func() { tg.Revoke(telegramtest.Token, true) },
		Restore: func() {
			tg.Revoke(telegramtest.Token, false)
			if hangs {
				hangs = false
				tg.Thaw()
			}
			if down {
				down = false
				tg.Up(t)
			}
		},
		History: true,
	}
}
