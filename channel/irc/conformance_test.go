package irc_test

import (
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
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		s := newFaultyServer(t)
		o := irc.Options{Server: s.addr, Plain: true, Nick: "bot", Gap: time.Millisecond, Fresh: 400 * time.Millisecond}
		pace := o.ReconnectPolicy()
		pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, 400*time.Millisecond
		return &channeltest.Platform{
			Kind: irc.Kind, Reconnect: pace,
			Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{"alice"}}}, o.Dial),
			Post:    func(id, text string) { s.send(t, "@account=alice;msgid="+id+" :al!~al@home PRIVMSG bot :"+text) },
			Sent:    s.sent, Down: s.down, Hang: s.hang, Restore: s.restore, RejectLogin: s.deny,
		}
	})
}

// TestIRCIsAChannelOverABadNetwork uses a real server. A bot that reconnects while the server still
// has its dead connection gets another nick.
func TestIRCIsAChannelOverABadNetwork(t *testing.T) {
	channeltest.RunNetfaults(t, func(t *testing.T, through func(addr string) string) *channeltest.Platform {
		s := irctest.Start(t)
		al := s.Connect("al")
		o := irc.Options{Server: through(s.Addr), Plain: true, Nick: "bot", Gap: time.Millisecond, Fresh: 1500 * time.Millisecond}
		pace := o.ReconnectPolicy()
		pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, time.Second
		return &channeltest.Platform{
			Kind: irc.Kind, Reconnect: pace,
			Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{"al!~al@127.0.0.1"}}}, o.Dial),
			Post: func(_, text string) {
				al.Say("bot", text)
				al.Say("bot_", text) // only one of the two nicks is the live bot
			},
			Sent: func() []string { return append(al.Messages("bot"), al.Messages("bot_")...) },
		}
	})
}

// faultyServer is a fake server that can fail.
type faultyServer struct {
	*fakeServer

	// Owned by its mu.
	mu       sync.Mutex
	mode     serverMode
	messages []string
}

type serverMode int

const (
	modeNormal serverMode = iota
	modeDown
	modeSilent
	modeReject
)

func newFaultyServer(t *testing.T) *faultyServer {
	s := &faultyServer{}
	s.fakeServer = startFakeServer(t, s.reply)
	return s
}

func (s *faultyServer) reply(line string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mode == modeDown:
		return []string{""}
	case s.mode == modeSilent:
		return []string{}
	case s.mode == modeReject:
		return []string{":s 464 * :Password incorrect", ""}
	case strings.HasPrefix(line, "PRIVMSG "):
		_, text, _ := strings.Cut(line, " :")
		s.messages = append(s.messages, text)
	case strings.HasPrefix(line, "WHOIS "):
		return []string{":s 311 bot al ~al home * :Al", ":s 330 bot al alice :is logged in as"}
	}
	return nil
}

func (s *faultyServer) setMode(m serverMode) {
	s.mu.Lock()
	s.mode = m
	s.mu.Unlock()
	if m == modeDown || m == modeReject {
		s.disconnect()
	}
}

func (s *faultyServer) down()    { s.setMode(modeDown) }
func (s *faultyServer) hang()    { s.setMode(modeSilent) }
func (s *faultyServer) restore() { s.setMode(modeNormal) }
func (s *faultyServer) deny()    { s.setMode(modeReject) }

func (s *faultyServer) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.messages...)
}
