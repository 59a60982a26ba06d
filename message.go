package mailroom

import (
	"encoding/json"
	"time"
)

// Role is the author's role in a conversation.
type Role string

// Message is a message in a thread's log. Text joins the text parts with newlines. In the log,
// State is the state when the entry was appended; [Run.MessageState] returns the current one.
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

// Part is one part of a message: text, data, a reference to a file, or reasoning, which is text too.
type Part struct {
	Type     string          `json:"type"` // PartText, PartData, PartFile or PartReasoning
	Text     string          `json:"text,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	URI      string          `json:"uri,omitempty"`
	MimeType string          `json:"mime_type,omitempty"`
	Name     string          `json:"name,omitempty"`
}

// Text returns the parts of a plain text message.
func Text(s string) []Part { return []Part{{Type: "text", Text: s}} }
