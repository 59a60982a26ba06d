package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mailroom"
)

// kept is the state of a delivery thread: what is known of its room.
type kept struct {
	// Gone says that the platform takes nothing for the room any more.
	Gone *gone `json:"gone,omitempty"`
	// Previews are the messages that show what runs are writing, the oldest first: one
	// room may have several conversations.
	Previews []preview `json:"previews,omitempty"`
	// Asked are the messages with questions that may still be shown as open, the
	// oldest first.
	Asked []asked `json:"asked,omitempty"`
}

// gone is since when nobody is there.
type gone struct {
	Key int64 `json:"key"` // of the newest run then: one that arrives has a greater one
}

type preview struct {
	Run string `json:"run"` // whose text it shows
	ID  string `json:"id"`  // the platform's
}

type asked struct {
	Ticket string `json:"ticket"`
	ID     string `json:"id"` // of the message
}

// What is remembered of one room, at most.
const (
	mostAsked    = 50
	mostPreviews = 20
)

func readKept(raw json.RawMessage) (k kept, err error) {
	if len(raw) > 0 {
		if err = json.Unmarshal(raw, &k); err != nil {
			return kept{}, fmt.Errorf("read what is known of the chat: %w", err)
		}
	}
	return k, nil
}

// ask remembers a message that asks.
func (k *kept) ask(a asked) {
	k.forget(a.ID)
	k.Asked = append(k.Asked, a)
	if n := len(k.Asked) - mostAsked; n > 0 {
		k.Asked = slices.Delete(k.Asked, 0, n)
	}
}

// preview is the id of the message that shows what a run is writing, "" for none.
func (k *kept) preview(run string) string {
	for _, p := range k.Previews {
		if p.Run == run {
			return p.ID
		}
	}
	return ""
}

// show remembers a preview.
func (k *kept) show(p preview) {
	k.forget(p.ID)
	k.Previews = append(k.Previews, p)
	if n := len(k.Previews) - mostPreviews; n > 0 {
		k.Previews = slices.Delete(k.Previews, 0, n)
	}
}

// forget forgets a message that asked, or showed what was written: it says something
// else now.
func (k *kept) forget(id string) {
	k.Asked = slices.DeleteFunc(k.Asked, func(a asked) bool { return a.ID == id })
	k.Previews = slices.DeleteFunc(k.Previews, func(p preview) bool { return p.ID == id })
}

// save writes what is known of the room, if that has changed.
func (x *sending) save(ctx context.Context) error {
	raw, err := json.Marshal(x.kept)
	if err != nil {
		return fmt.Errorf("encode what is known of the chat: %w", err)
	}
	if string(raw) == x.saved || x.saved == "" && string(raw) == "{}" {
		return nil
	}
	if err := x.session.Append(ctx, mailroom.Step{State: raw, NoProgress: true}); err != nil {
		return err
	}
	x.saved = string(raw)
	return nil
}
