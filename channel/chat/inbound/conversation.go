package inbound

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/digest"
	"mailroom/store"
)

// maxEarlier bounds the earlier conversations of a room that are remembered, so that /stop and
// edits still reach them.
const maxEarlier = 16

// conversation is the stored state of a room's conversation. It pins the target of the last
// command, so that a repeated command acts on the same target.
type conversation struct {
	Since   string         `json:"since,omitempty"`  // id of the command that started it; "" for the first one
	Earlier []string       `json:"before,omitempty"` // Since of earlier conversations, the newest first
	Command *pinnedCommand `json:"doing,omitempty"`  // last command of the conversation
	Album   string         `json:"album,omitempty"`  // digest of the last album with a piece that addressed the bot
	Zone    string         `json:"zone,omitempty"`   // time zone of the room's schedules; "" is UTC
	// digests of the last edits, so that a repeated one does not undo a later one
	Edits []string `json:"edits,omitempty"`
}

// pinnedCommand is the target of a command, as found when the command first arrived.
type pinnedCommand struct {
	Event   string           `json:"event"`
	Stop    []stopTarget     `json:"stop,omitempty"`
	Sending string           `json:"sending,omitempty"` // id of the delivery that /stop ends
	Ticket  *mailroom.Ticket `json:"ticket,omitempty"`
	Verdict mailroom.Verdict `json:"verdict,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Words   string           `json:"words,omitempty"` // the complete answer
}

// stopTarget is a thread whose runs with a place below Place are stopped.
type stopTarget struct {
	Thread string `json:"thread"`
	Place  int64  `json:"place"`
	Active bool   `json:"active"` // a run was active
	Queued int    `json:"queued"`
}

// all returns the Since of the room's conversations, the present one first.
func (c *conversation) all() []string { return append([]string{c.Since}, c.Earlier...) }

// conversations are the conversations of the channel's rooms.
type conversations struct {
	host    *channel.Host
	bot     string // id of the bot
	perUser bool   // each user of a group has a conversation of their own
}

// words returns the arguments of [channel.ThreadID] for the conversation of an event that began with the command
// since.
func (cs *conversations) words(e *chat.Event, since string) []string {
	user := ""
	if cs.perUser && e.Room.Group {
		user = e.User.ID
	}
	return e.Room.ConversationWords(cs.bot, user, since)
}

// thread returns the conversation thread of an event.
func (cs *conversations) thread(e *chat.Event, since string) string {
	return channel.ThreadID(cs.host.Name(), cs.words(e, since)...)
}

// name returns the name under which the conversation of an event is stored.
func (cs *conversations) name(e *chat.Event) string { return "talk:" + cs.thread(e, "") }

// load loads the conversation of an event.
func (cs *conversations) load(ctx context.Context, e *chat.Event) (conversation, error) {
	raw, err := cs.host.ReadValue(ctx, cs.name(e))
	if err != nil {
		return conversation{}, err
	}
	return decodeConversation(raw)
}

func decodeConversation(raw json.RawMessage) (c conversation, err error) {
	if raw == nil {
		return c, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, channel.Fatal(fmt.Errorf("decode conversation state: %w", err))
	}
	return c, nil
}

// update changes the stored conversation of an event with f, which reports whether it changed
// anything.
func (cs *conversations) update(ctx context.Context, e *chat.Event, f func(c *conversation) bool) error {
	return cs.host.UpdateValue(ctx, cs.name(e), func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		c, err := decodeConversation(raw)
		if err != nil || !f(&c) {
			return nil, err
		}
		return json.Marshal(c)
	})
}

// pin stores the target of a command. If the command came before, it returns the target that was
// stored then.
func (cs *conversations) pin(
	ctx context.Context, e *chat.Event, found pinnedCommand,
) (pinned pinnedCommand, err error) {
	err = cs.update(ctx, e, func(c *conversation) bool {
		if c.Command != nil && c.Command.Event == found.Event {
			pinned = *c.Command
			return false
		}
		pinned, c.Command = found, &found
		return true
	})
	return pinned, err
}

// start starts a new conversation for a command. If the command is repeated, start starts no further one.
func (cs *conversations) start(ctx context.Context, e *chat.Event) error {
	return cs.update(ctx, e, func(c *conversation) bool {
		since := digest.ID("conversation", e.Key)[:13]
		if c.Since == since {
			return false
		}
		c.Earlier = c.all()[:min(len(c.Earlier)+1, maxEarlier)]
		c.Since = since
		return true
	})
}

const maxEdits = 32 // edits of a room that are remembered

// recordEdit remembers an edit that was handled.
func (cs *conversations) recordEdit(ctx context.Context, e *chat.Event) error {
	return cs.update(ctx, e, func(c *conversation) bool {
		if slices.Contains(c.Edits, editDigest(e)) {
			return false
		}
		c.Edits = append(c.Edits, editDigest(e))
		c.Edits = c.Edits[max(len(c.Edits)-maxEdits, 0):]
		return true
	})
}

func editDigest(e *chat.Event) string { return digest.ID("edit", e.TargetID, e.Key)[:13] }

// find returns the submit of a message, and the Since of its conversation: the room's present or an
// earlier one. It returns nil if there is none.
func (cs *conversations) find(
	ctx context.Context, e *chat.Event, c *conversation, message string,
) (known *store.SubmitKey, since string, err error) {
	for _, since := range c.all() {
		if known, err := findKey(ctx, cs.host, cs.thread(e, since), messageKey(message)); err != nil || known != nil {
			return known, since, err
		}
	}
	return nil, "", nil
}
