package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel/chat"
)

const (
	maxName     = 300 // bytes of ids and names
	maxURI      = 4096
	maxFiles    = 10
	maxContext  = 8
	maxFileSize = 1<<53 - 1 // bytes; the largest integer that every JSON parser reads exactly
)

// Kinds of inbound and outbound requests.
const (
	kindMessage = "message"
	kindEdit    = "edit"
	kindDelete  = "delete" // inbound only
	kindButton  = "tap"    // inbound only
)

// Inbound is the body of an inbound request.
type Inbound struct {
	Kind      string `json:"kind,omitempty" enum:"message,edit,delete,tap" default:"message" doc:"tap: a button of a message was pressed."`
	Room      string `json:"room" doc:"Id of the room, chosen by the sender. Each room is a conversation."`
	Topic     string `json:"topic,omitempty" doc:"Id of a topic in the room. Each topic is a conversation."`
	Group     bool   `json:"group,omitempty" doc:"Whether the room may have more than one person."`
	User      *User  `json:"user,omitempty" doc:"The author. Required except for a delete."`
	Text      string `json:"text,omitempty" doc:"The text of a message, or the new text of an edit."`
	Files     []File `json:"files,omitempty" doc:"Attachments of a message or an edit, at most 10."`
	Addressed *bool  `json:"addressed,omitempty" doc:"Whether the message is meant for the agent. Group messages that are not are ignored. Defaults to true."`
	Of        string `json:"of,omitempty" doc:"Target of an edit, a delete or a tap: the webhook-id of an inbound message, or the id of the outbound message with the button."`
	Data      string `json:"data,omitempty" doc:"Data of the pressed button, for a tap."`
	// Context is last, because programs sign and compare bodies of earlier versions.
	Context []Context `json:"context,omitempty" doc:"Texts of others in a message or an edit, such as the message that it answers, at most 8. They decide nothing, and the agent sees them under the name of their author."`
}

// Context is a text that the author of a message did not write for it.
type Context struct {
	Kind   string `json:"kind" enum:"reply,quote,forward" doc:"How the text came with the message."`
	Author *User  `json:"author,omitempty" doc:"The author of the text, if known."`
	Agent  bool   `json:"agent,omitempty" doc:"Whether the text is a message of the agent."`
	Text   string `json:"text,omitempty" doc:"The text. The agent gets its first 2,000 characters."`
}

// fieldLimits returns the limits of an Inbound for the API description.
func fieldLimits() map[string]int {
	return map[string]int{
		"Inbound.room": maxName, "Inbound.topic": maxName, "Inbound.of": maxName, "Inbound.data": maxName,
		"Inbound.text": mailroom.MaxText, "Inbound.files": maxFiles, "Inbound.context": maxContext,
		"Context.text": mailroom.MaxText, "User.id": maxName, "User.name": maxName,
		"File.name": maxName, "File.mime_type": maxName, "File.uri": maxURI,
	}
}

// User is a person or a program that sends messages.
type User struct {
	ID   string `json:"id" doc:"Stable id. Permissions refer to it."`
	Name string `json:"name,omitempty" doc:"Display name."`
}

// File is an attachment. The server does not fetch it; the agent gets its URI.
type File struct {
	Name     string `json:"name,omitempty" doc:"Name of the file, for display. Absent: unknown."`
	URI      string `json:"uri" doc:"URL of the file. It is stored and displayed, so it must not contain a secret."`
	MimeType string `json:"mime_type,omitempty" doc:"Media type. Absent: unknown."`
	Size     *int64 `json:"size,omitempty" doc:"Size in bytes."`
}

// parseEvent parses the body of the request with an id.
func parseEvent(id string, body []byte) (e chat.Event, err error) {
	var in Inbound
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return e, decodeError(err)
	}
	if err := in.check(); err != nil {
		return e, err
	}
	e = chat.Event{
		Kind: chat.EventMessage, Key: id, Room: chat.Room{Chat: in.Room, Topic: in.Topic, Group: in.Group},
		Text: in.Text, Addressed: in.Addressed == nil || *in.Addressed, TargetID: in.Of, Data: in.Data, Position: id,
	}
	switch in.Kind {
	case kindEdit:
		e.Kind = chat.EventEdited
	case kindDelete:
		e.Kind = chat.EventDeleted
	case kindButton:
		e.Kind = chat.EventButton
	}
	if in.User != nil {
		e.User = chat.User{ID: in.User.ID, Name: in.User.Name}
	}
	for _, c := range in.Context {
		said := chat.Context{Kind: chat.ContextKind(c.Kind), ByBot: c.Agent, Text: c.Text}
		if c.Author != nil {
			said.Author = chat.User{ID: c.Author.ID, Name: c.Author.Name}
		}
		e.Context = append(e.Context, said)
	}
	for _, f := range in.Files {
		size := int64(-1)
		if f.Size != nil {
			size = *f.Size
		}
		e.Files = append(e.Files, chat.File{Name: f.Name, URI: f.URI, MimeType: f.MimeType, Size: size})
	}
	return e, nil
}

