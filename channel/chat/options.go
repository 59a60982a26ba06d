package chat

import (
	"context"
	"io"
	"time"

	"mailroom/bus"
	"mailroom/stream"
)

// Options configure a chat channel of one agent. Agent is required.
type Options struct {
	Agent  string // agent of the channel's runs
	Access AccessPolicy
	// Command is how the operator calls this program, for hints in messages. "" means "mailroom".
	Command string
	// Files stores attachments. If it is nil, agents get the platform's URI of a file.
	Files FileStore
	// Follow streams the progress of runs, for previews and typing indicators. If it is nil, only
	// replies are sent.
	Follow Follower
	// Commits announces new entries, so that a question decided elsewhere is redrawn at once. If it
	// is nil, open questions are checked once a minute.
	Commits *bus.Bus
	// URL is the address of the server's pages, for a link to a run that shows nothing without a sign-in. "" is unknown.
	URL string
	// MaxParts is the number of messages that one reply may take; the last one then has the whole reply as a file. On a
	// platform whose messages are lines it is ten times as many. 0 means no limit.
	MaxParts int
	// AnswerWithin is the time after which a room gets one notice of what a run that has not
	// answered does. A pause of the agent is announced at once. 0 turns both notices off.
	AnswerWithin time.Duration
	// Previews shows a text while the agent writes it, in a message that is edited.
	Previews bool
}

// DefaultAnswerWithin is the default of a channel's AnswerWithin.
const DefaultAnswerWithin = 10 * time.Minute

// DefaultMaxParts is the default of a channel's MaxParts.
const DefaultMaxParts = 10

// FileStore stores attachments where the agent can read them.
type FileStore interface {
	// Save reads a file to its end and returns its URI. The file is durable when Save returns.
	// The same content under the same name has the same URI.
	Save(ctx context.Context, name string, r io.Reader) (uri string, err error)
}

// Follower follows threads. [stream.Streams] implements it.
type Follower interface {
	Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error
}
