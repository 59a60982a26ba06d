// Package channel connects chat platforms to conversation threads. An [Adapter] is one connection
// to a platform. A [Runner] creates adapters, one at a time, and reconnects the channel.
//
// An inbound message becomes a submit to the chat's conversation thread. The submit key is the
// platform's id of the message, and the same transaction moves the cursor that records how far
// the platform was read. So a message is either in its thread or is read again.
//
// Replies of the conversation go to the chat's delivery thread, whose agent is the channel.
// Order, retries, leases and dead letters of replies are those of any run; there is no second
// queue.
//
// The reported condition rests on evidence: a channel is connected while its last success is
// fresh, not because a connection was once opened.
package channel

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/digest"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// MaxDeliveries is the number of deliveries that one channel runs at once. It is higher than a
// platform's throughput needs, so that chats with a hanging send do not occupy every slot.
const MaxDeliveries = 128

// Connect returns a connected adapter. The runner calls it for every attempt, and never while an
// earlier adapter of the channel is known to run.
//
// Connect must return soon after ctx ends, which [ReconnectPolicy].ConnectTimeout bounds. It must
// not use ctx for anything that outlives the call, and must close what it opened when it fails.
// It should read secrets again on each call, so that a rotated secret takes effect. After an
// error the runner retries, no earlier than the RetryAfter of a [mailroom.Failure] in the error's
// tree. It only probes now and then after a [Fatal] error: wrong credentials, a missing program, a
// token in use by another client.
//
// The host belongs to this adapter alone. Once the runner stops the adapter, the host rejects
// submits and ignores reports.
type Connect func(ctx context.Context, l *Host) (Adapter, error)

// Adapter is one connection to a platform. Its methods are called concurrently. A panic in a
// method becomes an error of that method; adapters should start no goroutines that can panic
// elsewhere.
//
// An adapter must not reconnect by itself after a failure: it returns, and the runner creates
// another. An adapter whose platform announces a reconnect may open its next connection while the
// old one still works.
type Adapter interface {
	// Receive submits inbound events until ctx ends. It starts at [Host.Position] and catches up
	// from there where the platform has a history. It acknowledges an event to the platform only
	// after [Host.Submit] has returned without an error. It calls [Host.Received] for each proof
	// that the connection works, such as an answered poll or an acknowledged heartbeat, more
	// often than [ReconnectPolicy].IdleTimeout even when the chat is silent. An open connection
	// is no proof. Any return before ctx ends closes the connection; an error means what it means
	// for [Connect].
	Receive(ctx context.Context) error
	// Maintain does background work such as heartbeats until ctx ends. An error closes the
	// connection; report any other problem with [Host.ReportError]. Maintain may return nil at
	// once.
	Maintain(ctx context.Context) error
	// Deliver sends the content of a delivery run. It must not send a message twice if it knows
	// that the first send succeeded: see [mailroom.Session].Do. Errors carry the class for the
	// run: [mailroom.ClassPermanent] if the platform will never accept the message,
	// [mailroom.ClassUnavailable] with a RetryAfter if it accepts none now, and
	// [mailroom.ErrUnknown] if the outcome is unknown. Deliver obeys a rate limit of a chat by
	// returning a ClassUnavailable error, not by waiting long, because it holds a slot that all
	// channels share. It calls [Host.Sent] after each accepted message. A delivery in progress
	// when the adapter stops may end after Close has returned.
	Deliver(ctx context.Context, d Delivery, s mailroom.Session) error
	// Close releases the adapter's resources and makes Receive and Maintain return if they have
	// not, although their ctx has ended. The runner calls it once, when the deliveries in
	// progress have ended or half of [ReconnectPolicy].CloseTimeout has passed. An adapter that
	// exceeds the full CloseTimeout is abandoned, and the runner creates the next one.
	Close() error
}

