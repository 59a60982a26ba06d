package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
	// relOldThread is the relation type of threads before Matrix 1.4.
	relOldThread = "io.element.thread"

	membershipJoin   = "join"
	membershipInvite = "invite"
)

// event is a room event with the fields that the adapter uses.
type event struct {
	ID        string          `json:"event_id"`
	Type      string          `json:"type"`
	Sender    string          `json:"sender"`
	Timestamp int64           `json:"origin_server_ts"` // milliseconds since 1970
	StateKey  *string         `json:"state_key"`
	Content   json.RawMessage `json:"content"`
	Redacts   string          `json:"redacts"` // id of the redacted event, before room version 11
	Unsigned  struct {
		Before *member `json:"prev_content"`
	} `json:"unsigned"`
}

// member is the content of a membership event.
type member struct {
	Membership string `json:"membership"`
	Name       string `json:"displayname"`
	Direct     bool   `json:"is_direct"`
}

// memberContent decodes the content of a membership event; the zero value if it is invalid.
func (e *event) memberContent() (m member) {
	if json.Unmarshal(e.Content, &m) != nil {
		return member{}
	}
	return m
}

// startsMembership reports whether messages before the event do not concern the user: it is a membership
// event of the user, other than the acceptance of an invitation or a change while joined.
func (e *event) startsMembership(user string) bool {
	if e.Type != typeMember || e.StateKey == nil || *e.StateKey != user {
		return false
	}
	before := e.Unsigned.Before
	return e.memberContent().Membership != membershipJoin || before == nil ||
		before.Membership != membershipInvite && before.Membership != membershipJoin
}

// content is the content of a message event.
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
	GeoURI     string          `json:"geo_uri,omitempty"` // coordinates of a location
	// Key is the delivery key that Mailroom adds to messages it sends.
	Key string `json:"org.mailroom.key,omitempty"`
}

type mentions struct {
	Users []string `json:"user_ids,omitempty"`
}

// relation is the m.relates_to object of a message.
type relation struct {
	Type      string     `json:"rel_type,omitempty"`
	Event     string     `json:"event_id,omitempty"`
	Fallback  bool       `json:"is_falling_back,omitempty"` // InReplyTo is a fallback for clients without threads
	InReplyTo *inReplyTo `json:"m.in_reply_to,omitempty"`
}

// isThread reports whether the relation puts a message into a thread.
func (r *relation) isThread() bool {
	return (r.Type == relThread || r.Type == relOldThread) && r.Event != ""
}

type inReplyTo struct {
	Event string `json:"event_id"`
}

// replyTo returns the id of the message that this one replies to, or "".
func (s *content) replyTo() string {
	if s.RelatesTo == nil || s.RelatesTo.InReplyTo == nil || s.RelatesTo.Fallback {
		return ""
	}
	return s.RelatesTo.InReplyTo.Event
}

// encryptedNotice is sent once to an encrypted room.
const encryptedNotice = "This room is encrypted, and I cannot read encrypted messages. Invite me to a room without encryption."

// toEvent converts a Matrix event into a chat event. ok is false for events without meaning for the
// channel.
func (r *receiver) toEvent(ctx context.Context, room string, e event) (t inboundEvent, ok bool, err error) {
	switch {
	case e.Type == typeMember:
		r.applyMember(room, &e)
		return t, false, nil
	case e.StateKey != nil, e.Sender == r.bot.ID:
		return t, false, nil
	}
	var msg content
	if err := json.Unmarshal(e.Content, &msg); err != nil {
		r.host.Log().Warn("invalid Matrix event skipped", "event", e.ID, "error", err)
		return t, false, nil
	}
	in, err := r.loadMembers(ctx, room)
	if err != nil {
		return t, false, err
	}
	t = inboundEvent{eventID: e.ID, Event: chat.Event{
		Kind: chat.EventMessage, Key: e.ID, Room: in.chatRoom(room, ""), User: in.chatUser(e.Sender),
		Written: time.UnixMilli(e.Timestamp),
	}}
	switch e.Type {
	case typeMessage:
		ok, err = r.readMessage(ctx, &t.Event, msg)
	case typeSticker, typePoll, typeOldPoll:
		if rel := msg.RelatesTo; rel != nil && rel.isThread() {
			t.Room.Topic = rel.Event
			r.recordThread(t.Key, rel.Event)
		}
		t.Text, t.Addressed, ok = describeEvent(&e), !t.Room.Group, true
	case typeEncrypted:
		t.Kind, t.Key, t.Text = chat.EventUnreadable, "encrypted", encryptedNotice
		ok = true
	case typeRedaction:
		if t.Kind, t.TargetID = chat.EventDeleted, e.Redacts; t.TargetID == "" {
			t.TargetID = msg.Redacts
		}
		t.Room.Topic = r.cachedThread(t.TargetID)
		ok = t.TargetID != ""
	}
	return t, ok, err
}

// readMessage fills a chat event from a new or edited message. It reports false for messages sent
// by programs.
func (r *receiver) readMessage(ctx context.Context, e *chat.Event, msg content) (ok bool, err error) {
	if msg.Key != "" {
		return false, nil // sent by another Mailroom: answering would loop forever
	}
	switch rel := msg.RelatesTo; {
	case rel == nil:
	case rel.Type == relReplace:
		if msg.NewContent == nil || rel.Event == "" {
			return false, nil
		}
		e.Kind, e.TargetID = chat.EventEdited, rel.Event
		if e.Room.Topic, err = r.threadOfMessage(ctx, e.Room.Chat, e.TargetID); err != nil {
			return false, err
		}
		msg = *msg.NewContent
	case rel.isThread():
		e.Room.Topic = rel.Event
		r.recordThread(e.Key, rel.Event)
	}
	switch msg.Type {
	case "", typeNotice, "m.key.verification.request":
		return false, nil
	case "m.image", "m.file", "m.audio", "m.video":
		e.Text = msg.caption()
		e.Files = r.attachments(msg)
	case "m.location":
		e.Text = msg.location()
	case "m.emote":
		e.Text = fmt.Sprintf("* %s %s", e.User.Name, msg.Body)
	default: // unknown types carry a readable body as a fallback
		e.Text = msg.bodyWithoutQuote()
	}
	e.Addressed = !e.Room.Group || r.mention.names(msg) || r.mention.lists(msg)
	if of := msg.replyTo(); of != "" {
		answered, found, err := r.fetchEvent(ctx, e.Room.Chat, of)
		if err != nil {
			return false, err
		}
		if found {
			r.readReply(ctx, e, msg, answered)
		}
	}
	e.Text = r.mention.strip(e.Text, withoutQuotes(msg.HTML))
	return strings.TrimSpace(e.Text) != "" || len(e.Files) > 0, nil
}

// threadOfMessage returns the thread root of a message, or "".
func (r *receiver) threadOfMessage(ctx context.Context, room, id string) (string, error) {
	if topic := r.cachedThread(id); topic != "" {
		return topic, nil
	}
	e, found, err := r.fetchEvent(ctx, room, id)
	var msg content
	if err != nil || !found || json.Unmarshal(e.Content, &msg) != nil || msg.RelatesTo == nil ||
		!msg.RelatesTo.isThread() {
		return "", err
	}
	r.recordThread(id, msg.RelatesTo.Event)
	return msg.RelatesTo.Event, nil
}

// bodyWithoutQuote returns the body without the quote that older clients prepend to a reply.
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

// caption returns the text sent with a file. Without a filename field, the body is the file's name.
func (s *content) caption() string {
	if s.Filename == "" || s.Filename == s.Body {
		return ""
	}
	return s.bodyWithoutQuote()
}
