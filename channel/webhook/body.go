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
	maxFileSize = 1<<53 - 1 // bytes; what every program reads as it is
)

// Kinds of what comes in, and of what goes out.
const (
	kindMessage = "message"
	kindEdit    = "edit"
	kindDelete  = "delete" // in only
	kindButton  = "tap"    // in only
)

// Inbound is the body of a request that comes in.
type Inbound struct {
	Kind      string `json:"kind,omitempty" enum:"message,edit,delete,tap" default:"message"`
	Room      string `json:"room" doc:"Id of the chat, of your own choice: each is a conversation."`
	Topic     string `json:"topic,omitempty" doc:"Id of a topic in it: each is a conversation."`
	Group     bool   `json:"group,omitempty" doc:"More than one person may be there."`
	User      *User  `json:"user,omitempty" doc:"Who says it. Only a delete needs none."`
	Text      string `json:"text,omitempty" doc:"What is said, or the new text of an edit."`
	Files     []File `json:"files,omitempty" doc:"What comes with a message or an edit; at most 10."`
	Addressed *bool  `json:"addressed,omitempty" doc:"Whether it is to the agent: in groups others are left out. true if it is not said."`
	Of        string `json:"of,omitempty" doc:"What an edit, a delete or a tap is about: the webhook-id of a message that was posted, or the id of one that was sent and had the button."`
	Data      string `json:"data,omitempty" doc:"Of a tap: what the button carried."`
}

// fieldLimits are those of an Inbound, for the description of the API.
func fieldLimits() map[string]int {
	return map[string]int{
		"Inbound.room": maxName, "Inbound.topic": maxName, "Inbound.of": maxName, "Inbound.data": maxName,
		"Inbound.text": mailroom.MaxText, "Inbound.files": maxFiles, "User.id": maxName, "User.name": maxName,
		"File.name": maxName, "File.mime_type": maxName, "File.uri": maxURI,
	}
}

// User is a person, or a program that speaks.
type User struct {
	ID   string `json:"id" doc:"Does not change. Who may talk, and decide, is told by it."`
	Name string `json:"name,omitempty" doc:"For people."`
}

// File is an attachment. It is not fetched: an agent is told where it is.
type File struct {
	Name     string `json:"name,omitempty"`
	URI      string `json:"uri" doc:"Where it is. It is kept and shown, so it should have no secret in it."`
	MimeType string `json:"mime_type,omitempty"`
	Size     *int64 `json:"size,omitempty" doc:"In bytes."`
}

// parseEvent reads the body of a request with an id.
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
	for _, f := range in.Files {
		size := int64(-1)
		if f.Size != nil {
			size = *f.Size
		}
		e.Files = append(e.Files, chat.File{Name: f.Name, URI: f.URI, MimeType: f.MimeType, Size: size})
	}
	return e, nil
}

// decodeError says what of a body is not as it should be.
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

// check refuses what cannot be meant.
func (in *Inbound) check() error {
	user := User{}
	if in.User != nil {
		user = *in.User
	}
	for _, f := range []struct{ field, value string }{
		{"room", in.Room}, {"topic", in.Topic}, {"user.id", user.ID}, {"user.name", user.Name}, {"of", in.Of}, {"data", in.Data},
	} {
		if err := checkName(f.field, f.value); err != nil {
			return err
		}
	}
	if in.Room == "" {
		return fieldError("room", "is needed")
	}
	if in.Kind != kindDelete && user.ID == "" {
		return fieldError("user.id", "is needed")
	}
	if len(in.Text) > mailroom.MaxText || strings.ContainsRune(in.Text, 0) {
		return fieldError("text", fmt.Sprintf("has at most %d bytes, and no NUL", mailroom.MaxText))
	}
	if err := in.checkFiles(); err != nil {
		return err
	}
	return in.checkFields()
}

// checkFields checks that there is what its kind needs, and nothing else.
func (in *Inbound) checkFields() error {
	said := strings.TrimSpace(in.Text) != "" || len(in.Files) > 0
	need := func(field string, is, want bool) error {
		switch {
		case is && !want:
			return fieldError(field, "goes with another kind")
		case want && !is:
			return fieldError(field, "is needed for this kind")
		}
		return nil
	}
	switch in.Kind {
	case "", kindMessage:
		return cmp.Or(need("text", said, true), need("of", in.Of != "", false), need("data", in.Data != "", false))
	case kindEdit:
		return cmp.Or(need("text", said, true), need("of", in.Of != "", true), need("data", in.Data != "", false))
	case kindDelete:
		return cmp.Or(need("text", said, false), need("of", in.Of != "", true), need("data", in.Data != "", false))
	case kindButton:
		return cmp.Or(need("text", said, false), need("of", in.Of != "", true), need("data", in.Data != "", true))
	}
	return fieldError("kind", "must be message, edit, delete or tap")
}

func (in *Inbound) checkFiles() error {
	if len(in.Files) > maxFiles {
		return fieldError("files", fmt.Sprintf("are more than %d", maxFiles))
	}
	for i, f := range in.Files {
		at := fmt.Sprintf("files[%d].", i)
		if err := checkName(at+"name", f.Name); err != nil {
			return err
		}
		if err := checkName(at+"mime_type", f.MimeType); err != nil {
			return err
		}
		if u, err := url.Parse(f.URI); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(f.URI) > maxURI || strings.ContainsRune(f.URI, 0) {
			return fieldError(at+"uri", "is needed, and begins with https:// or http://")
		}
		if f.Size != nil && (*f.Size < 0 || *f.Size > maxFileSize) {
			return fieldError(at+"size", fmt.Sprintf("must be 0 to %d bytes", maxFileSize))
		}
	}
	return nil
}

func checkName(field, value string) error {
	if len(value) > maxName || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return fieldError(field, fmt.Sprintf("has at most %d bytes, and no NUL", maxName))
	}
	return nil
}

func fieldError(field, what string) error {
	at := "body." + field
	return &mailroom.Error{Code: mailroom.CodeInvalid, Message: at + ": " + what, Fields: []mailroom.Field{{Location: at, Message: what}}}
}
