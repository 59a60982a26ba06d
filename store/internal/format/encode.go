package format

import (
	"encoding/json"
	"strconv"

	"mailroom/auth"
	"mailroom/internal/jsontext"
	"mailroom/store"
)

// EncodeSubmitted encodes a result as JSON, without reflection, because every submit with a key writes one.
func EncodeSubmitted(s *store.Submitted) string {
	b := append(make([]byte, 0, 320), '{')
	b = appendText(jsontext.AppendName(b, "message"), s.Message)
	b = appendText(jsontext.AppendName(b, "run"), s.Run)
	b = appendText(jsontext.AppendName(b, "thread"), s.Thread)
	b = strconv.AppendInt(jsontext.AppendName(b, "seq"), s.Seq, 10)
	b = strconv.AppendInt(jsontext.AppendName(b, "place"), s.Place, 10)
	b = appendText(jsontext.AppendName(b, "status"), string(s.Status))
	b = appendText(jsontext.AppendName(b, "disposition"), string(s.Disposition))
	b = jsontext.AppendList(jsontext.AppendName(b, "superseded"), s.Superseded, appendText)
	if s.Stopping != nil {
		b = appendText(jsontext.AppendName(b, "stopping"), *s.Stopping)
	}
	return string(append(b, '}'))
}

// Texts encodes a list as JSON, "" if it is empty.
func Texts[T ~string](list []T) string {
	if len(list) == 0 {
		return ""
	}
	var plain []string
	for _, v := range list {
		plain = append(plain, string(v))
	}
	return string(jsontext.AppendList(nil, plain, appendText))
}

// EncodeTerms encodes the terms of a token as JSON, "" if they limit nothing.
func EncodeTerms(t auth.Terms) (string, error) {
	raw, err := json.Marshal(t.Stored())
	if string(raw) == "{}" {
		return "", err
	}
	return string(raw), err
}

// ParseTerms decodes terms. Older rows have times with nanoseconds and of any zone.
func ParseTerms(raw string) (t auth.Terms, err error) {
	if raw != "" {
		err = json.Unmarshal([]byte(raw), &t)
	}
	return t.Stored(), err
}

// appendText appends s as encoding/json does, except that <, > and & stay as they are in plain
// ASCII: stored rows have them so.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return jsontext.AppendString(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
