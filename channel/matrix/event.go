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

	membershipJoin   = "join"
	membershipInvite = "invite"
)

// event is one of a room. Only what is used of it is read.
type event struct {
	ID        string          `json:"event_id"`
	Type      string          `json:"type"`
	Sender    string          `json:"sender"`
	Timestamp int64           `json:"origin_server_ts"` // ms
	StateKey  *string         `json:"state_key"`
	Content   json.RawMessage `json:"content"`
	Redacts   string          `json:"redacts"` // in rooms of before version 11
	Unsigned  struct {
		Before *member `json:"prev_content"`
	} `json:"unsigned"`
}

// memberContent is what an event says of somebody's being in a room.
type member struct {
	Membership string `json:"membership"`
	Name       string `json:"displayname"`
	Direct     bool   `json:"is_direct"`
}

// memberContent is the content; zero if it is none.
func (e *event) memberContent() (m member) {
	if json.Unmarshal(e.Content, &m) != nil {
		return member{}
	}
	return m
}

// isJoinOf reports whether a user was not in the room before an event, nor invited.
func (e *event) isJoinOf(user string) bool {
	if e.Type != typeMember || e.StateKey == nil || *e.StateKey != user {
		return false
	}
	before := e.Unsigned.Before
	return e.memberContent().Membership != membershipJoin || before == nil || before.Membership != membershipInvite && before.Membership != membershipJoin
}

// content is that of a message.
type content struct {
	Type       string          `json:"msgtype,omitempty"`
	Body       string          `json:"body"`
	Format     string          `json:"format,omitempty"`
	HTML       string          `json:"formatted_body,omitempty"`
	RelatesTo  *relation       `json:"m.relates_to,omitempty"`
	NewContent *content        `json:"m.new_content,omitempty"`
	Mentions   *mentions       `json:"m.mentions,omitempty"`
	Filename   string          `json:"filename,omitempty"`
	URL        string          `json:"url,omitempty"`
	Info       json.RawMessage `json:"info,omitempty"`
	Redacts    string          `json:"redacts,omitempty"`
	// Key says under which key a Mailroom has sent it.
	Key string `json:"org.mailroom.key,omitempty"`
}

type mentions struct {
	Users []string `json:"user_ids,omitempty"`
}

// relation is how a message belongs to others.
type relation struct {
	Type      string     `json:"rel_type,omitempty"`
	Event     string     `json:"event_id,omitempty"`
	Fallback  bool       `json:"is_falling_back,omitempty"` // InReplyTo is for clients without threads
	InReplyTo *inReplyTo `json:"m.in_reply_to,omitempty"`
}

// isThread reports whether it puts a message into a thread.
func (r *relation) isThread() bool {
	return (r.Type == relThread || r.Type == relOldThread) && r.Event != ""
}

type inReplyTo struct {
	Event string `json:"event_id"`
}

// replyTo is the id of the message that one is a reply to, "" if it is none.
func (s *content) replyTo() string {
	if s.RelatesTo == nil || s.RelatesTo.InReplyTo == nil || s.RelatesTo.Fallback {
		return ""
	}
	return s.RelatesTo.InReplyTo.Event
}

// encryptedNotice is said once in a room with encryption.
const encryptedNotice = "This room is encrypted, and I cannot read what is said in it. Invite me to a room without encryption."

// toEvent says what an event is to us; false if it is nothing.
func (r *receiver) toEvent(ctx context.Context, room string, e event) (t inboundEvent, ok bool, err error) {
	switch {
	case e.Type == typeMember:
		r.applyMember(room, &e)
		return t, false, nil
	case e.StateKey != nil, e.Sender == r.bot.ID:
		return t, false, nil
	}
	var said content
	if err := json.Unmarshal(e.Content, &said); err != nil {
		r.host.Log().Warn("an event is not understood and left out", "event", e.ID, "error", err)
		return t, false, nil
	}
	in, err := r.loadMembers(ctx, room)
	if err != nil {
		return t, false, err
	}
	t = inboundEvent{Event: chat.Event{Kind: chat.EventMessage, Key: e.ID, Room: in.chatRoom(room, ""), User: in.chatUser(e.Sender)}, eventID: e.ID}
	switch e.Type {
	case typeMessage:
		ok, err = r.readMessage(ctx, &t.Event, said)
	case typeEncrypted:
		t.Kind, t.Key, t.Text = chat.EventUnreadable, "encrypted", encryptedNotice
		ok = true
	case typeRedaction:
		if t.Kind, t.TargetID = chat.EventDeleted, e.Redacts; t.TargetID == "" {
			t.TargetID = said.Redacts
		}
		t.Room.Topic = r.cachedThread(t.TargetID)
		ok = t.TargetID != ""
	}
	return t, ok, err
}

// readMessage reads what somebody said or edited; false of what programs say.
func (r *receiver) readMessage(ctx context.Context, e *chat.Event, said content) (ok bool, err error) {
	if said.Key != "" {
		return false, nil // of another Mailroom: the two would never end
	}
	switch rel := said.RelatesTo; {
	case rel == nil:
	case rel.Type == relReplace:
		if said.NewContent == nil || rel.Event == "" {
			return false, nil
		}
		e.Kind, e.TargetID = chat.EventEdited, rel.Event
		if e.Room.Topic, err = r.threadOfMessage(ctx, e.Room.Chat, e.TargetID); err != nil {
			return false, err
		}
		said = *said.NewContent
	case rel.isThread():
		e.Room.Topic = rel.Event
		r.recordThread(e.Key, rel.Event)
	}
	switch said.Type {
	case "", typeNotice, "m.key.verification.request":
		return false, nil
	case "m.image", "m.file", "m.audio", "m.video":
		e.Text = said.caption()
		e.Files = r.attachments(said)
	case "m.emote":
		e.Text = fmt.Sprintf("* %s %s", e.User.Name, said.Body)
	default: // whatever it is, the body says it to those who do not know it
		e.Text = said.bodyWithoutQuote()
	}
	e.Addressed = !e.Room.Group || r.mention.matches(said)
	if of := said.replyTo(); !e.Addressed && of != "" {
		answered, found, err := r.fetchEvent(ctx, e.Room.Chat, of)
		if err != nil {
			return false, err
		}
		e.Addressed = found && answered.Sender == r.bot.ID
	}
	e.Text = r.mention.strip(e.Text, said.HTML)
	return strings.TrimSpace(e.Text) != "" || len(e.Files) > 0, nil
}

// threadOfMessage is the thread of a message.
func (r *receiver) threadOfMessage(ctx context.Context, room, id string) (string, error) {
	if topic := r.cachedThread(id); topic != "" {
		return topic, nil
	}
	e, found, err := r.fetchEvent(ctx, room, id)
	var said content
	if err != nil || !found || json.Unmarshal(e.Content, &said) != nil || said.RelatesTo == nil || !said.RelatesTo.isThread() {
		return "", err
	}
	r.recordThread(id, said.RelatesTo.Event)
	return said.RelatesTo.Event, nil
}

// bodyWithoutQuote is the text without what older clients quote of the message it answers.
func (s *content) bodyWithoutQuote() string {
	if s.replyTo() == "" || !strings.HasPrefix(s.Body, "> ") {
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
	return s.bodyWithoutQuote()
}
