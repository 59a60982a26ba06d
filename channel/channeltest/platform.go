package channeltest

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
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

	Outages     Outages
	Credentials Credentials
	Events      Events
	Calls       Calls
}

// Outages are how a platform fails as a whole.
type Outages struct {
	// Fake is the server of the fake. Without it there are Down, Hang and Restore.
	Fake Fake
	// Down refuses new connections and closes open ones.
	Down func()
	// Hang keeps open and new connections open but answers nothing.
	Hang func()
	// HangReason is the error of a hung connection if the adapter detects it by itself, before the
	// channel is silent.
	HangReason string
	// Restore undoes Down, Hang and the rejection of credentials, unless Fake undoes them.
	Restore func()

	present outage
}

// Credentials are how a platform rejects and replaces credentials.
type Credentials struct {
	Token string // must not be in an error
	// Reject rejects the credentials and closes open connections. It is nil if the channel cannot
	// distinguish this from other failures.
	Reject func()
	// RejectCalls rejects the credentials of calls, but not those of an open connection. nil means
	// Reject.
	RejectCalls func()
	// Wrong are the ways in which credentials are wrong, and Hint is part of each reason.
	Wrong []Login
	Hint  string
	// Renew revokes the credentials. change then gives the channel's configuration new credentials of the same bot.
	// Renew is nil for a channel without credentials.
	Renew func() (change func())
}

// Events are how a platform delivers events.
type Events struct {
	History   bool // messages posted during an outage can be read later
	StartsNow bool // a bot does not read what was sent before its first connection
	Positions bool // events have positions, from which a connection resumes
	Replies   bool // people reply to a message
	Times     bool // the platform says when a message was written
	// Redeliver delivers the newest message again, or with RepeatsAll the newest event. It is nil
	// if the platform never does so.
	Redeliver  func()
	RepeatsAll bool
	// Malformed delivers events that are not readable or not from people.
	Malformed    func()
	MalformedLog string // what is logged then
	// Pending returns the number of events whose receipt the platform waits for. It is nil if the
	// platform waits for none.
	Pending func() int
	// Forget makes the platform forget the events that it has not delivered. They are in its
	// history.
	Forget func()
}

// Calls are how a platform answers calls.
type Calls struct {
	// ExactlyOnce means that the platform deduplicates messages by key or shows what was sent, so
	// that no reply is shown twice. See [RunNetfaults].
	ExactlyOnce bool
	Finds       bool // a message can be found by its key
	StatusOnly  bool // the status of a response alone says that a message was taken
	// Connect, Send and File name the calls that begin a connection, send a message and fetch a
	// file.
	Connect, Send, File string
	// ConnectFaults and SendFaults are failures of single calls, besides those of every platform.
	ConnectFaults []ConnectFault
	SendFaults    []SendFault
	// LoseSend carries out the next send and loses its response, if there is no Fake.
	LoseSend func()
	// Limits are the kinds of rate limits: each refuses calls about a place for a while and says
	// so. Made returns the calls that send, edit or show typing. Both are nil if the platform has
	// no rate limits.
	Limits map[string]func(place string, d time.Duration)
	Made   func() []Call
	Addr   string   // of the fake, if each call may have a connection of its own
	NoRoom []string // ids of rooms that do not exist
	// RefuseFiles makes the platform refuse all files of the bot. It is nil if the platform takes no files.
	RefuseFiles func()
	LongReply   int // size of a reply that takes several messages, in bytes
}

// People are the users of a chat platform. The place of a message is a person's name for their
// private chat with the bot, or Dev.
type People struct {
	ID   func(person string) string
	Name func(person string) string // name that the platform shows; nil: the name of the person
	Room func(place string) chat.Room
	// Say returns the platform's id of the message, as in a [chat.Event].
	Say func(m Message) (id string)
	// Shown returns the bot's messages, the oldest first.
	Shown func(place string) []Shown

	// Functions that the platform does not have are nil.

	// Upload sends a message with a text file.
	Upload func(person, place, name string, content []byte)
	// Forward passes a message of Mallory on.
	Forward func(person, place, text string)
	// Quote sends a text below a quotation in which another person addresses the bot.
	Quote func(person, place, text string)
	// Wordless sends a message without a text, such as a sticker. The agent hears about it in words that contain
	// the returned ones.
	Wordless func(person, place string) (about string)
	// Topic makes a topic of Dev. say sends a message to the bot there, and destroy deletes the topic.
	Topic func(person string) (say func(text string), destroy func())
	// Unknown sends a message of a kind that the adapter does not know.
	Unknown func(person, place string)
	Edit    func(person, place, id, text string)
	Delete  func(person, place, id string)
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
	ID      string // id of the message, as [chat.Platform].Send returns it
	Text    string // text without markup
	Buttons []chat.Button
	File    string // name of its file; "" for none
	Content string // content of the message's file
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
	Name, Call string
	Fault      Fault
	Want       string        // part of the error
	After      time.Duration // least delay of the retry
}

