package sqlite

import (
	"encoding/json"
	"strconv"

	"mailroom/store"
)

// encodeSubmitted encodes without reflection, because every submit with a key writes one.
func encodeSubmitted(s *store.Submitted) string {
	b := appendText(append(make([]byte, 0, 320), `{"message":`...), s.Message)
	b = appendText(append(b, `,"run":`...), s.Run)
	b = appendText(append(b, `,"thread":`...), s.Thread)
	b = appendField(b, `,"seq":`, s.Seq)
	b = appendField(b, `,"place":`, s.Place)
	b = appendText(append(b, `,"status":`...), string(s.Status))
	b = appendText(append(b, `,"disposition":`...), string(s.Disposition))
	b = appendTexts(append(b, `,"superseded":`...), s.Superseded)
	if s.Stopping != nil {
		b = appendText(append(b, `,"stopping":`...), *s.Stopping)
	}
	return string(append(b, '}'))
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always has a JSON form
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendTexts appends list as a JSON array of strings; nil is null.
func appendTexts(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	return append(b, ']')
}

// appendField appends name, which is already JSON, and an integer.
func appendField(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}
