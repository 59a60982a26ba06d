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
	ID         string    `json:"id" doc:"Unique among all messages; opaque."`
	Thread     string    `json:"thread" doc:"Id of its thread."`
	Seq        int64     `json:"seq" doc:"The entry of the thread's log with which it came. An edit keeps it."`
	Role       Role      `json:"role" doc:"user, assistant (an agent wrote it) or system."`
	Sender     string    `json:"sender" doc:"Who wrote it: a token, a user of a channel, or the name of an agent."`
	Text       string    `json:"text" doc:"Its text parts, joined by newlines."`
	Parts      []Part    `json:"parts" doc:"The content, in order."`
	Visibility string    `json:"visibility" doc:"all, or internal: not for the readers of a chat."`
	Run        string    `json:"run" doc:"Id of the run that it was submitted to, or that wrote it."`
	State      string    `json:"state" doc:"accepted, delivered, read, done, superseded or retracted; in an entry: at its time."`
	Partial    bool      `json:"partial" doc:"The attempt that wrote it ended without completing it."`
	Truncated  bool      `json:"truncated,omitempty" doc:"The text was cut: at 1 MiB, or by its agent."`
	CreatedAt  time.Time `json:"created_at" doc:"When it was accepted. An edit keeps it."`
}

// Part is one part of a message: text, data, a reference to a file, or reasoning, which is text too.
type Part struct {
	Type     string          `json:"type" doc:"text, data, file, or reasoning, which only agents write."`
	Text     string          `json:"text,omitempty" doc:"Of the types text and reasoning."`
	Data     json.RawMessage `json:"data,omitempty" doc:"Of the type data: any JSON."`
	URI      string          `json:"uri,omitempty" doc:"Of the type file, required there: the address of the file."`
	MimeType string          `json:"mime_type,omitempty" doc:"Media type of the file or data; absent: unknown."`
	Name     string          `json:"name,omitempty" doc:"Name of the file or data, for display."`
}

// Text returns the parts of a plain text message.
func Text(s string) []Part { return []Part{{Type: "text", Text: s}} }
