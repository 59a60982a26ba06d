// Package check validates values that callers pass, and returns errors that name the field, the value and what to do.
package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom"
)

// ThreadID trims id and returns an error if it is empty, ".", "..", longer than MaxThreadID
// characters, or contains a slash or an unprintable character.
func ThreadID(id string) (string, error) {
	id = strings.TrimSpace(id)
	switch {
	case id == "", id == ".", id == "..":
		return "", Invalid("thread", "is not a thread id; use a name other than . and ..", id)
	case !utf8.ValidString(id):
		return "", Invalid("thread", "is not valid UTF-8", id)
	case utf8.RuneCountInString(id) > mailroom.MaxThreadID:
		return "", Invalid("thread", fmt.Sprintf("is longer than %d characters", mailroom.MaxThreadID), id)
	case strings.ContainsRune(id, '/'):
		return "", Invalid("thread", "must not contain a slash", id)
	}
	for _, c := range id {
		if !unicode.IsPrint(c) {
			return "", Invalid("thread", fmt.Sprintf("must not contain the unprintable character %U", c), id)
		}
	}
	return id, nil
}

// JSON returns an error if raw is not valid JSON or is longer than limit bytes.
func JSON(where string, raw json.RawMessage, limit int) error {
	switch {
	case len(raw) > limit:
		return TooLarge(where, fmt.Sprintf("is larger than %d bytes", limit), len(raw))
	case !json.Valid(raw) || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0:
		return Invalid(where, "is not valid JSON", "")
	}
	return nil
}

// IsObject reports whether valid JSON is an object.
func IsObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

func IsClean(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
