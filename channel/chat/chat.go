// Package chat is the interface between a chat channel and its platform: a [Platform] sends and
// receives, and the package adapter does everything else. The rules that the packages of the adapter
// share are here too: who has access, what a command means, how a question looks, how a text is split,
// and when a platform may be called.
package chat

import (
	"context"
	"errors"
	"io"
	"time"

	"mailroom/channel"
	"mailroom/internal/digest"
)

// Dialer connects to a platform for [channel.Connect]: it returns soon after ctx ends, closes
// what it opened when it fails, marks errors that a retry cannot fix with [channel.Fatal], and
// returns a delay that the platform asks for as the RetryAfter of a [mailroom.Failure]. The
// capabilities apply to this connection.
type Dialer func(ctx context.Context, l *channel.Host) (Platform, Capabilities, error)

// Platform is one connection to a chat platform. Its methods are called concurrently. It must not
// reconnect by itself. When the platform asks for a delay, it returns a [mailroom.Failure] of
// class ClassUnavailable with a RetryAfter instead of waiting long.
//
// Errors of Send, Edit and Typing carry their class: ClassPermanent if the platform will never
// accept the call, ClassUnavailable if it accepts none now, ErrGone if the room accepts nothing
// any more, ErrTopicGone in the tree if only its topic does, and [mailroom.ErrUnknown] in the tree if the outcome is
// unknown.
type Platform interface {
	// Receive passes each event to handle, in the platform's order, until ctx ends. It starts after
	// position, which is "" at first, and catches up where the platform has a history. It
	// acknowledges an event to the platform only after handle has returned nil, and returns an
	// error of handle unchanged. It calls [channel.Host.Received] for each proof that the
	// connection works.
	Receive(ctx context.Context, position string, handle EventHandler) error
	// SetOpen sets f.Open from f.URI and f.Ref, for a file of an event that this platform
	// delivered, perhaps before a restart.
	SetOpen(f *File)
	// Maintain does background work such as heartbeats until ctx ends. An error closes the
	// connection.
	Maintain(ctx context.Context) error
	// Send sends one message of at most Capabilities.MaxUnits and returns the platform's id of
	// it, "" if it has none. The same key means the same message.
	Send(ctx context.Context, to Room, m Message, key string) (id string, err error)
	// Edit replaces a sent message. It is called only with Capabilities.Edits.
	Edit(ctx context.Context, to Room, id string, m Message) error
	// Find looks for a recent message that may have been sent under a key. It returns
	// ErrNoHistory if the platform has no history to search.
	Find(ctx context.Context, to Room, key string, m Message) (id string, found bool, err error)
	// Typing shows a typing indicator for some seconds. It is called only with
	// Capabilities.Typing.
	Typing(ctx context.Context, to Room) error
	// AckButton shows the result of a button press to the user who pressed it. It is called only
	// with Capabilities.Buttons.
	AckButton(ctx context.Context, press Event, text string) error
	// Close releases the platform's resources and makes Receive and Maintain return.
	Close() error
}

// EventHandler commits an event and its position. After nil, the adapter may acknowledge the event
// to the platform: its message is in a thread, waits durably for its files, or was rejected for
// good.
//
// A handler returns within the time of a few commits. It fetches no file and sends no message;
// both happen in the background. It is called for one event at a time, in the platform's order.
type EventHandler func(ctx context.Context, e Event) error

var (
	// ErrGone means that a room accepts nothing any more: the user blocked the bot, or the chat
	// was deleted.
	ErrGone = errors.New("the recipient is gone")
	// ErrTopicGone means that the topic of a room is gone: it was deleted. The chat itself may live, and everyone
	// who could read the topic can read the chat.
	ErrTopicGone = errors.New("the topic is gone")
	// ErrEverywhere means that the RetryAfter of the same error applies to all rooms.
	ErrEverywhere = errors.New("the platform limits all messages of this bot")
	// ErrNoHistory means that a platform has no history in which a sent message can be found.
	ErrNoHistory = errors.New("the platform has no history")
)

