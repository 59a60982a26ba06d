package discordtest

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/channel/platformtest"
)

// send carries out the call that sends a message. mu must be held.
func (p *Platform) send(a *request) (any, *apiError) {
	m := &Message{From: "the bot", Bot: true, At: time.Now()}
	if apiErr := parse(m, a.params); apiErr != nil {
		return nil, apiErr
	}
	nonce, _ := a.params["nonce"].(string)
	if len(nonce) > 25 {
		return nil, newAPIError(400, 50035, "Invalid Form Body")
	}
	if before := p.nonces[nonce]; before != nil && nonce != "" && a.params["enforce_nonce"] == true {
		return before.Details.body, nil
	}
	if of, ok := a.params["message_reference"].(map[string]any); ok {
		id, _ := of["message_id"].(string)
		switch {
		case a.channel.Find(id) != nil:
			m.ReplyTo = id
		case of["fail_if_not_exists"] != false:
			return nil, newAPIError(400, 50035, "Invalid Form Body")
		}
	}
	m.ID, m.Details.Nonce = p.nextID(), nonce
	if flags, ok := a.params["flags"].(float64); ok {
		m.Details.Flags = int(flags)
	}
	m.File, _ = a.params["file"].(string)
	m.Content, _ = a.params["file_content"].(string)
	if m.File != "" && p.noFiles {
		return nil, newAPIError(403, 50013, "Missing Permissions")
	}
	if len(m.Content) > 10<<20 {
		return nil, newAPIError(413, 40005, "Request entity too large")
	}
	p.recordPing(a.params, m.Text)
	buildBody(m, a.channel)
	p.nonces[nonce] = m
	a.channel.add(m)
	body := maps.Clone(m.Details.body)
	body["nonce"] = nonce
	return body, nil
}

// ForbidFiles takes the permission to attach files from the bot.
func (p *Platform) ForbidFiles() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noFiles = true
}

// edit carries out the call that edits a message. mu must be held.
func (p *Platform) edit(a *request) (any, *apiError) {
	m := a.channel.Find(a.path[3])
	switch {
	case m == nil:
		return nil, newAPIError(404, 10008, "Unknown Message")
	case !m.Bot:
		return nil, newAPIError(403, 50005, "Cannot edit a message authored by another user")
	}
	edited := *m
	if _, ok := a.params["components"]; ok {
		edited.Buttons = nil
	}
	if apiErr := parse(&edited, a.params); apiErr != nil {
		return nil, apiErr
	}
	edited.Edits++
	*m = edited
	p.recordPing(a.params, m.Text)
	buildBody(m, a.channel)
	m.Details.body["edited_timestamp"] = time.Now().Format(time.RFC3339Nano)
	p.push("MESSAGE_UPDATE", a.channel.event(m.Details.body))
	return m.Details.body, nil
}

// recordPing records a text with an @ unless allowed_mentions suppresses all notifications.
func (p *Platform) recordPing(in map[string]any, text string) {
	allowed, ok := in["allowed_mentions"].(map[string]any)
	parse, _ := allowed["parse"].([]any)
	if (!ok || len(parse) > 0) && strings.Contains(text, "@") {
		p.pinged = append(p.pinged, text)
	}
}

// parse reads the parameters of a message.
func parse(m *Message, in map[string]any) *apiError {
	text, ok := in["content"].(string)
	if m.Text = strings.TrimSpace(text); !ok || m.Text == "" {
		return newAPIError(400, 50006, "Cannot send an empty message")
	}
	if utf8.RuneCountInString(text) > 2000 {
		return newAPIError(400, 50035, "Invalid Form Body")
	}
	rows, _ := in["components"].([]any)
	for _, row := range rows {
		r, _ := row.(map[string]any)
		buttons, _ := r["components"].([]any)
		if r["type"] != 1.0 || len(buttons) < 1 || len(buttons) > 5 {
			return newAPIError(400, 50035, "Invalid Form Body")
		}
		for _, one := range buttons {
			b, _ := one.(map[string]any)
			label, _ := b["label"].(string)
			data, _ := b["custom_id"].(string)
			style, _ := b["style"].(float64)
			if b["type"] != 2.0 || style < 1 || style > 4 || label == "" || utf8.RuneCountInString(label) > 80 || data == "" ||
				utf8.RuneCountInString(data) > 100 {
				return newAPIError(400, 50035, "Invalid Form Body")
			}
			m.Buttons = append(m.Buttons, platformtest.Button{Label: label, Data: data})
		}
	}
	return nil
}

// buildBody builds the JSON of a bot's message for events and responses.
func buildBody(m *Message, c *Channel) {
	m.Details.body = map[string]any{
		"id": m.ID, "type": 0, "channel_id": c.ID, "content": m.Text, "timestamp": m.At.Format(time.RFC3339Nano),
		"edited_timestamp": nil,
		"author":           map[string]any{"id": BotID, "username": Username, "bot": true}, "attachments": []any{},
		"mentions": []any{}, "mention_roles": []any{},
	}
}

// callback carries out an interaction response: an answer, or a deferred one. mu must be held.
func (p *Platform) callback(a *request) (any, *apiError) {
	t := p.presses[a.path[1]]
	data, _ := a.params["data"].(map[string]any)
	switch {
	case t == nil || t.Expired() || t.token != a.path[2] || time.Since(t.at) > 3*time.Second:
		return nil, newAPIError(404, 10062, "Unknown interaction")
	case t.Answered() || t.deferred:
		return nil, newAPIError(400, 40060, "Interaction has already been acknowledged.")
	case a.params["type"] == 6.0:
		t.deferred = true
		return nil, nil
	case a.params["type"] != 4.0:
		return nil, newAPIError(400, 50035, "Invalid Form Body")
	}
	return nil, t.showAnswer(data)
}

// followUp answers a deferred interaction. mu must be held.
func (p *Platform) followUp(a *request) (any, *apiError) {
	for _, t := range p.presses {
		if a.path[1] == AppID && t.token == a.path[2] && (t.deferred || t.Answered()) {
			t.deferred = false
			return map[string]any{"id": p.nextID()}, t.showAnswer(a.params)
		}
	}
	return nil, newAPIError(404, 10015, "Unknown Webhook")
}

// showAnswer records an answer to a press. mu must be held.
func (t *ButtonPress) showAnswer(data map[string]any) *apiError {
	text, _ := data["content"].(string)
	flags, _ := data["flags"].(float64)
	if text == "" || utf8.RuneCountInString(text) > 2000 {
		return newAPIError(400, 50035, "Invalid Form Body")
	}
	t.flags = int(flags)
	t.Answer(text)
	return nil
}
