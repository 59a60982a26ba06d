package mailroom

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Entries that every run writes have handwritten encoders, because the single committer
// encodes them for all callers. Their output equals that of encoding/json.

// jsonAppender is implemented by bodies with a handwritten encoder.
type jsonAppender interface {
	AppendJSON(b []byte) []byte
}

// appendBody appends the JSON of an entry's body.
func appendBody(b []byte, body any) ([]byte, error) {
	switch body := body.(type) {
	case Message:
		return AppendMessage(b, body), nil
	case jsonAppender:
		return body.AppendJSON(b), nil
	}
	raw, err := json.Marshal(body)
	return append(b, raw...), err
}

// appendHead appends the JSON of e up to its body.
func appendHead(b []byte, e *Entry) []byte {
	b = appendString(appendName(append(b, '{'), "thread"), e.Thread)
	b = strconv.AppendInt(appendName(b, "seq"), e.Seq, 10)
	b = appendString(appendName(b, "kind"), e.Kind)
	b = appendString(appendName(b, "run"), e.Run)
	b = strconv.AppendInt(appendName(b, "attempt"), int64(e.Attempt), 10)
	b = appendTime(appendName(b, "at"), e.At)
	return appendName(b, "body")
}

// AppendMessage appends the JSON of m.
func AppendMessage(b []byte, m Message) []byte {
	b = appendString(appendName(append(b, '{'), "id"), m.ID)
	b = appendString(appendName(b, "thread"), m.Thread)
	b = strconv.AppendInt(appendName(b, "seq"), m.Seq, 10)
	b = appendString(appendName(b, "role"), string(m.Role))
	b = appendString(appendName(b, "sender"), m.Sender)
	b = appendString(appendName(b, "text"), m.Text)
	b = appendList(appendName(b, "parts"), m.Parts, AppendPart)
	b = appendString(appendName(b, "visibility"), m.Visibility)
	b = appendString(appendName(b, "run"), m.Run)
	b = appendString(appendName(b, "state"), m.State)
	b = strconv.AppendBool(appendName(b, "partial"), m.Partial)
	if m.Truncated {
		b = strconv.AppendBool(appendName(b, "truncated"), m.Truncated)
	}
	b = appendTime(appendName(b, "created_at"), m.CreatedAt)
	return append(b, '}')
}

// AppendPart appends the JSON of p.
func AppendPart(b []byte, p Part) []byte {
	b = appendString(appendName(append(b, '{'), "type"), p.Type)
	b = appendNonEmpty(b, "text", p.Text)
	if len(p.Data) > 0 {
		b = appendAny(appendName(b, "data"), p.Data)
	}
	b = appendNonEmpty(b, "uri", p.URI)
	b = appendNonEmpty(b, "mime_type", p.MimeType)
	b = appendNonEmpty(b, "name", p.Name)
	return append(b, '}')
}

func (q RunQueued) AppendJSON(b []byte) []byte {
	b = appendString(appendName(append(b, '{'), "agent"), q.Agent)
	if b = appendName(b, "agent_version"); q.AgentVersion == "" {
		b = append(b, "null"...) // unknown
	} else {
		b = appendString(b, q.AgentVersion)
	}
	b = appendString(appendName(b, "mode"), string(q.Mode))
	b = strconv.AppendInt(appendName(b, "priority"), int64(q.Priority), 10)
	b = appendTime(appendName(b, "available_at"), q.AvailableAt)
	b = appendList(appendName(b, "messages"), q.Messages, appendString)
	b = appendName(b, "origin")
	b = appendString(appendName(append(b, '{'), "via"), q.Origin.Via)
	b = appendString(appendName(b, "sender"), q.Origin.Sender)
	b = appendNonEmpty(b, "request_id", q.Origin.RequestID)
	return append(b, '}', '}')
}

// MarshalJSON returns the JSON that AppendJSON writes.
func (q RunQueued) MarshalJSON() ([]byte, error) { return q.AppendJSON(nil), nil }

