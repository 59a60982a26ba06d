package slacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// targetChannel returns the channel that a call is for, or why the channel accepts nothing. mu
// must be held.
func (p *Platform) targetChannel(in url.Values) (*Channel, *apiError) {
	c := p.channels[in.Get("channel")]
	switch {
	case c == nil:
		return nil, newAPIError("channel_not_found")
	case c.rejection != "":
		return nil, newAPIError(c.rejection)
	}
	return c, nil
}

func (p *Platform) postMessage(in url.Values) (any, *apiError) {
	if _, apiErr := p.requireScope("chat:write", nil); apiErr != nil {
		return nil, apiErr
	}
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := &Message{User: BotID, Bot: true}
	if apiErr := m.parse(in, 40_000); apiErr != nil {
		return nil, apiErr
	}
	if at := in.Get("thread_ts"); at != "" {
		if !timestampPattern.MatchString(at) {
			return nil, newAPIError("invalid_thread_ts")
		}
		if c.find(at) != nil { // otherwise Slack posts to the channel
			m.Thread = at
		}
	}
	if raw := in.Get("metadata"); raw != "" {
		var meta struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"event_payload"`
		}
		if json.Unmarshal([]byte(raw), &meta) != nil || meta.Type == "" || meta.Payload == nil {
			return nil, newAPIError("invalid_metadata_format")
		}
		m.metadata = map[string]any{"event_type": meta.Type, "event_payload": meta.Payload}
	}
	m.TS = p.nextTimestamp()
	c.messages = append(c.messages, m)
	p.event(m.event(c))
	return map[string]any{"channel": c.ID, "ts": m.TS, "message": m.body(false)}, nil
}

func (p *Platform) update(in url.Values) (any, *apiError) {
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := c.find(in.Get("ts"))
	switch {
	case m == nil:
		return nil, newAPIError("message_not_found")
	case !m.Bot:
		return nil, newAPIError("cant_update_message")
	}
	was := *m
	if apiErr := m.parse(in, 4_000); apiErr != nil {
		*m = was
		return nil, apiErr
	}
	m.Edits++
	p.event(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Type, "ts": p.nextTimestamp(),
		"message": m.body(false), "previous_message": was.body(false),
	})
	return map[string]any{"channel": c.ID, "ts": m.TS, "text": m.Text}, nil
}

func (p *Platform) postEphemeral(in url.Values) (any, *apiError) {
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	var m Message
	if apiErr := m.parse(in, 40_000); apiErr != nil {
		return nil, apiErr
	}
	if p.people[in.Get("user")] == nil {
		return nil, newAPIError("user_not_in_channel")
	}
	c.ephemeral[in.Get("user")] = append(c.ephemeral[in.Get("user")], m.PlainText)
	return map[string]any{"message_ts": p.nextTimestamp()}, nil
}

var (
	timestampPattern = regexp.MustCompile(`^\d+\.\d{6}$`)
	referencePattern = regexp.MustCompile(`<([^<>\n]*)>`)
	entityPattern    = regexp.MustCompile(`&(amp|lt|gt);`)
)

// PlainText returns the visible text of a message without its styles. problem names markup that
// should have been escaped, "" if there is none.
func PlainText(text string) (shown, problem string) {
	left := entityPattern.ReplaceAllString(referencePattern.ReplaceAllString(text, ""), "")
	if strings.ContainsAny(left, "<>&") && !strings.HasPrefix(left, ">") && !strings.Contains(left, "\n>") {
		return "", fmt.Sprintf("%q is not escaped", left)
	}
	shown = referencePattern.ReplaceAllStringFunc(text, func(all string) string {
		of, words, labelled := strings.Cut(all[1:len(all)-1], "|")
		switch {
		case strings.HasPrefix(of, "!") || strings.HasPrefix(of, "@") || strings.HasPrefix(of, "#"):
			problem = "it notifies " + of
		case labelled:
			return words
		}
		return of
	})
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(shown), problem
}

// parse reads the parameters of a message.
func (m *Message) parse(in url.Values, most int) *apiError {
	text := in.Get("text")
	shown, problem := PlainText(text)
	switch {
	case strings.TrimSpace(text) == "" && in.Get("blocks") == "":
		return newAPIError("no_text")
	case utf8.RuneCountInString(text) > most:
		return newAPIError("msg_too_long")
	case problem != "":
		return newAPIError("slacktest: " + problem)
	}
	m.Text, m.PlainText = text, shown
	if !in.Has("blocks") {
		return nil // Slack keeps the old blocks
	}
	var blocks []struct {
		Type string `json:"type"`
		Text struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"text"`
		Elements []struct {
			Type   string `json:"type"`
			Action string `json:"action_id"`
			Value  string `json:"value"`
			Text   struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"text"`
		} `json:"elements"`
	}
	if json.Unmarshal([]byte(in.Get("blocks")), &blocks) != nil || len(blocks) > 50 {
		return newAPIError("invalid_blocks_format")
	}
	m.Buttons, m.Section = nil, ""
	actions := map[string]bool{}
	for _, b := range blocks {
		switch n := utf8.RuneCountInString(b.Text.Text); {
		case b.Type == "section" && b.Text.Type == "mrkdwn" && n >= 1 && n <= 3000:
			m.Section = b.Text.Text
		case b.Type == "actions" && len(b.Elements) >= 1 && len(b.Elements) <= 25:
			for _, e := range b.Elements {
				n := utf8.RuneCountInString(e.Text.Text)
				if e.Type != "button" || e.Text.Type != "plain_text" || n < 1 || n > 75 || e.Action == "" || len(e.Action) > 255 || len(e.Value) > 2000 || actions[e.Action] {
					return newAPIError("invalid_blocks")
				}
				actions[e.Action] = true
				m.Buttons = append(m.Buttons, Button{e.Text.Text, e.Value, e.Action})
			}
		default:
			return newAPIError("invalid_blocks")
		}
	}
	return nil
}

// body builds the JSON of a message for responses and histories.
func (m *Message) body(metadata bool) map[string]any {
	b := map[string]any{"type": "message", "user": m.User, "text": m.Text, "ts": m.TS}
	if m.Bot {
		b["bot_id"], b["app_id"] = botID, AppID
	}
	if m.Thread != "" {
		b["thread_ts"] = m.Thread
	}
	if metadata && m.metadata != nil {
		b["metadata"] = m.metadata
	}
	maps.Copy(b, m.extra)
	return b
}

// event builds the JSON of a message for events.
func (m *Message) event(c *Channel) map[string]any {
	b := m.body(false)
	b["channel"], b["channel_type"], b["event_ts"] = c.ID, c.Type, m.TS
	return b
}

// history returns a page of a history. mu must be held.
func (p *Platform) history(in url.Values, replies bool) (any, *apiError) {
	c := p.channels[in.Get("channel")]
	if c == nil || c.rejection == "channel_not_found" {
		return nil, newAPIError("channel_not_found")
	}
	if _, apiErr := p.requireScope(c.scope(), nil); apiErr != nil {
		return nil, apiErr
	}
	if c.rejection == "not_in_channel" {
		return nil, newAPIError("not_in_channel")
	}
	limit, err := strconv.Atoi(in.Get("limit"))
	if err != nil || limit < 1 || limit > 999 {
		return nil, newAPIError("invalid_limit")
	}
	metadata := slices.Contains([]string{"true", "1"}, in.Get("include_all_metadata")) && slices.Contains(p.scopes, "metadata.message:read")
	root := in.Get("ts")
	if replies && c.find(root) == nil {
		return nil, newAPIError("thread_not_found")
	}
	var found []map[string]any
	for _, m := range c.messages {
		old := in.Get("oldest") != "" && m.TS <= in.Get("oldest")
		switch {
		case replies && m.TS == root:
		case old, replies && m.Thread != root, !replies && m.Thread != "" && m.Thread != m.TS && m.extra["subtype"] != "thread_broadcast":
			continue
		}
		b := m.body(metadata)
		if all := c.replies(m.TS); len(all) > 0 {
			b["thread_ts"], b["reply_count"], b["latest_reply"] = m.TS, len(all), all[len(all)-1].TS
		}
		if at := c.find(m.Thread); at != nil && at != m {
			b["parent_user_id"] = at.User
		}
		found = append(found, b)
	}
	if !replies {
		slices.Reverse(found)
	}
	from, _ := strconv.Atoi(strings.TrimPrefix(in.Get("cursor"), "from:")) // 0 without a cursor
	from = min(from, len(found))
	to := min(from+limit, len(found))
	out := map[string]any{"messages": found[from:to], "has_more": to < len(found)}
	if to < len(found) {
		out["response_metadata"] = map[string]any{"next_cursor": fmt.Sprintf("from:%d", to)}
	}
	return out, nil
}