// decodeError describes why a body cannot be decoded.
func decodeError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fieldError(e.Field, "cannot be a "+e.Value)
	}
	if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return fieldError(strings.Trim(field, `"`), "unknown field")
	}
	return &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: "body is not a JSON object of this kind",
		Fields: []mailroom.Field{{Location: "body", Message: "is not a JSON object of this kind"}}, Cause: err,
	}
}

// check validates the fields.
func (in *Inbound) check() error {
	user := User{}
	if in.User != nil {
		user = *in.User
	}
	for _, f := range []struct{ field, value string }{
		{"room", in.Room}, {"topic", in.Topic}, {"user.id", user.ID}, {"user.name", user.Name}, {"of", in.Of},
		{"data", in.Data},
	} {
		if err := checkName(f.field, f.value); err != nil {
			return err
		}
	}
	if in.Room == "" {
		return fieldError("room", "is required")
	}
	if in.Kind != kindDelete && user.ID == "" {
		return fieldError("user.id", "is required")
	}
	if len(in.Text) > mailroom.MaxText || strings.ContainsRune(in.Text, 0) {
		return fieldError("text", fmt.Sprintf("must have at most %d bytes and no NUL", mailroom.MaxText))
	}
	if err := cmp.Or(in.checkFiles(), in.checkContext()); err != nil {
		return err
	}
	return in.checkFields()
}

// checkFields checks that the fields fit the kind of the request.
func (in *Inbound) checkFields() error {
	hasContent := strings.TrimSpace(in.Text) != "" || len(in.Files) > 0 || len(in.Context) > 0
	need := func(field string, is, want bool) error {
		switch {
		case is && !want:
			return fieldError(field, "is not permitted for this kind")
		case want && !is:
			return fieldError(field, "is required for this kind")
		}
		return nil
	}
	switch in.Kind {
	case "", kindMessage:
		return cmp.Or(need("text", hasContent, true), need("of", in.Of != "", false), need("data", in.Data != "", false))
	case kindEdit:
		return cmp.Or(need("text", hasContent, true), need("of", in.Of != "", true), need("data", in.Data != "", false))
	case kindDelete:
		return cmp.Or(need("text", hasContent, false), need("of", in.Of != "", true), need("data", in.Data != "", false))
	case kindButton:
		return cmp.Or(need("text", hasContent, false), need("of", in.Of != "", true), need("data", in.Data != "", true))
	}
	return fieldError("kind", "must be message, edit, delete or tap")
}

func (in *Inbound) checkContext() error {
	if len(in.Context) > maxContext {
		return fieldError("context", fmt.Sprintf("must have at most %d entries", maxContext))
	}
	for i, c := range in.Context {
		at := fmt.Sprintf("context[%d].", i)
		author := User{}
		if c.Author != nil {
			author = *c.Author
		}
		if err := cmp.Or(checkName(at+"author.id", author.ID), checkName(at+"author.name", author.Name)); err != nil {
			return err
		}
		switch chat.ContextKind(c.Kind) {
		case chat.ContextReply, chat.ContextQuote, chat.ContextForward:
		default:
			return fieldError(at+"kind", "must be reply, quote or forward")
		}
		if len(c.Text) > mailroom.MaxText || strings.ContainsRune(c.Text, 0) {
			return fieldError(at+"text", fmt.Sprintf("must have at most %d bytes and no NUL", mailroom.MaxText))
		}
	}
	return nil
}

func (in *Inbound) checkFiles() error {
	if len(in.Files) > maxFiles {
		return fieldError("files", fmt.Sprintf("must have at most %d entries", maxFiles))
	}
	for i, f := range in.Files {
		at := fmt.Sprintf("files[%d].", i)
		if err := checkName(at+"name", f.Name); err != nil {
			return err
		}
		if err := checkName(at+"mime_type", f.MimeType); err != nil {
			return err
		}
		if u, err := url.Parse(f.URI); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
			len(f.URI) > maxURI || strings.ContainsRune(f.URI, 0) {
			return fieldError(at+"uri", "is required and must begin with https:// or http://")
		}
		if f.Size != nil && (*f.Size < 0 || *f.Size > maxFileSize) {
			return fieldError(at+"size", fmt.Sprintf("must be 0 to %d bytes", maxFileSize))
		}
	}
	return nil
}

func checkName(field, value string) error {
	if len(value) > maxName || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return fieldError(field, fmt.Sprintf("must have at most %d bytes and no NUL", maxName))
	}
	return nil
}

func fieldError(field, what string) error {
	at := "body." + field
	return &mailroom.Error{Code: mailroom.CodeInvalid, Message: at + ": " + what,
		Fields: []mailroom.Field{{Location: at, Message: what}}}
}
