package discord

import (
	"fmt"
	"strconv"
	"strings"

	"mailroom/channel/chat"
	"mailroom/internal/display"
)

type sticker struct {
	Name string `json:"name"`
}

type poll struct {
	Question pollText `json:"question"`
	Answers  []struct {
		Media pollText `json:"poll_media"`
	} `json:"answers"`
}

type pollText struct {
	Text string `json:"text"`
}

// describe returns one line about the sticker or the poll of a message, "" if it has neither.
func (m *message) describe() string {
	line := ""
	switch {
	case len(m.Stickers) > 0:
		line = "sent a sticker: " + m.Stickers[0].Name
	case m.Poll != nil:
		var answers []string
		for _, a := range m.Poll.Answers {
			answers = append(answers, a.Media.Text)
		}
		line = "sent a poll: " + m.Poll.Question.Text + " – " + strings.Join(answers, " / ")
	default:
		return ""
	}
	return "(" + display.Line(line) + ")"
}

// content returns the unchanged text of a message, "" if it has none.
func (m *message) content() string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

// readContext adds the texts of others to an event: the answered message, and forwarded ones, whose authors Discord
// does not say.
func (c *connection) readContext(e *chat.Event, m *message) {
	if of := m.ReplyTo; of != nil && len(m.Forwarded) == 0 {
		said := chat.Context{Kind: chat.ContextReply, Text: c.plain(of)}
		if of.Author != nil {
			said.Author, said.ByBot = of.Author.user(of.Member), of.Author.ID == c.bot.ID
		}
		if said.Text != "" {
			e.Context = append(e.Context, said)
		}
	}
	for _, p := range m.Forwarded {
		files := c.files(p.Message.Files)
		e.Context = append(e.Context, chat.Context{Kind: chat.ContextForward, Text: c.plain(&p.Message),
			Files: len(files) > 0 && len(m.Files) == 0 && e.Text == ""})
		e.Files = append(e.Files, files...)
	}
}

// plain returns the text of a message that another message answers or forwards, with mentions of the bot replaced by
// the bot's name. A message without text gives a line about its sticker, its poll or its first file, or "".
func (c *connection) plain(m *message) string {
	text := m.content()
	for _, mark := range []string{"<@" + c.bot.ID + ">", "<@!" + c.bot.ID + ">"} {
		text = strings.ReplaceAll(text, mark, "@"+c.bot.Username)
	}
	switch {
	case strings.TrimSpace(text) != "":
		return text
	case m.describe() != "":
		return m.describe()
	case len(m.Files) > 0:
		return "(a file: " + display.Name(m.Files[0].Name) + ")"
	}
	return ""
}

// withoutQuotes returns text without its quotations: "> " quotes a line, and ">>> " all lines from there on.
func withoutQuotes(text string) string {
	var own []string
	for line := range strings.SplitSeq(text, "\n") {
		switch trimmed := strings.TrimLeft(line, " \t\r"); {
		case strings.HasPrefix(trimmed, ">>> "):
			return strings.Join(own, "\n")
		case strings.HasPrefix(trimmed, "> "):
		default:
			own = append(own, line)
		}
	}
	return strings.Join(own, "\n")
}

// unreadable returns the event for a private message whose kind this version does not know. The event's key is the
// same for an hour, so its author gets one answer an hour.
func (c *connection) unreadable(m *message) (e chat.Event, ok bool) {
	if !m.isFromPerson() || m.Edited != "" || m.Content == nil || *m.Content != "" { // each known kind has a content
		return e, false
	}
	id, err := strconv.ParseUint(m.ID, 10, 64)
	room := c.room(m.Server, m.Channel, "")
	if err != nil || room.Group {
		return e, false
	}
	const hour = 3_600_000 // milliseconds, which a message's id counts above its lowest 22 bits
	return chat.Event{
		Kind: chat.EventUnreadable, Key: fmt.Sprintf("unreadable:%d", (id>>22)/hour), Room: room,
		User: m.Author.user(m.Member),
		Text: "I cannot read this kind of message. Please send it as text or as a file.",
	}, true
}
