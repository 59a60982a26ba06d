package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
)

// mostBefore is how many earlier conversations of a room are remembered: what runs
// in them can be stopped, and what was said there changed.
const mostBefore = 16

// talkKept is what a channel keeps of a conversation: which one it is, and what a
// command is about, so that it is about the same when it is done again.
type talkKept struct {
	Since  string   `json:"since,omitempty"`  // the command that began it; "" for the first one
	Before []string `json:"before,omitempty"` // Since of earlier ones, the newest first
	Doing  *doing   `json:"doing,omitempty"`  // the last command
}

// doing is what a command is about, as it was found when it came first.
type doing struct {
	Event   string           `json:"event"`
	Stop    []stopping       `json:"stop,omitempty"`
	Ticket  *mailroom.Ticket `json:"ticket,omitempty"`
	Verdict mailroom.Verdict `json:"verdict,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Words   string           `json:"words,omitempty"` // the whole answer
}

// stopping is a thread of which everything with a place before this one ends.
type stopping struct {
	Thread string `json:"thread"`
	Place  int64  `json:"place"`
	Active bool   `json:"active"` // something was running
	Queued int    `json:"queued"`
}

// talking is a conversation.
type talking struct {
	name string // under which it is kept
	kept talkKept
}

// names are the words of an event's conversation.
func (in *inbound) names(e *Event, since string) []string {
	user := ""
	if in.options.Access.PerUser && e.Room.Group {
		user = e.User.ID
	}
	return e.Room.conversation(in.traits.BotID, user, since)
}

// thread is the conversation thread of an event.
func (in *inbound) thread(e *Event, since string) string {
	return channel.ThreadID(in.link.Name(), in.names(e, since)...)
}

// conversation is the one that an event is said in.
func (in *inbound) conversation(ctx context.Context, e *Event) (*talking, error) {
	t := &talking{name: "talk:" + in.thread(e, "")}
	raw, err := in.link.ReadValue(ctx, t.name)
	if err != nil {
		return nil, err
	}
	t.kept, err = readTalk(raw)
	return t, err
}

func readTalk(raw json.RawMessage) (k talkKept, err error) {
	if raw == nil {
		return k, nil
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return k, channel.Fatal(fmt.Errorf("read what is kept of a conversation: %w", err))
	}
	return k, nil
}

// pin keeps what a command is about, unless that was done before: then it is what
// was kept then.
func (in *inbound) pin(ctx context.Context, t *talking, d doing) (doing, error) {
	err := in.link.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := readTalk(raw)
		if err != nil {
			return nil, err
		}
		if kept.Doing != nil && kept.Doing.Event == d.Event {
			t.kept = kept
			return nil, nil
		}
		kept.Doing = &d
		t.kept = kept
		return json.Marshal(kept)
	})
	if err != nil {
		return doing{}, err
	}
	return *t.kept.Doing, nil
}

// renew begins a new conversation, the same one for the same command.
func (in *inbound) renew(ctx context.Context, t *talking, e *Event) error {
	since := mailroom.DeriveID("conversation", e.Key)[:13]
	return in.link.UpdateValue(ctx, t.name, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := readTalk(raw)
		if err != nil || kept.Since == since {
			return nil, err
		}
		kept.Before = append([]string{kept.Since}, kept.Before...)
		if len(kept.Before) > mostBefore {
			kept.Before = kept.Before[:mostBefore]
		}
		kept.Since = since
		return json.Marshal(kept)
	})
}