// Capabilities describe a connection's features, limits and guarantees.
type Capabilities struct {
	Platform string // "telegram"
	BotID    string // the bot's account: saved positions belong to it
	// Directory is the scope in which the platform's ids are unique, if that is not the whole platform: one IRC
	// server, or one program. Together with BotID it is the account to which pairings belong.
	Directory     string
	BotName       string // how users address the bot in groups, without a prefix such as @
	MaxUnits      int    // size limit of a message, in Units
	Units         func(text string) int
	MaxUpload     int           // most bytes of a file of a message; 0: the bot sends no files
	SingleLine    bool          // a message is one line; a text is sent line by line
	Edits         bool          // messages can be edited
	Buttons       bool          // messages can have buttons
	Typing        bool          // typing indicators
	CommandPrefix string        // how users start a command; "" means a slash
	RoomInterval  time.Duration // minimum between two messages to one room
	EditInterval  time.Duration // minimum between two edits of a preview
	BotInterval   time.Duration // minimum between two messages or edits of this bot, in all rooms
	// GroupPerMinute is the number of messages that a group accepts per minute; 0 means no known
	// limit.
	GroupPerMinute int
	// SendDisabled is the reason why the channel sends nothing, "" if it sends. Replies then
	// remain in the log of the delivery thread.
	SendDisabled string
	// RefusalGrace is how long a refused message is retried before it becomes a dead letter,
	// unless the error is ErrGone. 0 means no retry, for a platform with documented refusals.
	RefusalGrace time.Duration
	// DedupWindow is how long the platform recognises the key of a message, so that a resend is
	// harmless; 0 means it does not.
	DedupWindow time.Duration
}

// Account identifies the bot's account at the platform, however the channel is named. It contains no address.
func (c *Capabilities) Account() string {
	return digest.Short([]string{c.Platform, c.Directory, c.BotID})
}

// Room is a chat, or a topic in a chat.
type Room struct {
	Chat  string `json:"chat"`
	Topic string `json:"topic,omitempty"`
	Group bool   `json:"group,omitempty"` // a chat of several people
}

// User is the author of an event. ID is the platform's stable id; Name is the display name.
type User struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// EventKind is the kind of an event.
type EventKind string

const (
	EventMessage EventKind = "said"
	EventEdited  EventKind = "edited"  // Text is the new content
	EventDeleted EventKind = "deleted" // message TargetID was deleted
	EventButton  EventKind = "tapped"  // a button of message TargetID was pressed; Data is what it carried
	EventInvited EventKind = "invited" // an invitation to Room; Accept joins it
	// EventUnreadable is a message that the platform cannot decrypt or read. Text says why. An
	// authorized user gets that text once per room and key.
	EventUnreadable EventKind = "unreadable"
)

// Event is one event of a platform.
type Event struct {
	Kind EventKind
	// Key is the platform's id of the event, unique within its kind and room. A repeated event
	// has the same key. The key of a message is the message's id, so that TargetID can name it.
	Key   string
	Room  Room
	User  User
	Text  string // the author's own words
	Files []File
	// Addressed means that a group message is for the bot, because it names the bot or replies to
	// it. Every private message is. Text may begin with the bot's name. The platform decides
	// whether a command prefix alone addresses the bot.
	Addressed bool
	// TopicUnknown means that the platform does not say in which topic a button was pressed. The
	// topic is then the ticket's, if it was asked in the same chat.
	TopicUnknown bool
	TargetID     string // the message that was edited or deleted, or that had the button
	Data         string // payload of the button
	// Accept joins the room of an invitation. It is called if the inviting user may talk there
	// or, in a private room, may ask for pairing.
	Accept func(ctx context.Context) error
	// AckInline receives the result of a button press before the handler returns, for a platform
	// that sends it in the response to the request of the press. If it is nil,
	// [Platform].AckButton is called instead.
	AckInline func(text string)
	Position  string // where the platform resumes after the event
	// Written is when the platform says that the message was written, zero if it does not say. It only decides which
	// messages belong together.
	Written time.Time
	// Album is equal for all messages that the user sent together, such as the pictures of an album. It is "" for any
	// other message.
	Album string
	// Context are texts of others in a message or an edit, such as the message that it answers.
	Context []Context
}

// File is an attachment.
type File struct {
	Name     string
	MimeType string
	Size     int64 // bytes; -1: unknown
	// Open downloads the file. If it is nil, only the URI is available. The URI must contain no
	// secret, because it is stored and shown to the agent.
	Open func(ctx context.Context) (io.ReadCloser, error)
	URI  string
	// Ref is the further data that [Platform].SetOpen needs besides the URI. It is stored while the file waits for
	// its download, so it must contain no secret.
	Ref string
}

// Message is an outgoing message. Text is Markdown as models write it. A platform renders it in
// its own markup, or sends it unchanged.
type Message struct {
	Text    string
	Notice  bool     // sent by the bot itself, such as the answer to a command: it calls for no notification
	Buttons []Button // buttons in one row
	ReplyTo string   // id of the message that it replies to, "" for none
	File    *Upload  // file of the message, or nil; only with Capabilities.MaxUpload, and never in an edit
}

// Upload is a text file under a message. Its name is unique in the room, so that Find can recognize the message by it.
type Upload struct {
	Name    string
	Content []byte
}

// UploadType is the MIME type of an [Upload].
const UploadType = "text/markdown; charset=utf-8"

// Button is a button under a message.
type Button struct {
	Label string
	Data  string // returned in Event.Data; at most 64 bytes
}
