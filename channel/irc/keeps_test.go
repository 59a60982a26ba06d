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

// TestIRCKeepsToWhatChannelsAsk has a server with ids of messages, so that one can
// come twice.
func TestIRCKeepsToWhatChannelsAsk(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		s := newShaky(t)
		o := irc.Options{Server: s.addr, Plain: true, Nick: "bot", Gap: time.Millisecond, Fresh: 400 * time.Millisecond}
		pace := o.Pace()
		pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, 400*time.Millisecond
		return &channeltest.Platform{
			Kind: irc.Kind, Reconnect: pace,
			Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{"alice"}}}, o.Dial),
			Post:    func(id, text string) { s.tell(t, "@account=alice;msgid="+id+" :al!~al@home PRIVMSG bot :"+text) },
			Sent:    s.sent, Down: s.down, Hang: s.hang, Restore: s.mend, RejectLogin: s.deny,
		}
	})
}

// TestIRCIsAChannelOverABadNetwork has a real server. A bot that comes back while the
// server still has its lost connection goes by another nick.
func TestIRCIsAChannelOverABadNetwork(t *testing.T) {
	channeltest.RunNetfaults(t, func(t *testing.T, through func(addr string) string) *channeltest.Platform {
		s := irctest.Start(t)
		al := s.Enter("al")
		o := irc.Options{Server: through(s.Addr), Plain: true, Nick: "bot", Gap: time.Millisecond, Fresh: 1500 * time.Millisecond}
		pace := o.Pace()
		pace.InitialDelay, pace.MaxDelay, pace.ConnectTimeout = 10*time.Millisecond, 50*time.Millisecond, time.Second
		return &channeltest.Platform{
			Kind: irc.Kind, Reconnect: pace,
			Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{"al!~al@127.0.0.1"}}}, o.Dial),
			Post: func(_, text string) {
				al.Say("bot", text)
				al.Say("bot_", text) // one of them is not there, or lost
			},
			Sent: func() []string { return append(al.Said("bot"), al.Said("bot_")...) },
		}
	})
}

// shaky is a modern server that can fail.
type shaky struct {
	*modern

	// Owned by its mu.
	mu   sync.Mutex
	mood mood
	took []string
}

type mood int

const (
	well mood = iota
	gone
	dumb
	strict
)

func newShaky(t *testing.T) *shaky {
	s := &shaky{}
	s.modern = serve(t, s.rule)
	return s
}

func (s *shaky) rule(line string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mood == gone:
		return []string{""}
	case s.mood == dumb:
		return []string{}
	case s.mood == strict:
		return []string{":s 464 * :Password incorrect", ""}
	case strings.HasPrefix(line, "PRIVMSG "):
		_, text, _ := strings.Cut(line, " :")
		s.took = append(s.took, text)
	case strings.HasPrefix(line, "WHOIS "):
		return []string{":s 311 bot al ~al home * :Al", ":s 330 bot al alice :is logged in as"}
	}
	return nil
}

func (s *shaky) is(m mood) {
	s.mu.Lock()
	s.mood = m
	s.mu.Unlock()
	if m == gone || m == strict {
		s.cut()
	}
}

func (s *shaky) down() { s.is(gone) }
func (s *shaky) hang() { s.is(dumb) }
func (s *shaky) mend() { s.is(well) }
func (s *shaky) deny() { s.is(strict) }

func (s *shaky) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.took...)
}
