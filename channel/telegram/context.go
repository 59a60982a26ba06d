package telegram

import (
	"strconv"
	"strings"

	"mailroom/channel/chat"
)

// origin says where a message comes from that was forwarded, or that is answered in another chat.
// Bot API servers before version 7.0 send the older fields of a forward.
type origin struct {
	Type       string    `json:"type"` // user, hidden_user, chat or channel
	Sender     *user     `json:"sender_user"`
	HiddenName string    `json:"sender_user_name"`
	SenderChat *chatInfo `json:"sender_chat"`
	Chat       *chatInfo `json:"chat"`
}

// forwarded are the fields that a message has if it was forwarded.
type forwarded struct {
	Origin     *origin   `json:"forward_origin"`
	From       *user     `json:"forward_from"`
	FromChat   *chatInfo `json:"forward_from_chat"`
	HiddenName string    `json:"forward_sender_name"`
	Date       int64     `json:"forward_date"`
}

func (f *forwarded) is() bool { return f.Origin != nil || f.Date != 0 }

// author returns the author of a forwarded message as far as Telegram says.
func (f *forwarded) author() chat.User {
	if f.Origin != nil {
		return f.Origin.author()
	}
	return (&origin{Sender: f.From, SenderChat: f.FromChat, HiddenName: f.HiddenName}).author()
}

func (o *origin) author() chat.User {
	switch {
	case o.Sender != nil:
		return o.Sender.chatUser()
	case o.SenderChat != nil:
		return o.SenderChat.chatUser()
	case o.Chat != nil:
		return o.Chat.chatUser()
	}
	return chat.User{Name: o.HiddenName}
}

func (c chatInfo) chatUser() chat.User {
	name := c.Title
	if name == "" {
		name = c.Username
	}
	return chat.User{ID: strconv.FormatInt(c.ID, 10), Name: name}
}

// author returns the author of a message.
func (m *message) author() chat.User {
	switch {
	case m.SenderChat != nil: // Telegram shows all anonymous admins as one user, so the group is the sender
		return m.SenderChat.chatUser()
	case m.From != nil:
		return m.From.chatUser()
	}
	return chat.User{}
}

// isFrom reports whether the bot sent the message.
func (m *message) isFrom(bot account) bool { return m.From != nil && m.From.ID == bot.ID }

// readForward moves the content of a forwarded message from the event to its context.
func (m *message) readForward(e *chat.Event, bot account) {
	by := m.forwarded.author()
	c := chat.Context{Kind: chat.ContextForward, Author: by, ByBot: by.ID == strconv.FormatInt(bot.ID, 10), Text: e.Text,
		Files: len(e.Files) > 0}
	e.Text, e.Context = "", append(e.Context, c)
	e.Addressed = !e.Room.Group // the words of others address no bot
}

// readReply adds the message that is answered to an event's context, or the part of it that was quoted.
func (m *message) readReply(e *chat.Event, bot account) {
	c := chat.Context{Kind: chat.ContextReply}
	switch of := m.answered(); {
	case of != nil:
		c.Author, c.ByBot = of.author(), of.isFrom(bot)
		if c.Text = of.text(); c.Text == "" {
			c.Text = of.describe()
		}
		if c.Text == "" && len(of.files()) > 0 {
			c.Text = "(a file: " + of.files()[0].Name + ")"
		}
		if c.Text == "" {
			return // a service message
		}
	case m.External != nil:
		c.Author = m.External.Origin.author()
	case m.Quote == nil:
		return
	}
	if m.Quote != nil && m.Quote.Text != "" {
		c.Kind, c.Text = chat.ContextQuote, m.Quote.Text
	}
	e.Context = append(e.Context, c)
}

// answered returns the message that is answered, or nil. In a topic, every message formally answers the message that
// created the topic; answered ignores that.
func (m *message) answered() *message {
	if m.ReplyTo == nil || m.InTopic && m.ReplyTo.ID == m.Topic {
		return nil
	}
	return m.ReplyTo
}

// text returns the text or the caption of a message.
func (m *message) text() string {
	if m.Text != "" {
		return m.Text
	}
	return m.Caption
}

// markQuotes begins each line of a quotation within a text with "> ", as on platforms whose quotations are text.
func markQuotes(text string, entities []entity) string {
	out, at := "", 0
	for _, q := range entities { // in the order of their offsets (Bot API, "MessageEntity")
		quoted, ok := utf16Slice(text, q.Offset, q.Length)
		before, isAfter := utf16Slice(text, 0, q.Offset)
		if !ok || !isAfter && q.Offset > 0 || len(before) < at ||
			q.Type != "blockquote" && q.Type != "expandable_blockquote" {
			continue
		}
		out += text[at:len(before)] + "> " + strings.ReplaceAll(quoted, "\n", "\n> ")
		at = len(before) + len(quoted)
	}
	return out + text[at:]
}

// isQuoted reports whether an entity is within a quotation in the same text.
func isQuoted(of entity, all []entity) bool {
	for _, q := range all {
		if (q.Type == "blockquote" || q.Type == "expandable_blockquote") && q.Offset <= of.Offset &&
			of.Offset < q.Offset+q.Length {
			return true
		}
	}
	return false
}
