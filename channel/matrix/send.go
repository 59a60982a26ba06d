package matrix

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/markdown"
)

// Send implements [chat.Platform].
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	said := messageContent(m)
	said.Key = key
	said.RelatesTo = relationTo(to, m.ReplyTo)
	return c.sendEvent(ctx, "send a message", to, said, mailroom.DeriveID(Kind, key))
}

// Edit implements [chat.Platform]. An edit that comes twice does no harm.
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	now := messageContent(m)
	said := content{Type: now.Type, Body: "* " + m.Text, NewContent: &now, Mentions: &mentions{}, RelatesTo: &relation{Type: relReplace, Event: id}}
	_, err := c.sendEvent(ctx, "edit a message", to, said, rand.Text())
	return err
}

// sendEvent sends an event. The homeserver answers with the one that is there if it
// remembers the transaction.
func (c *connection) sendEvent(ctx context.Context, what string, to chat.Room, said content, transaction string) (string, error) {
	var sent struct {
		ID string `json:"event_id"`
	}
	err := c.client.call(ctx, request{op: what, method: http.MethodPut, path: []string{"rooms", to.Chat, "send", typeMessage, transaction}, body: said}, &sent, callTimeout)
	if err == nil && sent.ID == "" {
		err = &transportError{op: what, reason: "the answer names no event", maybeSent: true}
	}
	return sent.ID, c.sendError(ctx, to, err)
}

// messageContent is a text as it is sent, with HTML where it has marks.
//
// It mentions nobody: without m.mentions, a display name or "@room" in the text notifies
// people (Client-Server API, "User and room mentions"). What the bot says by itself is an
// m.notice, which other bots do not answer (Client-Server API, "m.notice").
func messageContent(m chat.Message) content {
	s := m.Text
	said := content{Type: "m.text", Body: s, Mentions: &mentions{}}
	if m.Notice {
		said.Type = typeNotice
	}
	shown := markdown.HTML(s, markdown.Style{Strike: "del", Schemes: []string{"https://", "http://", "mailto:"}})
	if plain := html.UnescapeString(strings.ReplaceAll(shown, "<br>", "\n")); shown != "" && plain != s && jsonBytes(shown) <= maxHTML {
		said.Format, said.HTML = "org.matrix.custom.html", shown
	}
	return said
}

// relationTo says where a message belongs: into a thread, and to what it answers. In a
// thread, clients that know none show it as an answer to what the thread is about.
func relationTo(to chat.Room, reply string) *relation {
	answers := func(id string) *inReplyTo { return &inReplyTo{Event: id} }
	switch {
	case to.Topic != "" && reply != "":
		return &relation{Type: relThread, Event: to.Topic, InReplyTo: answers(reply)}
	case to.Topic != "":
		return &relation{Type: relThread, Event: to.Topic, Fallback: true, InReplyTo: answers(to.Topic)}
	case reply != "":
		return &relation{InReplyTo: answers(reply)}
	}
	return nil
}

// jsonBytes are the bytes of a text in JSON as homeservers write it.
func jsonBytes(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// Typing implements [chat.Platform].
func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	const shown = 8000 // ms
	return c.sendError(ctx, to, c.client.call(ctx, request{
		op: "show that it is typing", method: http.MethodPut, path: []string{"rooms", to.Chat, "typing", c.bot.ID}, body: map[string]any{"typing": true, "timeout": shown},
	}, nil, callTimeout))
}

// AckButton implements [chat.Platform]. There are no buttons.
func (c *connection) AckButton(context.Context, chat.Event, string) error { return nil }

// sendError gives an error of a call that writes to a room its class.
func (c *connection) sendError(ctx context.Context, to chat.Room, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*apiError](err)
	switch {
	case ok && e.code == http.StatusTooManyRequests: // what is limited is the account
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, unavailable(err))
	case ok && e.code >= 500:
	case ok && (e.code == http.StatusUnauthorized || isFatal(err) || e.errcode == "M_UNRECOGNIZED" || e.errcode == "M_USER_SUSPENDED"):
		return unavailable(err)
	case ok && (e.code == http.StatusBadRequest || e.code == http.StatusForbidden || e.code == http.StatusNotFound):
		in, asked := c.isJoined(ctx, to.Chat)
		switch {
		case asked != nil:
			return unavailable(err) // it is not known whether for good
		case !in:
			return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
		}
		return permanent(err)
	case ok:
		return permanent(err)
	}
	if l, ok := errors.AsType[*transportError](err); ok && !l.maybeSent {
		return unavailable(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, unavailable(err))
}
