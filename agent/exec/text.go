package exec

import (
	"strings"
	"unicode/utf8"
)

// textDecoder makes text of bytes that come in pieces: valid UTF-8 without NUL, which
// is what a message may hold. A character that is cut by the end of a piece
// waits for the next one. Each byte that is of no character becomes U+FFFD.
type textDecoder struct{ cut []byte }

// add returns the text of a piece.
func (c *textDecoder) add(piece []byte) string {
	b := piece
	if len(c.cut) > 0 {
		b = append(c.cut, piece...)
	}
	var text strings.Builder
	text.Grow(len(b))
	for len(b) > 0 && utf8.FullRune(b) {
		r, size := utf8.DecodeRune(b)
		if r != 0 {
			text.WriteRune(r) // RuneError is U+FFFD
		}
		b = b[size:]
	}
	c.cut = append([]byte(nil), b...)
	return text.String()
}

// flush returns the text of what is cut off for good.
func (c *textDecoder) flush() string {
	n := len(c.cut)
	c.cut = nil
	return strings.Repeat(string(utf8.RuneError), n)
}
