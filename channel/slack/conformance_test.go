package slack_test

import (
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
)

// TestSlackIsAChannel runs the conformance suite of channels.
func TestSlackIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		return newPlatform(t, func(addr string) string { return addr })
	})
}

// TestSlackIsAChannelOverABadNetwork runs the suite with network faults.
func TestSlackIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, newPlatform)
}

// newPlatform returns a fake Slack for the suite. proxied maps its address to the one to
// connect to.
func newPlatform(t *testing.T, proxied func(addr string) string) *channeltest.Platform {
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	o := slack.Options{
		API: proxied(sl.URL), IdleTimeout: 400 * time.Millisecond, RoomInterval: time.Millisecond, EditInterval: time.Millisecond,
		Token:    func() (string, error) { return slacktest.Token, nil },
		AppToken: func() (string, error) { return slacktest.AppToken, nil },
	}
	posted, down, hangs := map[string]bool{}, false, false
	return &channeltest.Platform{
		Kind:    slack.Kind,
		Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{ann.ID}}}, o.Dial),
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, IdleTimeout: 2 * time.Second, ConnectTimeout: time.Second, CloseTimeout: 2 * time.Second,
		},
		Post: func(id, text string) {
			if posted[id] {
				sl.Redeliver()
				return
			}
			posted[id] = true
			ann.Sends(ann.Private(), text)
		},
		Sent:        func() []string { return ann.Private().Texts() },
		Down:        func() { down = true; sl.Down() },
		Hang:        func() { hangs = true; sl.Freeze() },
		RejectLogin: func() { sl.Revoke(true) },
		Restore: func() {
			sl.Revoke(false)
			if hangs {
				hangs = false
				sl.Thaw()
			}
			if down {
				down = false
				sl.Up(t)
			}
		},
		History: true, ExactlyOnce: true,
	}
}
