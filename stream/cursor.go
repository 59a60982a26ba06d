package stream

import (
	"strconv"
	"strings"

	"mailroom"
)

// Cursor is a reader's position in a thread: the entries up to Seq, and Bytes bytes (UTF-8) of the
// message being written at that point.
type Cursor struct {
	Seq   int64
	Bytes int
}

// ParseCursor parses "SEQ" or "SEQ:N" in decimal digits. Anything else is CodeInvalid.
func ParseCursor(s string) (Cursor, error) {
	seq, bytes, more := strings.Cut(s, ":")
	c := Cursor{}
	var err error
	if c.Seq, err = parseDigits(seq, 64); err != nil {
		return Cursor{}, errNotCursor(s)
	}
	if !more {
		return c, nil
	}
	n, err := parseDigits(bytes, strconv.IntSize)
	if err != nil {
		return Cursor{}, errNotCursor(s)
	}
	c.Bytes = int(n)
	return c, nil
}

// parseDigits refuses the signs and underscores that strconv accepts.
func parseDigits(s string, bits int) (int64, error) {
	if strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, bits)
}

func errNotCursor(s string) error {
	return mailroom.Errorf(mailroom.CodeInvalid, "invalid cursor %q: use SEQ or SEQ:N, the id of an event", cutCursor(s))
}

// cutCursor shortens an invalid cursor for an error message.
func cutCursor(s string) string {
	const shown = 64
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	return s
}

// String returns the cursor in the form that ParseCursor accepts.
func (c Cursor) String() string {
	if c.Bytes == 0 {
		return strconv.FormatInt(c.Seq, 10)
	}
	return strconv.FormatInt(c.Seq, 10) + ":" + strconv.Itoa(c.Bytes)
}
