package thread

import (
	"strconv"

	"mailroom/entry"
	"mailroom/internal/jsontext"
)

func (s settleDigest) AppendJSON(b []byte) []byte {
	b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "Outcome"), string(s.Outcome))
	b = jsontext.AppendName(b, "Message")
	if m := s.Message; m == nil {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "ID"), m.ID)
		b = jsontext.AppendString(jsontext.AppendName(b, "Text"), m.Text)
		b = append(strconv.AppendBool(jsontext.AppendName(b, "Truncated"), m.Truncated), '}')
	}
	b = jsontext.AppendString(jsontext.AppendName(b, "Failure"), s.Failure)
	b = jsontext.AppendName(b, "Wait")
	if s.Wait == nil {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendAny(b, s.Wait)
	}
	if len(s.Asks) > 0 {
		b = jsontext.AppendAny(jsontext.AppendName(b, "Asks"), s.Asks)
	}
	return append(b, '}')
}

func (d submitDigest) AppendJSON(b []byte) []byte {
	b = jsontext.AppendName(append(b, '{'), "Messages")
	b = jsontext.AppendList(b, d.Messages, func(b []byte, m NewMessage) []byte {
		b = jsontext.AppendString(jsontext.AppendName(append(b, '{'), "Role"), string(m.Role))
		b = jsontext.AppendList(jsontext.AppendName(b, "Parts"), m.Parts, entry.AppendPart)
		return append(jsontext.AppendString(jsontext.AppendName(b, "Visibility"), m.Visibility), '}')
	})
	b = jsontext.AppendString(jsontext.AppendName(b, "Agent"), d.Agent)
	b = jsontext.AppendString(jsontext.AppendName(b, "Mode"), string(d.Mode))
	b = strconv.AppendInt(jsontext.AppendName(b, "Priority"), int64(d.Priority), 10)
	b = jsontext.AppendTime(jsontext.AppendName(b, "NotBefore"), d.NotBefore)
	if b = jsontext.AppendName(b, "Options"); d.Options == nil {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendAny(b, d.Options)
	}
	b = jsontext.AppendList(jsontext.AppendName(b, "Decisions"), d.Decisions,
		func(b []byte, d Decision) []byte { return jsontext.AppendAny(b, d) })
	return append(b, '}')
}
