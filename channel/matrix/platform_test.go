package matrix_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

// servers start the homeservers that the tests run on, and return their URLs. The build tag
// realchannels adds Dendrite.
var servers = map[string]func(t *testing.T) string{
	"made here": func(t *testing.T) string { return matrixtest.Start(t).URL },
}

// forEachServer runs a test on every homeserver.
func forEachServer(t *testing.T, play func(t *testing.T, url string)) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t))
		})
	}
}

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

// world is a part of a homeserver: the bot, Ann and Bob, a private room of each person with the bot, and a room of all
// three.
type world struct {
	proxy         *matrixtest.Proxy
	bot, ann, bob *matrixtest.Person
	rooms         map[string]string
	token         *channeltest.Setting[string]
}

// newWorld returns a world. The names of the accounts end with n, so that several worlds share a homeserver.
func newWorld(t *testing.T, url, n string) *world {
	w := &world{
		proxy: matrixtest.NewProxy(t, url), bot: matrixtest.NewPerson(t, url, "mailroom"+n, "Mail Room"),
		ann: matrixtest.NewPerson(t, url, "ann"+n, "Ann"), bob: matrixtest.NewPerson(t, url, "guest"+n, "Bob"),
	}
	w.rooms = map[string]string{channeltest.Ann: w.ann.NewRoom(true, w.bot), channeltest.Bob: w.bob.NewRoom(true, w.bot),
		channeltest.Dev: w.ann.NewRoom(false, w.bot, w.bob)}
	for _, room := range w.rooms {
		w.bot.Joins(room)
	}
	w.bob.Joins(w.rooms[channeltest.Dev])
	w.token = channeltest.NewSetting(w.bot.Token)
	return w
}

// newRecorder returns a world of newWorld, and a recorder of what its bot receives.
func newRecorder(t *testing.T, url, n string) (*world, *channeltest.Recorder) {
	t.Helper()
	w := newWorld(t, url, n)
	return w, channeltest.NewRecorder(t, newPlatform(t, w))
}

// newPlatform returns a world as a platform for the suite. The functions of change modify the options of its channel.
func newPlatform(t *testing.T, w *world, change ...func(*matrix.Options)) *channeltest.Platform {
	o := matrix.Options{Homeserver: w.proxy.URL, Poll: time.Second, Gap: 10 * time.Millisecond, EditGap: 100 * time.Millisecond, Token: w.token.Get}
	for _, f := range change {
		f(&o)
	}
	denied := false
	return &channeltest.Platform{
		Kind:    matrix.Kind,
		Dialer:  func() chat.Dialer { return o.Dial },
		Secrets: []string{w.bot.Token},
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ConnectTimeout: 2 * time.Second, CloseTimeout: time.Second,
			IdleTimeout: o.ReconnectPolicy().IdleTimeout + time.Second,
		},
		People: w.people(),
		Outages: channeltest.Outages{
			Restore: func() {
				if denied {
					denied = false
					w.bot.Login()
					w.token.Set(w.bot.Token)
				}
			},
			Fake: w.proxy,
		},
		Credentials: channeltest.Credentials{
			Token: w.bot.Token,
			Wrong: []channeltest.Login{
				channeltest.WrongToken("unknown", w.token, "syt_not_known", "was rejected (401"),
				channeltest.WrongToken("none", w.token, "", "not a Matrix access token"),
				channeltest.WrongToken("words", w.token, "two words", "not a Matrix access token"),
				w.failedLogin("ended", "access token expired (401", matrixtest.Fault{Status: 401, Raw: `{"errcode":"M_UNKNOWN_TOKEN","error":"Soft logged out","soft_logout":true}`}),
				w.failedLogin("deactivated", "account is deactivated", matrixtest.Fault{Status: 403, Code: "M_USER_DEACTIVATED", Message: "This account has been deactivated"}),
				w.failedLogin("terms", "requires consent to its terms", matrixtest.Fault{Status: 403, Code: "M_CONSENT_NOT_GIVEN", Message: "Agree at https://terms.example"}),
			},
			Renew: func() func() {
				w.bot.Logout()
				return func() {
					w.bot.Login()
					w.token.Set(w.bot.Token)
				}
			},
			Reject: func() { denied = true; w.bot.Logout() },
		},
		Events: channeltest.Events{
			Times: true,
			Malformed: func() {
				w.proxy.Fail("sync", matrixtest.Fault{Raw: `{"next_batch":"s0","rooms":{"join":{"` + w.rooms[channeltest.Ann] + `":{"timeline":{"events":[7,{"event_id":"$a"},
				{"event_id":"$b","sender":"@ann:test.example","type":"m.room.message","content":7}]}}},
				"invite":{"!x:test.example":{"invite_state":{"events":[7,{"type":"m.room.member"}]}}}}}`})
			},
			MalformedLog: "event=$b",
			Replies:      true,
			Positions:    true,
			History:      true,
		},
		Calls: channeltest.Calls{
			Connect:       "whoami",
			ConnectFaults: connectFaults(w.bot.Token),
			Send:          "send",
			SendFaults:    sendFaults(),
			File:          "download",
			Addr:          w.proxy.Addr,
			NoRoom:        []string{"!nowhere:test.example"},
			Finds:         true,
			Limits:        map[string]func(string, time.Duration){"the account": func(_ string, d time.Duration) { w.proxy.Limit(d) }},
			Made:          channeltest.SendsOf(w.proxy.Server, "send", "typing"),
			RefuseFiles: func() {
				w.proxy.Fail("upload", matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN", Message: "You may not upload"})
			},
			LongReply:   90_000,
			ExactlyOnce: true,
		},
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
				file, content := reader.Downloads(m)
				shown = append(shown, channeltest.Shown{ID: m.ID, Text: m.Body(), File: file, Content: content})
			}
			return shown
		},
		Upload: func(person, place, name string, content []byte) {
			uri := who[person].Uploads(name, "text/plain", content)
			who[person].Says(w.rooms[place], name, map[string]any{"msgtype": "m.file", "filename": name, "url": uri,
				"info": map[string]any{"mimetype": "text/plain", "size": len(content)}})
		},
		Quote: func(person, place, text string) {
			other := who[channeltest.Bob]
			first := other.Says(w.rooms[place], "just a thought")
			who[person].Says(w.rooms[place], "> <"+other.ID+"> @"+w.bot.ID+": do it\n\n"+text, matrixtest.ReplyTo(first),
				map[string]any{
					"format": "org.matrix.custom.html", "m.mentions": map[string]any{"user_ids": []string{other.ID}},
					"formatted_body": `<mx-reply><blockquote><a href="https://matrix.to/#/!r/$e">In reply to</a> <a href="https://matrix.to/#/` + other.ID + `">x</a><br>` +
						`<a href="https://matrix.to/#/` + w.bot.ID + `">bot</a>: do it</blockquote></mx-reply>` + text,
				})
		},
		Wordless: func(person, place string) string {
			who[person].Says(w.rooms[place], "the office", map[string]any{"msgtype": "m.location",
				"geo_uri": "geo:48.2,16.37;u=35"})
			return "(shared a location: 48.2, 16.37 the office)"
		},
		Edit:   func(person, place, id, text string) { who[person].Edits(w.rooms[place], id, text) },
		Delete: func(person, place, id string) { who[person].Deletes(w.rooms[place], id) },
	}
}

