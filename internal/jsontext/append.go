// Package jsontext reads and writes JSON text (RFC 8259) without reflection: a [Scanner] over
// bytes, and functions that append values exactly as encoding/json encodes them.
package jsontext

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Entries that every run writes have handwritten encoders, because the single committer
// encodes them for all callers. Their output equals the output of encoding/json.

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

// AppendString appends s as a string, as json.Marshal does: with <, > and & escaped.
func AppendString(b []byte, s string) []byte { return appendString(b, s, true) }

// AppendText appends s as a string, as a json.Encoder does that does not escape HTML.
func AppendText(b []byte, s string) []byte { return appendString(b, s, false) }

func appendString(b []byte, s string, html bool) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0 // start of the text that is not yet appended
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			if (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
		} else if n := verbatimPrefix(s[i:], html); n > 0 {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch r {
		case '"', '\\':
			b = append(b, '\\', byte(r))
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default: // a control character, HTML, an invalid byte, or a separator of lines, which breaks JavaScript
			b = append(b, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
		}
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// AppendTime appends t, of the years 0 to 9999.
func AppendTime(b []byte, t time.Time) []byte {
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

// AppendList appends list as an array, or null if list is nil. one appends an element.
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
