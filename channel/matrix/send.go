package matrix

import (
	"context"
	"crypto/rand"
	"html"
	"net/http"
	"strings"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/channel/markdown"
	"mailroom/internal/digest"
)

// Send implements [chat.Platform].
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	msg := messageContent(m)
	if m.File != nil {
		if msg, err = c.upload(ctx, to, m); err != nil {
			return "", err
		}
	}
	msg.Key = key
	msg.RelatesTo = relationTo(to, m.ReplyTo)
	return c.sendEvent(ctx, "send message", to, msg, digest.ID(Kind, key))
}

// Edit implements [chat.Platform]. Repeating an edit is harmless.
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	now := messageContent(m)
	msg := content{Type: now.Type, Body: "* " + m.Text, NewContent: &now, Mentions: &mentions{},
		RelatesTo: &relation{Type: relReplace, Event: id}}
	_, err := c.sendEvent(ctx, "edit message", to, msg, rand.Text())
	return err
}

// sendEvent sends a message event. A homeserver that remembers the transaction returns the existing
// event.
func (c *connection) sendEvent(
	ctx context.Context, op string, to chat.Room, msg content, transaction string,
) (string, error) {
	var sent struct {
		ID string `json:"event_id"`
	}
	err := c.client.call(ctx, request{op: op, method: http.MethodPut,
		path: []string{"rooms", to.Chat, "send", typeMessage, transaction}, body: msg}, &sent, callTimeout)
	if err == nil && sent.ID == "" {
		err = &httpcall.TransportError{Op: op, Reason: "response contains no event id", MaybeSent: true}
	}
	return sent.ID, c.sendError(ctx, to, err)
}

// messageContent renders a message, with HTML if the text contains markup.
//
// Its m.mentions is empty: without that field, a display name or "@room" in the text would notify
// people (Client-Server API, "User and room mentions"). Notices of the bot itself have the type
// m.notice, which other bots do not answer (Client-Server API, "m.notice").
func messageContent(m chat.Message) content {
	s := m.Text
	msg := content{Type: "m.text", Body: s, Mentions: &mentions{}}
	if m.Notice {
		msg.Type = typeNotice
	}
	shown := markdown.HTML(s, markdown.Style{Strike: "del", Schemes: []string{"https://", "http://", "mailto:"}})
	if plain := html.UnescapeString(strings.ReplaceAll(shown, "<br>", "\n")); shown != "" && plain != s &&
		jsonBytes(shown) <= maxHTML {
		msg.Format, msg.HTML = "org.matrix.custom.html", shown
	}
	return msg
}

// relationTo returns the relation of a message to its thread and to the message it replies to.
// Clients without thread support show a message in a thread as a reply to the thread's root.
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

// jsonBytes returns the length of a text in JSON as homeservers encode it.
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
	const shown = 8000 // milliseconds
	return c.sendError(ctx, to, c.client.call(ctx, request{
		op: "show typing", method: http.MethodPut, path: []string{"rooms", to.Chat, "typing", c.bot.ID},
		body: map[string]any{"typing": true, "timeout": shown},
	}, nil, callTimeout))
}

// AckButton implements [chat.Platform]. Matrix has no buttons.
func (c *connection) AckButton(context.Context, chat.Event, string) error { return nil }

// sendError classifies an error of a call that writes to a room.
func (c *connection) sendError(ctx context.Context, to chat.Room, err error) error {
	return httpcall.SendError(err, func(e *httpcall.Refusal) httpcall.Class {
		switch {
		case e.Status == http.StatusTooManyRequests:
			return httpcall.ClassUnavailable
		case e.Status >= 500:
			return httpcall.ClassUnknown
		case e.Status == http.StatusUnauthorized, isFatal(e), e.Code == "M_UNRECOGNIZED", e.Code == "M_USER_SUSPENDED":
			return httpcall.ClassUnavailable
		case e.Status == http.StatusBadRequest, e.Status == http.StatusForbidden, e.Status == http.StatusNotFound:
			joined, err := c.isJoined(ctx, to.Chat)
			switch {
			case err != nil:
				return httpcall.ClassUnavailable // the refusal may be temporary
			case !joined:
				return httpcall.ClassGone
			}
		}
		return httpcall.ClassPermanent
	})
}