// Ledger is the part of a ledger that a channel uses.
type Ledger interface {
	View(ctx context.Context, f func(store.Reader) error) error
	Submit(ctx context.Context, in thread.Submit) (store.Submitted, error)
	MoveCursor(ctx context.Context, c store.Cursor) error
	Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error)
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	// Edit returns the present content of the message, also with a conflict: the agent has read it.
	Edit(ctx context.Context, thread, message string, parts []mailroom.Part) (mailroom.Message, error)
	Retract(ctx context.Context, thread, message string) error
	AppendEntry(ctx context.Context, thread, kind string, body json.RawMessage) (seq int64, err error)
	Decide(ctx context.Context, d thread.Decision) (*mailroom.Ticket, error)
	InterruptBefore(ctx context.Context, thread string, place int64, who *auth.Token) (thread.Interrupted, error)
	ChangeCursor(ctx context.Context, channel, identity string,
		f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error
	// AskClaimers makes the engine check for deliveries that may start. It must not block.
	AskClaimers()
}

// Fatal marks an error that a retry is not expected to fix. Before the first connection, the runner treats the
// channel as failed at once; after it, only when such errors last for [ReconnectPolicy].FatalGrace.
func Fatal(err error) error { return &fatalError{err} }

type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// AgentName returns the name of the agent that delivers for a channel. A configuration cannot
// define an agent with this name.
func AgentName(channel string) string { return Via(channel) }

// Via returns the [mailroom.Origin].Via of runs that arrive through a channel.
func Via(channel string) string { return reserved.Channel + channel }

// ThreadID returns the id of a chat's conversation thread. chat identifies the chat, as in [Inbound]. Equal arguments
// give equal ids, and different arguments give different ids: characters that an id cannot hold, or that separate the
// parts of an id, are escaped. An id that would be too long ends with a hash instead.
func ThreadID(channel string, chat ...string) string {
	words := make([]string, 0, len(chat)+1)
	for _, w := range append([]string{channel}, chat...) {
		words = append(words, url.QueryEscape(w))
	}
	id := strings.Join(words, ":")
	if most := mailroom.MaxThreadID - len(deliveryPrefix); len(id) > most {
		sum := digest.ID(append([]string{"chat", channel}, chat...)...)
		id = id[:most-len(sum)-1] + ":" + sum
	}
	return id
}

// DeliveryThreadID returns the delivery thread of a conversation thread.
//
// A chat has two threads because a conversation that waits for an answer holds its queue, while its
// question must still be delivered.
func DeliveryThreadID(thread string) string { return deliveryPrefix + thread }

const deliveryPrefix = reserved.Delivery

// LogThreadID returns the thread that logs the state changes of a channel: see [Change].
func LogThreadID(channel string) string { return Via(channel) }

// Reserved returns the prefix of the ids of a channel's conversations. Other clients must not create threads
// with it, because the owner of such a thread would read the channel's messages. Package reserved has the
// prefixes that do not depend on a channel.
func Reserved(channel string) string { return ThreadID(channel) + ":" }

// Inbound is a message that arrived in a chat.
type Inbound struct {
	Chat   []string // identifies the chat: its kind first, then its ids
	Key    string   // the platform's id of the message
	Parts  []mailroom.Part
	Sender string
	// Room is the chat that receives the replies, in the words of Chat. nil means Chat itself.
	// Several conversations may share one room.
	Room  []string
	Agent string        // name of the agent that handles the message
	Mode  mailroom.Mode // what the message does to a busy thread; "" means ModeQueue
	// ExpectRun is, with ModeSteer, the run that must be current; else the submit is a Conflict. "": any.
	ExpectRun string
	Join      time.Duration     // how long the run waits for more messages of the sender; see [thread.Submit]
	Written   time.Time         // when the platform says that the message was written; zero: it does not say
	Metadata  map[string]string // labels of the run; they identify the chat for the reply
	NoRetry   bool              // deliver the run's failure as the answer instead of retrying
	Cursor    Cursor            // moves in the same transaction
}

// Cursor records how far a channel has read its platform under one identity. A cursor without a position changes
// nothing, because the saved position is already past its event.
type Cursor struct {
	Identity string // the account that reads; another account cannot use the cursor
	Position []byte // JSON, private to the adapter
}

// Edit changes or deletes a message that arrived before.
type Edit struct {
	Chat   []string        // chat of the original message
	Key    string          // key of the original message
	Parts  []mailroom.Part // the new content; none deletes the message
	Cursor Cursor          // moves after the edit
}
