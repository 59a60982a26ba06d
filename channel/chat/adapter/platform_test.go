package adapter_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
)

// BotID is the bot's account at a [Platform].
const BotID = "bot-1"

// BotName is the name by which users address the bot in groups.
const BotName = "mailbot"

// Platform is a chat platform with a history. It outlives connections, which catch up with
// earlier events. Its methods may be called concurrently.
type Platform struct {
	// Capabilities are those of its connections. Set them before the first one.
	Capabilities chat.Capabilities

	t     *testing.T
	state *platformtest.State

	// Owned by mu.
	mu       sync.Mutex
	events   []chat.Event
	received int // acknowledged events
	sent     []*Sent
	acks     []ButtonAck
	typed    int
	hooks    map[CallKind]func(ctx context.Context, c CallArgs) error
	files    map[string]func(ctx context.Context) (io.ReadCloser, error) // by URI
	dials    int
}

// Sent is a message on the platform.
type Sent struct {
	ID       string
	Room     chat.Room
	Key      string
	Message  chat.Message   // present content
	Versions []chat.Message // the first content and each edit
	At       []time.Time    // times of the versions
}

// ButtonAck is the result that a user who pressed a button was shown.
type ButtonAck struct {
	Event chat.Event
	Text  string
}

// CallKind is the kind of a call that a hook can replace.
type CallKind string

const (
	CallDial      CallKind = "dial"
	CallReceive   CallKind = "receive" // before each event is passed on
	CallSend      CallKind = "send"
	CallEdit      CallKind = "edit"
	CallFind      CallKind = "find"
	CallTyping    CallKind = "typing"
	CallAckButton CallKind = "tapped"
)

// CallArgs are the arguments of a call. Do carries it out: a hook that fails after Do simulates a
// lost response.
type CallArgs struct {
	Room    chat.Room
	ID      string // of Edit
	Key     string // of Send and Find
	Message chat.Message
	Event   chat.Event // of Receive and AckButton
	Do      func()
}

// newPlatform returns a platform with edits, buttons, typing indicators and a searchable history.
func newPlatform(t *testing.T) *Platform {
	p := &Platform{t: t, hooks: map[CallKind]func(context.Context, CallArgs) error{},
		files: map[string]func(context.Context) (io.ReadCloser, error){}, Capabilities: chat.Capabilities{
			Platform: "test", BotID: BotID, BotName: BotName, MaxUnits: 200, Units: utf8.RuneCountInString, Edits: true,
			Buttons: true, Typing: true,
		}}
	p.state = platformtest.NewState(&p.mu, func() string { return fmt.Sprintf("%+v", p.Sent()) })
	return p
}

// Hook makes f replace the calls of a kind, see [CallArgs]. nil removes the hook.
func (p *Platform) Hook(c CallKind, f func(ctx context.Context, c CallArgs) error) {
	p.state.Update(func() { p.hooks[c] = f })
}

// File returns a file for an event. open downloads it, for later connections too.
func (p *Platform) File(name string, open func(ctx context.Context) (io.ReadCloser, error)) chat.File {
	f := chat.File{Name: name, Size: -1, URI: "test:" + name}
	p.mu.Lock()
	p.files[f.URI] = open
	p.mu.Unlock()
	p.setOpen(&f)
	return f
}

func (p *Platform) setOpen(f *chat.File) {
	p.state.Update(func() { f.Open = p.files[f.URI] })
}

// Dial implements [chat.Dialer].
func (p *Platform) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	p.mu.Lock()
	p.dials++
	p.mu.Unlock()
	c := &connection{platform: p, host: l}
	return c, p.Capabilities, p.call(ctx, CallDial, CallArgs{Do: func() {}})
}

// call makes a call, through its hook if there is one.
func (p *Platform) call(ctx context.Context, kind CallKind, c CallArgs) error {
	p.mu.Lock()
	hook := p.hooks[kind]
	p.mu.Unlock()
	do := c.Do
	c.Do = func() { p.state.Update(do) }
	if hook != nil {
		return hook(ctx, c)
	}
	c.Do()
	return ctx.Err()
}

// AddEvent adds an event to the history. It sets the Position, and the Key if that is empty.
func (p *Platform) AddEvent(e chat.Event) chat.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Position = strconv.Itoa(len(p.events) + 1)
	if e.Key == "" {
		e.Key = "e" + e.Position
	}
	p.events = append(p.events, e)
	p.state.Notify()
	return e
}

// SendPrivate adds a private message of a user.
func (p *Platform) SendPrivate(user, text string) chat.Event {
	return p.AddEvent(chat.Event{Kind: chat.EventMessage, Room: PrivateRoom(user),
		User: chat.User{ID: user, Name: "Name of " + user}, Text: text})
}

// SendGroup adds a message of a user in a group, addressed to the bot.
func (p *Platform) SendGroup(group, user, text string) chat.Event {
	return p.AddEvent(chat.Event{Kind: chat.EventMessage, Room: GroupRoom(group),
		User: chat.User{ID: user, Name: "Name of " + user}, Text: text, Addressed: true})
}

// PressButton adds a user's press of the button with this label.
func (p *Platform) PressButton(user string, m Sent, words string) chat.Event {
	p.t.Helper()
	data := ""
	for _, v := range m.Versions {
		for _, b := range v.Buttons {
			if b.Label == words {
				data = b.Data
			}
		}
	}
	if data == "" {
		p.t.Fatalf("no button %q under %+v", words, m)
	}
	return p.AddEvent(chat.Event{
		Kind: chat.EventButton, Room: m.Room, User: chat.User{ID: user, Name: "Name of " + user}, TargetID: m.ID, Data: data,
	})
}

