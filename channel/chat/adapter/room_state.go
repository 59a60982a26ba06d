package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mailroom"
)

// roomState is the state of a delivery thread. It describes the thread's room.
type roomState struct {
	// Gone means that the platform accepts nothing more for the room.
	Gone *goneRoom `json:"gone,omitempty"`
	// Previews are the messages that show unfinished replies, the oldest first. Several
	// conversations of one room may have one each.
	Previews []previewMessage `json:"previews,omitempty"`
	// Asked are the messages whose questions may still be shown as open, the oldest first.
	Asked []askedMessage `json:"asked,omitempty"`
}

// goneRoom records when a room was found gone.
type goneRoom struct {
	Key int64 `json:"key"` // of the newest run then: a run that arrives later has a greater one
}

type previewMessage struct {
	Run string `json:"run"` // that writes the text
	ID  string `json:"id"`  // at the platform
}

type askedMessage struct {
	Ticket string `json:"ticket"`
	ID     string `json:"id"` // of the message
}

// Limits of one room.
const (
	maxQuestions = 50
	maxPreviews  = 20
)

func decodeRoomState(raw json.RawMessage) (k roomState, err error) {
	if len(raw) > 0 {
		if err = json.Unmarshal(raw, &k); err != nil {
			return roomState{}, fmt.Errorf("decode room state: %w", err)
		}
	}
	return k, nil
}

// addQuestion remembers a question's message.
func (k *roomState) addQuestion(a askedMessage) {
	k.dropMessage(a.ID)
	k.Asked = append(k.Asked, a)
	if n := len(k.Asked) - maxQuestions; n > 0 {
		k.Asked = slices.Delete(k.Asked, 0, n)
	}
}

// previewMessage returns the id of a run's preview, "" for none.
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

// dropMessage forgets a message whose content was replaced.
func (k *roomState) dropMessage(id string) {
	k.Asked = slices.DeleteFunc(k.Asked, func(a askedMessage) bool { return a.ID == id })
	k.Previews = slices.DeleteFunc(k.Previews, func(p previewMessage) bool { return p.ID == id })
}

// saveState saves the room's state if it changed.
func (x *attempt) saveState(ctx context.Context) error {
	raw, err := json.Marshal(x.state)
	if err != nil {
		return fmt.Errorf("encode room state: %w", err)
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
