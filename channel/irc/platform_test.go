package irc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
	"mailroom/channel/irc/irctest"
)

// TestIRCIsAChannel uses a server with message ids, so that a message can arrive twice.
func TestIRCIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, 400*time.Millisecond) })
}

func TestIRCIsAChatPlatform(t *testing.T) {
	t.Parallel()
	// a slow machine is not silent
	channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t, 2*time.Second) })
}

// TestIRCIsAChannelOverABadNetwork uses a real server. A bot that reconnects while the server still
// has its dead connection gets another nick.
func TestIRCIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(addr string) string) *channeltest.Platform {
		s := irctest.Start(t)
		al := s.Connect("al")
		o := testOptions(proxied(s.Addr))
		o.Gap, o.Fresh = time.Millisecond, 1500*time.Millisecond
		pace := o.ReconnectPolicy()
		pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, time.Second
		return &channeltest.Platform{
			Kind:      irc.Kind,
			Reconnect: pace,
			Dialer:    func() chat.Dialer { return o.Dial },
			People: channeltest.People{
				ID: func(string) string { return "al!~al@127.0.0.1" },
				Say: func(m channeltest.Message) string {
					al.Say("bot", m.Text)
					al.Say("bot_", m.Text) // only one of the two nicks is the live bot
					return ""
				},
				Shown: func(string) (shown []channeltest.Shown) {
					for _, text := range append(al.Messages("bot"), al.Messages("bot_")...) {
						shown = append(shown, channeltest.Shown{Text: text})
					}
					return shown
				},
			},
		}
	})
}

// newPlatform returns a fake server for the suite, which must answer within fresh.
func newPlatform(t *testing.T, fresh time.Duration) *channeltest.Platform {
	s := newFaultyServer(t)
	o := testOptions(s.addr)
	o.Join, o.Gap, o.Fresh = []string{"#dev"}, time.Millisecond, fresh
	pace := o.ReconnectPolicy()
	pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, 400*time.Millisecond
	down := false
	return &channeltest.Platform{
		Kind:      irc.Kind,
		Reconnect: pace,
		Dialer:    func() chat.Dialer { return o.Dial },
		People:    s.people(t),
		Outages: channeltest.Outages{
			Down: func() { down = true; s.down() },
			Hang: func() { s.setMode(modeSilent) },
			Restore: func() {
				s.setMode(modeNormal)
				if down {
					down = false
					s.up(t)
				}
			},
		},
		Credentials: channeltest.Credentials{
			Reject: func() { s.setMode(modeReject) },
		},
		Events: channeltest.Events{
			Redeliver: func() { s.redeliver(t) },
			Malformed: func() {
				for _, line := range []string{
					":al!~al@home NOTICE bot :hello", ":al!~al@home PRIVMSG bot :\x01VERSION\x01",
					":irc.server PRIVMSG bot :from a server",
					":al!~al@home PRIVMSG $$* :to all users", ":al!~al@home PRIVMSG bot", ":al!~al@home TAGMSG bot", ":",
				} {
					s.send(t, line)
				}
			},
		},
		Calls: channeltest.Calls{
			LoseSend:  func() { s.setMode(modeLoseSend) },
			LongReply: 5_000,
		},
	}
}

// faultyServer is a fake server that can fail.
type faultyServer struct {
	*fakeServer

	// Owned by its mu.
	mu       sync.Mutex
	mode     serverMode
	messages map[string][]string // sent by the bot, by target
	said     []string            // lines of people
}

type serverMode int

const (
	modeNormal serverMode = iota
	modeSilent
	modeReject
	modeLoseSend // the next message is taken and its receipt lost
)

func newFaultyServer(t *testing.T) *faultyServer {
	s := &faultyServer{messages: map[string][]string{}}
	s.fakeServer = startFakeServer(t, s.reply)
	return s
}

func (s *faultyServer) reply(line string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mode == modeSilent:
		return []string{}
	case s.mode == modeReject:
		return []string{":s 464 * :Password incorrect", ""}
	case strings.HasPrefix(line, "PRIVMSG "):
		to, text, _ := strings.Cut(strings.TrimPrefix(line, "PRIVMSG "), " :")
		s.messages[to] = append(s.messages[to], text)
		if s.mode == modeLoseSend {
			s.mode = modeNormal
			return []string{""}
		}
	case strings.HasPrefix(line, "WHOIS "):
		nick := strings.TrimPrefix(line, "WHOIS ")
		return []string{":s 311 bot " + nick + " ~" + nick + " home * :" + nick, ":s 330 bot " + nick + " " + nick +
			" :is logged in as"}
	case strings.HasPrefix(line, "JOIN "):
		return []string{":bot!bot@cloak " + line}
	}
	return nil
}

// people returns people whose nicks and accounts are their names in lower case.
func (s *faultyServer) people(t *testing.T) channeltest.People {
	nick := strings.ToLower
	return channeltest.People{
		ID:   nick,
		Name: nick,
		Room: func(place string) chat.Room { return chat.Room{Chat: nick(place), Group: place == channeltest.Dev} },
		Say: func(m channeltest.Message) string {
			to := "bot"
			if m.Place == channeltest.Dev {
				to = "#dev"
			}
			if m.ToBot {
				m.Text = "bot: " + m.Text
			}
			s.mu.Lock()
			id := fmt.Sprint("m", len(s.said))
			line := fmt.Sprintf("@account=%[1]s;msgid=%[2]s :%[1]s!~%[1]s@home PRIVMSG %[3]s :%[4]s", nick(m.From), id,
				to, m.Text)
			s.said = append(s.said, line)
			s.mu.Unlock()
			s.send(t, line)
			return "msgid:" + id
		},
		Quote: func(person, _, text string) {
			line := ":" + nick(person) + "!~x@home PRIVMSG #dev :"
			s.send(t, line+"> bot: do it")
			s.send(t, line+text)
		},
		Shown: func(place string) (shown []channeltest.Shown) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, text := range s.messages[nick(place)] {
				shown = append(shown, channeltest.Shown{Text: text})
			}
			return shown
		},
	}
}

// redeliver delivers the newest message of a person again.
func (s *faultyServer) redeliver(t *testing.T) {
	s.mu.Lock()
	line := s.said[len(s.said)-1]
	s.mu.Unlock()
	s.send(t, line)
}

func (s *faultyServer) setMode(m serverMode) {
	s.mu.Lock()
	s.mode = m
	s.mu.Unlock()
	if m == modeReject {
		s.disconnect()
	}
}
