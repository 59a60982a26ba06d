package telegram_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
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

// newRecorder returns a recorder of a fake Telegram.
func newRecorder(t *testing.T, tg *telegramtest.Platform, change ...func(*telegram.Options)) *channeltest.Recorder {
	t.Helper()
	return channeltest.NewRecorder(t, newPlatform(t, tg, change...))
}

// newPlatform returns a fake Telegram for the suite, and a channel with changed options.
func newPlatform(t *testing.T, tg *telegramtest.Platform, change ...func(*telegram.Options)) *channeltest.Platform {
	token := channeltest.NewSetting(telegramtest.Token)
	o := telegram.Options{API: tg.URL, Poll: time.Second, RoomInterval: 10 * time.Millisecond,
		EditInterval: 100 * time.Millisecond, Token: token.Get}
	for _, f := range change {
		f(&o)
	}
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	people, at := newPeople(tg)
	return &channeltest.Platform{
		Kind:    telegram.Kind,
		Dialer:  func() chat.Dialer { return o.Dial },
		Secrets: []string{secret},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 400 * time.Millisecond,
			CloseTimeout: time.Second,
			IdleTimeout:  o.ReconnectPolicy().IdleTimeout + 500*time.Millisecond,
		},
		People: people,
		Outages: channeltest.Outages{
			Restore: func() { tg.Revoke(telegramtest.Token, false) },
			Fake:    tg,
		},
		Credentials: channeltest.Credentials{
			Token: telegramtest.Token,
			Hint:  "@BotFather",
			Wrong: []channeltest.Login{
				channeltest.WrongToken("unknown", token, "700100200:"+strings.Repeat("x", len(secret)), "401 Unauthorized"),
				channeltest.WrongToken("no token", token, "my-token "+secret, "has the form"),
				channeltest.WrongToken("empty", token, "", "has the form"),
			},
			Renew: func() func() {
				other := "700100200:" + strings.Repeat("y", 35)
				tg.AddBot(other, telegramtest.BotID, telegramtest.Username)
				tg.Revoke(telegramtest.Token, true)
				return func() { token.Set(other) }
			},
			Reject: func() { tg.Revoke(telegramtest.Token, true) },
		},
		Events: channeltest.Events{
			Times: true,
			Malformed: func() {
				tg.Fail("getUpdates",
					telegramtest.Fault{Raw: `{"ok":true,"result":[{"update_id":3,"message":{"message_id":"x"}},{"update_id":4,"poll":{"id":"1"}},{"update_id":5,"message":{"message_id":9,"chat":{"id":1,"type":"private"}}}]}`})
			},
			MalformedLog: "update=3",
			Pending:      tg.Pending,
			RepeatsAll:   true,
			Replies:      true,
			Redeliver:    tg.Redeliver,
			History:      true,
		},
		Calls: channeltest.Calls{
			Connect:       "getMe",
			ConnectFaults: connectFaults(secret),
			Send:          "sendMessage",
			SendFaults:    sendFaults(),
			File:          "getFile",
			Addr:          tg.Addr,
			NoRoom:        []string{"5"},
			Limits: map[string]func(string, time.Duration){"a chat": func(place string, d time.Duration) {
				tg.Limit(at(place), d)
			}},
			Made: channeltest.SendsOf(tg.Server, "sendMessage", "editMessageText", "sendChatAction"),
			RefuseFiles: func() {
				tg.Fail("sendDocument", telegramtest.Fault{Status: 400,
					Message: "Bad Request: not enough rights to send documents to the chat"})
			},
			LongReply: 20_000,
		},
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
		Shown: func(place string) []channeltest.Shown {
			return channeltest.ShownIn(at(place).Room, func(n string) string { return id(at(place), n) })
		},
		Upload: func(person, place, name string, content []byte) {
			who[person].Sends(at(place), "", telegramtest.MessageOptions{File: name, Content: content})
		},
		Forward: func(person, place, text string) {
			who[person].Sends(at(place), text,
				telegramtest.MessageOptions{Fields: map[string]any{"forward_origin": map[string]any{
					"type": "user", "date": 1, "sender_user": map[string]any{"id": 42, "is_bot": false, "first_name": "Mallory"},
				}}})
		},
		Quote: func(person, place, text string) {
			quoted := "@" + telegramtest.Username + " do it"
			who[person].Sends(at(place), quoted+"\n"+text, telegramtest.MessageOptions{Fields: map[string]any{"entities": []any{
				map[string]any{"type": "blockquote", "offset": 0, "length": len(quoted)},
				map[string]any{"type": "mention", "offset": 0, "length": len("@" + telegramtest.Username)},
			}}})
		},
		Wordless: func(person, place string) string {
			who[person].Sends(at(place), "",
				telegramtest.MessageOptions{Fields: map[string]any{"location": map[string]any{"latitude": 48.2,
					"longitude": 16.37}}})
			return "(shared a location: 48.2, 16.37)"
		},
		Topic: func(person string) (func(string), func()) {
			topic := group.Topic()
			return func(text string) {
				who[person].Sends(group, "@"+telegramtest.Username+" "+text, telegramtest.MessageOptions{Topic: topic})
			}, func() { group.DeleteTopic(topic) }
		},
		Unknown: func(person, place string) {
			who[person].Sends(at(place), "",
				telegramtest.MessageOptions{Fields: map[string]any{"hologram": map[string]any{"id": "x"}}})
		},
		Edit: func(person, place, id, text string) { who[person].Edits(at(place), messageNumber(id), text) },
		Press: func(person, place, id, data string) func() []string {
			return who[person].PressesData(at(place), messageNumber(id), data).Answers
		},
	}
	return people, at
}

