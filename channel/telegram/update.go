package telegram

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"mailroom/channel/chat"
)

// update is an update of the Bot API, with only the fields that are used.
type update struct {
	ID       int64    `json:"update_id"`
	Message  *message `json:"message"`
	Edited   *message `json:"edited_message"`
	Callback *struct {
		ID      string   `json:"id"`
		From    user     `json:"from"`
		Message *message `json:"message"` // nil for a message sent via inline mode
		Data    string   `json:"data"`
	} `json:"callback_query"`
}

func parseUpdate(raw json.RawMessage) (u update, err error) {
	err = json.Unmarshal(raw, &u)
	return u, err
}

type user struct {
	ID       int64  `json:"id"`
	Bot      bool   `json:"is_bot"`
	First    string `json:"first_name"`
	Last     string `json:"last_name"`
	Username string `json:"username"`
}

type chatInfo struct {
	ID       int64  `json:"id"`
	Type     string `json:"type"` // private, group, supergroup or channel
	Title    string `json:"title"`
	Username string `json:"username"`
}

type message struct {
	ID              int64     `json:"message_id"`
	Topic           int64     `json:"message_thread_id"` // id of a topic, or of a thread of replies
	InTopic         bool      `json:"is_topic_message"`
	From            *user     `json:"from"`
	SenderChat      *chatInfo `json:"sender_chat"` // the group of an anonymous admin, or a channel
	Chat            chatInfo  `json:"chat"`
	Date            int64     `json:"date"` // 0: the bot can no longer access the message
	Edited          int64     `json:"edit_date"`
	AutoForwarded   bool      `json:"is_automatic_forward"` // a channel's post forwarded into its group
	ReplyTo         *message  `json:"reply_to_message"`
	ViaBot          *user     `json:"via_bot"` // the bot whose inline result this is
	Text            string    `json:"text"`
	Entities        []entity  `json:"entities"`
	Caption         string    `json:"caption"`
	CaptionEntities []entity  `json:"caption_entities"`
	MigratedTo      int64     `json:"migrate_to_chat_id"`
	Album           string    `json:"media_group_id"`

	Document  *file  `json:"document"`
	Photo     []file `json:"photo"` // one photo in several sizes
	Audio     *file  `json:"audio"`
	Voice     *file  `json:"voice"`
	Video     *file  `json:"video"`
	VideoNote *file  `json:"video_note"`
	Animation *file  `json:"animation"`

	External *struct {
		Origin origin `json:"origin"`
	} `json:"external_reply"` // the answered message is in another chat
	Quote *struct {
		Text string `json:"text"`
	} `json:"quote"` // the part of the answered message that was chosen
	forwarded
	wordless
}

// entity marks a part of a text, such as a mention. Offset and Length are in UTF-16 units.
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	User   *user  `json:"user"`
}

type file struct {
	ID       string `json:"file_id"`
	Name     string `json:"file_name"`
	MimeType string `json:"mime_type"`
	Size     int64  `json:"file_size"`
}

// messageID returns the id of a message: its number is unique only within its chat. It is the
// key of a received message and the id of a sent one.
func messageID(chat, number int64) string { return fmt.Sprintf("%d:%d", chat, number) }

// toEvent converts an update to an event. It reports false for updates that are not for the
// bot.
func (u *update) toEvent(bot account) (e chat.Event, ok bool) {
	position := strconv.FormatInt(u.ID, 10)
	switch {
	case u.Callback != nil:
		q := u.Callback
		if q.Message == nil || q.Message.Chat.Type == "channel" {
			return e, false
		}
		return chat.Event{
			Kind: chat.EventButton, Key: "tap:" + q.ID, Room: q.Message.room(), User: q.From.chatUser(), Addressed: true,
			// An InaccessibleMessage has a chat, an id and the date 0 (Bot API, "InaccessibleMessage").
			TopicUnknown: q.Message.Date == 0 && q.Message.Chat.Type != "private",
			TargetID:     messageID(q.Message.Chat.ID, q.Message.ID), Data: q.Data, Position: position,
		}, true
	case u.Message != nil:
		e, ok = u.Message.messageEvent(bot)
		e.Key, e.Position = messageID(u.Message.Chat.ID, u.Message.ID), position
		return e, ok
	case u.Edited != nil:
		e, ok = u.Edited.messageEvent(bot)
		e.Kind, e.TargetID, e.Position = chat.EventEdited, messageID(u.Edited.Chat.ID, u.Edited.ID), position
		e.Key = fmt.Sprintf("edit:%s:%d:%d", e.TargetID, u.Edited.Edited, u.ID) // two edits can have the same second
		return e, ok
	}
	return e, false
}

