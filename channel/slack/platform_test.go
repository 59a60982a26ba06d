package slack_test

import (
	"strings"
	"testing"
	"time"

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
	down, hangs := false, false
	return &channeltest.Platform{
		Kind: slack.Kind, Dialer: func() chat.Dialer { return o.Dial }, Secrets: []string{slacktest.Token, slacktest.AppToken, "?ticket="},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: time.Second, CloseTimeout: 2 * time.Second,
			IdleTimeout: o.ReconnectPolicy().IdleTimeout,
		},
		People:      people(sl),
		Redeliver:   sl.Redeliver,
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
		LoseSend: func() { sl.Fail("chat.postMessage", slacktest.Fault{Lose: true}) },
		Limits: map[string]func(string, time.Duration){"the methods": func(_ string, d time.Duration) {
			sl.Limit("chat.update", d)
			sl.Limit("chat.postMessage", d)
		}},
		Sends:     channeltest.SendsOf(sl.Server, "chat.postMessage", "chat.update"),
		LongReply: 20_000,
		History:   true, ExactlyOnce: true,
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
		Shown: func(place string) (shown []channeltest.Shown) {
			for _, m := range at(place).Replies() {
				s := channeltest.Shown{ID: at(place).ID + ":" + m.ID, Text: m.Text}
				for _, b := range m.Buttons {
					s.Buttons = append(s.Buttons, chat.Button{Label: b.Label, Data: b.Data})
				}
				shown = append(shown, s)
			}
			return shown
		},
		Edit:   func(person, place, id, text string) { who[person].Edits(at(place), ts(id), text) },
		Delete: func(person, place, id string) { who[person].Deletes(at(place), ts(id)) },
		Press: func(person, place, id, data string) func() []string {
			before := len(at(place).Ephemeral(who[person]))
			who[person].PressesData(at(place), ts(id), data)
			return func() []string { return at(place).Ephemeral(who[person])[before:] }
		},
	}
}
