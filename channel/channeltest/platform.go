package channeltest

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
)

// Agent is the agent of the suite. Unless a case says otherwise, it echoes each message.
const Agent = "echo"

// Ann is the person who talks to the bot, an admin. Bob is another one, whom the bot does not
// know. Dev is a group of both and the bot.
const (
	Ann = "Ann"
	Bob = "Bob"
	Dev = "#dev"
)

// Platform is a platform under a test's control, and how a channel connects to it. Its functions
// may be called concurrently and repeatedly.
type Platform struct {
	Kind string
	// Dialer returns the dialer of one process of the server. It is nil for a channel that does
	// not use package chat.
	Dialer func() chat.Dialer
	// Connect connects the channel if there is no Dialer. It addresses messages to Agent.
	Connect channel.Connect
	// Reconnect should be short: InitialDelay some milliseconds, IdleTimeout and ConnectTimeout
	// seconds at most. A negative IdleTimeout means that the platform has no connection.
	Reconnect channel.ReconnectPolicy
	// Secrets must not be in a log or an error.
	Secrets []string

	// People are what people do and see. A platform without a Dialer has Post and Sent instead.
	People People
	// Home is where the cases about connections talk: a group in which everything is for the bot,
	// or else Ann's private chat.
	Home string
	// Post sends a user's message with the given platform id.
	Post func(id, text string)
	// Sent returns the texts that the platform has accepted, in order.
	Sent func() []string
	// Redeliver delivers the newest event again. It is nil if the platform never does so.
	Redeliver func()

	// Down refuses new connections and closes open ones.
	Down func()
	// Hang keeps open and new connections open but answers nothing.
	Hang func()
	// HangReason is the error of a hung connection if the adapter detects it by itself, before the
	// channel is silent.
	HangReason string
	// Restore undoes Down, Hang and RejectLogin.
	Restore func()
	// RejectLogin rejects the credentials and closes open connections. It is nil if the channel
	// cannot distinguish this from other failures.
	RejectLogin func()
	// Logins are the ways in which credentials are wrong.
	Logins []Login
	// ConnectFaults are failures of single calls while the channel connects or receives.
	ConnectFaults []ConnectFault
	// SendFaults are failures of single sends.
	SendFaults []SendFault
	// LoseSend carries out the next send and loses its response.
	LoseSend func()
	// Limits are the kinds of rate limits: each refuses calls about a place for a while and says
	// so. Sends returns the calls that send, edit or show typing. Both are nil if the platform has
	// no rate limits.
	Limits map[string]func(place string, d time.Duration)
	Sends  func() []Call
	// LongReply is the size of a reply that takes several messages, in bytes.
	LongReply int
	// Malformed delivers events that are not readable or not from people.
	Malformed func()

	// History means that messages posted during an outage can be read later.
	History bool
	// ExactlyOnce means that the platform deduplicates messages by key or shows what was sent, so
	// that no reply is shown twice. See [RunNetfaults].
	ExactlyOnce bool
}

// People are the users of a chat platform. The place of a message is a person's name for their
// private chat with the bot, or Dev.
type People struct {
	ID   func(person string) string
	Room func(place string) chat.Room
	// Say returns the platform's id of the message, as in a [chat.Event].
	Say func(m Message) (id string)
	// Shown returns the bot's messages, the oldest first.
	Shown func(place string) []Shown

	// Functions that the platform does not have are nil.

	Edit   func(person, place, id, text string)
	Delete func(person, place, id string)
	// Press presses a button that carries data. answers returns the results that the person was
	// shown.
	Press func(person, place, id, data string) (answers func() []string)
}

// Message is a message of a person.
type Message struct {
	From, Place, Text string
	ToBot             bool   // names the bot
	ReplyTo           string // id of a message, "" for none
}

// Shown is a message of the bot as people see it.
type Shown struct {
	ID      string // as in [chat.Platform].Send
	Text    string // without markup
	Buttons []chat.Button
}

// Login is a way in which credentials are wrong.
type Login struct {
	Name  string
	Break func()
	Fix   func()
	Want  string // part of the reason
}

// ConnectFault is a failure of one call while the channel connects or receives.
type ConnectFault struct {
	Name   string
	Inject func()
	Want   string        // part of the error
	After  time.Duration // least delay of the retry
}

// SendFault is a failure of the next send.
type SendFault struct {
	Name   string
	Inject func()
	Want   mailroom.Class // of [SendClass]
}

// post sends a message of the cases about connections. A repeated id is a redelivery.
func (s *Server) post(id, text string) {
	switch {
	case s.p.Dialer == nil:
		s.p.Post(id, text)
	case s.posted[id]:
		s.p.Redeliver()
	default:
		s.posted[id] = true
		s.p.People.Say(Message{From: Ann, Place: s.p.home(), Text: text})
	}
}

// sent returns the bot's texts in the cases about connections.
func (s *Server) sent() []string {
	if s.p.Dialer == nil {
		return s.p.Sent()
	}
	return s.p.texts(s.p.home())
}

func (p *Platform) home() string {
	if p.Home != "" {
		return p.Home
	}
	return Ann
}

// texts returns the texts of the bot's messages in a place.
func (p *Platform) texts(place string) (texts []string) {
	for _, m := range p.People.Shown(place) {
		texts = append(texts, m.Text)
	}
	return texts
}

// Setting is a setting that changes while a channel runs.
type Setting[T any] struct {
	mu    sync.Mutex
	value T
}

// NewSetting returns a setting.
func NewSetting[T any](value T) *Setting[T] { return &Setting[T]{value: value} }

// Set changes the setting.
func (s *Setting[T]) Set(value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
}

// Get returns the setting. It never fails: it has the form of a function that reads a secret.
func (s *Setting[T]) Get() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, nil
}

// Call is a call that sends or edits a message or shows a typing indicator.
type Call struct {
	At      time.Time
	Limited bool // refused by a rate limit
}

// SendsOf returns [Platform].Sends of a fake, for the names of its calls.
func SendsOf(s *platformtest.Server, names ...string) func() []Call {
	return func() (found []Call) {
		for _, c := range s.Calls("") {
			if slices.Contains(names, c.Name) {
				found = append(found, Call{At: c.At, Limited: c.Status == http.StatusTooManyRequests})
			}
		}
		return found
	}
}
