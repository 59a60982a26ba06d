package entry

import (
	"encoding/json"
	"math"
	"strconv"

	"mailroom"
	"mailroom/internal/jsontext"
)

// appendBody appends the JSON of an entry's body.
func appendBody(b []byte, body any) ([]byte, error) {
	switch body := body.(type) {
	case mailroom.Message:
		return AppendMessage(b, body), nil
	case jsontext.Appender:
		return body.AppendJSON(b), nil
	}
	raw, err := json.Marshal(body)
	return append(b, raw...), err
}

// appendHead appends the JSON of e up to its body.
func appendHead(b []byte, e *mailroom.Entry) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "thread"), e.Thread)
	b = strconv.AppendInt(jsontext.AppendName(b, "seq"), e.Seq, 10)
	b = jsontext.AppendString(jsontext.AppendName(b, "kind"), e.Kind)
	b = jsontext.AppendString(jsontext.AppendName(b, "run"), e.Run)
	b = strconv.AppendInt(jsontext.AppendName(b, "attempt"), int64(e.Attempt), 10)
	b = jsontext.AppendTime(jsontext.AppendName(b, "at"), e.At)
	return jsontext.AppendName(b, "body")
}

// AppendMessage appends the JSON of m.
func AppendMessage(b []byte, m mailroom.Message) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "id"), m.ID)
	b = jsontext.AppendString(jsontext.AppendName(b, "thread"), m.Thread)
	b = strconv.AppendInt(jsontext.AppendName(b, "seq"), m.Seq, 10)
	b = jsontext.AppendString(jsontext.AppendName(b, "role"), string(m.Role))
	b = jsontext.AppendString(jsontext.AppendName(b, "sender"), m.Sender)
	b = jsontext.AppendString(jsontext.AppendName(b, "text"), m.Text)
	b = jsontext.AppendList(jsontext.AppendName(b, "parts"), m.Parts, AppendPart)
	b = jsontext.AppendString(jsontext.AppendName(b, "visibility"), m.Visibility)
	b = jsontext.AppendString(jsontext.AppendName(b, "run"), m.Run)
	b = jsontext.AppendString(jsontext.AppendName(b, "state"), m.State)
	b = strconv.AppendBool(jsontext.AppendName(b, "partial"), m.Partial)
	if m.Truncated {
		b = strconv.AppendBool(jsontext.AppendName(b, "truncated"), m.Truncated)
	}
	b = jsontext.AppendTime(jsontext.AppendName(b, "created_at"), m.CreatedAt)
	return append(b, '}')
}

// AppendPart appends the JSON of p.
func AppendPart(b []byte, p mailroom.Part) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "type"), p.Type)
	b = jsontext.AppendNonEmpty(b, "text", p.Text)
	if len(p.Data) > 0 {
		b = jsontext.AppendAny(jsontext.AppendName(b, "data"), p.Data)
	}
	b = jsontext.AppendNonEmpty(b, "uri", p.URI)
	b = jsontext.AppendNonEmpty(b, "mime_type", p.MimeType)
	b = jsontext.AppendNonEmpty(b, "name", p.Name)
	return append(b, '}')
}

func (q RunQueued) AppendJSON(b []byte) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "agent"), q.Agent)
	if b = jsontext.AppendName(b, "agent_version"); q.AgentVersion == "" {
		b = append(b, "null"...) // unknown
	} else {
		b = jsontext.AppendString(b, q.AgentVersion)
	}
	b = jsontext.AppendString(jsontext.AppendName(b, "mode"), string(q.Mode))
	b = strconv.AppendInt(jsontext.AppendName(b, "priority"), int64(q.Priority), 10)
	b = jsontext.AppendTime(jsontext.AppendName(b, "available_at"), q.AvailableAt)
	b = jsontext.AppendList(jsontext.AppendName(b, "messages"), q.Messages, jsontext.AppendString)
	b = jsontext.AppendName(b, "origin")
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "via"), q.Origin.Via)
	b = jsontext.AppendString(jsontext.AppendName(b, "sender"), q.Origin.Sender)
	b = jsontext.AppendNonEmpty(b, "request_id", q.Origin.RequestID)
	return append(b, '}', '}')
}

// MarshalJSON returns the JSON that AppendJSON writes.
func (q RunQueued) MarshalJSON() ([]byte, error) { return q.AppendJSON(nil), nil }

func (s RunStarted) AppendJSON(b []byte) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "worker"), s.Worker)
	if len(s.Tickets) > 0 {
		b = jsontext.AppendList(jsontext.AppendName(b, "tickets"), s.Tickets, jsontext.AppendString)
	}
	b = jsontext.AppendList(jsontext.AppendName(b, "messages"), s.Messages, func(b []byte, seq int64) []byte {
		return strconv.AppendInt(b, seq, 10)
	})
	return append(b, '}')
}

func (c RunCompleted) AppendJSON(b []byte) []byte {
	b = jsontext.AppendName(append(b, '{'), "reply")
	if c.Reply == nil {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendString(b, *c.Reply)
	}
	b = strconv.AppendInt(jsontext.AppendName(b, "steps"), int64(c.Steps), 10)
	b = append(jsontext.AppendName(b, "usage"), '{') // with zeros, because the usage is a total
	b = strconv.AppendInt(jsontext.AppendName(b, "input_tokens"), c.Usage.InputTokens, 10)
	b = strconv.AppendInt(jsontext.AppendName(b, "output_tokens"), c.Usage.OutputTokens, 10)
	if b = jsontext.AppendName(b, "cost_usd"); c.Usage.CostUSD == 0 && !math.Signbit(c.Usage.CostUSD) {
		b = append(b, '0') // the common case
	} else {
		b = jsontext.AppendAny(b, c.Usage.CostUSD)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"cache_read_tokens", c.Usage.CacheReadTokens}, {"cache_write_tokens", c.Usage.CacheWriteTokens},
		{"reasoning_tokens", c.Usage.ReasoningTokens}} {
		if n.value != 0 { // few agents report this number
			b = strconv.AppendInt(jsontext.AppendName(b, n.name), n.value, 10)
		}
	}
	if c.Usage.Model != "" {
		b = jsontext.AppendString(jsontext.AppendName(b, "model"), c.Usage.Model)
	}
	if c.Usage.ComputedUSD != 0 {
		b = jsontext.AppendAny(jsontext.AppendName(b, "computed_usd"), c.Usage.ComputedUSD)
	}
	b = append(b, '}')
	if c.Reason != "" {
		b = jsontext.AppendString(jsontext.AppendName(b, "reason"), string(c.Reason))
	}
	return append(b, '}')
}

// MarshalJSON returns the JSON that AppendJSON writes.
func (c RunCompleted) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }
