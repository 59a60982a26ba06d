package telegramtest

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"mailroom/channel/platformtest"
)

// call carries out any call except a poll. mu must be held.
func (p *Platform) call(b *bot, method string, in map[string]any) (any, *apiError) {
	switch method {
	case "getMe":
		return map[string]any{
			"id": b.id, "is_bot": true, "first_name": "Mailroom", "username": b.username,
			"can_join_groups": true, "can_read_all_group_messages": b.readsAll, "supports_inline_queries": false,
		}, nil
	case "getWebhookInfo":
		return map[string]any{"url": b.webhook, "has_custom_certificate": false, "pending_update_count": len(b.updates)}, nil
	case "deleteWebhook":
		b.webhook = ""
		return true, nil
	case "setMyCommands":
		commands, ok := in["commands"].([]any)
		if !ok {
			return nil, newAPIError(400, `Bad Request: parameter "commands" is required`)
		}
		b.commands = commands
		return true, nil
	case "sendMessage":
		return p.sendMessage(in)
	case "sendDocument":
		if text, _ := in["text"].(string); len(utf16.Encode([]rune(text))) > 1024 {
			return nil, newAPIError(400, "Bad Request: message caption is too long")
		}
		if in["file_name"] == "" || in["link_preview_options"] != nil {
			return nil, newAPIError(400, "Bad Request: there is no document in the request")
		}
		return p.sendMessage(in)
	case "editMessageText":
		return p.editMessageText(in)
	case "sendChatAction":
		if _, apiErr := p.targetChat(in); apiErr != nil {
			return nil, apiErr
		}
		return true, nil
	case "answerCallbackQuery":
		return p.answerCallbackQuery(in)
	case "getChatMember":
		c := p.chats[integer(in["chat_id"])]
		if c == nil || integer(in["user_id"]) != b.id {
			return nil, newAPIError(400, "Bad Request: chat not found")
		}
		status := "member"
		if c.admin {
			status = "administrator"
		}
		return map[string]any{"status": status, "user": map[string]any{"id": b.id, "is_bot": true}}, nil
	case "getFile":
		f, ok := p.files[fmt.Sprint(in["file_id"])]
		switch {
		case !ok:
			return nil, newAPIError(400, "Bad Request: invalid file_id")
		case len(f.content) > 20<<20:
			return nil, newAPIError(400, "Bad Request: file is too big")
		}
		return map[string]any{"file_id": in["file_id"], "file_unique_id": "u", "file_size": len(f.content),
			"file_path": f.path}, nil
	}
	return nil, newAPIError(404, "Not Found: method not found")
}

// targetChat returns the chat that a call is for, or why the chat accepts nothing.
func (p *Platform) targetChat(in map[string]any) (*Chat, *apiError) {
	c := p.chats[integer(in["chat_id"])]
	switch {
	case c == nil:
		return nil, newAPIError(400, "Bad Request: chat not found")
	case c.moved != 0:
		return nil, &apiError{Status: 400, Message: "Bad Request: group chat was upgraded to a supergroup chat",
			Fields: map[string]any{"migrate_to_chat_id": c.moved}}
	}
	if left := time.Until(p.limits[c.ID]); left > 0 {
		after := math.Ceil(left.Seconds())
		return nil, &apiError{Status: 429, Message: fmt.Sprintf("Too Many Requests: retry after %.0f", after),
			RetryAfter: after}
	}
	if topic := messageID(in["message_thread_id"]); topic != "" && !slices.Contains(c.topics, topic) {
		return nil, newAPIError(400, "Bad Request: message thread not found")
	}
	return c, nil
}

