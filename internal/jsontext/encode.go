// Package jsontext appends JSON as encoding/json encodes it, without reflection.
package jsontext

import (
	"encoding/json"
	"time"
)

// Entries that every run writes have handwritten encoders, because the single committer
// encodes them for all callers. Their output equals that of encoding/json.

// Appender is implemented by bodies with a handwritten encoder.
type Appender interface {
	AppendJSON(b []byte) []byte
}

// AppendName appends the name of an object's field.
func AppendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, '"', ':')
}

// AppendNonEmpty appends a field unless it is empty.
func AppendNonEmpty(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return AppendString(AppendName(b, name), value)
}

func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return AppendAny(b, s)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

func AppendTime(b []byte, t time.Time) []byte {
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

func AppendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
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

// AppendAny appends a value that encoding/json always accepts.
func AppendAny(b []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // callers pass strings, finite numbers and checked JSON
	}
	return append(b, raw...)
}