// OnConnect returns a failure of a call.
func OnConnect(name, call string, f Fault, want string, after time.Duration) ConnectFault {
	return ConnectFault{Name: name, Call: call, Fault: f, Want: want, After: after}
}

// connectFaults returns the failures of every platform and those of its own.
func (p *Platform) connectFaults() []ConnectFault {
	if p.Calls.Connect == "" {
		return p.Calls.ConnectFaults
	}
	return append([]ConnectFault{
		OnConnect("half a response", p.Calls.Connect, Fault{Half: true}, "unexpected EOF", 0),
		OnConnect("a lost response", p.Calls.Connect, Fault{Lose: true}, "EOF", 0),
		OnConnect("a gateway's page", p.Calls.Connect, Fault{Status: 502, Raw: "<html>no " + p.Credentials.Token +
			" here</html>"}, "(token)", 0),
		OnConnect("a busy gateway", p.Calls.Connect, Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second),
	}, p.Calls.ConnectFaults...)
}

// SendFault is a failure of a send.
type SendFault struct {
	Fault Fault
	Want  mailroom.Class // of [SendClass]
}

// OnSend returns a failure of a send.
func OnSend(f Fault, want mailroom.Class) SendFault { return SendFault{Fault: f, Want: want} }

// post sends a message of the cases about connections. A repeated id is a redelivery.
func (s *Server) post(id, text string) {
	switch {
	case s.p.Dialer == nil:
		s.p.Post(id, text)
	case s.posted[id]:
		s.p.Events.Redeliver()
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

// SendsOf returns [Calls].Made of a fake, for the names of its calls.
func SendsOf(s Fake, names ...string) func() []Call {
	return func() (found []Call) {
		for _, c := range s.Calls("") {
			if slices.Contains(names, c.Name) {
				found = append(found, Call{At: c.At, Limited: c.Status == http.StatusTooManyRequests})
			}
		}
		return found
	}
}

// ShownIn returns the bot's messages in a fake's room. id completes the id of a message.
func ShownIn[D any](r *platformtest.Room[D], id func(string) string) (shown []Shown) {
	for _, m := range r.Replies() {
		s := Shown{ID: id(m.ID), Text: m.Text, File: m.File, Content: m.Content}
		for _, b := range m.Buttons {
			s.Buttons = append(s.Buttons, chat.Button{Label: b.Label, Data: b.Data})
		}
		shown = append(shown, s)
	}
	return shown
}

// Fake is the server of a fake, a [platformtest.Server].
type Fake interface {
	Up(t testing.TB)
	Down()
	Freeze()
	Thaw()
	Fail(name string, faults ...Fault)
	Calls(name string) []platformtest.Call
}

// outage is what restore undoes.
type outage struct{ isDown, isFrozen bool }

func (p *Platform) down() {
	if p.Outages.Fake != nil {
		p.Outages.present.isDown = true
		p.Outages.Fake.Down()
	}
	if p.Outages.Down != nil {
		p.Outages.Down()
	}
}

func (p *Platform) hang() {
	if p.Outages.Fake != nil {
		p.Outages.present.isFrozen = true
		p.Outages.Fake.Freeze()
	}
	if p.Outages.Hang != nil {
		p.Outages.Hang()
	}
}

func (p *Platform) restore(t *testing.T) {
	if p.Outages.Restore != nil {
		p.Outages.Restore()
	}
	if p.Outages.present.isFrozen {
		p.Outages.Fake.Thaw()
	}
	if p.Outages.present.isDown {
		p.Outages.Fake.Up(t)
	}
	p.Outages.present = outage{}
}

func (p *Platform) loseSend() {
	if p.Outages.Fake == nil {
		p.Calls.LoseSend()
		return
	}
	p.Outages.Fake.Fail(p.Calls.Send, Fault{Lose: true})
}

// name returns the display name of a person, "" if the platform has none.
func (p *Platform) name(person string) string {
	if p.People.Name != nil {
		return p.People.Name(person)
	}
	return person
}

// WrongToken is a login whose token is wrong until the setting has its first value again.
func WrongToken(name string, s *Setting[string], token, want string) Login {
	right, _ := s.Get() // never fails
	return Login{Name: name, Want: want, Break: func() { s.Set(token) }, Fix: func() { s.Set(right) }}
}

// Classes of [SendClass] besides those of package mailroom.
const (
	ClassGone       mailroom.Class = "gone"
	ClassUnknown    mailroom.Class = "unknown"
	ClassEverywhere mailroom.Class = "everywhere" // unavailable, in all rooms
)

// SendClass returns the class of an error of [chat.Platform].Send, "" for nil.
func SendClass(err error) mailroom.Class {
	switch class := mailroom.AsFailure(err).Class; {
	case err == nil:
		return ""
	case errors.Is(err, mailroom.ErrUnknown):
		return ClassUnknown
	case errors.Is(err, chat.ErrEverywhere) && class == mailroom.ClassUnavailable:
		return ClassEverywhere
	case errors.Is(err, chat.ErrGone) && class == mailroom.ClassPermanent:
		return ClassGone
	default:
		return class
	}
}
