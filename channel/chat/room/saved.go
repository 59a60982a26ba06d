package room

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Saved is the stored state of a room. It is the state of the room's delivery thread.
type Saved struct {
	// Gone means that the platform accepts nothing more for the room.
	Gone *Gone `json:"gone,omitempty"`
	// Previews are the messages that show unfinished replies, the oldest first. Several
	// conversations of one room may have one each.
	Previews []Preview `json:"previews,omitempty"`
	// Asked are the messages whose questions may still be shown as open, the oldest first.
	Asked []Asked `json:"asked,omitempty"`
	// KnownPause is the last pause of the agent that the room knows. "told" is its stored name.
	KnownPause string `json:"told,omitempty"`
}

// Gone records when a room was found gone.
type Gone struct {
	Key int64 `json:"key"` // key of the newest run at that time; a later run has a greater key
}

// Preview is a message that shows an unfinished reply.
type Preview struct {
	Run string `json:"run"` // run that writes the text
	ID  string `json:"id"`  // id of the message at the platform
}

// Asked is a message that shows a question.
type Asked struct {
	Ticket string `json:"ticket"`
	ID     string `json:"id"` // id of the message
}

// Limits of one room.
const (
	maxAsked    = 50
	maxPreviews = 20
)

// Decode decodes a stored state.
func Decode(raw json.RawMessage) (k Saved, err error) {
	if len(raw) > 0 {
		if err = json.Unmarshal(raw, &k); err != nil {
			return Saved{}, fmt.Errorf("decode room state: %w", err)
		}
	}
	return k, nil
}

// AddQuestion remembers a question's message.
func (k *Saved) AddQuestion(a Asked) {
	k.DropMessage(a.ID)
	k.Asked = append(k.Asked, a)
	k.Asked = slices.Delete(k.Asked, 0, max(len(k.Asked)-maxAsked, 0))
}

// IsShown reports whether a ticket's question may still be shown as open.
func (k *Saved) IsShown(ticket string) bool {
	return slices.ContainsFunc(k.Asked, func(a Asked) bool { return a.Ticket == ticket })
}

// PreviewMessage returns the id of a run's preview, "" for none.
func (k *Saved) PreviewMessage(run string) string {
	for _, p := range k.Previews {
		if p.Run == run {
			return p.ID
		}
	}
	return ""
}

// AddPreview remembers a preview.
func (k *Saved) AddPreview(p Preview) {
	k.DropMessage(p.ID)
	k.Previews = append(k.Previews, p)
	k.Previews = slices.Delete(k.Previews, 0, max(len(k.Previews)-maxPreviews, 0))
}

// DropMessage forgets a message whose content was replaced.
func (k *Saved) DropMessage(id string) {
	k.Asked = slices.DeleteFunc(k.Asked, func(a Asked) bool { return a.ID == id })
	k.Previews = slices.DeleteFunc(k.Previews, func(p Preview) bool { return p.ID == id })
}
