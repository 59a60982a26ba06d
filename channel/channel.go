// Package channel connects chat platforms to mailboxes. An [Adapter] knows one
// platform; a [Runner] keeps it going.
//
// What arrives becomes a submit to the chat's conversation thread, whose key is
// the platform's own id, in one transaction with the cursor that says how far the
// platform was read. So a message is in its thread, or is read again, and there is
// nothing in between. What the conversation says comes to the chat's delivery
// thread, whose agent is the channel: order, retries, leases and dead letters of
// replies are those of any run, and there is no second queue.
//
// What is said of a channel is evidence: it is connected while its last success is
// fresh, and not because something was once opened.
package channel

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"mailroom"
)

// Adapter is one platform. Its methods are called concurrently. Errors are the
// platform's unless they say otherwise; a RetryAfter of a [mailroom.Failure] in
// their tree is obeyed.
type Adapter interface {
	// Receive takes in what arrives until ctx ends. It begins with what
	// [Link.Position] has, each time. An error is a lost connection: the runner
	// waits and calls it again, unless it is [Fatal].
	Receive(ctx context.Context, l *Link) error
	// Tend does what is to be done beside receiving, such as heartbeats, until
	// ctx ends. What fails in it is told with [Link.Trouble] and ends nothing.
	Tend(ctx context.Context, l *Link)
	// Deliver sends what a run of a delivery thread brings. It must not send
	// twice what it knows to be sent: see [mailroom.Session].Do.
	Deliver(ctx context.Context, l *Link, d Delivery, s mailroom.Session) error
}

// Ledger is what a channel asks of a ledger.
type Ledger interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
	Submit(ctx context.Context, in mailroom.Submit) (mailroom.Submitted, error)
	MoveCursor(ctx context.Context, c mailroom.Cursor) error
	Retry(ctx context.Context, in mailroom.Retry) (*mailroom.Run, error)
}

// Fatal marks an error after which trying again is of no use.
func Fatal(err error) error { return &fatalError{err} }

type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

func isFatal(err error) bool {
	_, ok := errors.AsType[*fatalError](err)
	return ok
}

// AgentName is the name of the agent that delivers for a channel. No agent of a
// configuration can have it.
func AgentName(channel string) string { return Via(channel) }

// Via is the origin of what arrives through a channel.
func Via(channel string) string { return "channel:" + channel }

// ThreadID is the conversation thread of a chat, the same one for the same words,
// and another one for others: what must not be in an id, or would be read as the
// end of a word, is escaped.
func ThreadID(channel string, chat ...string) string {
	words := make([]string, 0, len(chat)+1)
	for _, w := range append([]string{channel}, chat...) {
		words = append(words, url.QueryEscape(w))
	}
	id := strings.Join(words, ":")
	if most := mailroom.MaxThreadID - len(outPrefix); len(id) > most {
		sum := mailroom.DeriveID(append([]string{"chat", channel}, chat...)...)
		id = id[:most-len(sum)-1] + ":" + sum
	}
	return id
}

// OutID is the delivery thread of a conversation thread.
func OutID(thread string) string { return outPrefix + thread }

const outPrefix = "out:"

// Reserved are the beginnings of the ids of a channel's threads. Nobody else may
// make one: who does reads what arrives there.
func Reserved(channel string) []string {
	begin := ThreadID(channel) + ":"
	return []string{begin, OutID(begin)}
}

// Arrival is something that arrived in a chat.
type Arrival struct {
	Chat     []string // names the chat: the first word its kind, the others who or where
	Key      string   // the platform's own id of it
	Parts    []mailroom.Part
	Sender   string
	Agent    string            // that is to read it
	Metadata map[string]string // labels of the run, for the way back
	Once     bool              // the failure of its run is an answer, and is not retried
	Cursor   Cursor            // moves with it
}

// Cursor is how far a channel has read its platform in somebody's name.
type Cursor struct {
	Identity string // whose messages they are: a cursor is of no use to another
	Position []byte // JSON, the adapter's own
}

// Condition is what is known about a channel.
type Condition string

const (
	Starting  Condition = "starting"  // it was never heard, and has not failed yet
	Connected Condition = "connected" // its last success is fresh
	Silent    Condition = "silent"    // nothing fails, but its last success is not fresh any more
	Queued    Condition = "queued"    // it failed and is tried again
	Failed    Condition = "failed"    // it failed for good
)

// State is what there is to say about a channel. Zero times: never.
type State struct {
	Name           string
	Kind           string
	Condition      Condition
	Reason         string // why it is not connected, or what keeps it; "" if nothing does
	LastSuccess    time.Time
	LastError      string
	LastErrorAt    time.Time
	LastInbound    time.Time
	LastOutbound   time.Time // the platform took something
	Cursor         string    // as people read it
	Unhandled      int       // arrivals that the platform was not told to be done
	NextTry        time.Time // of a queued one
	ConnectedSince time.Time
	Failures       int // in a row
}
