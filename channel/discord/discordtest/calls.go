package discordtest

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"
)

// send takes a message. It is within mu.
func (p *Platform) send(a *asked) (any, *refusal) {
	m := &Message{Bot: true, At: time.Now(), from: "the bot"}
	if refuse := m.read(a.in); refuse != nil {
		return nil, refuse
	}
	nonce, _ := a.in["nonce"].(string)
	if len(nonce) > 25 {
		return nil, no(400, 50035, "Invalid Form Body")
	}
	if before := p.nonces[nonce]; before != nil && nonce != "" && a.in["enforce_nonce"] == true {
		return before.body, nil
	}
	if of, ok := a.in["message_reference"].(map[string]any); ok {
		id, _ := of["message_id"].(string)
		switch {
		case a.channel.find(id) != nil:
			m.Answers = id
		case of["fail_if_not_exists"] != false:
			return nil, no(400, 50035, "Invalid Form Body")
		}
	}
	m.ID, m.Nonce = p.id(), nonce
	if flags, ok := a.in["flags"].(float64); ok {
		m.Flags = int(flags)
	}
	p.ring(a.in, m.Text)
	m.show(a.channel)
	p.nonces[nonce] = m
	a.channel.add(m)
	body := maps.Clone(m.body)
	body["nonce"] = nonce
	return body, nil
}

// edit changes a message. It is within mu.
func (p *Platform) edit(a *asked) (any, *refusal) {
	m := a.channel.find(a.words[3])
	switch {
	case m == nil:
		return nil, no(404, 10008, "Unknown Message")
	case !m.Bot:
		return nil, no(403, 50005, "Cannot edit a message authored by another user")
	}
	edited := *m
	if _, ok := a.in["components"]; ok {
		edited.Buttons = nil
	}
	if refuse := edited.read(a.in); refuse != nil {
		return nil, refuse
	}
	edited.Edits++
	*m = edited
	p.ring(a.in, m.Text)
	m.show(a.channel)
	m.body["edited_timestamp"] = time.Now().Format(time.RFC3339Nano)
	p.push("MESSAGE_UPDATE", a.channel.event(m.body))
	return m.body, nil
}

// ring notes a text that names everybody, unless it is said that nobody is to be called.
func (p *Platform) ring(in map[string]any, text string) {
	allowed, ok := in["allowed_mentions"].(map[string]any)
	parse, _ := allowed["parse"].([]any)
	if (!ok || len(parse) > 0) && strings.Contains(text, "@") {
		p.rang = append(p.rang, text)
	}
}

// read takes what a call says of a message.
func (m *Message) read(in map[string]any) *refusal {
	text, ok := in["content"].(string)
	if m.Text = strings.TrimSpace(text); !ok || m.Text == "" {
		return no(400, 50006, "Cannot send an empty message")
	}
	if utf8.RuneCountInString(text) > 2000 {
		return no(400, 50035, "Invalid Form Body")
	}
	rows, _ := in["components"].([]any)
	for _, row := range rows {
		r, _ := row.(map[string]any)
		buttons, _ := r["components"].([]any)
		if r["type"] != 1.0 || len(buttons) < 1 || len(buttons) > 5 {
			return no(400, 50035, "Invalid Form Body")
		}
		for _, one := range buttons {
			b, _ := one.(map[string]any)
			label, _ := b["label"].(string)
			data, _ := b["custom_id"].(string)
			style, _ := b["style"].(float64)
			if b["type"] != 2.0 || style < 1 || style > 4 || label == "" || utf8.RuneCountInString(label) > 80 || data == "" || utf8.RuneCountInString(data) > 100 {
				return no(400, 50035, "Invalid Form Body")
			}
			m.Buttons = append(m.Buttons, Button{label, data})
		}
	}
	return nil
}

// show makes the body that events and answers have of a message of the bot.
func (m *Message) show(c *Channel) {
	m.body = map[string]any{
		"id": m.ID, "type": 0, "channel_id": c.ID, "content": m.Text, "timestamp": m.At.Format(time.RFC3339Nano), "edited_timestamp": nil,
		"author": map[string]any{"id": BotID, "username": Username, "bot": true}, "attachments": []any{}, "mentions": []any{}, "mention_roles": []any{},
	}
}

// callback answers who has pressed a button, or has them wait. It is within mu.
func (p *Platform) callback(a *asked) (any, *refusal) {
	t := p.taps[a.words[1]]
	data, _ := a.in["data"].(map[string]any)
	switch {
	case t == nil || t.old || t.token != a.words[2] || time.Since(t.at) > 3*time.Second:
		return nil, no(404, 10062, "Unknown interaction")
	case t.answered > 0 || t.waits:
		return nil, no(400, 40060, "Interaction has already been acknowledged.")
	case a.in["type"] == 6.0:
		t.waits = true
		return nil, nil
	case a.in["type"] != 4.0:
		return nil, no(400, 50035, "Invalid Form Body")
	}
	return nil, t.tell(data)
}

// followUp answers who waits. It is within mu.
func (p *Platform) followUp(a *asked) (any, *refusal) {
	for _, t := range p.taps {
		if a.words[1] == AppID && t.token == a.words[2] && (t.waits || t.answered > 0) {
			t.waits = false
			return map[string]any{"id": p.id()}, t.tell(a.in)
		}
	}
	return nil, no(404, 10015, "Unknown Webhook")
}

// tell shows an answer to who has pressed a button. It is within mu.
func (t *Tap) tell(data map[string]any) *refusal {
	text, _ := data["content"].(string)
	flags, _ := data["flags"].(float64)
	if text == "" || utf8.RuneCountInString(text) > 2000 {
		return no(400, 50035, "Invalid Form Body")
	}
	t.words, t.flags = text, int(flags)
	t.answered++
	return nil
}
