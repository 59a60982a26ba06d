// Package chat is what chat platforms have in common: who may talk, which thread a
// chat is, the commands that act at once, and replies in pieces that a platform takes.
// A [Platform] knows one protocol and nothing of this.
//
// A chat has a conversation thread, and the same room after "/new" another one; both
// deliver to the room's one delivery thread, so that what goes out keeps its order.
// What arrives is taken in before the platform is told so; what goes out is an effect
// of the delivery's run, with a key. Whether a message can come twice after a crash
// depends on what the platform makes of that key: see [Capabilities].Repeats.
package chat

import (
	"context"
	"errors"
	"io"
	"time"

	"mailroom/channel"
)

// Dialer connects to a platform, as [channel.Connect] is to: it returns soon after ctx
// ends, closes what it opened when it fails, and tells errors that are of no use to
// try again with [channel.Fatal], and waits that the platform asks for as the
// RetryAfter of a [mailroom.Failure]. The traits are of this connection.
type Dialer func(ctx context.Context, l *channel.Host) (Platform, Capabilities, error)

// Platform is one connection to a chat platform. Its methods are called concurrently.
// It must not connect again by itself, and must not wait long for a platform that asks
// for patience: it returns a [mailroom.Failure] of class Outage with the RetryAfter.
//
// Errors of Send, Edit and Typing have the class that they mean: Permanent if the
// platform will never take it, Outage if it takes nothing now; ErrGone of a room that
// will take nothing any more; [mailroom.ErrUnknown] in their tree if nobody knows.
type Platform interface {
	// Receive hands each event to take, in the order in which the platform has
	// them, until ctx ends. It must catch up from position, which is of the last
	// event that was taken ("" at first), where the platform has a history. It must
	// tell the platform that an event was received only after take has returned nil,
	// and return take's error as it is. It says [channel.Host.Received] for each proof
	// that it can be received from.
	Receive(ctx context.Context, position string, take EventHandler) error
	// SetOpen sets f.Open of a file that a connection of this platform handed out, perhaps
	// before a restart, from f.URI and f.Ref.
	SetOpen(f *File)
	// Maintain does what is to be done beside, such as heartbeats, until ctx ends. An
	// error is the end of the connection.
	Maintain(ctx context.Context) error
	// Send sends one message, which fits into Capabilities.MaxUnits, and returns the platform's
	// id of it, "" if it has none. The same key is the same message.
	Send(ctx context.Context, to Room, m Message, key string) (id string, err error)
	// Edit replaces a message that was sent. Only with Capabilities.Edits.
	Edit(ctx context.Context, to Room, id string, m Message) error
	// Find looks for a message that may have been sent under a key not long ago.
	// ErrNoHistory if the platform cannot tell.
	Find(ctx context.Context, to Room, key string, m Message) (id string, found bool, err error)
	// Typing shows for some seconds that an answer is being written. Only with
	// Capabilities.Typing.
	Typing(ctx context.Context, to Room) error
	// AckButton tells who pressed a button what came of it. Only with Capabilities.Buttons.
	AckButton(ctx context.Context, tap Event, words string) error
	// Close gives back all that it holds, and makes Receive and Tend return.
	Close() error
}

// EventHandler commits an event and its position: the event is in its thread, waits durably for its
// files, or is refused for good. The platform can be told that the event was received.
//
// Take returns within the time of a few commits. It fetches no file and sends no message:
// both happen beside it. It is called for one event at a time, in the platform's order.
type EventHandler func(ctx context.Context, e Event) error

var (
	// ErrGone says that a room takes nothing any more: who is there has blocked the
	// bot, or the chat is deleted.
	ErrGone = errors.New("nobody is there any more")
	// ErrEverywhere says that the RetryAfter beside it is for all rooms.
	ErrEverywhere = errors.New("the platform takes nothing from this bot")
	// ErrNoHistory says that a platform cannot tell what was sent.
	ErrNoHistory = errors.New("the platform has no history")
)

