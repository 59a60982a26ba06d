package inbound

import (
	"context"
	"encoding/json"
	"fmt"
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

// conversationState is the stored state of a room's conversation. It pins the target of the last
// command, so that a repeated command acts on the same target.
type conversationState struct {
	Since   string         `json:"since,omitempty"`  // id of the command that started it; "" for the first one
	Earlier []string       `json:"before,omitempty"` // Since of earlier conversations, the newest first
	Command *pinnedCommand `json:"doing,omitempty"`  // the last command
}

// pinnedCommand is the target of a command, as found when the command first arrived.
type pinnedCommand struct {
	Event   string           `json:"event"`
	Stop    []stopTarget     `json:"stop,omitempty"`
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

// since returns the conversations of the room, the present one first.
func (s *conversationState) since() []string { return append([]string{s.Since}, s.Earlier...) }

// conversation is the conversation of an event.
type conversation struct {
	name  string // of the stored value
	state conversationState
}

// conversations are the conversations of the channel's rooms.
type conversations struct {
	host    *channel.Host
	bot     string // its id
	perUser bool   // each user of a group has a conversation of their own
}

// words returns the words of an event's conversation.
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

// load loads the conversation of an event.
func (cs *conversations) load(ctx context.Context, e *chat.Event) (*conversation, error) {
	t := &conversation{name: "talk:" + cs.thread(e, "")}
	raw, err := cs.host.ReadValue(ctx, t.name)
	if err != nil {
		return nil, err
	}
	t.state, err = decodeConversation(raw)
	return t, err
}

func decodeConversation(raw json.RawMessage) (k conversationState, err error) {
	if raw == nil {
		return k, nil
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return k, channel.Fatal(fmt.Errorf("decode conversation state: %w", err))
	}
	return k, nil
}

// pin stores the target of a command. If the command came before, it returns the target
// that was stored then.
func (cs *conversations) pin(ctx context.Context, t *conversation, d pinnedCommand) (pinnedCommand, error) {
	err := cs.host.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := decodeConversation(raw)
		if err != nil {
			return nil, err
		}
		if kept.Command != nil && kept.Command.Event == d.Event {
			t.state = kept
			return nil, nil
		}
		kept.Command = &d
		t.state = kept
		return json.Marshal(kept)
	})
	if err != nil {
		return pinnedCommand{}, err
	}
	return *t.state.Command, nil
}

// start starts a new conversation, the same one for the same command.
func (cs *conversations) start(ctx context.Context, t *conversation, e *chat.Event) error {
	since := digest.ID("conversation", e.Key)[:13]
	return cs.host.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := decodeConversation(raw)
		if err != nil || kept.Since == since {
			return nil, err
		}
		kept.Earlier = append([]string{kept.Since}, kept.Earlier...)
		if len(kept.Earlier) > maxEarlier {
			kept.Earlier = kept.Earlier[:maxEarlier]
		}
		kept.Since = since
		return json.Marshal(kept)
	})
}

// submitted returns the result of an earlier submit of a message, in the room's present or earlier
// conversations; nil if it is new.
func (cs *conversations) submitted(ctx context.Context, e *chat.Event, t *conversation) (*store.SubmitKey, error) {
	for _, since := range t.state.since() {
		if known, err := findKey(ctx, cs.host, cs.thread(e, since), messageKey(e.Key)); err != nil || known != nil {
			return known, err
		}
	}
	return nil, nil
}