// failedLogin is a call of the homeserver that says why the token is not accepted.
func (w *world) failedLogin(name, want string, f matrixtest.Fault) channeltest.Login {
	return channeltest.Login{Name: name, Want: want, Break: func() { w.proxy.Fail("whoami", f) }, Fix: func() {}}
}

func connectFaults(token string) []channeltest.ConnectFault {
	return []channeltest.ConnectFault{
		channeltest.OnConnect("half a poll", "sync", matrixtest.Fault{Half: true}, "unexpected EOF", 0),
		channeltest.OnConnect("a gateway's page for a poll", "sync",
			matrixtest.Fault{Status: 502, Raw: "<html>no " + token + "</html>"}, "(token)", 0),
		channeltest.OnConnect("too many polls", "sync", matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED",
			Message: "Too Many Requests", RetryAfter: 1}, "Too Many Requests", time.Second),
		channeltest.OnConnect("too many, by header", "sync",
			matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", Header: "Retry-After: 1"},
			"Too Many Requests", time.Second),
		channeltest.OnConnect("too many, at the start", "whoami",
			matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", RetryAfter: 1},
			"Too Many Requests", time.Second),
		channeltest.OnConnect("an error of its own", "sync",
			matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "Internal Server Error"}, "500 M_UNKNOWN", 0),
		channeltest.OnConnect("a page that is missing", "whoami", matrixtest.Fault{Status: 404, Raw: "<html>404</html>"},
			"not from a homeserver (404 Not Found)", 0),
		channeltest.OnConnect("nonsense", "sync", matrixtest.Fault{Raw: "\x00\xff{"}, "unexpected response", 0),
		channeltest.OnConnect("other JSON", "sync", matrixtest.Fault{Raw: `{"rooms":[]}`}, "unexpected response", 0),
		channeltest.OnConnect("no place", "sync", matrixtest.Fault{Raw: `{}`}, "no next_batch token", 0),
		channeltest.OnConnect("no user", "whoami", matrixtest.Fault{Raw: `{}`}, "contains no user id", 0),
	}
}

func sendFaults() []channeltest.SendFault {
	return []channeltest.SendFault{
		channeltest.OnSend(matrixtest.Fault{Status: 400, Code: "M_BAD_JSON", Message: "no"}, mailroom.ClassPermanent),
		channeltest.OnSend(matrixtest.Fault{Status: 413, Code: "M_TOO_LARGE", Message: "too large"}, mailroom.ClassPermanent),
		// the bot is still a member
		channeltest.OnSend(matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN", Message: "no power"}, mailroom.ClassPermanent),
		channeltest.OnSend(matrixtest.Fault{Status: 403, Code: "M_USER_SUSPENDED", Message: "wait"},
			mailroom.ClassUnavailable),
		channeltest.OnSend(matrixtest.Fault{Status: 404, Code: "M_UNRECOGNIZED", Message: "not here"},
			mailroom.ClassUnavailable),
		channeltest.OnSend(matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "slow", RetryAfter: 0.005},
			channeltest.ClassEverywhere),
		channeltest.OnSend(matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "oh"}, channeltest.ClassUnknown),
		channeltest.OnSend(matrixtest.Fault{Raw: "{}"}, channeltest.ClassUnknown),
	}
}