func (p *Platform) sendMessage(in map[string]any) (any, *apiError) {
	c, apiErr := p.targetChat(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := &Message{From: "the bot", Thread: messageID(in["message_thread_id"]), Bot: true, At: time.Now()}
	if apiErr := parse(m, in); apiErr != nil {
		return nil, apiErr
	}
	if to, ok := in["reply_parameters"].(map[string]any); ok {
		switch m.ReplyTo = messageID(to["message_id"]); {
		case c.Find(m.ReplyTo) != nil:
		case to["allow_sending_without_reply"] == true:
			m.ReplyTo = ""
		default:
			return nil, newAPIError(400, "Bad Request: message to be replied not found")
		}
	}
	m.ID = c.nextID()
	m.File, _ = in["file_name"].(string)
	m.Content, _ = in["file_content"].(string)
	c.Add(m)
	return buildBody(m, c), nil
}

func (p *Platform) editMessageText(in map[string]any) (any, *apiError) {
	c, apiErr := p.targetChat(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := c.Find(messageID(in["message_id"]))
	switch {
	case m == nil:
		return nil, newAPIError(400, "Bad Request: message to edit not found")
	case !m.Bot:
		return nil, newAPIError(400, "Bad Request: message can't be edited")
	}
	edited := *m
	edited.Buttons = nil
	if apiErr := parse(&edited, in); apiErr != nil {
		return nil, apiErr
	}
	if edited.Text == m.Text && edited.Source == m.Source && reflect.DeepEqual(edited.Buttons, m.Buttons) {
		return nil,
			newAPIError(400,
				"Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	edited.Edits++
	*m = edited
	return buildBody(m, c), nil
}

// parse reads the parameters of a message.
func parse(m *Message, in map[string]any) *apiError {
	text, _ := in["text"].(string)
	m.Text, m.Source = text, ""
	switch in["parse_mode"] {
	case nil:
	case "HTML":
		shown, problem := PlainText(text)
		if problem != "" {
			return newAPIError(400, "Bad Request: can't parse entities: %s", problem)
		}
		m.Text, m.Source = shown, text
	default:
		return newAPIError(400, "Bad Request: unsupported parse_mode")
	}
	m.Text = strings.TrimSpace(m.Text)
	switch n := len(utf16.Encode([]rune(m.Text))); {
	case n == 0:
		return newAPIError(400, "Bad Request: message text is empty")
	case n > 4096:
		return newAPIError(400, "Bad Request: message is too long")
	}
	markup, _ := in["reply_markup"].(map[string]any)
	rows, _ := markup["inline_keyboard"].([]any)
	for _, row := range rows {
		buttons, _ := row.([]any)
		for _, one := range buttons {
			b, _ := one.(map[string]any)
			text, _ := b["text"].(string)
			data, _ := b["callback_data"].(string)
			if text == "" || data == "" || len(data) > 64 {
				return newAPIError(400, "Bad Request: BUTTON_DATA_INVALID")
			}
			m.Buttons = append(m.Buttons, platformtest.Button{Label: text, Data: data})
		}
	}
	return nil
}

// buildBody builds the JSON of a bot's message for updates and responses.
func buildBody(m *Message, c *Chat) map[string]any {
	body := map[string]any{
		"message_id": json.Number(m.ID), "chat": map[string]any{"id": c.ID, "type": c.Type, "title": c.Title},
		"date": m.At.Unix(), "text": m.Text,
		"from": map[string]any{"id": BotID, "is_bot": true, "first_name": "Mailroom", "username": Username},
	}
	if m.Thread != "" {
		body["message_thread_id"], body["is_topic_message"] = json.Number(m.Thread), true
	}
	m.Details.body = body
	return body
}

func (p *Platform) answerCallbackQuery(in map[string]any) (any, *apiError) {
	t := p.presses[fmt.Sprint(in["callback_query_id"])]
	text, _ := in["text"].(string)
	switch {
	case t == nil || t.Expired():
		return nil, newAPIError(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
	case len(utf16.Encode([]rune(text))) > 200:
		return nil, newAPIError(400, "Bad Request: MESSAGE_TOO_LONG")
	}
	t.Answer(text)
	return true, nil
}

func integer(v any) int64 {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

// messageID returns the id of a message or topic in a call, "" for none.
func messageID(v any) string {
	if n := integer(v); n != 0 {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
