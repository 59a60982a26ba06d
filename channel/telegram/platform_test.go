package telegram_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
)

func TestTelegramIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, telegramtest.New(t)) })
}

func TestTelegramIsAChatPlatform(t *testing.T) {
	t.Parallel()
	channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, telegramtest.New(t)) })
}

func TestTelegramIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
		tg := telegramtest.New(t)
		return newPlatform(t, tg, func(o *telegram.Options) { o.API = proxied(tg.URL) })
	})
}

// newPlatform returns a fake Telegram for the suite, and a channel with changed options.
func newPlatform(t *testing.T, tg *telegramtest.Platform, change ...func(*telegram.Options)) *channeltest.Platform {
	token := channeltest.NewSetting(telegramtest.Token)
	o := telegram.Options{API: tg.URL, Poll: time.Second, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond, Token: token.Get}
	for _, f := range change {
		f(&o)
	}
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	people, at := newPeople(tg)
	down, hangs := false, false
	return &channeltest.Platform{
		Kind: telegram.Kind, Dialer: func() chat.Dialer { return o.Dial }, Secrets: []string{secret},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond, CloseTimeout: time.Second,
			IdleTimeout: o.ReconnectPolicy().IdleTimeout + 500*time.Millisecond,
		},
		People:      people,
		Redeliver:   tg.Redeliver,
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
		LoseSend:  func() { tg.Fail("sendMessage", telegramtest.Fault{Lose: true}) },
		Limits:    map[string]func(string, time.Duration){"a chat": func(place string, d time.Duration) { tg.Limit(at(place), d) }},
		Sends:     channeltest.SendsOf(tg.Server, "sendMessage", "editMessageText", "sendChatAction"),
		LongReply: 20_000,
		History:   true,
	}
}

// newPeople returns Ann, Bob, their private chats and their group.
func newPeople(tg *telegramtest.Platform) (people channeltest.People, at func(place string) *telegramtest.Chat) {
	who := map[string]*telegramtest.Person{channeltest.Ann: tg.Person("Ann"), channeltest.Bob: tg.Person("Bob")}
	group := tg.Group("dev")
	at = func(place string) *telegramtest.Chat {
		if place == channeltest.Dev {
			return group
		}
		return who[place].Private()
	}
	id := func(c *telegramtest.Chat, n string) string { return fmt.Sprintf("%d:%s", c.ID, n) }
	people = channeltest.People{
		ID:   func(person string) string { return fmt.Sprint(who[person].ID) },
		Room: func(place string) chat.Room { return room(at(place)) },
		Say: func(m channeltest.Message) string {
			var how telegramtest.MessageOptions
			if m.ReplyTo != "" {
				how.ReplyTo = messageNumber(m.ReplyTo)
			}
			if m.ToBot {
				m.Text = "@" + telegramtest.Username + " " + m.Text
			}
			return id(at(m.Place), who[m.From].Sends(at(m.Place), m.Text, how))
		},
		Shown: func(place string) (shown []channeltest.Shown) {
			for _, m := range at(place).Replies() {
				s := channeltest.Shown{ID: id(at(place), m.ID), Text: m.Text}
				for _, b := range m.Buttons {
					s.Buttons = append(s.Buttons, chat.Button{Label: b.Label, Data: b.Data})
				}
				shown = append(shown, s)
			}
			return shown
		},
		Edit: func(person, place, id, text string) { who[person].Edits(at(place), messageNumber(id), text) },
		Press: func(person, place, id, data string) func() []string {
			return who[person].PressesData(at(place), messageNumber(id), data).Answers
		},
	}
	return people, at
}
