package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mailroom"
)

// roomState is the state of a delivery thread: what is known of its room.
type roomState struct {
	// Gone says that the platform takes nothing for the room any more.
	Gone *goneRoom `json:"gone,omitempty"`
	// Previews are the messages that show what runs are writing, the oldest first: one
	// room may have several conversations.
	Previews []previewMessage `json:"previews,omitempty"`
	// Asked are the messages with questions that may still be shown as open, the
	// oldest first.
	Asked []askedMessage `json:"asked,omitempty"`
}

// goneRoom is since when nobody is there.
type goneRoom struct {
	Key int64 `json:"key"` // of the newest run then: one that arrives has a greater one
}

type previewMessage struct {
	Run string `json:"run"` // whose text it shows
	ID  string `json:"id"`  // the platform's
}

type askedMessage struct {
	Ticket string `json:"ticket"`
	ID     string `json:"id"` // of the message
}

// What is remembered of one room, at most.
const (
	maxQuestions = 50
	maxPreviews  = 20
)

func decodeRoomState(raw json.RawMessage) (k roomState, err error) {
	if len(raw) > 0 {
		if err = json.Unmarshal(raw, &k); err != nil {
			return roomState{}, fmt.Errorf("read what is known of the chat: %w", err)
		}
	}
	return k, nil
}

// addQuestion remembers a message that asks.
func (k *roomState) addQuestion(a askedMessage) {
	k.dropMessage(a.ID)
	k.Asked = append(k.Asked, a)
	if n := len(k.Asked) - maxQuestions; n > 0 {
		k.Asked = slices.Delete(k.Asked, 0, n)
	}
}

// previewMessage is the id of the message that shows what a run is writing, "" for none.
func (k *roomState) previewMessage(run string) string {
	for _, p := range k.Previews {
		if p.Run == run {
			return p.ID
		}
	}
	return ""
}

// addPreview remembers a preview.
func (k *roomState) addPreview(p previewMessage) {
	k.dropMessage(p.ID)
	k.Previews = append(k.Previews, p)
	if n := len(k.Previews) - maxPreviews; n > 0 {
		k.Previews = slices.Delete(k.Previews, 0, n)
	}
}

// dropMessage forgets a message that asked, or showed what was written: it says something
// else now.
func (k *roomState) dropMessage(id string) {
	k.Asked = slices.DeleteFunc(k.Asked, func(a askedMessage) bool { return a.ID == id })
	k.Previews = slices.DeleteFunc(k.Previews, func(p previewMessage) bool { return p.ID == id })
}

// saveState writes what is known of the room, if that has changed.
func (x *attempt) saveState(ctx context.Context) error {
	raw, err := json.Marshal(x.state)
	if err != nil {
		return fmt.Errorf("encode what is known of the chat: %w", err)
	}
	if string(raw) == x.savedState || x.savedState == "" && string(raw) == "{}" {
		return nil
	}
	if err := x.session.Append(ctx, mailroom.Step{State: raw, NoProgress: true}); err != nil {
		return err
	}
	x.savedState = string(raw)
	return nil
}
