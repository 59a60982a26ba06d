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
	"time"
	"unicode/utf8"

	"mailroom/channel/platformtest"
)

// targetChannel returns the channel that a call is for. mu must be held.
func (p *Platform) targetChannel(in url.Values) (*Channel, *apiError) {
	if c := p.channels[in.Get("channel")]; c != nil {
		return c, nil
	}
	return nil, newAPIError("channel_not_found")
}

func (p *Platform) postMessage(in url.Values) (any, *apiError) {
	if _, apiErr := p.requireScope("chat:write", nil); apiErr != nil {
		return nil, apiErr
	}
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := &Message{From: BotID, Bot: true, At: time.Now()}
	if apiErr := parse(m, in, 40_000); apiErr != nil {
		return nil, apiErr
	}
	if at := in.Get("thread_ts"); at != "" {
		if !timestampPattern.MatchString(at) {
			return nil, newAPIError("invalid_thread_ts")
		}
		if c.Find(at) != nil { // otherwise Slack posts to the channel
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
		m.Details.metadata = map[string]any{"event_type": meta.Type, "event_payload": meta.Payload}
	}
	m.ID = p.nextTimestamp()
	c.Add(m)
	p.event(event(m, c))
	return map[string]any{"channel": c.ID, "ts": m.ID, "message": messageBody(m, false)}, nil
}

func (p *Platform) update(in url.Values) (any, *apiError) {
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := c.Find(in.Get("ts"))
	switch {
	case m == nil:
		return nil, newAPIError("message_not_found")
	case !m.Bot:
		return nil, newAPIError("cant_update_message")
	}
	was := *m
	if apiErr := parse(m, in, 4_000); apiErr != nil {
		*m = was
		return nil, apiErr
	}
	m.Edits++
	p.event(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Type,
		"ts":      p.nextTimestamp(),
		"message": messageBody(m, false), "previous_message": messageBody(&was, false),
	})
	return map[string]any{"channel": c.ID, "ts": m.ID, "text": m.Source}, nil
}

func (p *Platform) postEphemeral(in url.Values) (any, *apiError) {
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	m := &Message{}
	if apiErr := parse(m, in, 40_000); apiErr != nil {
		return nil, apiErr
	}
	if p.people[in.Get("user")] == nil {
		return nil, newAPIError("user_not_in_channel")
	}
	c.ephemeral[in.Get("user")] = append(c.ephemeral[in.Get("user")], m.Text)
	return map[string]any{"message_ts": p.nextTimestamp()}, nil
}

var (
	timestampPattern = regexp.MustCompile(`^\d+\.\d{6}$`)
	referencePattern = regexp.MustCompile(`<([^<>\n]*)>`)
	entityPattern    = regexp.MustCompile(`&(amp|lt|gt);`)
)

// PlainText returns the visible text of a message without its styles. problem names markup that
// should have been escaped, or "".
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
func parse(m *Message, in url.Values, most int) *apiError {
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
	m.Text, m.Source = shown, text
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
	m.Buttons, m.Details.Section = nil, ""
	actions := map[string]bool{}
	for _, b := range blocks {
		switch n := utf8.RuneCountInString(b.Text.Text); {
		case b.Type == "section" && b.Text.Type == "mrkdwn" && n >= 1 && n <= 3000:
			m.Details.Section = b.Text.Text
		case b.Type == "actions" && len(b.Elements) >= 1 && len(b.Elements) <= 25:
			for _, e := range b.Elements {
				n := utf8.RuneCountInString(e.Text.Text)
				if e.Type != "button" || e.Text.Type != "plain_text" || n < 1 || n > 75 || e.Action == "" || len(e.Action) > 255 ||
					len(e.Value) > 2000 || actions[e.Action] {
					return newAPIError("invalid_blocks")
				}
				actions[e.Action] = true
				m.Buttons = append(m.Buttons, platformtest.Button{Label: e.Text.Text, Data: e.Value, Name: e.Action})
			}
		default:
			return newAPIError("invalid_blocks")
		}
	}
	return nil
}

// messageBody builds the JSON of a message for responses and histories.
func messageBody(m *Message, metadata bool) map[string]any {
	b := map[string]any{"type": "message", "user": m.From, "text": m.Source, "ts": m.ID}
	if m.Bot {
		b["bot_id"], b["app_id"] = botID, AppID
	}
	if m.Thread != "" {
		b["thread_ts"] = m.Thread
	}
	if m.File != "" {
		b["subtype"], b["files"] = "file_share", []any{map[string]any{"id": "F" + m.ID, "name": m.File}}
	}
	if metadata && m.Details.metadata != nil {
		b["metadata"] = m.Details.metadata
	}
	maps.Copy(b, m.Details.extra)
	return b
}

// event builds the JSON of a message for events.
func event(m *Message, c *Channel) map[string]any {
	b := messageBody(m, false)
	b["channel"], b["channel_type"], b["event_ts"] = c.ID, c.Type, m.ID
	return b
}

// history returns a page of a history. mu must be held.
func (p *Platform) history(in url.Values, replies bool) (any, *apiError) {
	c, apiErr := p.targetChannel(in)
	if apiErr != nil {
		return nil, apiErr
	}
	if _, apiErr := p.requireScope(c.scope(), nil); apiErr != nil {
		return nil, apiErr
	}
	limit, err := strconv.Atoi(in.Get("limit"))
	if err != nil || limit < 1 || limit > 999 {
		return nil, newAPIError("invalid_limit")
	}
	metadata := slices.Contains([]string{"true", "1"}, in.Get("include_all_metadata")) &&
		slices.Contains(p.scopes, "metadata.message:read")
	root := in.Get("ts")
	if replies && c.Find(root) == nil {
		return nil, newAPIError("thread_not_found")
	}
	var found []map[string]any
	for _, m := range c.All() {
		old := in.Get("oldest") != "" && m.ID <= in.Get("oldest")
		switch {
		case replies && m.ID == root:
		case old, replies && m.Thread != root, !replies && m.Thread != "" && m.Thread != m.ID &&
			m.Details.extra["subtype"] != "thread_broadcast":
			continue
		}
		b := messageBody(m, metadata)
		if all := c.replies(m.ID); len(all) > 0 {
			b["thread_ts"], b["reply_count"], b["latest_reply"] = m.ID, len(all), all[len(all)-1].ID
		}
		if at := c.Find(m.Thread); at != nil && at != m {
			b["parent_user_id"] = at.From
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
