package platformtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Room is a room of a platform with its messages. D has the properties that only this platform's messages have.
type Room[D any] struct {
	mu       *sync.Mutex
	messages []*Message[D] // owned by mu
}

// Message is a message of a room.
type Message[D any] struct {
	ID      string
	From    string // the sender
	Text    string // as people see it
	Source  string // with the platform's markup, as the bot sent it
	Thread  string // id of its thread or topic; "" for none
	ReplyTo string // id of the message it replies to
	Buttons []Button
	Edits   int
	Bot     bool   // sent by the bot
	File    string // name of the file of a message of the bot; "" for none
	Content string // content of the file
	At      time.Time
	Details D
}

// Button is a button of a message.
type Button struct {
	Label string
	Data  string // sent to the bot by a press
	Name  string // sent to the bot by a press, on platforms where buttons have names
}

// NewRoom returns an empty room that mu guards.
func NewRoom[D any](mu *sync.Mutex) *Room[D] { return &Room[D]{mu: mu} }

// Messages returns copies of all messages.
func (r *Room[D]) Messages() []Message[D] {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Message[D]
	for _, m := range r.messages {
		copied := *m
		copied.Buttons = slices.Clone(m.Buttons)
		all = append(all, copied)
	}
	return all
}

// Replies returns the bot's messages in their current form.
func (r *Room[D]) Replies() []Message[D] {
	return slices.DeleteFunc(r.Messages(), func(m Message[D]) bool { return !m.Bot })
}

// Texts returns the texts of the bot's messages.
func (r *Room[D]) Texts() (texts []string) {
	for _, m := range r.Replies() {
		texts = append(texts, m.Text)
	}
	return texts
}

// Remove removes messages. It tells the bot nothing.
func (r *Room[D]) Remove(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Drop(ids...)
}

// The lock must be held for the following methods, which are for the fake.

// All returns the messages themselves.
func (r *Room[D]) All() []*Message[D] { return r.messages }

// Add adds a message.
func (r *Room[D]) Add(m *Message[D]) { r.messages = append(r.messages, m) }

// Drop removes messages.
func (r *Room[D]) Drop(ids ...string) {
	r.messages = slices.DeleteFunc(r.messages, func(m *Message[D]) bool { return slices.Contains(ids, m.ID) })
}

// Find returns the message with an id, or nil.
func (r *Room[D]) Find(id string) *Message[D] {
	for _, m := range r.messages {
		if id != "" && m.ID == id {
			return m
		}
	}
	return nil
}

// Button returns a message and its button with a label. It panics if the message has no such button.
func (r *Room[D]) Button(id, label string) (*Message[D], Button) {
	m := r.Find(id)
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Label == label })
	if i < 0 {
		panic(fmt.Sprintf("message %s has no button %q: %+v", id, label, m.Buttons)) // a mistake in a test
	}
	return m, m.Buttons[i]
}

// Describe lists the messages.
func (r *Room[D]) Describe(name string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "room %s\n", name)
	for _, m := range r.messages {
		fmt.Fprintf(&out, "  %s %s %s: %q\n", m.ID, m.Thread, m.From, m.Text)
	}
	return out.String()
}

// Press is a press of a button, with the answers that the platform showed to the person.
type Press struct {
	mu *sync.Mutex

	// Owned by mu.
	answers []string
	expired bool
}

// NewPress returns a press that mu guards.
func NewPress(mu *sync.Mutex) *Press { return &Press{mu: mu} }

// Expire makes answers to the press fail as too late.
func (p *Press) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expired = true
}

// Answers returns the texts that the person was shown.
func (p *Press) Answers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answers)
}

// Expired reports whether the press is too old to be answered. The lock must be held.
func (p *Press) Expired() bool { return p.expired }

// Answered reports whether the person was shown an answer. The lock must be held.
func (p *Press) Answered() bool { return len(p.answers) > 0 }

// Answer shows a text to the person. The lock must be held.
func (p *Press) Answer(text string) { p.answers = append(p.answers, text) }
