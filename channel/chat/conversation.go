package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
)

// maxEarlier is how many earlier conversations of a room are remembered: what runs
// in them can be stopped, and what was said there changed.
const maxEarlier = 16

// conversationState is what a channel keeps of a conversation: which one it is, and what a
// command is about, so that it is about the same when it is done again.
type conversationState struct {
	Since   string         `json:"since,omitempty"`  // the command that began it; "" for the first one
	Earlier []string       `json:"before,omitempty"` // Since of earlier ones, the newest first
	Command *pinnedCommand `json:"doing,omitempty"`  // the last command
}

// pinnedCommand is what a command is about, as it was found when it came first.
type pinnedCommand struct {
	Event   string           `json:"event"`
	Stop    []stopTarget     `json:"stop,omitempty"`
	Ticket  *mailroom.Ticket `json:"ticket,omitempty"`
	Verdict mailroom.Verdict `json:"verdict,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Words   string           `json:"words,omitempty"` // the whole answer
}

// stopTarget is a thread of which everything with a place before this one ends.
type stopTarget struct {
	Thread string `json:"thread"`
	Place  int64  `json:"place"`
	Active bool   `json:"active"` // something was running
	Queued int    `json:"queued"`
}

// conversation is a conversation.
type conversation struct {
	name  string // under which it is kept
	state conversationState
}

// conversationWords are the words of an event's conversation.
func (in *inbound) conversationWords(e *Event, since string) []string {
	user := ""
	if in.options.Access.PerUser && e.Room.Group {
		user = e.User.ID
	}
	return e.Room.conversationWords(in.caps.BotID, user, since)
}

// threadID is the conversation thread of an event.
func (in *inbound) threadID(e *Event, since string) string {
	return channel.ThreadID(in.host.Name(), in.conversationWords(e, since)...)
}

// loadConversation is the one that an event is said in.
func (in *inbound) loadConversation(ctx context.Context, e *Event) (*conversation, error) {
	t := &conversation{name: "talk:" + in.threadID(e, "")}
	raw, err := in.host.ReadValue(ctx, t.name)
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
		return k, channel.Fatal(fmt.Errorf("read what is kept of a conversation: %w", err))
	}
	return k, nil
}

// pinCommand keeps what a command is about, unless that was done before: then it is what
// was kept then.
func (in *inbound) pinCommand(ctx context.Context, t *conversation, d pinnedCommand) (pinnedCommand, error) {
	err := in.host.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
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

// startConversation begins a new conversation, the same one for the same command.
func (in *inbound) startConversation(ctx context.Context, t *conversation, e *Event) error {
	since := mailroom.DeriveID("conversation", e.Key)[:13]
	return in.host.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
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