// messageEvent converts a message of a person. It reports false for any other message.
func (m *message) messageEvent(bot account) (e chat.Event, ok bool) {
	if m.Chat.Type == "channel" || m.AutoForwarded || m.From == nil && m.SenderChat == nil {
		return e, false
	}
	e = chat.Event{
		Kind: chat.EventMessage, Room: m.room(), Files: m.files(), Album: m.Album, Written: time.Unix(m.Date, 0),
	}
	if e.User = m.author(); m.SenderChat == nil && m.From.Bot {
		return e, false // two bots could answer each other forever
	}
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEntities
	}
	e.Text, e.Addressed = parseAddressing(text, entities, bot)
	if i, cut := strings.IndexByte(text, '@'), len(text)-len(e.Text); cut > 0 {
		text = markQuotes(text, entities)
		e.Text = text[:i] + text[i+cut:] // the command is before all quotations
	} else {
		e.Text = markQuotes(text, entities)
	}
	if e.Text == "" && m.Edited == 0 { // a live location is edited all the time
		e.Text = m.describe()
	}
	ok = e.Text != "" || len(e.Files) > 0
	of := m.answered()
	e.Addressed = e.Addressed || !e.Room.Group || of != nil && of.isFrom(bot)
	m.readReply(&e, bot)
	if m.forwarded.is() {
		m.readForward(&e, bot)
	}
	return e, ok
}

// room returns where a message was sent. The thread id is a topic only with is_topic_message:
// in other groups every replied-to message has one.
func (m *message) room() chat.Room {
	p := chat.Room{Chat: strconv.FormatInt(m.Chat.ID, 10), Group: m.Chat.Type != "private"}
	if m.InTopic && m.Topic != 0 {
		p.Topic = strconv.FormatInt(m.Topic, 10)
	}
	return p
}

func (u user) chatUser() chat.User {
	name := strings.TrimSpace(u.First + " " + u.Last)
	if name == "" {
		name = u.Username
	}
	return chat.User{ID: strconv.FormatInt(u.ID, 10), Name: name}
}

// parseAddressing reports whether a text names the bot. It strips the bot's name from a leading
// command, where the menus of groups put it.
func parseAddressing(text string, entities []entity, bot account) (string, bool) {
	addressed, stripped := false, text
	for _, e := range entities {
		words, ok := utf16Slice(text, e.Offset, e.Length)
		if !ok || isQuoted(e, entities) {
			continue
		}
		switch e.Type {
		case "mention":
			addressed = addressed || bot.Username != "" && strings.EqualFold(words, "@"+bot.Username)
		case "text_mention":
			addressed = addressed || e.User != nil && e.User.ID == bot.ID
		case "bot_command":
			command, of, directed := strings.Cut(words, "@")
			switch {
			case directed && strings.EqualFold(of, bot.Username):
				addressed = true
				if e.Offset == 0 {
					stripped = command + text[len(words):]
				}
			case !directed && e.Offset == 0 && !bot.ReadsAll:
				// In privacy mode the bot gets such a command only if it was the last bot to
				// write in the group; see [connection.inPrivacyMode].
				addressed = true
			}
		}
	}
	return stripped, addressed
}

// utf16Slice returns a part of a text by offset and length in UTF-16 units. It reports false
// for a range outside the text or inside a surrogate pair.
func utf16Slice(text string, offset, length int) (string, bool) {
	if offset < 0 || length < 1 || offset > len(text) || length > len(text) {
		return "", false
	}
	begin, end, at := -1, -1, 0
	for i, r := range text {
		if at == offset {
			begin = i
		}
		if at == offset+length {
			end = i
		}
		at += max(utf16.RuneLen(r), 1)
	}
	if at == offset+length {
		end = len(text)
	}
	if begin < 0 || end < begin {
		return "", false
	}
	return text[begin:end], true
}

// utf16Units returns the length of a text in UTF-16 code units, as Telegram counts it.
func utf16Units(text string) (n int) {
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// isBareCommand reports whether a group message begins with a command that names no bot.
func (m *message) isBareCommand() bool {
	if m == nil || m.Chat.Type == "private" || m.Chat.Type == "channel" || len(m.Entities) == 0 {
		return false
	}
	e := m.Entities[0]
	words, ok := utf16Slice(m.Text, e.Offset, e.Length)
	return ok && e.Type == "bot_command" && e.Offset == 0 && !strings.Contains(words, "@")
}

// files returns the attachments of a message. Their URI holds Telegram's file id, which only
// this bot can use.
func (m *message) files() (all []chat.File) {
	add := func(f *file, name, kind string) {
		if f == nil || f.ID == "" {
			return
		}
		out := chat.File{Name: f.Name, MimeType: f.MimeType, Size: f.Size, URI: fileURI + f.ID}
		if out.Name == "" {
			out.Name = name
		}
		if out.MimeType == "" {
			out.MimeType = kind
		}
		if out.Size <= 0 {
			out.Size = -1
		}
		all = append(all, out)
	}
	if m.Animation == nil { // an animation is sent as a document too
		add(m.Document, "document", "application/octet-stream")
	}
	if n := len(m.Photo); n > 0 {
		add(&m.Photo[n-1], "photo.jpg", "image/jpeg") // the largest is the last
	}
	add(m.Audio, "audio.mp3", "audio/mpeg")
	add(m.Voice, "voice.ogg", "audio/ogg")
	add(m.Video, "video.mp4", "video/mp4")
	add(m.VideoNote, "video.mp4", "video/mp4")
	add(m.Animation, "animation.mp4", "video/mp4")
	return all
}

const fileURI = "telegram:file/"