func connectFaults(secret string) []channeltest.ConnectFault {
	return []channeltest.ConnectFault{
		channeltest.OnConnect("too many polls", "getUpdates",
			telegramtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests",
			time.Second),
		channeltest.OnConnect("too many, at the start", "getMe",
			telegramtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests",
			time.Second),
		channeltest.OnConnect("an internal error", "getUpdates",
			telegramtest.Fault{Status: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0),
		channeltest.OnConnect("a missing page", "getMe",
			telegramtest.Fault{Status: 404, Raw: "<html>404: /bot700100200%3A" + secret + "</html>"},
			"not from the Bot API (404 Not Found)", 0),
		channeltest.OnConnect("nonsense", "getUpdates", telegramtest.Fault{Raw: "\x00\xff{"}, "not from the Bot API", 0),
		channeltest.OnConnect("other JSON", "getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":{"a":1}}`},
			"unexpected response", 0),
		channeltest.OnConnect("no update_id", "getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":[{"message":{}}]}`},
			"without update_id", 0),
		channeltest.OnConnect("no bot", "getMe", telegramtest.Fault{Raw: `{"ok":true,"result":{}}`}, "names no bot", 0),
	}
}

func sendFaults() []channeltest.SendFault {
	refusal := func(code int, words string) telegramtest.Fault {
		return telegramtest.Fault{Status: code, Message: words}
	}
	return []channeltest.SendFault{
		channeltest.OnSend(refusal(403, "Forbidden: bot was blocked by the user"), channeltest.ClassGone),
		channeltest.OnSend(refusal(403, "Forbidden: user is deactivated"), channeltest.ClassGone),
		channeltest.OnSend(refusal(403, "Forbidden: bot was kicked from the supergroup chat"), channeltest.ClassGone),
		channeltest.OnSend(refusal(403, "Forbidden: bot is not a member of the channel chat"), channeltest.ClassGone),
		channeltest.OnSend(refusal(403, "Forbidden: bot can't initiate conversation with a user"), channeltest.ClassGone),
		channeltest.OnSend(refusal(403, "Forbidden: the group chat was deleted"), channeltest.ClassGone),
		channeltest.OnSend(refusal(400, "Bad Request: chat not found"), channeltest.ClassGone),
		channeltest.OnSend(refusal(400, "Bad Request: message thread not found"), channeltest.ClassGone),
		channeltest.OnSend(refusal(400, "Bad Request: not enough rights to send text messages to the chat"),
			mailroom.ClassPermanent),
		channeltest.OnSend(refusal(400, "Bad Request: CHAT_WRITE_FORBIDDEN"), mailroom.ClassPermanent),
		channeltest.OnSend(refusal(400, "Bad Request: TOPIC_CLOSED"), mailroom.ClassPermanent),
		channeltest.OnSend(refusal(400, "Bad Request: message is too long"), mailroom.ClassPermanent),
		channeltest.OnSend(refusal(413, "Request Entity Too Large"), mailroom.ClassPermanent),
		channeltest.OnSend(refusal(429, "Too Many Requests: retry after 5"), mailroom.ClassUnavailable),
		channeltest.OnSend(refusal(500, "Internal Server Error"), channeltest.ClassUnknown),
	}
}
