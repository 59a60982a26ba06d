package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Send implements [chat.Platform]. It ignores the key: Telegram has no idempotency keys.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, _ string) (id string, err error) {
	in, err := messageParams(m)
	if err != nil {
		return "", err
	}
	if to.Topic != "" {
		in["message_thread_id"] = numericID(to.Topic)
	}
	if of, at, ok := strings.Cut(m.ReplyTo, ":"); ok && of == to.Chat { // not the key of a button press
		in["reply_parameters"] = map[string]any{"message_id": numericID(at), "allow_sending_without_reply": true}
	}
	var sent message
	if m.File != nil {
		if err := c.sendFile(ctx, to, m, in, &sent); err != nil {
			return "", topicError(to, sendError(err))
		}
		return messageID(sent.Chat.ID, sent.ID), nil
	}
	if err := c.writeMessage(ctx, "send message", "sendMessage", to, m.Text, in, &sent); err != nil {
		return "", topicError(to, sendError(err))
	}
	return messageID(sent.Chat.ID, sent.ID), nil
}

// Edit implements [chat.Platform].
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	in, err := messageParams(m)
	if err != nil {
		return err
	}
	of, at, ok := strings.Cut(id, ":")
	if !ok {
		return httpcall.Permanent(fmt.Errorf("invalid Telegram message id %q", id))
	}
	in["message_id"] = numericID(at)
	to.Chat = of
	err = c.writeMessage(ctx, "edit message", "editMessageText", to, m.Text, in, nil)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && describes(e, "message is not modified") {
		return nil // the message already has this text
	}
	return topicError(to, sendError(err))
}

// Find implements [chat.Platform].
func (c *connection) Find(context.Context, chat.Room, string, chat.Message) (string, bool, error) {
	return "", false, chat.ErrNoHistory
}

// Typing implements [chat.Platform].
func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	in := map[string]any{"chat_id": numericID(c.currentChat(to.Chat)), "action": "typing"}
	if to.Topic != "" {
		in["message_thread_id"] = numericID(to.Topic)
	}
	return sendError(c.client.call(ctx, "send typing", "sendChatAction", in, nil, callTimeout))
}

// AckButton implements [chat.Platform]. It ignores the error of a late answer: Telegram no
// longer shows it.
func (c *connection) AckButton(ctx context.Context, press chat.Event, text string) error {
	in := map[string]any{"callback_query_id": strings.TrimPrefix(press.Key, "tap:"), "text": truncate(text, maxAck)}
	err := c.client.call(ctx, "answer button press", "answerCallbackQuery", in, nil, callTimeout)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && describes(e, "query is too old") {
		return nil
	}
	return sendError(err)
}

// messageParams returns the parameters that sends and edits share.
func messageParams(m chat.Message) (map[string]any, error) {
	in := map[string]any{"link_preview_options": map[string]any{"is_disabled": true}}
	if len(m.Buttons) > 0 {
		row := make([]map[string]string, 0, len(m.Buttons))
		for _, b := range m.Buttons {
			if len(b.Data) > maxButtonData || b.Data == "" {
				return nil, httpcall.Permanent(fmt.Errorf("button %q has %d bytes of data; Telegram accepts 1 to %d", b.Label,
					len(b.Data), maxButtonData))
			}
			row = append(row, map[string]string{"text": b.Label, "callback_data": b.Data})
		}
		in["reply_markup"] = map[string]any{"inline_keyboard": []any{row}}
	}
	return in, nil
}

// writeMessage sends or edits a text. It sends plain text if Telegram cannot parse the rendered
// HTML, and follows a group's migration to its new id.
func (c *connection) writeMessage(
	ctx context.Context, op, method string, to chat.Room, text string, in map[string]any, out any,
) error {
	plain := false
	if in["text"] = render(text); in["text"] == "" {
		plain = true
	}
	for {
		in["chat_id"] = numericID(c.currentChat(to.Chat))
		in["parse_mode"] = "HTML"
		if plain {
			in["text"] = text
			delete(in, "parse_mode")
		}
		err := c.client.call(ctx, op, method, in, out, callTimeout)
		e, ok := errors.AsType[*httpcall.Refusal](err)
		switch {
		case ok && e.Detail != "" && c.followMigration(to.Chat, e.Detail):
		case ok && !plain && e.Status == http.StatusBadRequest && describes(e, "can't parse"):
			plain = true
		case ok && e.Status == http.StatusTooManyRequests && c.recordFlood(to.Chat, e.RetryAfter, time.Now()):
			return fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
		default:
			return err
		}
	}
}