func (s RunStarted) AppendJSON(b []byte) []byte {
	b = appendString(appendName(append(b, '{'), "worker"), s.Worker)
	if len(s.Tickets) > 0 {
		b = appendList(appendName(b, "tickets"), s.Tickets, appendString)
	}
	b = appendList(appendName(b, "messages"), s.Messages, func(b []byte, seq int64) []byte { return strconv.AppendInt(b, seq, 10) })
	return append(b, '}')
}

func (c RunCompleted) AppendJSON(b []byte) []byte {
	b = appendName(append(b, '{'), "reply")
	if c.Reply == nil {
		b = append(b, "null"...)
	} else {
		b = appendString(b, *c.Reply)
	}
	b = strconv.AppendInt(appendName(b, "steps"), int64(c.Steps), 10)
	b = append(appendName(b, "usage"), '{') // zeros included: it is a total
	b = strconv.AppendInt(appendName(b, "input_tokens"), c.Usage.InputTokens, 10)
	b = strconv.AppendInt(appendName(b, "output_tokens"), c.Usage.OutputTokens, 10)
	if b = appendName(b, "cost_usd"); c.Usage.CostUSD == 0 && !math.Signbit(c.Usage.CostUSD) {
		b = append(b, '0') // the common case
	} else {
		b = appendAny(b, c.Usage.CostUSD)
	}
	return append(b, '}', '}')
}

// MarshalJSON returns the JSON that AppendJSON writes.
func (c RunCompleted) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

func (s settleDigest) AppendJSON(b []byte) []byte {
	b = appendString(appendName(append(b, '{'), "Outcome"), string(s.Outcome))
	b = appendName(b, "Message")
	if m := s.Message; m == nil {
		b = append(b, "null"...)
	} else {
		b = appendString(appendName(append(b, '{'), "ID"), m.ID)
		b = appendString(appendName(b, "Text"), m.Text)
		b = append(strconv.AppendBool(appendName(b, "Truncated"), m.Truncated), '}')
	}
	b = appendString(appendName(b, "Failure"), s.Failure)
	b = appendName(b, "Wait")
	if s.Wait == nil {
		b = append(b, "null"...)
	} else {
		b = appendAny(b, s.Wait)
	}
	if len(s.Asks) > 0 {
		b = appendAny(appendName(b, "Asks"), s.Asks)
	}
	return append(b, '}')
}

// maxAppended bounds the size in bytes of submits whose digest uses the handwritten encoder.
const maxAppended = 16 << 10

func (d submitDigest) AppendJSON(b []byte) []byte {
	b = appendList(appendName(append(b, '{'), "Messages"), d.Messages, func(b []byte, m NewMessage) []byte {
		b = appendString(appendName(append(b, '{'), "Role"), string(m.Role))
		b = appendList(appendName(b, "Parts"), m.Parts, AppendPart)
		return append(appendString(appendName(b, "Visibility"), m.Visibility), '}')
	})
	b = appendString(appendName(b, "Agent"), d.Agent)
	b = appendString(appendName(b, "Mode"), string(d.Mode))
	b = strconv.AppendInt(appendName(b, "Priority"), int64(d.Priority), 10)
	b = appendTime(appendName(b, "NotBefore"), d.NotBefore)
	if b = appendName(b, "Options"); d.Options == nil {
		b = append(b, "null"...)
	} else {
		b = appendAny(b, d.Options)
	}
	b = appendList(appendName(b, "Decisions"), d.Decisions, func(b []byte, d Decision) []byte { return appendAny(b, d) })
	return append(b, '}')
}

// appendName appends the name of an object's field.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, '"', ':')
}

// appendNonEmpty appends a field unless it is empty.
func appendNonEmpty(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(appendName(b, name), value)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendAny(b, s)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

func appendTime(b []byte, t time.Time) []byte {
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

// appendAny appends a value that encoding/json always accepts.
func appendAny(b []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // callers pass strings, finite numbers and checked JSON
	}
	return append(b, raw...)
}
