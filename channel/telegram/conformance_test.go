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

// TestTelegramIsAChannel runs the conformance suite of channels.
func TestTelegramIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		return newPlatform(t, func(addr string) string { return addr })
	})
}

// TestTelegramIsAChannelOverABadNetwork runs the suite with network faults.
func TestTelegramIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, newPlatform)
}

// newPlatform returns a fake Telegram for the suite. proxied maps its address to the one to
// connect to.
func newPlatform(t *testing.T, proxied func(addr string) string) *channeltest.Platform {
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	o := telegram.Options{
		API: proxied(tg.URL), Poll: time.Second, RoomInterval: time.Millisecond, EditInterval: time.Millisecond,
		Token: func() (string, error) { return telegramtest.Token, nil },
	}
	posted, down, hangs := map[string]bool{}, false, false
	return &channeltest.Platform{
		Kind:    telegram.Kind,
		Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{fmt.Sprint(ann.ID)}}}, o.Dial),
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, IdleTimeout: 2500 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
		},
		Post: func(id, text string) {
			if posted[id] {
				tg.Redeliver()
				return
			}
			posted[id] = true
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
