// Package channel connects chat platforms to mailboxes. An [Adapter] is one connection
// to a platform; a [Runner] makes them, one after the other, and keeps the channel going.
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
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"mailroom"
)

// MaxDeliveries is how many deliveries of a channel run at once. It is more than a platform
// takes, so that chats in which a send hangs do not hold all of them.
const MaxDeliveries = 128

// Connect makes an adapter that is connected, or fails. It is called for every try
// anew, never while an earlier adapter of the channel is known to live.
//
// It must return soon after ctx ends, which [ReconnectPolicy].Connect bounds, and must not use
// ctx for what outlives it. What it has opened when it fails it must close. What it
// reads of secrets it should read again each time, so that a new one counts. An
// error is tried again later, after a RetryAfter of a [mailroom.Failure] in its
// tree, unless it is [Fatal]: wrong credentials, a missing program, a token that
// somebody else uses.
//
// The link is this adapter's alone. It goes dead when the adapter is to end: from
// then on it takes nothing, and what is told over it is shown nowhere.
type Connect func(ctx context.Context, l *Host) (Adapter, error)

// Adapter is one connection to a platform. Its methods are called concurrently; a
// panic in one of them is an error of it, so they should start no goroutines that
// can panic elsewhere.
//
// It must not connect again by itself after a failure: it returns, and another is made.
// An adapter whose platform gives warning and asks for it may open its next link while
// the old one still works.
type Adapter interface {
	// Receive takes in what arrives until ctx ends. It must begin with what
	// [Host.Position] has, and catch up from there where the platform has a
	// history; it must tell the platform that something was received only after
	// [Host.Submit] has returned without an error. It must say [Host.Received] whenever
	// the platform has shown that it can be received from, more often than
	// [ReconnectPolicy].Fresh also when nobody speaks: an answered poll, an acknowledged
	// heartbeat; that something was opened is none. Any return before ctx ends is
	// the end of the connection; an error means what it means of [Connect].
	Receive(ctx context.Context) error
	// Maintain does what is to be done beside receiving, such as heartbeats, until
	// ctx ends. An error is the end of the connection; what need not end it goes
	// to [Host.ReportError]. It may return nil at once.
	Maintain(ctx context.Context) error
	// Deliver sends what a run of a delivery thread brings. It must not send
	// twice what it knows to be sent: see [mailroom.Session].Do. An error has the
	// class that it means for the run: [mailroom.ClassPermanent] if the platform will
	// never take it, [mailroom.ClassUnavailable] with its RetryAfter if it takes nothing now,
	// and [mailroom.ErrUnknown] if nobody knows. It must keep to the platform's
	// bounds of one chat by returning such an Outage rather than by waiting long:
	// it holds a slot that all channels share. It says [Host.Sent] when the platform
	// has taken something. One that is under way when the adapter is to end may end
	// after Close has returned.
	Deliver(ctx context.Context, d Delivery, s mailroom.Session) error
	// Close gives back all that the adapter holds, and makes Receive and Tend return
	// if they have not, although their ctx has ended. It is called once, when the
	// deliveries under way have ended or had half of [ReconnectPolicy].Close. An adapter that
	// takes longer than the whole of it is left behind, and the next is made.
	Close() error
}

// Ledger is what a channel asks of a ledger.
type Ledger interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
	Submit(ctx context.Context, in mailroom.Submit) (mailroom.Submitted, error)
	MoveCursor(ctx context.Context, c mailroom.Cursor) error
	Retry(ctx context.Context, in mailroom.Retry) (*mailroom.Run, error)
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	Edit(ctx context.Context, thread, message string, parts []mailroom.Part) (mailroom.Message, error)
	Retract(ctx context.Context, thread, message string) error
	AppendEntry(ctx context.Context, thread, kind string, body json.RawMessage) (seq int64, err error)
	Decide(ctx context.Context, d mailroom.Decision) (*mailroom.Ticket, error)
	InterruptBefore(ctx context.Context, thread string, place int64, who *mailroom.Token) (mailroom.Interrupted, error)
	ChangeCursor(ctx context.Context, under, channel, identity string, f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error
	// Wake has the engine look whether deliveries may be started. It must not wait.
	Wake()
}

// Fatal marks an error after which trying again is of no use.
func Fatal(err error) error { return &fatalError{err} }

type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

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
	if most := mailroom.MaxThreadID - len(deliveryPrefix); len(id) > most {
		sum := mailroom.DeriveID(append([]string{"chat", channel}, chat...)...)
		id = id[:most-len(sum)-1] + ":" + sum
	}
	return id
}

// DeliveryThreadID is the delivery thread of a conversation thread.
func DeliveryThreadID(thread string) string { return deliveryPrefix + thread }

const deliveryPrefix = "out:"

// LogThreadID is the thread whose log tells how the channel fares: see [Change].
func LogThreadID(channel string) string { return Via(channel) }

// Reserved are the beginnings of the ids of a channel's threads. Nobody else may
// make one: who does reads what arrives there.
func Reserved(channel string) []string {
	begin := ThreadID(channel) + ":"
	return []string{begin, DeliveryThreadID(begin), LogThreadID(channel)}
}

// Inbound is something that arrived in a chat.
type Inbound struct {
	Chat   []string // names the chat: the first word its kind, the others who or where
	Key    string   // the platform's own id of it
	Parts  []mailroom.Part
	Sender string
	// Room names where what comes of it is said, in the words of Chat; nil: in the
	// chat. Several chats may be one room.
	Room     []string
	Agent    string            // that is to read it
	Mode     mailroom.Mode     // what it does to a busy thread; "" queues it
	Metadata map[string]string // labels of the run, for the way back
	NoRetry  bool              // the failure of its run is an answer, and is not retried
	Cursor   Cursor            // moves with it
}

// Cursor is how far a channel has read its platform under one identity. A cursor without a
// position moves nothing: the event that it comes with was passed before.
type Cursor struct {
	Identity string // whose messages they are: a cursor is of no use to another
	Position []byte // JSON, the adapter's own
}

// Edit is a change of something that arrived before.
type Edit struct {
	Chat   []string        // as it arrived
	Key    string          // of what is changed, as it arrived
	Parts  []mailroom.Part // that it has now; none: it was deleted
	Cursor Cursor          // moves after it
}
