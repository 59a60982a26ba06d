package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"unicode/utf8"

	"mailroom/channel/chat"
)

// metadataType is the type of the metadata that hold the key of a message.
const metadataType = "mailroom_message"

// Send implements [chat.Platform]. What it answers is what is said in a thread; there
// is no other sign of it.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (string, error) {
	in, err := messageParams(m)
	if err != nil {
		return "", err
	}
	in.Set("channel", to.Chat)
	in.Set("unfurl_links", "false")
	in.Set("unfurl_media", "false")
	if to.Topic != "" {
		in.Set("thread_ts", to.Topic)
	}
	if key != "" {
		raw, err := json.Marshal(map[string]any{"event_type": metadataType, "event_payload": map[string]string{"key": key}})
		if err != nil {
			return "", permanent(fmt.Errorf("write the key of a message: %w", err))
		}
		in.Set("metadata", string(raw))
	}
	var sent struct {
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := c.callWrite(ctx, request{op: "send a message", method: "chat.postMessage", params: in, result: &sent}); err != nil {
		return "", err
	}
	if sent.Channel == "" || !timestampPattern.MatchString(sent.TS) {
		return "", sendError(&transportError{op: "send a message", reason: "the answer does not say which it is", maybeSent: true})
	}
	return messageID(sent.Channel, sent.TS), nil
}

// Edit implements [chat.Platform]. A limit of edits is one of all rooms together.
func (c *connection) Edit(ctx context.Context, _ chat.Room, of string, m chat.Message) error {
	channel, ts, ok := splitMessageID(of)
	if !ok {
		return permanent(fmt.Errorf("%q is no message of Slack", of))
	}
	in, err := messageParams(m)
	if err != nil {
		return err
	}
	in.Set("channel", channel)
	in.Set("ts", ts)
	if !in.Has("blocks") {
		in.Set("blocks", "[]") // those that are there would stay
	}
	err = c.callWrite(ctx, request{op: "edit a message", method: "chat.update", params: in})
	if isAPIError(err, subjectRateLimit) {
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
	}
	return err
}

// Find implements [chat.Platform]: it looks through what was said last.
func (c *connection) Find(ctx context.Context, at chat.Room, key string, _ chat.Message) (string, bool, error) {
	if slices.Contains(c.bot.MissingScopes, scopeMetadata) {
		c.historyWarning.Do(func() {
			c.host.ReportError(errors.New("whether a message was sent is not known without the scope " + scopeMetadata))
		})
		return "", false, chat.ErrNoHistory
	}
	cursor := ""
	for range maxPages {
		page, next, err := c.historyPage(ctx, at.Chat, at.Topic, "", cursor, true)
		e, no := errors.AsType[*apiError](err)
		switch {
		case no && e.hasCode("thread_not_found", "message_not_found"): // what began it is deleted, and all of it
			return "", false, nil
		case no && e.isAbout(subjectScope, subjectRoom):
			c.historyWarning.Do(func() { c.host.ReportError(fmt.Errorf("whether a message was sent is not known: %w", err)) })
			return "", false, chat.ErrNoHistory
		case err != nil:
			return "", false, c.checkedSendError(ctx, err)
		}
		for _, m := range page {
			if m.Metadata.Type == metadataType && m.Metadata.Payload.Key == key {
				return messageID(at.Chat, m.TS), true, nil
			}
		}
		if cursor = next; cursor == "" {
			return "", false, nil
		}
	}
	return "", false, chat.ErrNoHistory // further back than is read
}

// Typing implements [chat.Platform]. There is no sign of it.
func (c *connection) Typing(context.Context, chat.Room) error { return nil }

// AckButton implements [chat.Platform]: it says so to who has pressed the button, and to
// nobody else.
func (c *connection) AckButton(ctx context.Context, tap chat.Event, words string) error {
	in := formValues("channel", tap.Room.Chat, "user", tap.User.ID, "thread_ts", tap.Room.Topic, "text", escape(words))
	return c.callWrite(ctx, request{op: "answer who pressed a button", method: "chat.postEphemeral", params: in})
}

// messageParams is what of a message is the same in each call that writes it. Beside buttons the
// text is a block, and what notifications show.
func messageParams(m chat.Message) (url.Values, error) {
	text := render(m.Text)
	if text == "" || utf16Units(text) > MaxMessage {
		text = escape(m.Text)
	}
	in := formValues("text", text)
	if len(m.Buttons) == 0 {
		return in, nil
	}
	var row []any
	for n, b := range m.Buttons {
		if len(b.Data) > maxButtonData || b.Data == "" {
			return nil, permanent(fmt.Errorf("the button %q carries %d bytes: Slack takes 1 to %d", b.Label, len(b.Data), maxButtonData))
		}
		row = append(row, map[string]any{
			"type": "button", "action_id": fmt.Sprintf("mailroom_%d", n), "value": b.Data,
			"text": map[string]any{"type": "plain_text", "text": truncate(b.Label, maxLabel)},
		})
	}
	blocks, err := json.Marshal([]any{
		map[string]any{"type": "section", "text": map[string]string{"type": "mrkdwn", "text": text}},
		map[string]any{"type": "actions", "elements": row},
	})
	if err != nil {
		return nil, permanent(fmt.Errorf("write the buttons of a message: %w", err))
	}
	in.Set("blocks", string(blocks))
	return in, nil
}

// callWrite makes a call that writes. Its error has its class.
func (c *connection) callWrite(ctx context.Context, x request) error {
	_, err := c.client.call(ctx, x)
	return c.checkedSendError(ctx, err)
}

// truncate is a text that fits.
func truncate(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
