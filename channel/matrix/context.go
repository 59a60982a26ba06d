package matrix

import (
	"context"
	"encoding/json"
	"strings"

	"mailroom/channel/chat"
	"mailroom/internal/display"
)

// readReply adds the answered message to an event. A reply to the bot addresses it. A client may copy the mentions
// of the answered message into the list of the reply: those address nothing.
func (r *receiver) readReply(ctx context.Context, e *chat.Event, msg content, answered event) {
	var said content
	if json.Unmarshal(answered.Content, &said) != nil {
		said = content{}
	}
	toBot := answered.Sender == r.bot.ID
	if inherited := r.mention.names(said) || r.mention.lists(said); e.Room.Group {
		e.Addressed = toBot || r.mention.names(msg) || r.mention.lists(msg) && !inherited
	}
	author := chat.User{ID: answered.Sender}
	if in, err := r.loadMembers(ctx, e.Room.Chat); err == nil { // if the members cannot be loaded, the author has no name
		author = in.chatUser(answered.Sender)
	}
	e.Context = append(e.Context, chat.Context{Kind: chat.ContextReply, Author: author, ByBot: toBot,
		Text: said.describe()})
}

// describe returns the text of a message, or what it has in place of one.
func (s *content) describe() string {
	switch s.Type {
	case "m.image", "m.file", "m.audio", "m.video":
		if text := s.caption(); text != "" {
			return text
		}
		return "(a file: " + display.Name(s.Body) + ")"
	}
	return s.bodyWithoutQuote()
}

// Types of events that people send besides messages.
const (
	typeSticker = "m.sticker"
	typePoll    = "m.poll.start"
	typeOldPoll = "org.matrix.msc3381.poll.start"
)

// poll is the content of an event that starts a poll, in its first and its present form.
type poll struct {
	Present pollBody `json:"m.poll"`
	First   pollBody `json:"org.matrix.msc3381.poll.start"`
}

type pollBody struct {
	Question pollText   `json:"question"`
	Answers  []pollText `json:"answers"`
}

// pollText is a text in a poll: a string, or a list of representations.
type pollText struct {
	Body  string `json:"body"`
	Old   string `json:"org.matrix.msc1767.text"`
	Texts []struct {
		Body string `json:"body"`
	} `json:"m.text"`
}

func (p pollText) String() string {
	switch {
	case len(p.Texts) > 0:
		return p.Texts[0].Body
	case p.Old != "":
		return p.Old
	}
	return p.Body
}

// describeEvent returns one line about an event that is no message but that a person sent, "" for any other.
func describeEvent(e *event) string {
	var line string
	switch e.Type {
	case typeSticker:
		var s content
		_ = json.Unmarshal(e.Content, &s) // if the content cannot be read, the sticker has no name
		line = strings.TrimSpace("sent a sticker: " + s.Body)
	case typePoll, typeOldPoll:
		var p poll
		_ = json.Unmarshal(e.Content, &p) // if the content cannot be read, the poll has no text
		body := p.Present
		if body.Question.String() == "" {
			body = p.First
		}
		line = "sent a poll: " + body.Question.String()
		for i, a := range body.Answers {
			line += map[bool]string{true: " – ", false: " / "}[i == 0] + a.String()
		}
	default:
		return ""
	}
	return "(" + display.Line(line) + ")"
}

// location returns one line about a place that was shared. The body alone may be only a name of it.
func (s *content) location() string {
	place, _, _ := strings.Cut(strings.TrimPrefix(s.GeoURI, "geo:"), ";")
	return "(" + display.Line(strings.TrimSpace("shared a location: "+strings.ReplaceAll(place, ",", ", ")+" "+s.Body)) +
		")"
}