// sendFile sends a file with a caption, which is plain text (Bot API, "sendDocument").
func (c *connection) sendFile(ctx context.Context, to chat.Room, m chat.Message, in map[string]any, out any) error {
	delete(in, "link_preview_options")
	in["caption"] = truncate(m.Text, maxCaption)
	for {
		in["chat_id"] = numericID(c.currentChat(to.Chat))
		err := c.client.upload(ctx, "send file", "sendDocument", in, m.File, out)
		e, ok := errors.AsType[*httpcall.Refusal](err)
		switch {
		case ok && e.Detail != "" && c.followMigration(to.Chat, e.Detail):
		case ok && e.Status == http.StatusTooManyRequests && c.recordFlood(to.Chat, e.RetryAfter, time.Now()):
			return fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
		default:
			return err
		}
	}
}

// floodLimit is a chat that Telegram rejects with 429, and the end of the limit.
type floodLimit struct {
	chat  string
	until time.Time
}

// recordFlood records a 429 for a chat and reports whether the limit applies to the whole bot.
// The response does not say which limit was hit (Bot API, "ResponseParameters"), so a 429 for a
// second chat while the first is still limited is taken for the bot's limit.
func (c *connection) recordFlood(chat string, after time.Duration, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := c.lastFlood.chat != "" && c.lastFlood.chat != chat && now.Before(c.lastFlood.until)
	c.lastFlood = floodLimit{chat, now.Add(after)}
	return other
}

// currentChat returns the current id of a chat, which changes when a group migrates.
func (c *connection) currentChat(chat string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newID := c.migrated[chat]; newID != "" {
		return newID
	}
	return chat
}

// followMigration records the new id of a chat. It reports false if the id was already known.
func (c *connection) followMigration(chat, newID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.migrated[chat] == newID {
		return false
	}
	c.migrated[chat] = newID
	c.host.Log().Warn("group migrated to a supergroup; replies go to its new id", "was", chat, "is", newID)
	return true
}

// describes reports whether a refusal's description contains one of the words.
func describes(e *httpcall.Refusal, words ...string) bool {
	text := strings.ToLower(e.Text)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// sendError classifies an error of a call that writes.
func sendError(err error) error {
	return httpcall.SendError(err, func(e *httpcall.Refusal) httpcall.Class {
		switch {
		case isGone(e):
			return httpcall.ClassGone
		case e.Status >= 500:
			return httpcall.ClassUnknown
		case e.Status == http.StatusUnauthorized, e.Status == http.StatusNotFound, e.Status == http.StatusConflict,
			e.Status == http.StatusTooManyRequests:
			return httpcall.ClassUnavailable
		}
		return httpcall.ClassPermanent
	})
}

// topicError marks an error of a write with [chat.ErrTopicGone] if only the topic is gone, so that the group gets the
// text: all its members could read the topic.
func topicError(to chat.Room, err error) error {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	if ok && to.Topic != "" && e.Status == http.StatusBadRequest &&
		describes(e, "message thread not found", "topic_deleted", "topic_id_invalid") {
		return fmt.Errorf("%w: %w", chat.ErrTopicGone, err)
	}
	return err
}

// isGone reports whether the chat no longer accepts anything. A missing permission does not
// count: an admin can grant it.
func isGone(e *httpcall.Refusal) bool {
	switch e.Status {
	case http.StatusForbidden:
		return describes(e, "bot was blocked", "user is deactivated", "bot was kicked", "bot is not a member",
			"chat was deleted",
			"initiate conversation", "group chat was deactivated")
	case http.StatusBadRequest:
		return describes(e, "chat not found", "user not found", "group chat was deactivated", "chat was deleted",
			"message thread not found", "topic_deleted", "topic_id_invalid",
			"peer_id_invalid", "user_deactivated", "input_user_deactivated")
	}
	return false
}

// numericID returns an id as the JSON number that Telegram expects. Anything else is passed on
// for Telegram to reject.
func numericID(id string) any {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		return n
	}
	return id
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
