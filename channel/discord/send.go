package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Flags of a message.
const (
	flagNoEmbeds  = 1 << 2 // suppress link previews
	flagEphemeral = 1 << 6 // visible only to the person who pressed the button
)

// Types and styles of message components.
const (
	componentRow    = 1
	componentButton = 2
	styleGrey       = 2
)

// noMentions suppresses all notifications of mentions in a message.
func noMentions() map[string]any { return map[string]any{"parse": []string{}, "replied_user": false} }

// Send implements [chat.Platform].
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	in, err := messageParams(m)
	if err != nil {
		return "", err
	}
	in["flags"] = flagNoEmbeds
	if key != "" {
		in["nonce"], in["enforce_nonce"] = nonceOf(key), true
	}
	if snowflake(m.ReplyTo) != 0 { // not the key of a button press
		in["message_reference"] = map[string]any{"message_id": m.ReplyTo, "fail_if_not_exists": false}
	}
	var sent struct {
		ID string `json:"id"`
	}
	err = c.client.call(ctx, request{op: "send message", method: http.MethodPost, path: "/channels/" + channelOf(to) +
		"/messages", body: in, file: m.File, result: &sent})
	if err != nil {
		return "", c.topicError(to, sendError(c.verifyToken(ctx, err)))
	}
	return sent.ID, nil
}

// topicError marks an error of a write with [chat.ErrTopicGone] if only the thread was deleted, so that its channel
// gets the text. A thread that may have been private is left out, because its channel has other readers.
func (c *connection) topicError(to chat.Room, err error) error {
	const unknownChannel = "10003"
	e, ok := errors.AsType[*httpcall.Refusal](err)
	if ok && to.Topic != "" && e.Code == unknownChannel && c.shared.isPublic(to.Topic) {
		return fmt.Errorf("%w: %w", chat.ErrTopicGone, err)
	}
	return err
}

// Edit implements [chat.Platform].
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	in, err := messageParams(m)
	if err != nil {
		return err
	}
	if snowflake(id) == 0 {
		return httpcall.Permanent(fmt.Errorf("invalid Discord message id %q", id))
	}
	err = c.client.call(ctx, request{op: "edit message", method: http.MethodPatch, path: "/channels/" + channelOf(to) +
		"/messages/" + id, body: in})
	return c.topicError(to, sendError(c.verifyToken(ctx, err)))
}

// Typing implements [chat.Platform].
func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	return sendError(c.verifyToken(ctx,
		c.client.call(ctx, request{op: "send typing", method: http.MethodPost, path: "/channels/" + channelOf(to) +
			"/typing"})))
}

// messageParams returns the parameters that sends and edits share. An edit without buttons
// removes the message's buttons.
func messageParams(m chat.Message) (map[string]any, error) {
	if len(m.Buttons) > maxButtons {
		return nil, httpcall.Permanent(fmt.Errorf("message has %d buttons; Discord accepts %d in a row", len(m.Buttons),
			maxButtons))
	}
	rows := []any{}
	var row []any
	for _, b := range m.Buttons {
		if n := utf8.RuneCountInString(b.Data); n == 0 || n > maxButtonData || b.Label == "" {
			return nil, httpcall.Permanent(fmt.Errorf("button %q has %d characters of data; Discord accepts 1 to %d", b.Label, n,
				maxButtonData))
		}
		row = append(row, map[string]any{"type": componentButton, "style": styleGrey, "label": truncate(b.Label, maxLabel),
			"custom_id": b.Data})
	}
	if len(row) > 0 {
		rows = append(rows, map[string]any{"type": componentRow, "components": row})
	}
	return map[string]any{"content": m.Text, "components": rows, "allowed_mentions": noMentions()}, nil
}

// channelOf returns the channel id of a room: at Discord, a thread is a channel.
func channelOf(to chat.Room) string {
	if to.Topic != "" {
		return to.Topic
	}
	return to.Chat
}

// nonceOf derives the nonce of a key. It has 24 characters; Discord accepts 25.
func nonceOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// truncate cuts a text to most UTF-16 units.
func truncate(text string, most int) string {
	if utf16Units(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += utf16Units(string(r)); n >= most {
			return text[:i] + "…"
		}
	}
	return text
}
