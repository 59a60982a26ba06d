package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

// Send implements [chat.Platform]. The platform knows no key.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, _ string) (id string, err error) {
	in, err := say(m)
	if err != nil {
		return "", err
	}
	if to.Topic != "" {
		in["message_thread_id"] = number(to.Topic)
	}
	if of, at, ok := strings.Cut(m.Reply, ":"); ok && of == to.Chat { // not a tap
		in["reply_parameters"] = map[string]any{"message_id": number(at), "allow_sending_without_reply": true}
	}
	var sent message
	if err := c.write(ctx, "send a message", "sendMessage", to, m.Text, in, &sent); err != nil {
		return "", failure(err)
	}
	return messageID(sent.Chat.ID, sent.ID), nil
}

// Edit implements [chat.Platform].
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	in, err := say(m)
	if err != nil {
		return err
	}
	of, at, ok := strings.Cut(id, ":")
	if !ok {
		return permanent(fmt.Errorf("%q is no message of Telegram", id))
	}
	in["message_id"] = number(at)
	to.Chat = of
	err = c.write(ctx, "edit a message", "editMessageText", to, m.Text, in, nil)
	if e, ok := errors.AsType[*refused](err); ok && e.says("message is not modified") {
		return nil // it is as it should be
	}
	return failure(err)
}

// Find implements [chat.Platform].
func (c *connection) Find(context.Context, chat.Room, string, chat.Message) (string, bool, error) {
	return "", false, chat.ErrNoHistory
}

// Typing implements [chat.Platform].
func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	in := map[string]any{"chat_id": number(c.now(to.Chat)), "action": "typing"}
	if to.Topic != "" {
		in["message_thread_id"] = number(to.Topic)
	}
	return failure(c.client.call(ctx, "show that it is typing", "sendChatAction", in, nil, callTime))
}

// AckButton implements [chat.Platform]. Nobody waits any more for an answer that comes
// too late.
func (c *connection) AckButton(ctx context.Context, tap chat.Event, words string) error {
	in := map[string]any{"callback_query_id": strings.TrimPrefix(tap.Key, "tap:"), "text": shortened(words, mostAnswer)}
	err := c.client.call(ctx, "answer who pressed a button", "answerCallbackQuery", in, nil, callTime)
	if e, ok := errors.AsType[*refused](err); ok && e.says("query is too old") {
		return nil
	}
	return failure(err)
}

// say is what of a message is the same in each call that writes it.
func say(m chat.Message) (map[string]any, error) {
	in := map[string]any{"link_preview_options": map[string]any{"is_disabled": true}}
	if len(m.Buttons) > 0 {
		row := make([]map[string]string, 0, len(m.Buttons))
		for _, b := range m.Buttons {
			if len(b.Data) > mostButton || b.Data == "" {
				return nil, permanent(fmt.Errorf("the button %q carries %d bytes: Telegram takes 1 to %d", b.Words, len(b.Data), mostButton))
			}
			row = append(row, map[string]string{"text": b.Words, "callback_data": b.Data})
		}
		in["reply_markup"] = map[string]any{"inline_keyboard": []any{row}}
	}
	return in, nil
}

// write sends or edits a text: rendered, and as it is where the platform does not
// read that. A group that has become another is followed.
func (c *connection) write(ctx context.Context, what, method string, to chat.Room, text string, in map[string]any, out any) error {
	plain := false
	if in["text"] = render(text); in["text"] == "" {
		plain = true
	}
	for {
		in["chat_id"] = number(c.now(to.Chat))
		in["parse_mode"] = "HTML"
		if plain {
			in["text"] = text
			delete(in, "parse_mode")
		}
		err := c.client.call(ctx, what, method, in, out, callTime)
		e, ok := errors.AsType[*refused](err)
		switch {
		case ok && e.migrated != "" && c.follow(to.Chat, e.migrated):
		case ok && !plain && e.code == http.StatusBadRequest && e.says("can't parse"):
			plain = true
		case ok && e.code == http.StatusTooManyRequests && c.floods(to.Chat, e.after, time.Now()):
			return fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
		default:
			return err
		}
	}
}

// flooded is a chat for which the platform asked for patience.
type flooded struct {
	chat  string
	until time.Time
}

// floods notes that the platform asked for patience for a chat, and reports whether that
// concerns the whole bot. A refusal does not say which limit was hit (Bot API,
// "ResponseParameters"), so a second chat that is refused while a first one has to wait
// means the bot's.
func (c *connection) floods(chat string, after time.Duration, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := c.flooded.chat != "" && c.flooded.chat != chat && now.Before(c.flooded.until)
	c.flooded = flooded{chat, now.Add(after)}
	return other
}

// now is the id that a chat has by now.
func (c *connection) now(chat string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.moved[chat]; is != "" {
		return is
	}
	return chat
}

// follow notes that a chat has another id; false if that was known.
func (c *connection) follow(chat, is string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved[chat] == is {
		return false
	}
	c.moved[chat] = is
	c.link.Log().Warn("a group has become another one, and is answered there", "was", chat, "is", is)
	return true
}

// says reports whether the platform's words have others in them.
func (e *refused) says(words ...string) bool {
	text := strings.ToLower(e.words)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// failure gives an error of a call that writes its class.
func failure(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*refused](err)
	switch {
	case ok && e.gone():
		return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
	case ok && e.code >= 500:
	case ok && (e.code == http.StatusUnauthorized || e.code == http.StatusNotFound || e.code == http.StatusConflict || e.code == http.StatusTooManyRequests):
		return outage(err)
	case ok:
		return permanent(err)
	}
	if l, ok := errors.AsType[*lost](err); ok && !l.written {
		return outage(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, outage(err))
}

// gone reports whether a room takes nothing any more. What a bot may not write is
// not gone: somebody can allow it.
func (e *refused) gone() bool {
	switch e.code {
	case http.StatusForbidden:
		return e.says("bot was blocked", "user is deactivated", "bot was kicked", "bot is not a member", "chat was deleted",
			"initiate conversation", "group chat was deactivated")
	case http.StatusBadRequest:
		return e.says("chat not found", "user not found", "group chat was deactivated", "chat was deleted", "message thread not found",
			"peer_id_invalid", "user_deactivated", "input_user_deactivated")
	}
	return false
}

func outage(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: afterOf(err), Err: err}
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }

// number is an id as the platform writes it. What is none is refused there.
func number(id string) any {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		return n
	}
	return id
}

// shortened is a text that fits.
func shortened(text string, most int) string {
	if units(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += units(string(r)); n >= most {
			return text[:i] + "…"
		}
	}
	return text
}
