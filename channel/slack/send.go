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
	"mailroom/channel/httpcall"
)

// metadataType is the event type of the metadata that holds a message's key.
const metadataType = "mailroom_message"

// Send implements [chat.Platform]. It ignores ReplyTo: Slack shows replies by their thread alone.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (string, error) {
	if m.File != nil {
		return "", c.sendFile(ctx, to, m)
	}
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
			return "", httpcall.Permanent(fmt.Errorf("encode message metadata: %w", err))
		}
		in.Set("metadata", string(raw))
	}
	var sent struct {
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := c.callWrite(ctx, request{op: "send message", method: "chat.postMessage", params: in,
		result: &sent}); err != nil {
		if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Code == "thread_not_found" && to.Topic != "" {
			err = fmt.Errorf("%w: %w", chat.ErrTopicGone, err)
		}
		return "", err
	}
	if sent.Channel == "" || !timestampPattern().MatchString(sent.TS) {
		return "", sendError(&httpcall.TransportError{Op: "send message", Reason: "response has no message id",
			MaybeSent: true})
	}
	return messageID(sent.Channel, sent.TS), nil
}

// Edit implements [chat.Platform]. The rate limit of edits covers all rooms together.
func (c *connection) Edit(ctx context.Context, _ chat.Room, of string, m chat.Message) error {
	channel, ts, ok := splitMessageID(of)
	if !ok {
		return httpcall.Permanent(fmt.Errorf("invalid Slack message id %q", of))
	}
	in, err := messageParams(m)
	if err != nil {
		return err
	}
	in.Set("channel", channel)
	in.Set("ts", ts)
	if !in.Has("blocks") {
		in.Set("blocks", "[]") // an empty list, because without it Slack keeps the old blocks
	}
	err = c.callWrite(ctx, request{op: "edit message", method: "chat.update", params: in})
	if isAPIError(err, subjectRateLimit) {
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
	}
	return err
}

// Find implements [chat.Platform]. It searches the latest messages of the room for the key.
func (c *connection) Find(ctx context.Context, at chat.Room, key string, sought chat.Message) (string, bool, error) {
	if slices.Contains(c.bot.MissingScopes, scopeMetadata) {
		c.historyWarning.Do(func() {
			c.host.ReportError(errors.New("cannot check whether a message was sent: the token lacks the scope " + scopeMetadata))
		})
		return "", false, chat.ErrNoHistory
	}
	cursor := ""
	for range maxPages {
		page, next, err := c.historyPage(ctx, at.Chat, at.Topic, "", cursor, true)
		e, no := errors.AsType[*httpcall.Refusal](err)
		switch {
		case no && (e.Code == "thread_not_found" || e.Code == "message_not_found"): // the thread's root was deleted, and with it the thread
			return "", false, nil
		case no && isAbout(e, subjectScope, subjectRoom):
			c.historyWarning.Do(func() { c.host.ReportError(fmt.Errorf("cannot check whether a message was sent: %w", err)) })
			return "", false, chat.ErrNoHistory
		case err != nil:
			return "", false, c.checkedSendError(ctx, err)
		}
		for _, m := range page {
			if m.Metadata.Type == metadataType && m.Metadata.Payload.Key == key ||
				sought.File != nil && m.User == c.bot.ID && hasFile(m, sought.File.Name) {
				return messageID(at.Chat, m.TS), true, nil
			}
		}
		if cursor = next; cursor == "" {
			return "", false, nil
		}
	}
	return "", false, chat.ErrNoHistory // older than the pages searched
}

// Typing implements [chat.Platform]. Slack has no typing indicator for bots.
func (c *connection) Typing(context.Context, chat.Room) error { return nil }

// AckButton implements [chat.Platform]. It shows the text only to the person who pressed the
// button.
func (c *connection) AckButton(ctx context.Context, press chat.Event, text string) error {
	in := formValues("channel", press.Room.Chat, "user", press.User.ID, "thread_ts", press.Room.Topic, "text",
		escape(text))
	return c.callWrite(ctx, request{op: "answer button press", method: "chat.postEphemeral", params: in})
}

// messageParams returns the parameters that sends and edits share. With buttons, the text is a
// section block, and the text parameter is shown in notifications.
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
			return nil, httpcall.Permanent(fmt.Errorf("button %q has %d bytes of data; Slack accepts 1 to %d", b.Label,
				len(b.Data), maxButtonData))
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
		return nil, httpcall.Permanent(fmt.Errorf("encode message buttons: %w", err))
	}
	in.Set("blocks", string(blocks))
	return in, nil
}

// callWrite makes a call that writes, and classifies its error.
func (c *connection) callWrite(ctx context.Context, x request) error {
	_, err := c.client.call(ctx, x)
	return c.checkedSendError(ctx, err)
}

// truncate cuts a text to most characters.
func truncate(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
