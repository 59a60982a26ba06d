package mailroom

import (
	"encoding/json"
	"strings"
	"time"
)

// Role says who speaks in a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// Message is an entry of a log that somebody said. Text is the text parts
// joined by newlines. In a log, State is the state at the time of the append;
// [Run.MessageState] tells the present one.
type Message struct {
	ID         string    `json:"id"`
	Thread     string    `json:"thread"`
	Seq        int64     `json:"seq"`
	Role       Role      `json:"role"`
	Sender     string    `json:"sender"`
	Text       string    `json:"text"`
	Parts      []Part    `json:"parts"`
	Visibility string    `json:"visibility"` // VisibleAll or VisibleInternal
	Run        string    `json:"run"`
	State      string    `json:"state"` // accepted, delivered, read, done, superseded, retracted
	Partial    bool      `json:"partial"`
	Truncated  bool      `json:"truncated,omitempty"` // cut at MaxText
	CreatedAt  time.Time `json:"created_at"`
}

// Part is one piece of a message: text, data or a reference to a file.
type Part struct {
	Type     string          `json:"type"` // "text", "data" or "file"
	Text     string          `json:"text,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	URI      string          `json:"uri,omitempty"`
	MimeType string          `json:"mime_type,omitempty"`
	Name     string          `json:"name,omitempty"`
}

// Visibility of a message.
const (
	VisibleAll      = "all"
	VisibleInternal = "internal"
)

// States of a message, derived from its run and never stored beside it.
const (
	MessageAccepted   = "accepted"   // durable, no run has taken it yet
	MessageDelivered  = "delivered"  // its run is claimed
	MessageRead       = "read"       // the agent has it and made a step
	MessageDone       = "done"       // its run completed, or the agent wrote it
	MessageSuperseded = "superseded" // a newer message took its place before it was read
	MessageRetracted  = "retracted"  // its sender took it back before it was read
)

// Text makes the parts of a plain text message.
func Text(s string) []Part { return []Part{{Type: "text", Text: s}} }

// JoinText returns the text of the text parts, joined by newlines.
func JoinText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