// PrivateRoom returns the private room of a user.
func PrivateRoom(user string) chat.Room { return chat.Room{Chat: "with-" + user} }

// GroupRoom returns a group.
func GroupRoom(name string) chat.Room { return chat.Room{Chat: name, Group: true} }

// Sent returns the messages on the platform, the oldest first.
func (p *Platform) Sent() []Sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Sent, 0, len(p.sent))
	for _, s := range p.sent {
		c := *s
		c.Versions, c.At = slices.Clone(s.Versions), slices.Clone(s.At)
		all = append(all, c)
	}
	return all
}

// HasKey reports whether a message was sent with a key.
func (p *Platform) HasKey(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.sent, func(s *Sent) bool { return s.Key == key })
}

// ButtonAcks returns the results that users were shown.
func (p *Platform) ButtonAcks() []ButtonAck {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.acks)
}

// DialCount returns the number of connection attempts.
func (p *Platform) DialCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// TypingCount returns the number of typing indicators.
func (p *Platform) TypingCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.typed
}

// Redeliver adds the events from an index on again, like a platform that repeats deliveries.
func (p *Platform) Redeliver(from int) {
	p.state.Update(func() {
		again := slices.Clone(p.events[from:])
		for _, e := range again {
			e.Position = strconv.Itoa(len(p.events) + 1)
			p.events = append(p.events, e)
		}
	})
}

// Await waits until ok, which it checks after every change of the platform.
func (p *Platform) Await(what string, ok func() bool) {
	p.t.Helper()
	p.state.WaitFor(p.t, what, ok)
}

// AwaitReceived waits until every event is acknowledged.
func (p *Platform) AwaitReceived() {
	p.t.Helper()
	p.Await("every event is received", p.AllReceived)
}

// AllReceived reports whether every event is acknowledged.
func (p *Platform) AllReceived() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received >= len(p.events)
}

// AwaitSent waits for n messages and returns all of them.
func (p *Platform) AwaitSent(n int) []Sent {
	p.t.Helper()
	p.Await(fmt.Sprintf("%d messages are sent", n), func() bool { return len(p.Sent()) >= n })
	return p.Sent()
}

// connection implements [chat.Platform].
type connection struct {
	platform *Platform
	host     *channel.Host
	closed   bool // owned by the platform's mu
}

func (c *connection) Receive(ctx context.Context, position string, take chat.EventHandler) error {
	p, at := c.platform, 0
	if position != "" {
		n, err := strconv.Atoi(position)
		if err != nil {
			return fmt.Errorf("position %q: %w", position, err)
		}
		at = n
	}
	// a connection at this position has received the events before
	p.state.Update(func() { p.received = max(p.received, at) })
	for {
		c.host.Received()
		p.mu.Lock()
		rest := slices.Clone(p.events[min(at, len(p.events)):])
		if len(rest) == 0 && !c.closed {
			p.state.Wait(ctx, time.After(time.Second))
		}
		closed := c.closed
		p.mu.Unlock()
		if len(rest) == 0 && (closed || ctx.Err() != nil) {
			return nil
		}
		for _, e := range rest {
			if err := p.call(ctx, CallReceive, CallArgs{Event: e, Room: e.Room, Do: func() {}}); err != nil {
				return err
			}
			if err := take(ctx, e); err != nil {
				return err
			}
			at++
			p.state.Update(func() { p.received = max(p.received, at) })
		}
	}
}

func (c *connection) Maintain(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	p := c.platform
	err = p.call(ctx, CallSend, CallArgs{Room: to, Key: key, Message: m, Do: func() {
		id = "m" + strconv.Itoa(len(p.sent)+1)
		p.sent = append(p.sent, &Sent{ID: id, Room: to, Key: key, Message: m, Versions: []chat.Message{m},
			At: []time.Time{time.Now()}})
	}})
	return id, err
}

func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	p := c.platform
	return p.call(ctx, CallEdit, CallArgs{Room: to, ID: id, Message: m, Do: func() {
		for _, s := range p.sent {
			if s.ID == id {
				s.Message = m
				s.Versions, s.At = append(s.Versions, m), append(s.At, time.Now())
			}
		}
	}})
}

func (c *connection) Find(
	ctx context.Context, to chat.Room, key string, m chat.Message,
) (id string, found bool, err error) {
	p := c.platform
	err = p.call(ctx, CallFind, CallArgs{Room: to, Key: key, Message: m, Do: func() {
		for _, s := range p.sent {
			if s.Key == key && s.Room == to {
				id, found = s.ID, true
			}
		}
	}})
	return id, found, err
}

func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	p := c.platform
	return p.call(ctx, CallTyping, CallArgs{Room: to, Do: func() { p.typed++ }})
}

func (c *connection) AckButton(ctx context.Context, e chat.Event, words string) error {
	p := c.platform
	return p.call(ctx, CallAckButton, CallArgs{Event: e, Room: e.Room, Do: func() {
		p.acks = append(p.acks, ButtonAck{Event: e, Text: words})
	}})
}

// SetOpen implements [chat.Platform].
func (c *connection) SetOpen(f *chat.File) { c.platform.setOpen(f) }

func (c *connection) Close() error {
	c.platform.state.Update(func() { c.closed = true })
	return nil
}
