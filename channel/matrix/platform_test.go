package matrix_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

func TestMatrixIsAChannel(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var n atomic.Int64
		channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
			return newPlatform(t, newWorld(t, url, fmt.Sprint(n.Add(1))))
		})
	})
}

func TestMatrixIsAChatPlatform(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var n atomic.Int64
		channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform {
			return newPlatform(t, newWorld(t, url, fmt.Sprint(n.Add(1))))
		})
	})
}

func TestMatrixIsAChannelOverABadNetwork(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var n atomic.Int64
		channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
			w := newWorld(t, url, fmt.Sprint(n.Add(1)))
			return newPlatform(t, w, func(o *matrix.Options) { o.Homeserver = proxied(w.proxy.URL) })
		})
	})
}

// world is a part of a homeserver: the bot, people, the private rooms of Ann and Bob, and a room of
// all.
type world struct {
	proxy         *matrixtest.Proxy
	bot, ann, bob *matrixtest.Person
	rooms         map[string]string
	token         *channeltest.Setting[string]
}

// newWorld returns a world whose people have a number in their names.
func newWorld(t *testing.T, url, n string) *world {
	w := &world{
		proxy: matrixtest.NewProxy(t, url), bot: matrixtest.NewPerson(t, url, "mailroom"+n, "Mailroom"),
		ann: matrixtest.NewPerson(t, url, "ann"+n, "Ann"), bob: matrixtest.NewPerson(t, url, "bob"+n, "Bob"),
	}
	w.rooms = map[string]string{channeltest.Ann: w.ann.NewRoom(true, w.bot), channeltest.Bob: w.bob.NewRoom(true, w.bot), channeltest.Dev: w.ann.NewRoom(false, w.bot, w.bob)}
	for _, room := range w.rooms {
		w.bot.Joins(room)
	}
	w.bob.Joins(w.rooms[channeltest.Dev])
	w.token = channeltest.NewSetting(w.bot.Token)
	return w
}

// newPlatform returns a world for the suite, and a channel with changed options.
func newPlatform(t *testing.T, w *world, change ...func(*matrix.Options)) *channeltest.Platform {
	o := matrix.Options{Homeserver: w.proxy.URL, Poll: time.Second, Gap: 10 * time.Millisecond, EditGap: 100 * time.Millisecond, Token: w.token.Get}
	for _, f := range change {
		f(&o)
	}
	down, hangs, denied := false, false, false
	return &channeltest.Platform{
		Kind: matrix.Kind, Dialer: func() chat.Dialer { return o.Dial }, Secrets: []string{w.bot.Token},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 2 * time.Second, CloseTimeout: time.Second,
			IdleTimeout: o.ReconnectPolicy().IdleTimeout + time.Second,
		},
		People:      w.people(),
		Down:        func() { down = true; w.proxy.Down() },
		Hang:        func() { hangs = true; w.proxy.Freeze() },
		RejectLogin: func() { denied = true; w.bot.Logout() },
		Restore: func() {
			if denied {
				denied = false
				w.bot.Login()
				w.token.Set(w.bot.Token)
			}
			if hangs {
				hangs = false
				w.proxy.Thaw()
			}
			if down {
				down = false
				w.proxy.Up(t)
			}
		},
		LoseSend:  func() { w.proxy.Fail("send", matrixtest.Fault{Lose: true}) },
		Limits:    map[string]func(string, time.Duration){"the account": func(_ string, d time.Duration) { w.proxy.Limit(d) }},
		Sends:     channeltest.SendsOf(w.proxy.Server, "send", "typing"),
		LongReply: 90_000,
		History:   true, ExactlyOnce: true,
	}
}

func (w *world) people() channeltest.People {
	who := map[string]*matrixtest.Person{channeltest.Ann: w.ann, channeltest.Bob: w.bob}
	return channeltest.People{
		ID:   func(person string) string { return who[person].ID },
		Room: func(place string) chat.Room { return chat.Room{Chat: w.rooms[place], Group: place == channeltest.Dev} },
		Say: func(m channeltest.Message) string {
			if m.ToBot {
				m.Text = w.bot.ID + ": " + m.Text
			}
			if m.ReplyTo != "" {
				return who[m.From].Says(w.rooms[m.Place], m.Text, matrixtest.ReplyTo(m.ReplyTo))
			}
			return who[m.From].Says(w.rooms[m.Place], m.Text)
		},
		Shown: func(place string) (shown []channeltest.Shown) {
			reader := w.ann
			if place == channeltest.Bob {
				reader = w.bob
			}
			for _, m := range reader.Messages(w.rooms[place], w.bot) {
				shown = append(shown, channeltest.Shown{ID: m.ID, Text: m.Body()})
			}
			return shown
		},
		Edit:   func(person, place, id, text string) { who[person].Edits(w.rooms[place], id, text) },
		Delete: func(person, place, id string) { who[person].Deletes(w.rooms[place], id) },
	}
}
