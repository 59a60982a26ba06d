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
	said := textOf(m)
	said.Key = key
	said.Relates = relates(to, m.ReplyTo)
	return c.put(ctx, "send a message", to, said, mailroom.DeriveID(Kind, key))
}

// Edit implements [chat.Platform]. An edit that comes twice does no harm.
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	now := textOf(m)
	said := content{Type: now.Type, Body: "* " + m.Text, New: &now, Mentions: &mentions{}, Relates: &relation{Type: relReplace, Event: id}}
	_, err := c.put(ctx, "edit a message", to, said, rand.Text())
	return err
}

// put sends an event. The homeserver answers with the one that is there if it
// remembers the transaction.
func (c *connection) put(ctx context.Context, what string, to chat.Room, said content, transaction string) (string, error) {
	var sent struct {
		ID string `json:"event_id"`
	}
	err := c.client.call(ctx, request{what: what, method: http.MethodPut, path: []string{"rooms", to.Chat, "send", typeMessage, transaction}, in: said}, &sent, callTime)
	if err == nil && sent.ID == "" {
		err = &lost{what: what, why: "the answer names no event", written: true}
	}
	return sent.ID, c.failure(ctx, to, err)
}

// textOf is a text as it is sent, with HTML where it has marks.
//
// It mentions nobody: without m.mentions, a display name or "@room" in the text notifies
// people (Client-Server API, "User and room mentions"). What the bot says by itself is an
// m.notice, which other bots do not answer (Client-Server API, "m.notice").
func textOf(m chat.Message) content {
	s := m.Text
	said := content{Type: "m.text", Body: s, Mentions: &mentions{}}
	if m.Notice {
		said.Type = typeNotice
	}
	shown := markdown.HTML(s, markdown.Style{Strike: "del", Schemes: []string{"https://", "http://", "mailto:"}})
	if plain := html.UnescapeString(strings.ReplaceAll(shown, "<br>", "\n")); shown != "" && plain != s && units(shown) <= mostHTML {
		said.Format, said.HTML = "org.matrix.custom.html", shown
	}
	return said
}

// relates says where a message belongs: into a thread, and to what it answers. In a
// thread, clients that know none show it as an answer to what the thread is about.
func relates(to chat.Room, reply string) *relation {
	answers := func(id string) *answers { return &answers{Event: id} }
	switch {
	case to.Topic != "" && reply != "":
		return &relation{Type: relThread, Event: to.Topic, Answers: answers(reply)}
	case to.Topic != "":
		return &relation{Type: relThread, Event: to.Topic, Fallback: true, Answers: answers(to.Topic)}
	case reply != "":
		return &relation{Answers: answers(reply)}
	}
	return nil
}

// units are the bytes of a text in JSON as homeservers write it.
func units(s string) int {
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
	return c.failure(ctx, to, c.client.call(ctx, request{
		what: "show that it is typing", method: http.MethodPut, path: []string{"rooms", to.Chat, "typing", c.bot.ID}, in: map[string]any{"typing": true, "timeout": shown},
	}, nil, callTime))
}

// AckButton implements [chat.Platform]. There are no buttons.
func (c *connection) AckButton(context.Context, chat.Event, string) error { return nil }

// failure gives an error of a call that writes to a room its class.
func (c *connection) failure(ctx context.Context, to chat.Room, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*refused](err)
	switch {
	case ok && e.code == http.StatusTooManyRequests: // what is limited is the account
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, outage(err))
	case ok && e.code >= 500:
	case ok && (e.code == http.StatusUnauthorized || fatal(err) || e.name == "M_UNRECOGNIZED" || e.name == "M_USER_SUSPENDED"):
		return outage(err)
	case ok && (e.code == http.StatusBadRequest || e.code == http.StatusForbidden || e.code == http.StatusNotFound):
		in, asked := c.inside(ctx, to.Chat)
		switch {
		case asked != nil:
			return outage(err) // it is not known whether for good
		case !in:
			return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
		}
		return permanent(err)
	case ok:
		return permanent(err)
	}
	if l, ok := errors.AsType[*lost](err); ok && !l.written {
		return outage(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, outage(err))
}
