package stream

import (
	"strconv"
	"strings"

	"mailroom"
)

// Cursor names a place in what a reader of a thread has got: the entries up to
// Seq, and Bytes bytes (UTF-8) of the message that was being written then.
type Cursor struct {
	Seq   int64
	Bytes int
}

// ParseCursor reads "SEQ" or "SEQ:N", decimal digits only. Anything else is
// Invalid.
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

// parseDigits refuses the signs and underscores that strconv would let pass.
func parseDigits(s string, bits int) (int64, error) {
	if strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, bits)
}

func errNotCursor(s string) error {
	const shown = 64
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	return mailroom.Errorf(mailroom.CodeInvalid, "%q is no cursor: give SEQ or SEQ:N, as the id of an event says", s)
}

// String is the cursor as ParseCursor reads it.
func (c Cursor) String() string {
	if c.Bytes == 0 {
		return strconv.FormatInt(c.Seq, 10)
	}
	return strconv.FormatInt(c.Seq, 10) + ":" + strconv.Itoa(c.Bytes)
}
