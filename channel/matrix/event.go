package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom/channel/chat"
)

const (
	typeMessage   = "m.room.message"
	typeEncrypted = "m.room.encrypted"
	typeRedaction = "m.room.redaction"
	typeMember    = "m.room.member"
	typeNotice    = "m.notice"

	relReplace = "m.replace"
	relThread  = "m.thread"
	// relOldThread is how clients say it on homeservers of before version 1.4.
	relOldThread = "io.element.thread"

	joined  = "join"
	invited = "invite"
)

// event is one of a room. Only what is used of it is read.
type event struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender"`
	At       int64           `json:"origin_server_ts"` // ms
	StateKey *string         `json:"state_key"`
	Content  json.RawMessage `json:"content"`
	Redacts  string          `json:"redacts"` // in rooms of before version 11
	Unsigned struct {
		Before *member `json:"prev_content"`
	} `json:"unsigned"`
}

// member is what an event says of somebody's being in a room.
type member struct {
	Membership string `json:"membership"`
	Name       string `json:"displayname"`
	Direct     bool   `json:"is_direct"`
}

// member is the content; zero if it is none.
func (e *event) member() (m member) {
	if json.Unmarshal(e.Content, &m) != nil {
		return member{}
	}
	return m
}

// enters reports whether a user was not in the room before an event, nor invited.
func (e *event) enters(user string) bool {
	if e.Type != typeMember || e.StateKey == nil || *e.StateKey != user {
		return false
	}
	before := e.Unsigned.Before
	return e.member().Membership != joined || before == nil || before.Membership != invited && before.Membership != joined
}

// content is that of a message.
type content struct {
	Type     string          `json:"msgtype,omitempty"`
	Body     string          `json:"body"`
	Format   string          `json:"format,omitempty"`
	HTML     string          `json:"formatted_body,omitempty"`
	Relates  *relation       `json:"m.relates_to,omitempty"`
	New      *content        `json:"m.new_content,omitempty"`
	Mentions *mentions       `json:"m.mentions,omitempty"`
	Filename string          `json:"filename,omitempty"`
	URL      string          `json:"url,omitempty"`
	Info     json.RawMessage `json:"info,omitempty"`
	Redacts  string          `json:"redacts,omitempty"`
	// Key says under which key a Mailroom has sent it.
	Key string `json:"org.mailroom.key,omitempty"`
}

type mentions struct {
	Users []string `json:"user_ids,omitempty"`
}

// relation is how a message belongs to others.
type relation struct {
	Type     string   `json:"rel_type,omitempty"`
	Event    string   `json:"event_id,omitempty"`
	Fallback bool     `json:"is_falling_back,omitempty"` // Answers is for clients without threads
	Answers  *answers `json:"m.in_reply_to,omitempty"`
}

// threads reports whether it puts a message into a thread.
func (r *relation) threads() bool {
	return (r.Type == relThread || r.Type == relOldThread) && r.Event != ""
}

type answers struct {
	Event string `json:"event_id"`
}

// answers is the id of the message that one is a reply to, "" if it is none.
func (s *content) answers() string {
	if s.Relates == nil || s.Relates.Answers == nil || s.Relates.Fallback {
		return ""
	}
	return s.Relates.Answers.Event
}

// unreadable is said once in a room with encryption.
const unreadable = "This room is encrypted, and I cannot read what is said in it. Invite me to a room without encryption."

// read says what an event is to us; false if it is nothing.
func (r *receiver) read(ctx context.Context, room string, e event) (t taken, ok bool, err error) {
	switch {
	case e.Type == typeMember:
		r.joins(room, &e)
		return t, false, nil
	case e.StateKey != nil, e.Sender == r.bot.ID:
		return t, false, nil
	}
	var said content
	if err := json.Unmarshal(e.Content, &said); err != nil {
		r.link.Log().Warn("an event is not understood and left out", "event", e.ID, "error", err)
		return t, false, nil
	}
	in, err := r.members(ctx, room)
	if err != nil {
		return t, false, err
	}
	t = taken{Event: chat.Event{Kind: chat.EventMessage, Key: e.ID, Room: in.room(room, ""), User: in.user(e.Sender)}, id: e.ID}
	switch e.Type {
	case typeMessage:
		ok, err = r.message(ctx, &t.Event, said)
	case typeEncrypted:
		t.Kind, t.Key, t.Text = chat.EventUnreadable, "encrypted", unreadable
		ok = true
	case typeRedaction:
		if t.Kind, t.TargetID = chat.EventDeleted, e.Redacts; t.TargetID == "" {
			t.TargetID = said.Redacts
		}
		t.Room.Topic = r.thread(t.TargetID)
		ok = t.TargetID != ""
	}
	return t, ok, err
}

// message reads what somebody said or edited; false of what programs say.
func (r *receiver) message(ctx context.Context, e *chat.Event, said content) (ok bool, err error) {
	if said.Key != "" {
		return false, nil // of another Mailroom: the two would never end
	}
	switch rel := said.Relates; {
	case rel == nil:
	case rel.Type == relReplace:
		if said.New == nil || rel.Event == "" {
			return false, nil
		}
		e.Kind, e.TargetID = chat.EventEdited, rel.Event
		if e.Room.Topic, err = r.topic(ctx, e.Room.Chat, e.TargetID); err != nil {
			return false, err
		}
		said = *said.New
	case rel.threads():
		e.Room.Topic = rel.Event
		r.remember(e.Key, rel.Event)
	}
	switch said.Type {
	case "", typeNotice, "m.key.verification.request":
		return false, nil
	case "m.image", "m.file", "m.audio", "m.video":
		e.Text = said.caption()
		e.Files = r.files(said)
	case "m.emote":
		e.Text = fmt.Sprintf("* %s %s", e.User.Name, said.Body)
	default: // whatever it is, the body says it to those who do not know it
		e.Text = said.plain()
	}
	e.Addressed = !e.Room.Group || r.names.in(said)
	if of := said.answers(); !e.Addressed && of != "" {
		answered, found, err := r.event(ctx, e.Room.Chat, of)
		if err != nil {
			return false, err
		}
		e.Addressed = found && answered.Sender == r.bot.ID
	}
	e.Text = r.names.without(e.Text, said.HTML)
	return strings.TrimSpace(e.Text) != "" || len(e.Files) > 0, nil
}

// topic is the thread of a message.
func (r *receiver) topic(ctx context.Context, room, id string) (string, error) {
	if topic := r.thread(id); topic != "" {
		return topic, nil
	}
	e, found, err := r.event(ctx, room, id)
	var said content
	if err != nil || !found || json.Unmarshal(e.Content, &said) != nil || said.Relates == nil || !said.Relates.threads() {
		return "", err
	}
	r.remember(id, said.Relates.Event)
	return said.Relates.Event, nil
}

// plain is the text without what older clients quote of the message it answers.
func (s *content) plain() string {
	if s.answers() == "" || !strings.HasPrefix(s.Body, "> ") {
		return s.Body
	}
	rest := s.Body
	for strings.HasPrefix(rest, "> ") || rest == ">" || strings.HasPrefix(rest, ">\n") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	if rest = strings.TrimPrefix(rest, "\n"); rest == "" {
		return s.Body
	}
	return rest
}

// caption is what is said with a file. Without a name of its own, the body is that.
func (s *content) caption() string {
	if s.Filename == "" || s.Filename == s.Body {
		return ""
	}
	return s.plain()
}