// Capabilities are what a connection can do, and what the platform promises.
type Capabilities struct {
	Platform      string // "telegram"
	BotID         string // id of who is connected: positions are of this bot alone
	BotName       string // by which people address it in groups, without a sign before it
	MaxUnits      int    // units in one message
	Units         func(text string) int
	SingleLine    bool          // a message is one line: others are sent line by line
	Edits         bool          // messages can be edited
	Buttons       bool          // messages can have buttons
	Typing        bool          // it shows who is typing
	CommandPrefix string        // before a command, as people are told; "" is a slash
	RoomInterval  time.Duration // between two messages to one room, at least
	EditInterval  time.Duration // between two edits of a preview, at least
	BotInterval   time.Duration // between two messages or edits of this bot, to whatever room
	// GroupPerMinute is how many messages a group takes in a minute; 0: the platform does not
	// say.
	GroupPerMinute int
	// SendDisabled says why nothing can be sent; "" if it can. What a chat would be told is then
	// in the log of its delivery thread only.
	SendDisabled string
	// ResendBehavior says what becomes of a message that is sent again with its key after a
	// crash, for docs and logs: "recognised for some minutes", "sent twice".
	ResendBehavior string
	// RefusalGrace is for how long a message that the platform refuses, other than with
	// ErrGone, is tried again before it is a dead letter; 0: not at all, for a platform
	// whose refusals are documented.
	RefusalGrace time.Duration
	// DedupWindow is for how long the platform recognises the key of a message; 0: it does
	// not. Within it, sending again is harmless.
	DedupWindow time.Duration
}

// Room is where something is said: a chat, or a topic of it.
type Room struct {
	Chat  string `json:"chat"`
	Topic string `json:"topic,omitempty"`
	Group bool   `json:"group,omitempty"` // more than one person may be there
}

// User is who says something. ID is the platform's own and does not change; Name is
// for people.
type User struct {
	ID   string
	Name string
}

// EventKind says what happened.
type EventKind string

const (
	EventMessage EventKind = "said"
	EventEdited  EventKind = "edited"  // Text is the new one
	EventDeleted EventKind = "deleted" // message Of is gone
	EventButton  EventKind = "tapped"  // a button of message Of, which carried Data
	EventInvited EventKind = "invited" // into Room; Accept goes there
	// EventUnreadable was said, and the platform cannot read it. Text says why: whoever may
	// talk is told that once in a room, for a key.
	EventUnreadable EventKind = "unreadable"
)

// Event is something that happened on a platform.
type Event struct {
	Kind EventKind
	// Key is the platform's own id of it, among those of its kind and room: the same
	// event has it each time. That of something said is the id of the message, so
	// that Of can name it.
	Key   string
	Room  Room
	User  User
	Text  string
	Files []File
	// Addressed says that a message in a group is to the bot: it names it, or answers
	// it. In private everything is. Text may begin with the name; where the sign of a
	// command is enough to address a bot, it is for the platform to say so.
	Addressed bool
	// TopicUnknown says of a tap that the platform does not tell its topic: it is that of the
	// ticket, if that was asked in the same chat.
	TopicUnknown bool
	TargetID     string // id of the message that was edited, deleted, or had the button
	Data         string // of the button
	// Accept of an invitation goes into the room. It is called if whoever invites may
	// talk there or, to be let in by pairing, somebody in private.
	Accept func(ctx context.Context) error
	// AckInline of a tap receives what came of it before Take returns, for a platform that puts
	// that into the answer to the request which brought the tap. nil: [Platform].Tapped does.
	AckInline func(words string)
	Position  string // to go on after it
}

// File is an attachment.
type File struct {
	Name     string
	MimeType string
	Size     int64 // bytes; -1: not known
	// Open fetches it. nil: the URI is all there is. No secret may be in the URI: it
	// is kept, and shown to the agent.
	Open func(ctx context.Context) (io.ReadCloser, error)
	URI  string
	// Ref is what [Platform].Opens needs beside the URI. It is kept while the file waits to
	// be fetched, so no secret may be in it.
	Ref string
}

// Message is what is sent. Text is Markdown as models write it; a platform renders it
// in its own way, and sends it as it is where it cannot.
type Message struct {
	Text    string
	Notice  bool     // the bot says it by itself, in answer to a command: it needs nobody's attention
	Buttons []Button // in one row
	ReplyTo string   // id of the message that it answers, "" for none
}

// Button is something to press.
type Button struct {
	Label string
	Data  string // comes back in Event.Data; at most 64 bytes
}
